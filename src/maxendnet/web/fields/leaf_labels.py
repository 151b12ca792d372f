"""Labels of leaves, which combine zero, one or several fields, and the costs of wrong labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

NONE = "none"
JOIN = "+"  # joins the fields of a leaf: "publisher+year"
INNER = "block:"  # prefix of the labels of inner blocks, see `maxendnet.web.hierarchy`


def leaf_labels(n_leaves: int, labels: Iterable[tuple[int, str]]) -> list[str]:
    """Return the label of every leaf of a page.

    Parameters
    ----------
    n_leaves : int
    labels : pairs (leaf, field)

    Examples
    --------
    >>> leaf_labels(3, [(1, "price"), (0, "name"), (0, "brand")])
    ['brand+name', 'price', 'none']
    """
    fields: list[set[str]] = [set() for _ in range(n_leaves)]
    for k, name in labels:
        fields[k].add(name)
    return [JOIN.join(sorted(names)) if names else NONE for names in fields]


def fields_of(label: str) -> list[str]:
    """Return the fields of a label.

    Examples
    --------
    >>> fields_of("brand+name"), fields_of("none"), fields_of("block:part")
    (['brand', 'name'], [], [])
    """
    return [] if label == NONE or label.startswith(INNER) else label.split(JOIN)


def miss_cost(classes: Sequence[str], miss: float) -> NDArray[np.float64]:
    """Return a cost matrix in which missing a field costs more than other errors.

    Parameters
    ----------
    classes : sequence of str
        Sorted, as in ``classes_`` of an estimator.
    miss : float
        Cost of a missed field; other errors cost 1.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        Row: true label; column: predicted label.

    Examples
    --------
    >>> miss_cost(["none", "price"], 5.0)
    array([[0., 1.],
           [5., 0.]])
    """
    cost = 1.0 - np.eye(len(classes))
    empty = np.array([label in (NONE, INNER + NONE) for label in classes])
    cost[np.ix_(~empty, empty)] = miss
    return cost

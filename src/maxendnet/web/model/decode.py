"""From a model's scores to the best leaf for every field: by margins over ``none``, one leaf for a field and record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.leaf_labels import NONE, fields_of

FloatArray = NDArray[np.float64]
LARGEST_LEAD = 10.0
TYPICAL = 10.0
"""By how much the best leaf of a field stands out from the mean leaf, after `scale_of`."""


class BestLeaf(NamedTuple):
    """The best leaf for a field.

    Attributes
    ----------
    leaf : int
        Its number in the view.
    score, lead : float
        Its score, and how far the best of another text is behind.
    edge : float
        How far the next best place of the value within the text is behind, see `maxendnet.web.fields.boundaries`.
    """

    leaf: int
    score: float
    lead: float
    edge: float = 0.0


def field_margins(values: FloatArray, classes: Sequence[str], fields: Sequence[str]) -> FloatArray:
    """By how much each field beats ``none`` at every leaf, shape (n_leaves, n_fields).

    Parameters
    ----------
    values : ndarray of shape (n_leaves, n_labels)
        Max-marginals, or logarithms of marginals.
    classes : sequence of str
    fields : sequence of str
        A field that no label has gets -inf.

    Examples
    --------
    >>> field_margins(np.array([[1.0, 3.0, 2.0]]), ["a", "a+b", "none"], ["a", "b"])
    array([[1., 1.]])
    """
    column = {label: k for k, label in enumerate(classes)}
    out = np.full((len(values), len(fields)), -np.inf)
    for f, name in enumerate(fields):
        having = [k for label, k in column.items() if name in fields_of(label)]
        if having:
            # a model that has never seen a leaf without a field compares with its other labels
            rest = [column[NONE]] if NONE in column else sorted(set(column.values()) - set(having))
            out[:, f] = values[:, having].max(axis=1) - (values[:, rest].max(axis=1) if rest else 0.0)
    return out


def scale_of(margins: Sequence[FloatArray]) -> float:
    """A factor for the margins of a model, found on the pages that it was learned from.

    The best leaf of a field then stands out from the mean leaf of its page by `TYPICAL`, on average. Systems differ in
    the size of their scores a hundredfold, and how much pages of a site listen to each other should not depend on it.

    Examples
    --------
    >>> scale_of([np.array([[1.0], [-1.0]]), np.array([[3.0], [-3.0]])])
    5.0
    """
    leads = []
    for m in margins:
        for column in m.T:  # a field without labels is -inf everywhere, one that is forbidden at a leaf is so there
            known = column[np.isfinite(column)]
            if len(known):
                leads.append(known.max() - known.mean())
    mean = float(np.mean(leads)) if leads else 0.0
    return TYPICAL / mean if mean > 0 else 1.0


def levels_of(
    margins: Sequence[FloatArray], labels: Sequence[Sequence[str]], fields: Sequence[str]
) -> list[float]:  # fmt: skip
    """For every field the margin halfway between the leaves that have it and the best of the others, over all pages.

    Where leaves compete, only differences between leaves are learned: 0 has no meaning, and this takes its place. A
    field that is nowhere, or everywhere, has 0.

    Examples
    --------
    >>> levels_of([np.array([[5.0], [1.0], [0.0]])], [["a", "none", "none"]], ["a"])
    [3.0]
    """
    out = []
    for f, name in enumerate(fields):
        middles = []
        for m, of_page in zip(margins, labels):
            having = np.array([name in fields_of(label) for label in of_page], dtype=bool)
            known = np.isfinite(m[:, f])
            if (having & known).any() and (~having & known).any():
                middles.append(0.5 * (m[having & known, f].max() + m[~having & known, f].max()))
        out.append(float(np.mean(middles)) if middles else 0.0)
    return out


def fields_together(classes: Iterable[str], fields: Sequence[str]) -> set[tuple[int, int]]:
    """Pairs of fields that one leaf may have, because a label has them.

    Examples
    --------
    >>> sorted(fields_together(["a", "a+b", "none"], ["a", "b", "c"]))
    [(0, 1), (1, 0)]
    """
    number = {name: f for f, name in enumerate(fields)}
    return {
        (number[a], number[b])
        for label in classes
        for a in fields_of(label)
        for b in fields_of(label)
        if a != b and a in number and b in number
    }


def best_leaves(
    margins: FloatArray, texts: Sequence[str], leaves: Sequence[int] | None = None,
    together: Collection[tuple[int, int]] = (),
) -> list[BestLeaf | None]:  # fmt: skip
    """The leaf with the largest margin for every field; the surest field chooses first, and a leaf is taken once.

    Parameters
    ----------
    margins : ndarray of shape (n_leaves, n_fields)
    texts : sequence of str
        Of the leaves: the same value at two places is no rival of itself.
    leaves : sequence of int, optional
        Look only at these: a record.
    together : collection of (int, int)
        Fields that may share a leaf.

    Examples
    --------
    >>> best_leaves(np.array([[2.0], [1.5], [-1.0]]), ["a", "a", "b"])
    [BestLeaf(leaf=0, score=2.0, lead=3.0, edge=0.0)]
    >>> [best.leaf for best in best_leaves(np.array([[2.0, 1.0], [0.0, 0.5]]), ["a", "b"])]
    [0, 1]
    """
    among = np.arange(len(margins)) if leaves is None else np.asarray(leaves, dtype=np.int64)
    out: list[BestLeaf | None] = [None] * margins.shape[1]
    if not len(among):
        return out
    of_record = margins[among]
    owners: dict[int, list[int]] = {}
    for f in np.argsort(-of_record.max(axis=0), kind="stable").tolist():
        column = of_record[:, f]
        order = np.argsort(-column, kind="stable")
        free = (k for k in order if all((f, g) in together for g in owners.get(int(k), ())))
        first = next(free, None)
        if first is None or not np.isfinite(column[first]):
            continue
        owners.setdefault(int(first), []).append(f)
        best, score = int(among[first]), float(column[first])
        rival = next((float(column[k]) for k in free if texts[among[k]] != texts[best]), -np.inf)
        out[f] = BestLeaf(best, score, score - max(rival, score - LARGEST_LEAD))
    return out

"""Costs of wrong labels as a table with a row for every kind of truth."""

from __future__ import annotations

import numpy as np

from maxendnet.data.truth import Kinds
from maxendnet.losses.base import FloatArray


def cost_rows(matrix: FloatArray, kinds: Kinds) -> FloatArray:
    """What each label costs at a node of each kind, shape (n_kinds, n_labels).

    Of a set of labels that may be the true one, the least cost counts; so no label of the set costs anything.

    Parameters
    ----------
    matrix : ndarray of shape (n_labels, n_labels)
        ``matrix[true, predicted]``
    kinds : Kinds

    Examples
    --------
    >>> sets = np.array([[1, 0, 0], [0, 1, 1]], dtype=np.uint8)
    >>> kinds = Kinds(sets, np.array([0, 1], dtype=np.int32), np.array([1.0, 2.0]))
    >>> cost_rows(1.0 - np.eye(3), kinds).tolist()
    [[0.0, 1.0, 1.0], [2.0, 0.0, 0.0]]
    """
    rows = matrix[kinds.label]
    several = np.flatnonzero(kinds.sets.sum(axis=1) > 1)
    for kind in several:
        rows[kind] = matrix[kinds.sets[kind].astype(bool)].min(axis=0)
    return rows * kinds.weight[:, None]

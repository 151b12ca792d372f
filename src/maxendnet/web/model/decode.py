"""Decoding: the best leaf of each field, from the margins of the fields over ``none``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.fields.leaf_labels import NONE, fields_of

FloatArray = NDArray[np.float64]
MAX_LEAD = 10.0
TYPICAL_LEAD = 10.0
"""Mean difference between the best and the average margin of a field on a page, after scaling by `scale_of`."""


class BestLeaf(NamedTuple):
    """Best leaf of a field.

    Attributes
    ----------
    leaf : int
        Index in the view.
    score : float
        Margin of the field at the leaf.
    lead : float
        Difference between the margins of this leaf and of the best leaf with another text.
    edge : float
        Difference between the scores of the best and second best boundaries of the value, see
        `maxendnet.web.fields.boundaries`.
    """

    leaf: int
    score: float
    lead: float
    edge: float = 0.0


def field_margins(values: FloatArray, classes: Sequence[str], fields: Sequence[str]) -> FloatArray:
    """Return the margin of each field over ``none`` at each leaf.

    Parameters
    ----------
    values : ndarray of shape (n_leaves, n_labels)
        Max-marginals or log-marginals.
    classes : sequence of str
        Labels.
    fields : sequence of str

    Returns
    -------
    ndarray of shape (n_leaves, n_fields)
        -inf for fields that no label contains.

    Examples
    --------
    >>> field_margins(np.array([[1.0, 3.0, 2.0]]), ["a", "a+b", "none"], ["a", "b"])
    array([[1., 1.]])
    """
    column = {label: k for k, label in enumerate(classes)}
    margins = np.full((len(values), len(fields)), -np.inf)
    for f, name in enumerate(fields):
        with_field = [k for label, k in column.items() if name in fields_of(label)]
        if with_field:
            # if ``none`` did not occur in training, compare with the other labels
            rest = [column[NONE]] if NONE in column else sorted(set(column.values()) - set(with_field))
            margins[:, f] = values[:, with_field].max(axis=1) - (values[:, rest].max(axis=1) if rest else 0.0)
    return margins


def scale_of(margins: Sequence[FloatArray]) -> float:
    """Return the factor that brings margins on training pages to a common scale.

    After scaling, the best margin of a field exceeds the mean margin on its page by `TYPICAL_LEAD` on average.
    The scores of different estimators differ in size by up to a factor of a hundred, and votes between pages must not
    depend on this.

    Examples
    --------
    >>> scale_of([np.array([[1.0], [-1.0]]), np.array([[3.0], [-3.0]])])
    5.0
    """
    leads = []
    for m in margins:
        for column in m.T:  # -inf: the field has no label, or is forbidden at the leaf
            finite = column[np.isfinite(column)]
            if len(finite):
                leads.append(finite.max() - finite.mean())
    mean = float(np.mean(leads)) if leads else 0.0
    return TYPICAL_LEAD / mean if mean > 0 else 1.0


def levels_of(
    margins: Sequence[FloatArray], labels: Sequence[Sequence[str]], fields: Sequence[str]
) -> list[float]:  # fmt: skip
    """Return the margin of even odds of each field: a leaf with a larger margin more likely has the field than not.

    It is the mean over pages of the midpoint between the largest margin of a leaf with the field and that of a leaf
    without it. When leaves compete, only differences between leaves are learned, so a margin of 0 has no special
    meaning. Fields that occur on no leaf or on every leaf get 0.

    Examples
    --------
    >>> levels_of([np.array([[5.0], [1.0], [0.0]])], [["a", "none", "none"]], ["a"])
    [3.0]
    """
    levels = []
    for f, name in enumerate(fields):
        midpoints = []
        for m, of_page in zip(margins, labels):
            has_field = np.array([name in fields_of(label) for label in of_page], dtype=bool)
            is_finite = np.isfinite(m[:, f])
            if (has_field & is_finite).any() and (~has_field & is_finite).any():
                midpoints.append(0.5 * (m[has_field & is_finite, f].max() + m[~has_field & is_finite, f].max()))
        levels.append(float(np.mean(midpoints)) if midpoints else 0.0)
    return levels


def fields_together(classes: Iterable[str], fields: Sequence[str]) -> set[tuple[int, int]]:
    """Return the pairs of fields that share a label, so that one leaf may have both.

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
    """Assign to each field its best leaf.

    Fields are assigned in order of decreasing margins. A leaf is used once, except by fields in ``together``.

    Parameters
    ----------
    margins : ndarray of shape (n_leaves, n_fields)
    texts : sequence of str
        Texts of the leaves. Leaves with the same text do not compete.
    leaves : sequence of int, optional
        Leaves of a record; all leaves if not given.
    together : collection of (int, int)
        Pairs of fields that may share a leaf.

    Returns
    -------
    list of BestLeaf or None
        Best leaf of each field, or None if there is no admissible leaf.

    Examples
    --------
    >>> best_leaves(np.array([[2.0], [1.5], [-1.0]]), ["a", "a", "b"])
    [BestLeaf(leaf=0, score=2.0, lead=3.0, edge=0.0)]
    >>> [best.leaf for best in best_leaves(np.array([[2.0, 1.0], [0.0, 0.5]]), ["a", "b"])]
    [0, 1]
    """
    candidates = np.arange(len(margins)) if leaves is None else np.asarray(leaves, dtype=np.int64)
    assignment: list[BestLeaf | None] = [None] * margins.shape[1]
    if not len(candidates):
        return assignment
    record_margins = margins[candidates]
    owners: dict[int, list[int]] = {}
    for f in np.argsort(-record_margins.max(axis=0), kind="stable").tolist():
        column = record_margins[:, f]
        order = np.argsort(-column, kind="stable")
        free = (k for k in order if all((f, g) in together for g in owners.get(int(k), ())))
        first = next(free, None)
        if first is None or not np.isfinite(column[first]):
            continue
        owners.setdefault(int(first), []).append(f)
        best, score = int(candidates[first]), float(column[first])
        rival = next((float(column[k]) for k in free if texts[candidates[k]] != texts[best]), -np.inf)
        assignment[f] = BestLeaf(best, score, score - max(rival, score - MAX_LEAD))
    return assignment

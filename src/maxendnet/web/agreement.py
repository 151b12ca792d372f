"""Agreement between the pages of a site: a second pass that lets pages made alike vote on where a field is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.page import in_order
from maxendnet.web.view import View

FLOOR = 1e-4  # a place that no page votes for can still win


def agree(views: Sequence[View], margins: Sequence[NDArray[np.float64]], weight: float = 1.0) -> list[NDArray]:
    """Margins with the votes of the other pages of the same site.

    On every page, a field's margins are made a distribution over leaves (a softmax); the distributions of a site's
    pages are averaged over kinds of leaves (tag path and classes, without positions). The logarithm of this average,
    times ``weight``, is added to the margin. A site with one page is left as it is.

    Parameters
    ----------
    views : sequence of View
    margins : sequence of ndarray of shape (n_leaves, n_fields)
    weight : float

    Returns
    -------
    list of ndarray
        Relative to the best supported kind, so that margins stay comparable.
    """
    out = [np.array(m) for m in margins]
    if weight == 0:
        return out
    for rows in in_order([view.page for view in views]).values():
        if len(rows) < 2:
            continue
        for f in range(margins[rows[0]].shape[1]):
            votes: dict[int, float] = {}
            for i in rows:
                for kind, share in _votes(views[i].kinds, margins[i][:, f]).items():
                    votes[kind] = votes.get(kind, 0.0) + share / len(rows)
            if not votes:
                continue
            most = max(votes.values())
            for i in rows:
                support = np.array([votes.get(kind, 0.0) for kind in views[i].kinds])
                out[i][:, f] += weight * np.log((support + FLOOR) / (most + FLOOR))
    return out


def _votes(kinds: Sequence[int], column: NDArray[np.float64]) -> dict[int, float]:
    """The best share of every kind of leaf on a page."""
    if not len(column) or not np.isfinite(column.max()):
        return {}
    share = np.exp(column - column.max())
    share /= share.sum()
    found: dict[int, float] = {}
    for kind, value in zip(kinds, share.tolist()):
        if value > found.get(kind, 0.0):
            found[kind] = value
    return found

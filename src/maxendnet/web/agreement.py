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
    pages are averaged over leaves of the same kind (tag path and classes), at the same place (path with positions), and
    with the same role (kind and captions). The logarithms of these averages, times ``weight``, are added to the margin.
    A site with one page is left as it is.

    Parameters
    ----------
    views : sequence of View
    margins : sequence of ndarray of shape (n_leaves, n_fields)
    weight : float

    Returns
    -------
    list of ndarray
        Relative to the best supported leaves, so that margins stay comparable.
    """
    out = [np.array(m) for m in margins]
    if weight == 0:
        return out
    for rows in in_order([view.page for view in views]).values():
        if len(rows) < 2:
            continue
        for f in range(margins[rows[0]].shape[1]):
            shares = [_shares(margins[i][:, f]) for i in rows]
            for same in ("kinds", "places", "roles"):
                votes: dict[int, float] = {}
                for i, share in zip(rows, shares):
                    for key, value in _best(getattr(views[i], same), share).items():
                        votes[key] = votes.get(key, 0.0) + value / len(rows)
                most = max(votes.values(), default=0.0)
                for i in rows:
                    support = np.array([votes.get(key, 0.0) for key in getattr(views[i], same)])
                    out[i][:, f] += weight * np.log((support + FLOOR) / (most + FLOOR))
    return out


def _shares(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """A field's margins as a distribution over the leaves of a page; nothing, where the field cannot be."""
    if not len(column) or not np.isfinite(column.max()):
        return np.zeros(len(column))
    share = np.exp(column - column.max())
    found: NDArray[np.float64] = share / share.sum()
    return found


def _best(keys: Sequence[int], share: NDArray[np.float64]) -> dict[int, float]:
    """The largest share of every key on a page."""
    found: dict[int, float] = {}
    for key, value in zip(keys, share.tolist()):
        if value > found.get(key, 0.0):
            found[key] = value
    return found

"""Agreement between the pages of a site: a second pass that lets pages made alike vote on where a field is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import made_alike
from maxendnet.web.views.view import View

FLOOR = 1e-4  # a place that no page votes for can still win


def vote_by_site(views: Sequence[View], margins: Sequence[NDArray[np.float64]], weight: float = 1.0) -> list[NDArray]:
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
    for rows in made_alike([view.page for view in views]):
        if len(rows) < 2:
            continue
        shares = np.concatenate([_shares(margins[i]) for i in rows])
        page = np.repeat(np.arange(len(rows)), [len(views[i]) for i in rows])
        support = np.zeros(shares.shape)
        for same in ("kinds", "places", "roles"):
            keys = np.array([key for i in rows for key in getattr(views[i], same)], dtype=np.int64)
            votes = _votes(page, keys, shares) / len(rows)
            support += np.log((votes + FLOOR) / (votes.max(axis=0, initial=0.0) + FLOOR))
        for i, of_page in zip(rows, np.split(support, np.cumsum([len(views[i]) for i in rows])[:-1])):
            out[i] += weight * of_page
    return out


def _shares(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """The margins of every field as a distribution over the leaves of a page; nothing, where the field cannot be."""
    most = margins.max(axis=0, initial=-np.inf)
    possible = np.isfinite(most)
    share = np.exp(np.where(possible, margins - np.where(possible, most, 0.0), -np.inf))
    shares: NDArray[np.float64] = share / np.where(possible, share.sum(axis=0), 1.0)
    return shares


def _votes(page: NDArray[np.int64], keys: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every leaf and field the sum over pages of the largest share at a leaf of the same key."""
    if not len(keys):
        return shares
    different, key = np.unique(keys, return_inverse=True)
    code = key * (page[-1] + 1) + page  # leaves of one key on one page stand together when sorted by it
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    best = np.maximum.reduceat(shares[order], starts, axis=0)
    key_of = key[order][starts]
    total = np.add.reduceat(best, np.searchsorted(key_of, np.arange(len(different))), axis=0)
    votes: NDArray[np.float64] = total[key]
    return votes

"""Votes: the pages of a site agree on where the fields are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.page import group_by_template
from maxendnet.web.views.view import View

FLOOR = 1e-4  # added to votes, so that a leaf without votes can still win


def vote_by_site(
    views: Sequence[View], margins: Sequence[NDArray[np.float64]], weight: float = 1.0
) -> list[NDArray[Any]]:
    """Return the margins with the votes of the pages of each site added.

    On each page the softmax of the margins of a field is a distribution over leaves. The vote of the page for a kind
    (tag path and classes) is the largest probability of a leaf of this kind. Votes are averaged over the pages of the
    site, and their logarithms, relative to the largest average and multiplied by ``weight``, are added to the margins
    of the leaves of each kind. The same is done for places (paths with positions) and for roles (kinds with captions).
    Margins on sites with a single page do not change.

    Parameters
    ----------
    views : sequence of View
    margins : sequence of ndarray of shape (n_leaves, n_fields)
    weight : float

    Returns
    -------
    list of ndarray of shape (n_leaves, n_fields)
    """
    voted = [np.array(m) for m in margins]
    if weight == 0:
        return voted
    for rows in group_by_template([view.page for view in views]):
        if len(rows) < 2:
            continue
        shares = np.concatenate([_shares(margins[i]) for i in rows])
        page = np.repeat(np.arange(len(rows)), [len(views[i]) for i in rows])
        support = np.zeros(shares.shape)
        for attribute in ("kinds", "places", "roles"):
            keys = np.array([key for i in rows for key in getattr(views[i], attribute)], dtype=np.int64)
            votes = _votes(page, keys, shares) / len(rows)
            support += np.log((votes + FLOOR) / (votes.max(axis=0, initial=0.0) + FLOOR))
        for i, of_page in zip(rows, np.split(support, np.cumsum([len(views[i]) for i in rows])[:-1])):
            voted[i] += weight * of_page
    return voted


def _shares(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax of the margins of each field over leaves; 0 for fields whose margins are all -inf."""
    largest = margins.max(axis=0, initial=-np.inf)
    possible = np.isfinite(largest)
    share = np.exp(np.where(possible, margins - np.where(possible, largest, 0.0), -np.inf))
    shares: NDArray[np.float64] = share / np.where(possible, share.sum(axis=0), 1.0)
    return shares


def _votes(page: NDArray[np.int64], keys: NDArray[np.int64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each leaf the sum, over pages, of the largest share of a leaf with the same key."""
    if not len(keys):
        return shares
    distinct, key = np.unique(keys, return_inverse=True)
    code = key * (page[-1] + 1) + page  # sorting by it groups the leaves of one key on one page
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    best = np.maximum.reduceat(shares[order], starts, axis=0)
    key_of = key[order][starts]
    total = np.add.reduceat(best, np.searchsorted(key_of, np.arange(len(distinct))), axis=0)
    votes: NDArray[np.float64] = total[key]
    return votes

"""What a model remembers of a field on the labelled pages of a site."""

from __future__ import annotations

from typing import NamedTuple


class FieldHistory(NamedTuple):
    """Where a field was on the labelled pages of a site.

    Attributes
    ----------
    kinds : list of int
        Of its leaves, see `View`.
    path : str
        The commonest, as CSS.
    share : float
        Of the pages that had it.
    confidence : float
        Mean, on these pages.
    """

    kinds: list[int]
    path: str
    share: float
    confidence: float

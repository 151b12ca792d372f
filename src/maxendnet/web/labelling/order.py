"""Order of labelling: one page of each site first, then the least certain page."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from maxendnet.web.model.decode import BestLeaf

MIN_CERTAIN = 0.8  # minimum confidence of a certain cell
MIN_EXTRACTED = 0.2  # minimum confidence of a non-empty cell


def next_page(
    sites: Sequence[str], done: Collection[int], certainty: Sequence[float], shuffled: Sequence[int]
) -> int | None:
    """Return the next page to label, or None when all are done.

    One random page of each site comes first, then the least certain page. No order compared in benchmarks/WEB.md is
    better overall.

    Parameters
    ----------
    sites : sequence of str
        Site of each page.
    done : collection of int
        Pages to skip.
    certainty : sequence of float
        Certainty of each page, see `page_certainty`. All are equal before the first model is trained.
    shuffled : sequence of int
        All pages in random order, to break ties.

    Examples
    --------
    >>> next_page(["a", "a", "b"], {0}, [0.9, 0.1, 0.5], [0, 1, 2])
    2
    >>> next_page(["a", "a", "b"], {0, 2}, [0.9, 0.1, 0.5], [0, 1, 2])
    1
    """
    waiting = [i for i in shuffled if i not in done]
    visited_sites = {sites[i] for i in done}
    of_new_sites = (i for i in waiting if sites[i] not in visited_sites)
    return next(of_new_sites, min(waiting, key=lambda i: certainty[i], default=None))


def page_certainty(answers: Sequence[BestLeaf | None]) -> float:
    """Return the certainty of a model about a page: the smallest lead of its fields.

    The lead is more informative than the confidence: if two leaves have nearly the same high score, the confidence is
    high, but only a label can decide between the two.

    Examples
    --------
    >>> page_certainty([BestLeaf(leaf=3, score=2.0, lead=1.5), BestLeaf(leaf=4, score=-1.0, lead=0.5)])
    0.5
    """
    return min((0.0 if best is None else best.lead for best in answers), default=0.0)


def is_certain(records: Sequence[Sequence[float]]) -> bool:
    """Whether a page needs no review, given the confidences of the cells of each of its records.

    In every record each cell must be certain or empty, and at least half of the cells must not be empty. So a listing
    is not certain if one of its records is not, whatever the others are.

    Examples
    --------
    >>> is_certain([[0.9, 0.95, 0.0]]), is_certain([[0.9, 0.5]]), is_certain([[0.0, 0.0]]), is_certain([])
    (True, False, False, False)
    >>> is_certain([[0.9, 0.9, 0.9], [0.9, 0.0, 0.0]])
    False
    """
    extracted = [[c for c in record if c >= MIN_EXTRACTED] for record in records]
    has_values = all(2 * len(cells) >= len(record) > 0 for cells, record in zip(extracted, records))
    return bool(records) and has_values and all(c >= MIN_CERTAIN for cells in extracted for c in cells)

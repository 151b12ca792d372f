"""Which page to label next: one of each site first, then the one that the model is least certain of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from maxendnet.web.model.decode import BestLeaf


def next_page(
    sites: Sequence[str], done: Collection[int], certainty: Sequence[float], shuffled: Sequence[int]
) -> int | None:
    """The page to ask for, or None when all are done: one page of each site by chance, then the least certain page.

    This order needs the fewest pages in ``benchmarks/WEB.md``.

    Parameters
    ----------
    sites : sequence of str
        Of all pages.
    done : collection of int
        Pages that need not be asked for.
    certainty : sequence of float
        Of all pages, see `page_certainty`; alike before there is a model.
    shuffled : sequence of int
        All pages in an order of chance, which decides what nothing else decides.

    Examples
    --------
    >>> next_page(["a", "a", "b"], {0}, [0.9, 0.1, 0.5], [0, 1, 2])
    2
    >>> next_page(["a", "a", "b"], {0, 2}, [0.9, 0.1, 0.5], [0, 1, 2])
    1
    """
    waiting = [i for i in shuffled if i not in done]
    begun = {sites[i] for i in done}
    of_new_sites = (i for i in waiting if sites[i] not in begun)
    return next(of_new_sites, min(waiting, key=lambda i: certainty[i], default=None))


def page_certainty(answers: Sequence[BestLeaf | None]) -> float:
    """How certain a model is of a page: the least lead of an answer over the next best, over all fields.

    A lead tells more than a confidence: where two places have nearly the same high score, both seem sure, and one page
    more decides between them.

    Examples
    --------
    >>> page_certainty([BestLeaf(leaf=3, score=2.0, lead=1.5), BestLeaf(leaf=4, score=-1.0, lead=0.5)])
    0.5
    """
    return min((0.0 if best is None else best.lead for best in answers), default=0.0)


def is_certain(confidences: Sequence[float], enough: float = 0.8, least: float = 0.2) -> bool:
    """Whether a page need not be looked at: every cell is sure or not found, and at least half are found.

    Examples
    --------
    >>> is_certain([0.9, 0.95, 0.0]), is_certain([0.9, 0.5]), is_certain([0.0, 0.0])
    (True, False, False)
    """
    found = [c for c in confidences if c >= least]
    return 2 * len(found) >= len(confidences) > 0 and all(c >= enough for c in found)

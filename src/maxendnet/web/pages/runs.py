"""How texts of a page follow each other on the screen: which touch, which stand in one run, what is between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxendnet.web.pages.elements import BREAKS, words

if TYPE_CHECKING:
    from maxendnet.web.pages.page import Page

# Elements that only change how a text looks; texts in them that touch make one word.
LOOKS = words("b i em strong u s small big font span sup sub tt code bdi bdo abbr mark wbr ins del data")
# Elements that stand in a line of text; a run goes through them, and through line breaks.
INLINE = LOOKS | words("a label cite q time kbd samp var dfn acronym strike output br")
LONGEST_TOUCHING = 50  # texts that touch; no word has more pieces


class Runs(NamedTuple):
    """For every leaf of a page: the number of its word, the number of its run, and what a reader sees before it.

    Attributes
    ----------
    word : list of int
        Leaves with the same number touch: "$", "12" and ".99" of ``$<b>12</b><sup>.99</sup>``.
    run : list of int
        Leaves with the same number stand in one paragraph, cell or item, with inline elements and line breaks between.
    before : list of str
        A space, or nothing where the leaf touches the one before.
    """

    word: list[int]
    run: list[int]
    before: list[str]


def find_runs(page: Page, leaves: Sequence[int]) -> Runs:
    """Words and runs of the leaves of a page; an image stands alone.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> page = Page.from_html("<p>Price: <b>$</b>5<sup>99</sup> <a>new</a><p>old")
    >>> find_runs(page, [2, 4, 5, 7, 9, 11])
    Runs(word=[0, 1, 1, 1, 2, 3], run=[0, 0, 0, 0, 0, 1], before=['', ' ', '', '', ' ', ' '])
    """
    # a page whose texts were all stripped does not say which of them touch
    spaced = page.spaced
    looks, inline = _nearest(page, LOOKS), _nearest(page, INLINE)
    found = Runs([], [], [])
    length = 0
    for k, t in enumerate(leaves):
        touches = same = close = False
        if k and page.tags[t] == "#text" and page.tags[leaves[k - 1]] == "#text":
            s = leaves[k - 1]
            left, right = page.texts[s], page.texts[t]
            between = page.tags[s + 1 : t]
            breaks = [tag for tag in between if tag in BREAKS]
            same = inline[s] == inline[t] and all(tag == "br" for tag in breaks)
            close = spaced and same and not breaks and left[-1:] != " " and right[:1] != " "
            touches = close and looks[s] == looks[t] and left[-1:] != ":" and length < LONGEST_TOUCHING
        length = length + 1 if touches else 1
        found.word.append(found.word[-1] + (not touches) if k else 0)
        found.run.append(found.run[-1] + (not same) if k else 0)
        found.before.append("" if close or not k else " ")
    return found


def _nearest(page: Page, inline: frozenset[str]) -> list[int]:
    """For every node, the nearest element from it upwards that is not one of these."""
    found: list[int] = []
    for tag, parent in zip(page.tags, page.parents.tolist()):
        passed = parent >= 0 and (tag == "#text" or tag in inline)
        found.append(found[parent] if passed else len(found))
    return found

"""Words and runs: which leaves of a page touch, and which are in the same paragraph, cell or list item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxendnet.web.pages.elements import BREAKS, words

if TYPE_CHECKING:
    from maxendnet.web.pages.page import Page

# elements that change only the style of a text, so that adjacent texts form one word across them
STYLE_TAGS = words("b i em strong u s small big font span sup sub tt code bdi bdo abbr mark wbr ins del data")
# other inline elements and line breaks; runs continue across them, words do not
INLINE_TAGS = STYLE_TAGS | words("a label cite q time kbd samp var dfn acronym strike output br")
MAX_WORD_LEAVES = 50


class Runs(NamedTuple):
    """Word, run and preceding space of every leaf of a page.

    Attributes
    ----------
    word : list of int
        Number of the word. Leaves of the same word touch: "$", "12" and ".99" of ``$<b>12</b><sup>.99</sup>``.
    run : list of int
        Number of the run. Leaves of the same run are in one paragraph, cell or list item; only inline elements and
        line breaks are between them.
    before : list of str
        Separator before the leaf: a space, or empty if the leaf touches the previous one.
    """

    word: list[int]
    run: list[int]
    before: list[str]


def find_runs(page: Page, leaves: Sequence[int]) -> Runs:
    """Return the words and runs of the leaves of a page; every image is a separate run.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> page = Page.from_html("<p>Price: <b>$</b>5<sup>99</sup> <a>new</a><p>old")
    >>> find_runs(page, [2, 4, 5, 7, 9, 11])
    Runs(word=[0, 1, 1, 1, 2, 3], run=[0, 0, 0, 0, 0, 1], before=['', ' ', '', '', ' ', ' '])
    """
    spaced = page.spaced
    style_parent, run_parent = _nearest_outside(page, STYLE_TAGS), _nearest_outside(page, INLINE_TAGS)
    runs = Runs([], [], [])
    n_touching = 0
    for k, t in enumerate(leaves):
        touches = same_run = close = False
        if k and page.tags[t] == "#text" and page.tags[leaves[k - 1]] == "#text":
            s = leaves[k - 1]
            left, right = page.texts[s], page.texts[t]
            breaks = [tag for tag in page.tags[s + 1 : t] if tag in BREAKS]
            same_run = run_parent[s] == run_parent[t] and all(tag == "br" for tag in breaks)
            close = spaced and same_run and not breaks and left[-1:] != " " and right[:1] != " "
            touches = close and style_parent[s] == style_parent[t] and left[-1:] != ":" and n_touching < MAX_WORD_LEAVES
        n_touching = n_touching + 1 if touches else 1
        runs.word.append(runs.word[-1] + (not touches) if k else 0)
        runs.run.append(runs.run[-1] + (not same_run) if k else 0)
        runs.before.append("" if close or not k else " ")
    return runs


def _nearest_outside(page: Page, tags: frozenset[str]) -> list[int]:
    """Return for every node the nearest element, from it upwards, whose tag is not one of ``tags``."""
    nearest: list[int] = []
    for tag, parent in zip(page.tags, page.parents.tolist()):
        is_skipped = parent >= 0 and (tag == "#text" or tag in tags)
        nearest.append(nearest[parent] if is_skipped else len(nearest))
    return nearest

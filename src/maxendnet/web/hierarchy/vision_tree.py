"""Vision tree: nested visual blocks of a page, with or without its layout in a browser.

Leaves are visible texts and, optionally, images. An element with one child is merged with the child. The children of an
element are grouped at separators. With a layout, these are gaps, changes of background or font, and new columns;
without a layout, they are headings, rules and changes of class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxendnet.web.pages.elements import words
from maxendnet.web.pages.page import Page
from maxendnet.web.views.leaves import HEIGHT, WIDTH, find_leaves

HEADINGS = words("h1 h2 h3 h4 h5 h6 dt hr legend caption")
X, Y, FONT, BACKGROUND = 0, 1, 4, 9  # columns of a layout


@dataclass(eq=False)
class VisionTree:
    """Blocks of a page in document order, parents before children.

    Attributes
    ----------
    sources : list of tuple of int
        Page nodes of every block. For a leaf this is the text or image, for an inner block the merged elements,
        outermost first, and for a group of children the element of the parent.
    parents : ndarray of shape (n_blocks,)
        Parent of every block, -1 for the root. A page without visible leaves has no blocks.
    leaf : bool ndarray of shape (n_blocks,)
        Whether a block is a leaf.
    group : bool ndarray of shape (n_blocks,)
        Whether a block is a group of children, not an element.

    Examples
    --------
    >>> page = Page.from_html("<div><p>A cup</p><p><b>$</b>5</p></div><p style='display:none'>no</p>")
    >>> tree = vision_tree(page)
    >>> [page.text(s[0]) for s, leaf in zip(tree.sources, tree.leaf) if leaf]
    ['A cup', '$', '5']
    >>> [len(s) for s in tree.sources], tree.parents.tolist()
    ([2, 1, 1, 1, 1], [-1, 0, 0, 2, 2])
    """

    sources: list[tuple[int, ...]]
    parents: NDArray[np.int32]
    leaf: NDArray[np.bool_]
    group: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def edges(self) -> NDArray[np.int64]:
        """Pairs (parent, child), of shape (n_blocks - 1, 2)."""
        children = np.arange(1, len(self))
        return np.stack([self.parents[1:], children], axis=1) if len(children) else np.zeros((0, 2), dtype=int)


def vision_tree(page: Page, images: bool = False, leaves: list[int] | None = None) -> VisionTree:
    """Return the visual blocks of a page.

    Parameters
    ----------
    page : Page
    images : bool
        Whether images are leaves.
    leaves : list of int, optional
        Leaves of the page, if already known.

    Returns
    -------
    VisionTree

    Examples
    --------
    >>> vision_tree(Page.from_html("<p>Cup</p><p><b>$</b>5</p>")).parents.tolist()
    [-1, 0, 0, 2, 2]
    """
    leaves = find_leaves(page, images) if leaves is None else leaves
    below: list[list[_Block]] = [[] for _ in range(len(page))]
    is_leaf = set(leaves)
    top: _Block | None = None
    for t in range(len(page) - 1, -1, -1):  # children come before parents, so lists of children are reversed
        if t in is_leaf:
            block = _Block([t], [], t)
        else:
            children = below[t][::-1]
            below[t] = []
            if not children:
                continue
            if len(children) == 1:
                block = children[0]
                block.top = t
                if block.children:
                    block.sources.append(t)
            else:
                block = _Block([t], _grouped(page, t, children), t)
        if page.parents[t] >= 0:
            below[page.parents[t]].append(block)
        else:
            top = block
    return _flat(top)


@dataclass(slots=True)
class _Block:
    sources: list[int]
    children: list[_Block]
    top: int
    group: bool = False


def _flat(top: _Block | None) -> VisionTree:
    blocks: list[_Block] = []
    parents: list[int] = []
    stack = [(top, -1)] if top is not None else []
    while stack:
        block, parent = stack.pop()
        stack += [(child, len(blocks)) for child in reversed(block.children)]
        blocks.append(block)
        parents.append(parent)
    return VisionTree(
        sources=[tuple(reversed(block.sources)) for block in blocks],  # a leaf has one
        parents=np.array(parents, dtype=np.int32),
        leaf=np.array([not block.children for block in blocks], dtype=bool),
        group=np.array([block.group for block in blocks], dtype=bool),
    )


def _grouped(page: Page, t: int, children: list[_Block]) -> list[_Block]:
    """Return the children of an element, with two or more adjacent children between separators as groups."""
    if len(children) < 3:
        return children
    starts = _starts_by_boxes(page, children) if page.layout is not None else _starts_by_tags(page, t, children)
    if len(starts) < 2:
        return children
    out: list[_Block] = []
    for begin, end in zip(starts, [*starts[1:], len(children)]):
        run = children[begin:end]
        if len(run) == 1:
            out += run
        else:
            out.append(_Block([t], run, t, group=True))
    return out


def _starts_by_tags(page: Page, t: int, children: list[_Block]) -> list[int]:
    """Return the first child of every group: at headings and rules, otherwise at changes of class."""
    tops = [block.top for block in children]
    rules = [k for k in range(tops[0], tops[-1]) if page.tags[k] == "hr" and page.parents[k] == t]
    passed = np.searchsorted(rules, tops).tolist()  # rules before each child
    headed = [
        k for k, top in enumerate(tops) if page.tags[top] in HEADINGS or (k and passed[k] > passed[k - 1])
    ]  # fmt: skip
    if headed:
        return headed if headed[0] == 0 else [0, *headed]
    kinds = [(page.tags[top], page.attributes[top].get("class", "")) for top in tops]
    changes = [0] + [k for k in range(1, len(kinds)) if kinds[k] != kinds[k - 1]]
    # if most children differ in class, classes do not separate groups
    return changes if len(changes) * 2 <= len(kinds) else [0]


def _starts_by_boxes(page: Page, children: list[_Block]) -> list[int]:
    """Return the first child of every group on the screen: at gaps, new columns, and changes of background or font."""
    assert page.layout is not None
    box = page.layout[[block.top for block in children]]
    line = 1.2 * np.median(box[:, FONT])
    down = box[1:, Y] - (box[:-1, Y] + box[:-1, HEIGHT])
    usual = np.median(down[down > 0]) if (down > 0).any() else 0.0
    gap = (down > line) & (down > 1.5 * usual)
    background = box[1:, BACKGROUND] != box[:-1, BACKGROUND]
    font = np.maximum(box[1:, FONT], box[:-1, FONT]) > 1.2 * np.maximum(1.0, np.minimum(box[1:, FONT], box[:-1, FONT]))
    apart = (box[1:, X] >= box[:-1, X] + box[:-1, WIDTH]) | (box[1:, X] + box[1:, WIDTH] <= box[:-1, X])
    column = apart & (box[1:, Y] + box[1:, HEIGHT] < box[:-1, Y] + 0.5 * box[:-1, HEIGHT])
    known = (box[1:, WIDTH] >= 0) & (box[:-1, WIDTH] >= 0)
    starts = [0, *(1 + np.flatnonzero((gap | background | font | column) & known)).tolist()]
    return starts if len(starts) < len(children) else [0]

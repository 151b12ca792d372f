"""Features of inner blocks: elements, content and position."""

from __future__ import annotations

from collections.abc import Sequence

from maxendnet.web.features.groups import leaf_features
from maxendnet.web.features.place import class_tokens
from maxendnet.web.hierarchy.vision_tree import VisionTree
from maxendnet.web.views.view import View, log2_bin

INHERITED_PREFIXES = ("text:is=", "title:starts_title", "title:in_title", "site:varies=each", "site:fixed")


def block_features(view: View, tree: VisionTree, groups: Sequence[str]) -> list[list[str]]:
    """Return the feature names of every block; an empty list for leaves.

    Parameters
    ----------
    view : View
    tree : VisionTree
    groups : sequence of str
        Groups of leaf features of the model; a block inherits some of these features from its leaves.
    """
    of_leaves = leaf_features(view, [group for group in groups if group in ("text", "title", "site")])
    n = len(tree)
    page = view.page
    n_leaves, length = [0] * n, [0] * n
    inherited: list[set[str]] = [set() for _ in range(n)]
    n_children = [0] * n
    k = len(of_leaves)
    for b in range(n - 1, -1, -1):
        if tree.leaf[b]:
            k -= 1
            n_leaves[b], length[b] = 1, len(view.texts[k])
            inherited[b] = {name for name in of_leaves[k] if name.startswith(INHERITED_PREFIXES)}
        parent = tree.parents[b]
        if parent >= 0:
            n_leaves[parent] += n_leaves[b]
            length[parent] += length[b]
            n_children[parent] += 1
            inherited[parent] |= inherited[b]
    out: list[list[str]] = []
    before = 0  # number of leaves before the block
    for b in range(n):
        if tree.leaf[b]:
            before += 1
            out.append([])
            continue
        sources = tree.sources[b]
        names = [f"leaves={log2_bin(n_leaves[b])}", f"length={log2_bin(length[b])}"]
        names += [
            f"share={round(8 * n_leaves[b] / max(1, n_leaves[0]))}",
            f"children={log2_bin(n_children[b])}",
        ]
        names += [f"tag={page.tags[t]}" for t in dict.fromkeys(sources[-3:])]
        names += [f"holds:{name}" for name in sorted(inherited[b])]
        names.append(f"start={10 * before // max(1, n_leaves[0])}")
        if tree.group[b]:
            names.append("group")
        elif "classes" in groups:
            names += [f"class={token}" for t in sources[-3:] for token in class_tokens(page.attributes[t])]
        out.append(names)
    return out

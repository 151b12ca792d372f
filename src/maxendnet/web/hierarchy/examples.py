"""Examples from vision trees, whose nodes are blocks of two types: leaf and inner block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.web.hierarchy.block_labels import block_labels
from maxendnet.web.hierarchy.vision_tree import VisionTree


def tree_examples(
    trees: Sequence[VisionTree], X: Sequence[sparse.csr_array], labels: Sequence[Sequence[str]] | None = None
) -> Examples:
    """Return examples with the blocks of trees as nodes, from the features of all blocks and the labels of leaves."""
    y = None if labels is None else [block_labels(tree, of_leaves) for tree, of_leaves in zip(trees, labels)]
    edges = [tree.edges for tree in trees]
    node_types = [np.asarray(tree.leaf, dtype=int) for tree in trees]
    edge_types = [kind[edge[:, 1]] for kind, edge in zip(node_types, edges)]
    return Examples.build(X, y, edges=edges, edge_types=edge_types, node_types=node_types)

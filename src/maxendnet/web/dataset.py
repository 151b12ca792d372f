"""Pages to examples of the core: features by name to columns, and the nodes and edges of the three models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.web.blocks import block_labels
from maxendnet.web.features import leaf_features
from maxendnet.web.inner_features import inner_features
from maxendnet.web.view import View
from maxendnet.web.vision import VisionTree, vision_tree

MODELS = ("independent", "chain", "hierarchical")
Names = list[list[str]]


@dataclass(frozen=True, eq=False)
class Featurised:
    """Nodes of a page for a model: features by name, and the tree of the hierarchical model.

    Attributes
    ----------
    names : list of list of str
        Features of every node.
    tree : VisionTree or None
    leaf : ndarray
        Which nodes are leaves, in the order of the view.
    """

    names: Names
    tree: VisionTree | None
    leaf: np.ndarray

    @property
    def edges(self) -> np.ndarray:
        """Pairs (parent, child) of the tree."""
        assert self.tree is not None
        children = np.arange(1, len(self.tree))
        return np.stack([self.tree.parents[1:], children], axis=1) if len(children) else np.zeros((0, 2), dtype=int)


def featurise(view: View, groups: Sequence[str], model: str) -> Featurised:
    """Features of the nodes that a model has for a page."""
    names = leaf_features(view, groups)
    if model != "hierarchical":
        return Featurised(names, None, np.arange(len(view)))
    tree = vision_tree(view.page, leaves=view.leaves)
    where = np.flatnonzero(tree.leaf)
    of_nodes = inner_features(view, tree, names, groups)
    for b, own in zip(where.tolist(), names):
        of_nodes[b] = own
    return Featurised(of_nodes, tree, where)


def vocabulary(pages: Sequence[Featurised], sites: Sequence[str], min_sites: int = 1, min_count: int = 1) -> list[str]:
    """Names of features worth a weight, sorted.

    Parameters
    ----------
    pages : sequence of Featurised
    sites : sequence of str
        Of the pages.
    min_sites : int
        A feature must occur on that many sites (or on all, if there are fewer).
    min_count : int
        And on that many nodes.
    """
    counts: Counter[str] = Counter()
    on: dict[str, Counter[str]] = {}
    for page, site in zip(pages, sites):
        here = on.setdefault(site, Counter())
        for names in page.names:
            here.update(names)
    support: Counter[str] = Counter()
    for here in on.values():
        counts.update(here)
        support.update(here.keys())
    enough = min(min_sites, len(on))
    return sorted(name for name, n in counts.items() if n >= min_count and support[name] >= enough)


def to_examples(
    pages: Sequence[Featurised], names: Sequence[str], model: str, labels: Sequence[Sequence[str]] | None = None
) -> Examples:
    """Examples of the core.

    Parameters
    ----------
    pages : sequence of Featurised
    names : sequence of str
        The columns; other features are left out.
    model : {"independent", "chain", "hierarchical"}
    labels : sequence of sequence of str, optional
        Of the leaves of every page.

    Notes
    -----
    Where leaves are independent, every leaf is an example of its own: the loss of a page is the sum of the losses of
    its leaves, and solvers are quicker with many small examples than with few large ones.
    """
    column = {name: k for k, name in enumerate(names)}
    X = [_matrix(page.names, column) for page in pages]
    y = None
    if labels is not None:
        y = [
            block_labels(page.tree, some) if page.tree is not None else list(some) for page, some in zip(pages, labels)
        ]
    if model == "independent":
        examples = Examples.build(
            sparse.csr_array(sparse.vstack(X, format="csr")),
            None if y is None else [label for some in y for label in some],
        )
    elif model == "chain":
        examples = Examples.build(X, y)
    else:
        edges = [page.edges for page in pages]
        leaf = [np.asarray(page.tree.leaf, dtype=int) if page.tree is not None else np.zeros(0, int) for page in pages]
        examples = Examples.build(
            X, y, edges=edges, edge_types=[kind[edge[:, 1]] for kind, edge in zip(leaf, edges)], node_types=leaf
        )
    return replace(examples, feature_names=tuple(names))


def _matrix(names: Names, column: dict[str, int]) -> sparse.csr_array:
    indptr, indices = [0], []
    for some in names:
        row = sorted({column[name] for name in some if name in column})
        indices += row
        indptr.append(len(indices))
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(names), len(column)))


def max_marginals(estimator: Any, pages: Sequence[Featurised], model: str) -> list[NDArray[np.float64]]:
    """Max-marginals of the leaves of every page, arrays of shape (n_leaves, n_labels)."""
    if not any(page.names for page in pages):
        return [np.zeros((0, len(estimator.classes_))) for _ in pages]
    values = estimator.predict_max_marginals(to_examples(pages, estimator.feature_names_, model))
    if model == "independent":
        values = np.split(values, np.cumsum([len(page.names) for page in pages])[:-1])
    return [value[page.leaf] for value, page in zip(values, pages)]

"""Pages as examples of the core: their features as columns, in the form that each model needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.web.features.groups import GROUPS
from maxendnet.web.fields.leaf_labels import NONE, fields_of
from maxendnet.web.hierarchy.block_features import block_features
from maxendnet.web.hierarchy.examples import tree_examples
from maxendnet.web.hierarchy.vision_tree import VisionTree, vision_tree
from maxendnet.web.model.numbering import Numbering, Vocabulary
from maxendnet.web.views.view import Names, View

MODELS = ("choice", "independent", "chain", "hierarchical")
LEAVES = ("choice", "independent")
"""Models in which a leaf has a score of its own, whatever the others have."""
INNER_GROUP = "inner"


@dataclass(frozen=True, eq=False)
class Featurised:
    """Nodes of a page for a model: features by number, and the tree of the hierarchical model.

    Attributes
    ----------
    numbering : Numbering
        Pages that are used together share one.
    indices, indptr : ndarray
        Numbers of the features of node t are ``indices[indptr[t]:indptr[t + 1]]``, sorted.
    tree : VisionTree or None
    leaf : ndarray
        Which nodes are leaves, in the order of the view.
    """

    numbering: Numbering
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]
    tree: VisionTree | None
    leaf: NDArray[np.int64]

    @property
    def n_nodes(self) -> int:
        return len(self.indptr) - 1


FeaturesOf = Callable[[View], Featurised]


def featurise(view: View, groups: Sequence[str], model: str, numbering: Numbering) -> Featurised:
    """Features of the nodes that a model has for a page."""
    tree = vision_tree(view.page, leaves=view.leaves) if model == "hierarchical" else None
    leaf = np.flatnonzero(tree.leaf) if tree is not None else np.arange(len(view))
    parts = [_numbers(numbering, group, GROUPS[group](view), leaf) for group in groups]
    if tree is not None:
        parts.append(_numbers(numbering, INNER_GROUP, block_features(view, tree, groups), np.arange(len(tree))))
    n_nodes = len(tree) if tree is not None else len(view)
    entries = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    entries = entries[np.diff(entries, prepend=-1) != 0]  # a node has a feature once
    indptr = np.searchsorted(entries, np.arange(n_nodes + 1) << 32)
    return Featurised(numbering, (entries & 0xFFFFFFFF).astype(np.int32), indptr, tree, leaf)


def _numbers(numbering: Numbering, group: str, names: Names, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Features of a group: the node in the upper half of a number, the feature in the lower."""
    of_features = np.array(numbering.of(group, chain.from_iterable(names)), dtype=np.int64)
    return np.repeat(nodes << 32, [len(of_node) for of_node in names]) | of_features


def vocabulary(pages: Sequence[Featurised], sites: Sequence[str], min_sites: int = 1) -> Vocabulary:
    """Features worth a weight.

    Parameters
    ----------
    pages : sequence of Featurised
    sites : sequence of str
        Of the pages.
    min_sites : int
        A feature must occur on that many sites (or on all, if there are fewer).
    """
    return Vocabulary(pages[0].numbering, frequent_features(pages, sites, min_sites))


def frequent_features(pages: Sequence[Featurised], sites: Sequence[str], min_sites: int) -> NDArray[np.int64]:
    """Numbers of the features on ``min_sites`` sites, or on all if there are fewer; pages share a numbering."""
    of_site: dict[str, NDArray[np.bool_]] = {}
    for page, site in zip(pages, sites):
        of_site.setdefault(site, np.zeros(len(page.numbering), dtype=bool))[page.indices] = True
    support = sum(present.astype(np.int64) for present in of_site.values())
    return np.flatnonzero(support >= min(min_sites, len(of_site)))


def to_examples(
    pages: Sequence[Featurised], vocabulary: Vocabulary, model: str, labels: Sequence[Sequence[str]] | None = None,
    unknown: Sequence[Collection[str]] | None = None,
) -> Examples:  # fmt: skip
    """Examples of the core.

    Parameters
    ----------
    pages : sequence of Featurised
    vocabulary : Vocabulary
        The columns; other features are left out.
    model : {"choice", "independent", "chain", "hierarchical"}
    labels : sequence of sequence of str, optional
        Of the leaves of every page.
    unknown : sequence of collection of str, optional
        Fields of every page of which nothing is known; for ``"choice"``.

    Notes
    -----
    Where leaves are independent, every leaf is an example of its own: the loss of a page is the sum of the losses of
    its leaves, and solvers are quicker with many small examples than with few large ones. Labelled leaves that are
    alike (the menus of a site) are one example with a weight, which changes nothing but the time. Where leaves
    compete, a labelled page is an example for every field, see `_choices`; without labels, leaves are examples too.
    """
    column = vocabulary.columns(pages[0].numbering)
    X = [page_matrix(page, column, len(vocabulary.numbers)) for page in pages]
    return replace(examples_of(pages, X, model, labels, unknown), feature_names=tuple(vocabulary.names))


def examples_of(
    pages: Sequence[Featurised],
    X: Sequence[sparse.csr_array],
    model: str,
    labels: Sequence[Sequence[str]] | None = None,
    unknown: Sequence[Collection[str]] | None = None,
) -> Examples:
    """Examples of the core, given the features of every page as a matrix."""
    if model == "hierarchical":
        return tree_examples([page.tree for page in pages if page.tree is not None], X, labels)
    if model == "chain":
        return Examples.build(X, None if labels is None else [list(of_page) for of_page in labels])
    if model == "choice" and labels is not None:
        return _choices(X, labels, unknown or [()] * len(X))
    matrix = sparse.csr_array(sparse.vstack(X, format="csr"))
    if labels is None:
        return Examples.build(matrix)
    rows, of_rows, sample_weight = _different_leaves(matrix, list(chain.from_iterable(labels)))
    return Examples.build(matrix[rows], of_rows, sample_weight=sample_weight)


def _choices(
    X: Sequence[sparse.csr_array], labels: Sequence[Sequence[str]], unknown: Sequence[Collection[str]]
) -> Examples:
    """For every page and field, all leaves that do not have the field, and one that does; or none, if none does.

    If several leaves of a page have the field, each is the right one in an example of its own, and these share the
    weight of the page: a value that is written twice is no rival of itself. Leaves that are alike stand for one. A
    field of which nothing is known on a page gives no example: its loss would be 0 whatever the weights are.
    """
    fields = sorted({name for of_page in labels for label in of_page for name in fields_of(label)})
    matrices, y, allowed, sample_weight = [], [], [], []
    for matrix, of_page, not_known in zip(X, labels, unknown):
        kinds: dict[bytes, int] = {}
        kind = np.array([
            kinds.setdefault(matrix.indices[a:b].tobytes(), len(kinds))
            for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:])
        ])  # fmt: skip
        of_leaf = [fields_of(label) for label in of_page]
        nothing = sparse.csr_array((1, matrix.shape[1]))
        for f, name in enumerate(fields):
            if name in not_known:
                continue
            has = np.array([name in names for names in of_leaf], dtype=bool)
            having, others = np.flatnonzero(has).tolist(), np.flatnonzero(~has)
            others = np.sort(others[np.unique(kind[others], return_index=True)[1]]).tolist()
            for right in [[t] for t in having] or [[]]:
                matrices.append(matrix[others + right])
                if not others:  # a record of one text: its rival is no text at all
                    matrices[-1] = sparse.csr_array(sparse.vstack([nothing, matrices[-1]], format="csr"))
                y.append([NONE] * max(1, len(others)) + [name] * len(right))
                mask = np.zeros((len(y[-1]), 1 + len(fields)), dtype=bool)
                mask[:, [0, 1 + f]] = True
                allowed.append(mask)
                sample_weight.append(1.0 / max(1, len(having)))
    return Examples.build(matrices, y, labels=[NONE, *fields], allowed=allowed, sample_weight=sample_weight)


def _different_leaves(
    matrix: sparse.csr_array, labels: Sequence[str]
) -> tuple[list[int], list[str], NDArray[np.float64]]:
    """Rows with features and labels that no row before has, their labels, and how often each occurs."""
    times: dict[tuple[bytes, str], int] = {}
    rows = []
    for t, label in enumerate(labels):
        key = (matrix.indices[matrix.indptr[t] : matrix.indptr[t + 1]].tobytes(), label)
        if key not in times:
            rows.append(t)
            times[key] = 0
        times[key] += 1
    return rows, [labels[t] for t in rows], np.fromiter(times.values(), dtype=float)


def page_matrix(page: Featurised, column: NDArray[np.int64], n_columns: int) -> sparse.csr_array:
    """Features of the nodes of a page; ``column`` has a column for every number, -1 for none."""
    columns = column[page.indices]
    known = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])[page.indptr]
    indices = columns[known]
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(page.n_nodes, n_columns))


def max_marginals(
    estimator: Any, pages: Sequence[Featurised], model: str, words: Vocabulary | None = None
) -> list[NDArray[np.float64]]:
    """Max-marginals of the leaves of every page, arrays of shape (n_leaves, n_labels).

    ``words`` are the columns of the estimator; without them its names of features are looked up.
    """
    if not any(page.n_nodes for page in pages):
        return [np.zeros((0, len(estimator.classes_))) for _ in pages]
    words = Vocabulary.of(estimator.feature_names_) if words is None else words
    values = estimator.predict_max_marginals(to_examples(pages, words, model))
    if model in LEAVES:
        values = np.split(values, np.cumsum([page.n_nodes for page in pages])[:-1])
    return [value[page.leaf] for value, page in zip(values, pages)]

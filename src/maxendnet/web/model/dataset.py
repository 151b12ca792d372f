"""Examples for the estimators: sparse features of pages, for each page model."""

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
"""Page models that score each leaf independently of the labels of other leaves."""
INNER_GROUP = "inner"


@dataclass(frozen=True, eq=False)
class Featurised:
    """Features of the nodes of a page.

    Attributes
    ----------
    numbering : Numbering
        Shared by all pages that are used together.
    indices : ndarray of shape (n_entries,)
        Features of node ``t`` are ``indices[indptr[t]:indptr[t + 1]]``, sorted.
    indptr : ndarray of shape (n_nodes + 1,)
    tree : VisionTree or None
        For the hierarchical model.
    leaf : ndarray of shape (n_leaves,)
        Nodes that are leaves, in the order of the view.
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
"""Computes the features of a view."""


def featurise(view: View, groups: Sequence[str], model: str, numbering: Numbering) -> Featurised:
    """Compute the features of the nodes of a page.

    Parameters
    ----------
    view : View
    groups : sequence of str
        Feature groups, see `maxendnet.web.features.groups.GROUPS`.
    model : {"choice", "independent", "chain", "hierarchical"}
    numbering : Numbering
        New features are added to it.
    """
    tree = vision_tree(view.page, leaves=view.leaves) if model == "hierarchical" else None
    leaf = np.flatnonzero(tree.leaf) if tree is not None else np.arange(len(view))
    parts = [_numbers(numbering, group, GROUPS[group](view), leaf) for group in groups]
    if tree is not None:
        parts.append(_numbers(numbering, INNER_GROUP, block_features(view, tree, groups), np.arange(len(tree))))
    n_nodes = len(tree) if tree is not None else len(view)
    entries = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    entries = entries[np.diff(entries, prepend=-1) != 0]  # drop duplicates
    indptr = np.searchsorted(entries, np.arange(n_nodes + 1) << 32)
    return Featurised(numbering, (entries & 0xFFFFFFFF).astype(np.int32), indptr, tree, leaf)


def _numbers(numbering: Numbering, group: str, names: Names, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an entry for each node and feature of a group.

    The upper 32 bits of an entry are the node, the lower 32 bits the feature.
    """
    features = np.array(numbering.of(group, chain.from_iterable(names)), dtype=np.int64)
    return np.repeat(nodes << 32, [len(of_node) for of_node in names]) | features


def vocabulary(pages: Sequence[Featurised], sites: Sequence[str], min_sites: int = 1) -> Vocabulary:
    """Return the features that occur on enough sites.

    Parameters
    ----------
    pages : sequence of Featurised
        With a shared numbering.
    sites : sequence of str
        Site of each page.
    min_sites : int
        Minimum number of sites on which a feature must occur. If there are fewer sites, it must occur on all of them.
    """
    return Vocabulary(pages[0].numbering, frequent_features(pages, sites, min_sites))


def frequent_features(pages: Sequence[Featurised], sites: Sequence[str], min_sites: int) -> NDArray[np.int64]:
    """Return the numbers of the features that `vocabulary` selects."""
    present: dict[str, NDArray[np.bool_]] = {}
    for page, site in zip(pages, sites):
        present.setdefault(site, np.zeros(len(page.numbering), dtype=bool))[page.indices] = True
    n_sites_with = sum(on_site.astype(np.int64) for on_site in present.values())
    return np.flatnonzero(n_sites_with >= min(min_sites, len(present)))


def to_examples(
    pages: Sequence[Featurised], vocabulary: Vocabulary, model: str, labels: Sequence[Sequence[str]] | None = None,
    unknown: Sequence[Collection[str]] | None = None,
) -> Examples:  # fmt: skip
    """Convert pages to examples of the core library.

    Parameters
    ----------
    pages : sequence of Featurised
        With a shared numbering.
    vocabulary : Vocabulary
        Features that become columns; other features are ignored.
    model : {"choice", "independent", "chain", "hierarchical"}
    labels : sequence of sequence of str, optional
        Labels of the leaves of each page.
    unknown : sequence of collection of str, optional
        Fields of each page with unknown labels; for ``"choice"``.

    Returns
    -------
    Examples

    Notes
    -----
    With ``"independent"`` every leaf is one example. The loss is the same as with one example per page, and solvers are
    faster on many small examples. Identical labelled leaves, such as menus, are merged into one weighted example. With
    ``"choice"`` a labelled page yields one example per field, see `_choices`; on an unlabelled page every leaf is one
    example.
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
    """Convert pages to examples, given their feature matrices ``X``; see `to_examples`."""
    if model == "hierarchical":
        return tree_examples([page.tree for page in pages if page.tree is not None], X, labels)
    if model == "chain":
        return Examples.build(X, None if labels is None else [list(of_page) for of_page in labels])
    if model == "choice" and labels is not None:
        return _choices(X, labels, unknown or [()] * len(X))
    matrix = sparse.csr_array(sparse.vstack(X, format="csr"))
    if labels is None:
        return Examples.build(matrix)
    rows, row_labels, sample_weight = _distinct_leaves(matrix, list(chain.from_iterable(labels)))
    return Examples.build(matrix[rows], row_labels, sample_weight=sample_weight)


def _choices(
    X: Sequence[sparse.csr_array], labels: Sequence[Sequence[str]], unknown: Sequence[Collection[str]]
) -> Examples:
    """Return the examples of ``model="choice"``, one for each page and field.

    The nodes of an example are the leaves without the field and one leaf with it, if any.

    If several leaves have the field, each is the target of a separate example, so that a repeated value does not
    compete with itself. These examples share the weight of the page. Identical leaves without the field are merged. A
    field with unknown labels yields no example, because its loss would be constant.
    """
    fields = sorted({name for of_page in labels for label in of_page for name in fields_of(label)})
    matrices, y, allowed, sample_weight = [], [], [], []
    for matrix, of_page, unknown_fields in zip(X, labels, unknown):
        numbers: dict[bytes, int] = {}
        row_number = np.array([
            numbers.setdefault(matrix.indices[a:b].tobytes(), len(numbers))
            for a, b in zip(matrix.indptr[:-1], matrix.indptr[1:])
        ])  # fmt: skip
        leaf_fields = [fields_of(label) for label in of_page]
        empty_row = sparse.csr_array((1, matrix.shape[1]))
        for f, name in enumerate(fields):
            if name in unknown_fields:
                continue
            has_field = np.array([name in names for names in leaf_fields], dtype=bool)
            positive, negative = np.flatnonzero(has_field).tolist(), np.flatnonzero(~has_field)
            rivals = np.sort(negative[np.unique(row_number[negative], return_index=True)[1]]).tolist()
            for target in [[t] for t in positive] or [[]]:
                matrices.append(matrix[rivals + target])
                if not rivals:  # the only leaf of a record competes with an empty row
                    matrices[-1] = sparse.csr_array(sparse.vstack([empty_row, matrices[-1]], format="csr"))
                y.append([NONE] * max(1, len(rivals)) + [name] * len(target))
                mask = np.zeros((len(y[-1]), 1 + len(fields)), dtype=bool)
                mask[:, [0, 1 + f]] = True
                allowed.append(mask)
                sample_weight.append(1.0 / max(1, len(positive)))
    return Examples.build(matrices, y, labels=[NONE, *fields], allowed=allowed, sample_weight=sample_weight)


def _distinct_leaves(
    matrix: sparse.csr_array, labels: Sequence[str]
) -> tuple[list[int], list[str], NDArray[np.float64]]:
    """Return the distinct labelled rows, their labels and their counts."""
    counts: dict[tuple[bytes, str], int] = {}
    rows = []
    for t, label in enumerate(labels):
        key = (matrix.indices[matrix.indptr[t] : matrix.indptr[t + 1]].tobytes(), label)
        if key not in counts:
            rows.append(t)
            counts[key] = 0
        counts[key] += 1
    return rows, [labels[t] for t in rows], np.fromiter(counts.values(), dtype=float)


def page_matrix(page: Featurised, column: NDArray[np.int64], n_columns: int) -> sparse.csr_array:
    """Return the feature matrix of a page.

    ``column`` maps feature numbers to columns, or to -1 for features to ignore.
    """
    columns = column[page.indices]
    known = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])[page.indptr]
    indices = columns[known]
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(page.n_nodes, n_columns))


def max_marginals(
    estimator: Any, pages: Sequence[Featurised], model: str, words: Vocabulary | None = None
) -> list[NDArray[np.float64]]:
    """Return the max-marginals of the leaves of each page.

    The result is one array of shape (n_leaves, n_labels) per page.

    Parameters
    ----------
    estimator : MarkovNetwork
        Fitted.
    pages : sequence of Featurised
        With a shared numbering.
    model : {"choice", "independent", "chain", "hierarchical"}
    words : Vocabulary, optional
        Columns of the estimator; derived from its feature names if not given.
    """
    if not any(page.n_nodes for page in pages):
        return [np.zeros((0, len(estimator.classes_))) for _ in pages]
    words = Vocabulary.of(estimator.feature_names_) if words is None else words
    values = estimator.predict_max_marginals(to_examples(pages, words, model))
    if model in LEAVES:
        values = np.split(values, np.cumsum([page.n_nodes for page in pages])[:-1])
    return [value[page.leaf] for value, page in zip(values, pages)]

"""`Examples`: ragged data as flat arrays and offsets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from maxendnet.data.annotations import (
    read_allowed,
    read_edge_features,
    read_edges,
    read_label_features,
    read_label_order,
    read_node_weight,
    read_sample_weight,
    read_types,
)
from maxendnet.data.feature_dicts import align_columns
from maxendnet.data.feature_scale import NormSum
from maxendnet.data.forest_order import chain_edge_offsets
from maxendnet.data.labels import distinct_labels, read_labels
from maxendnet.data.node_features import read_node_features
from maxendnet.data.ragged import Array, BoolArray, FloatArray, gather

__all__ = ["Examples", "as_examples", "distinct_labels"]

PER_NODE = ("y", "node_types", "allowed", "label_features", "node_weight")
PER_EDGE = ("edges", "edge_types", "edge_features")


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """Examples as flat arrays: example i owns nodes ``offsets[i]:offsets[i + 1]``.

    Use `Examples.build` or `as_examples`, which check their input; the constructor does not. Indexing by a number, a
    slice, an index array or a bool mask returns `Examples`, so scikit-learn's splitters split examples.

    Attributes
    ----------
    X : csr_array of shape (n_nodes, n_features)
        float64, with sorted indices, without duplicates or explicit zeros.
    offsets : int64 ndarray of shape (n_examples + 1,)
    y : ndarray of shape (n_nodes,), or None
        Labels as passed. Arrays and lists of numbers of one type have a numpy dtype, other labels are objects.
    edges : int32 ndarray of shape (n_edges, 2), or None
        Node indices within the example; the first node is the row of the transition matrix. None if the structure
        implies the edges, such as (t, t + 1) of a chain.
    edge_offsets : int64 ndarray of shape (n_examples + 1,), or None
        None if and only if ``edges`` is None.
    edge_types : int32 ndarray of shape (n_edges,), or None
    edge_features : ndarray of shape (n_edges, n_edge_features), or None
    node_types : int32 ndarray of shape (n_nodes,), or None
    allowed : bool ndarray of shape (n_nodes, len(labels)), or None
    label_features : ndarray of shape (n_nodes, len(labels), n_label_features), or None
    labels : tuple, or None
        Labels along the label axis of ``allowed`` and ``label_features``.
    sample_weight : ndarray of shape (n_examples,), or None
    node_weight : ndarray of shape (n_nodes,), or None
        Factors of the node costs.
    feature_names : tuple of str, or None
    flat : bool
        Whether X was one table: each example is one node, and predictions are one array.

    Examples
    --------
    >>> examples = Examples.build([[{"word": "the"}, {"word": "dog"}], [{"word": "dog"}]], [["D", "N"], ["N"]])
    >>> examples
    Examples(n_examples=2, n_nodes=3, n_features=2)
    >>> examples[[1]].y.tolist()
    ['N']
    """

    X: sparse.csr_array
    offsets: npt.NDArray[np.int64]
    y: Array | None = None
    edges: npt.NDArray[np.int32] | None = None
    edge_offsets: npt.NDArray[np.int64] | None = None
    edge_types: npt.NDArray[np.int32] | None = None
    edge_features: FloatArray | None = None
    node_types: npt.NDArray[np.int32] | None = None
    allowed: BoolArray | None = None
    label_features: FloatArray | None = None
    labels: tuple[Hashable, ...] | None = None
    sample_weight: FloatArray | None = None
    feature_names: tuple[str, ...] | None = None
    flat: bool = False
    node_weight: FloatArray | None = None

    @classmethod
    def build(
        cls,
        X: Any,
        y: Any = None,
        edges: Any = None,
        edge_types: Any = None,
        edge_features: Any = None,
        node_types: Any = None,
        allowed: Any = None,
        label_features: Any = None,
        sample_weight: Any = None,
        labels: Any = None,
        node_weight: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        n_features: int | None = None,
        estimator: str = "the model",
        **unknown: Any,
    ) -> Examples:
        """Read and check examples.

        Optional arguments are lists with one entry per example.

        Parameters
        ----------
        X : sequence of examples, array or sparse matrix
            As in `as_examples`.
        y : sequence of label sequences, optional
            Unknown labels are `UNKNOWN`, or a set of labels that contains the true one.
        edges : list of arrays of shape (n_edges, 2), optional
            Node indices within the example. An alternative to pairs (node_features, edges) in X.
        edge_types : list of int arrays of shape (n_edges,), optional
            Types numbered from 0. Without ``edges`` they belong to the edges (t, t + 1) of a chain.
        edge_features : list of arrays of shape (n_edges, n_edge_features), optional
            Without ``edges`` they belong to the edges (t, t + 1) of a chain.
        node_types : list of int arrays of shape (n_nodes,), optional
        allowed : list, optional
            Labels that each node may have: a bool array of shape (n_nodes, n_labels), or a collection of labels for
            each node, with None for all labels. A class that ``labels`` does not list is not allowed.
        label_features : list of arrays of shape (n_nodes, n_labels, n_label_features), optional
        sample_weight : array of shape (n_examples,), optional
        labels : list, optional
            Labels along the label axis of ``allowed`` and ``label_features``; required with either.
        node_weight : list of arrays of shape (n_nodes,), optional
            Factors of the node costs, for margin models. At a node with weight 0, a wrong label costs nothing.
        feature_names, n_features, estimator : optional
            Feature names and number of features that a fitted model expects, and its name for messages.

        Returns
        -------
        Examples

        Notes
        -----
        For a 2-D X with n rows, ``node_types``, ``allowed`` and ``label_features`` are arrays of shape (n,),
        (n, n_labels) and (n, n_labels, n_label_features).

        Examples
        --------
        >>> import numpy as np
        >>> star = Examples.build([np.eye(3)], [["a", "b", "b"]], edges=[[(0, 1), (0, 2)]], edge_types=[[0, 1]])
        >>> star.n_edge_types
        2
        """
        _refuse_unknown("Examples.build", unknown)
        features = read_node_features(X, feature_names, n_features, estimator)
        offsets, flat = features.offsets, features.flat
        if edges is not None and features.edges is not None:
            raise ValueError("X has pairs (node_features, edges), and edges= is given too; pass the edges only once.")
        if flat and not (edges is None and edge_types is None and edge_features is None):
            raise ValueError(
                "X is one table, in which each example is one node without edges; pass X as a list of examples."
            )
        edge_offsets = None
        if edges is not None or features.edges is not None:
            edges, edge_offsets = read_edges(features.edges if edges is None else edges, offsets)
        edges_of = offsets if edge_offsets is None else edge_offsets
        if edge_offsets is None and not (edge_types is None and edge_features is None):
            edges_of = chain_edge_offsets(offsets)
        if labels is not None:
            labels = read_label_order(labels)
        elif allowed is not None or label_features is not None:
            name = "allowed" if allowed is not None else "label_features"
            raise ValueError(f"{name} is given without labels; pass labels=[...], the order of its label axis.")
        return cls(
            X=features.X,
            offsets=offsets,
            y=None if y is None else read_labels(y, offsets, flat),
            edges=edges,
            edge_offsets=edge_offsets,
            edge_types=None if edge_types is None else read_types("edge_types", edge_types, edges_of, "edges"),
            edge_features=None if edge_features is None else read_edge_features(edge_features, edges_of),
            node_types=None if node_types is None else read_types("node_types", node_types, offsets, "nodes", flat),
            allowed=None if allowed is None else read_allowed(allowed, labels, offsets, flat),
            label_features=(
                None if label_features is None else read_label_features(label_features, labels, offsets, flat)
            ),
            labels=labels,
            sample_weight=None if sample_weight is None else read_sample_weight(sample_weight, len(offsets) - 1),
            feature_names=features.feature_names,
            flat=flat,
            node_weight=None if node_weight is None else read_node_weight(node_weight, offsets, flat),
        )

    # ---- larger than memory --------------------------------------------------------------------------------------

    @staticmethod
    def write(folder: Any, items: Iterable[Any], *, n_hashed: int | None = None) -> Examples:
        """Write examples from an iterator to a folder, and open it.

        Only about a thousand examples at a time and the vocabulary of feature names are in memory.

        Parameters
        ----------
        folder : str or path-like
            A new or empty folder. It is valid only after the last example is written; files that an interrupted
            process left are overwritten.
        items : iterable
            Pairs (x, y), each as an entry of X and y in `Examples.build`; or chunks of `Examples`, which may also have
            edges, types and weights. All chunks must have the same arrays.
        n_hashed : int, optional
            Number of columns for hashed feature names, as in ``DictFeatures(n_hashed=...)``: names are not stored. By
            default each name has its column, in order of first occurrence.

        Returns
        -------
        Examples
            See `Examples.open`.

        Raises
        ------
        FolderError
            If the folder is not empty, another process writes to it, or a label cannot be stored.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> pairs = (([{"word": word} for word in text.split()], ["N", "V"]) for text in ["dogs bark", "cats purr"])
        >>> Examples.write(folder, pairs)
        Examples(n_examples=2, n_nodes=4, n_features=4)
        >>> Examples.append(folder, [([{"word": "dogs"}, {"word": "purr"}], ["N", "V"])])
        Examples(n_examples=3, n_nodes=6, n_features=4)
        >>> Examples.open(folder).feature_names
        ('word=bark', 'word=cats', 'word=dogs', 'word=purr')
        """
        from maxendnet.data.folder import write

        return write(folder, items, n_hashed)

    @staticmethod
    def append(folder: Any, items: Iterable[Any]) -> Examples:
        """Append examples to a folder: all of them or, after a failure, none.

        Examples that were opened earlier do not change. Only one process can write to a folder at a time; a
        second one raises `FolderError`.

        Parameters
        ----------
        folder, items
            As for `Examples.write`.

        Returns
        -------
        Examples
            All examples of the folder.
        """
        from maxendnet.data.folder import append

        return append(folder, items)

    @staticmethod
    def open(folder: Any, *, check: bool = True) -> Examples:
        """Open a folder that `Examples.write` has written, without loading it.

        Features and other large arrays are memory-mapped: the system reads the parts in use, and drops them when memory
        is short. Labels and a few numbers per node are in memory, about 60 bytes per node during a fit. Every estimator
        and solver accepts such examples; results are bit-for-bit identical to those of examples in memory.

        Parameters
        ----------
        folder : str or path-like
        check : bool, default=True
            Whether to read all files once and compare checksums. The header, sizes, lengths and indices are always
            checked, because kernels rely on them.

        Returns
        -------
        Examples

        Raises
        ------
        FolderError
            If the folder is damaged or incomplete, or has another format version.

        Notes
        -----
        Nothing may truncate or change the files of a folder while examples from it are in use: the system ends a
        process that reads a mapped page beyond the end of its file (SIGBUS). `Examples.append` only adds to files.
        """
        from maxendnet.data.folder import open_folder

        return open_folder(folder, check)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Examples(n_examples={len(self)}, n_nodes={self.n_nodes}, n_features={self.n_features})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Raise ``TypeError``: examples have different numbers of nodes."""
        raise TypeError(
            f"{self!r} cannot be converted to an array, because examples differ in length; examples.X.toarray() "
            f"returns "
            "the features of all nodes. To apply a scikit-learn transformer such as StandardScaler() to the nodes, use "
            "OnNodes(StandardScaler())."
        )

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_examples, n_features)``, as scikit-learn's splitters require."""
        return len(self), self.n_features

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all examples."""
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def mean_squared_norm(self) -> float:
        """Mean squared norm of the features of a node, R^2 in the documentation.

        Nodes are weighted by ``sample_weight``. Unlabelled examples do not count.
        """
        return NormSum.of(self).mean

    @property
    def n_edge_types(self) -> int:
        """Largest edge type plus one; 1 if edges have no types."""
        return 1 if self.edge_types is None else int(self.edge_types.max(initial=0)) + 1

    @property
    def n_edge_features(self) -> int:
        """Number of columns of ``edge_features``, or 0."""
        return 0 if self.edge_features is None else self.edge_features.shape[1]

    @property
    def n_label_features(self) -> int:
        """Number of features of a node-label pair, or 0."""
        return 0 if self.label_features is None else self.label_features.shape[2]

    def __getitem__(self, key: Any) -> Examples:
        rows = self._rows(key)
        nodes, offsets = gather(self.offsets, rows)
        edges_of = chain_edge_offsets(self.offsets) if self.edge_offsets is None else self.edge_offsets
        edges, edge_offsets = gather(edges_of, rows)
        positions = dict.fromkeys(PER_NODE, nodes) | dict.fromkeys(PER_EDGE, edges) | {"sample_weight": rows}
        arrays = {name: getattr(self, name) for name in positions}
        return replace(
            self,
            X=self.X[nodes],
            offsets=offsets,
            edge_offsets=None if self.edge_offsets is None else edge_offsets,
            **{name: array[positions[name]] for name, array in arrays.items() if array is not None},
        )

    def _rows(self, key: Any) -> npt.NDArray[np.int64]:
        """Return the indices of the examples that a key selects."""
        if isinstance(key, tuple):  # scikit-learn uses examples[key, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError("Examples have one axis; index them by a number, a slice, an index array or a mask.")
            key = key[0]
        if isinstance(key, slice):
            return np.arange(len(self))[key]
        rows = np.asarray(key)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"The mask has shape {rows.shape} but there are {len(self)} examples.")
            return np.flatnonzero(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim > 1 or rows.dtype.kind not in "iu":
            raise IndexError(f"{key!r} is not an index; use a number, a slice, an array of numbers or a bool mask.")
        rows = np.atleast_1d(rows).astype(np.int64)
        outside = rows[(rows < -len(self)) | (rows >= len(self))]
        if len(outside):
            raise IndexError(f"Index {outside[0]} is out of range for {len(self)} examples.")
        return np.where(rows < 0, rows + len(self), rows)

    def split(self, values: Array) -> Array | list[Array]:
        """Split values of all nodes into one array per example.

        If X was one table, the values are returned unchanged.

        Parameters
        ----------
        values : ndarray of shape (n_nodes, ...)

        Returns
        -------
        list of ndarray, or ndarray

        Examples
        --------
        >>> import numpy as np
        >>> examples = as_examples([np.eye(2), np.eye(2)[:1]])
        >>> [part.tolist() for part in examples.split(np.array([5, 6, 7]))]
        [[5, 6], [7]]
        """
        if self.flat:
            return values
        return [values[start:end] for start, end in pairwise(self.offsets.tolist())]


def as_examples(
    X: Any,
    y: Any = None,
    *,
    feature_names: Sequence[str] | None = None,
    n_features: int | None = None,
    sample_weight: Any = None,
    estimator: str = "the model",
    needs_y: bool = False,
    whole: bool = False,
    **unknown: Any,
) -> Examples:
    """Convert user input to `Examples`.

    Parameters
    ----------
    X : Examples, sequence of examples, array or sparse matrix
        - `Examples`; ``y`` and ``sample_weight``, if passed, replace theirs;
        - a list of examples, each an array or sparse matrix of shape (n_nodes, n_features), a list of feature dicts
          (one per node), or a list of lists of feature names;
        - a list of pairs ``(node_features, edges)``, with edges of shape (n_edges, 2), for trees and graphs;
        - a 3-D array of shape (n_examples, n_nodes, n_features);
        - a 2-D array or sparse matrix with a 1-D y, in which each row is an example of one node.
    y : sequence of label sequences, optional
    feature_names : sequence of str, optional
        Feature names of the fitted model; other names are ignored.
    n_features : int, optional
        Number of features of the fitted model.
    sample_weight : array of shape (n_examples,), optional
    estimator : str
        Name for messages.
    needs_y : bool
        Whether to raise ``ValueError`` if there are no labels.
    whole : bool
        Whether y has one label per example, which applies to all its nodes.

    Returns
    -------
    Examples

    Examples
    --------
    >>> as_examples([[["the", "upper"], ["dog"]]], [["D", "N"]]).feature_names
    ('dog', 'the', 'upper')
    >>> as_examples([[1.0, 2.0], [0.0, 3.0]], ["a", "b"]).flat
    True
    """
    _refuse_unknown("as_examples", unknown)
    if isinstance(X, Examples):
        examples = _refit(X, feature_names, n_features, estimator)
        if y is not None:
            examples = replace(examples, y=read_labels(y, X.offsets, X.flat, whole=whole))
        if sample_weight is not None:
            examples = replace(examples, sample_weight=read_sample_weight(sample_weight, len(X)))
    else:
        examples = Examples.build(
            X, None if whole else y, sample_weight=sample_weight, feature_names=feature_names, n_features=n_features,
            estimator=estimator,
        )  # fmt: skip
        if whole and y is not None:
            examples = replace(examples, y=read_labels(y, examples.offsets, examples.flat, whole=True))
    if needs_y and examples.y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None; pass a label for each node.")
    return examples


def _refuse_unknown(function: str, unknown: dict[str, Any]) -> None:
    """Raise ``TypeError`` for an unknown argument, with the new name of a renamed one."""
    for name in unknown:
        hint = "; it was renamed to sample_weight" if name == "weights" else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}.")


def _refit(examples: Examples, names: Sequence[str] | None, n_features: int | None, estimator: str) -> Examples:
    """Return the examples with the feature columns of a fitted model."""
    if examples.feature_names is not None:
        if names is not None:
            if names is not examples.feature_names and tuple(names) != tuple(examples.feature_names):
                X = align_columns(examples.X, examples.feature_names, names)
                examples = replace(examples, X=X, feature_names=tuple(names))
        elif n_features is not None:
            raise ValueError(f"X has named features, but {estimator} was fitted on arrays without names; pass arrays.")
    if names is not None and n_features is None:
        n_features = len(names)
    if n_features is not None and examples.n_features != n_features:
        raise ValueError(
            f"X has {examples.n_features} features, but {estimator} is expecting {n_features} features as input."
        )
    return examples

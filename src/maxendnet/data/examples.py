"""Examples: ragged data as flat arrays and offsets. Every check of user input happens here, once."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """Examples as flat arrays: example i owns nodes ``offsets[i]:offsets[i + 1]``.

    Make them with `Examples.build` or `as_examples`, which check their input; the constructor does not. Indexing by
    a number, a slice, an index array or a bool mask gives `Examples`, so scikit-learn's splitters split examples.

    Attributes
    ----------
    X : csr_array of shape (n_nodes, n_features)
        float64; sorted indices, no duplicates, no explicit zeros.
    offsets : int64 ndarray of shape (n_examples + 1,)
    y : ndarray of shape (n_nodes,), or None
        The user's labels, of a numpy dtype where they had one or are all numbers of one type, otherwise objects.
    edges : int32 ndarray of shape (n_edges, 2), or None
        Node numbers within the example; the first node is the row of the transition matrix. None: the structure
        decides, and the edges of a chain, (t, t + 1), are implied.
    edge_offsets : int64 ndarray of shape (n_examples + 1,), or None
        None exactly when ``edges`` is.
    edge_types : int32 ndarray of shape (n_edges,), or None
    edge_features : ndarray of shape (n_edges, n_edge_features), or None
    node_types : int32 ndarray of shape (n_nodes,), or None
    allowed : bool ndarray of shape (n_nodes, len(labels)), or None
    label_features : ndarray of shape (n_nodes, len(labels), n_label_features), or None
    labels : tuple, or None
        The order of the label axis of ``allowed`` and ``label_features``.
    sample_weight : ndarray of shape (n_examples,), or None
    node_weight : ndarray of shape (n_nodes,), or None
        Factor of the costs of a node.
    feature_names : tuple of str, or None
    flat : bool
        X was one table: every example is one node, and predictions are one array.

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
        """Read and check examples; every optional thing is a list with one entry per example.

        Parameters
        ----------
        X : sequence of examples, array or sparse matrix
            As in `as_examples`.
        y : sequence of label sequences, optional
            Where a label is not known, `UNKNOWN` or a set of labels one of which is the true one.
        edges : list of arrays of shape (n_edges, 2), optional
            Node numbers within the example. Instead of pairs in X.
        edge_types : list of int arrays of shape (n_edges,), optional
            Numbered from 0. Without ``edges``, of the edges (t, t + 1) of a chain.
        edge_features : list of arrays of shape (n_edges, n_edge_features), optional
            Likewise.
        node_types : list of int arrays of shape (n_nodes,), optional
        allowed : list, optional
            Labels every node may have: a bool array of shape (n_nodes, n_labels), or a collection of labels for
            every node, None standing for all. A class that ``labels`` does not list is not allowed.
        label_features : list of arrays of shape (n_nodes, n_labels, n_label_features), optional
        sample_weight : array of shape (n_examples,), optional
        labels : list, optional
            The label axis of ``allowed`` and ``label_features``; needed with either.
        node_weight : list of arrays of shape (n_nodes,), optional
            Factors of the costs of nodes, for margin models; 0 where a wrong label costs nothing.
        feature_names, n_features, estimator : optional
            What a fitted model expects, and its name for messages.

        Returns
        -------
        Examples

        Notes
        -----
        For a 2-D X the entries of ``node_types``, ``allowed`` and ``label_features`` follow the rows:
        arrays of shape (n,), (n, n_labels) and (n, n_labels, n_label_features).

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
            raise ValueError("X comes as pairs (node_features, edges) and edges are given as well; give them once.")
        if flat and not (edges is None and edge_types is None and edge_features is None):
            raise ValueError(
                "X is one table: every example is one node and has no edges; give X as a list of examples."
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
            given = "allowed" if allowed is not None else "label_features"
            raise ValueError(f"{given} is given without labels; give labels=[...], the order of its label axis.")
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
        """Write examples to a folder, in one pass over an iterator, and open it.

        Only about a thousand examples are in memory at a time; of feature dicts also the distinct names.

        Parameters
        ----------
        folder : str or path-like
            New or empty. Until the last example is written it is no folder of examples; what a process that was killed
            has left is overwritten.
        items : iterable
            Of pairs (x, y), each as an entry of X and y in `Examples.build`; or of `Examples`, some at a time, which
            may have all that examples can have. They must be alike: all with edges, or none.
        n_hashed : int, optional
            Put named features into so many columns by a hash of their names, as ``DictFeatures(n_hashed=...)`` does:
            no names are kept. Otherwise columns are in the order in which names appear, a thousand examples at a time.

        Returns
        -------
        Examples
            See `Examples.open`.

        Raises
        ------
        FolderError
            The folder has something in it already, another writer is writing to it, or a label cannot be stored.

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
        """Add examples to a folder, behind those that are there; either all of them or, after a failure, none.

        Examples that were opened before stay as they are. A folder has one writer at a time: while one writes, another
        gets a `FolderError` at once. See `Examples.write`.
        """
        from maxendnet.data.folder import append

        return append(folder, items)

    @staticmethod
    def open(folder: Any, *, check: bool = True) -> Examples:
        """Examples of a folder that `Examples.write` has made, without loading them.

        Features, and all else that is large, stay in the files; they are mapped into memory, and the system reads what
        is used and drops it when memory is short. In memory are labels and a few numbers for every node (about 60 bytes
        in all during a fit). Every estimator and solver takes them, with the bits of the same examples in memory.

        Parameters
        ----------
        folder : str or path-like
        check : bool, default=True
            Read everything once and compare checksums. Sizes are always compared.

        Raises
        ------
        FolderError
            The folder is damaged, was never finished, or is of another version.
        """
        from maxendnet.data.folder import open_folder

        return open_folder(folder, check)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Examples(n_examples={len(self)}, n_nodes={self.n_nodes}, n_features={self.n_features})"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Refuse to become an array: examples have different numbers of nodes."""
        raise TypeError(
            f"{self!r} has examples of any length and is not an array; its X has the features of all nodes, "
            "examples.X.toarray(). To apply a transformer of scikit-learn such as StandardScaler() to the nodes, give "
            "OnNodes(StandardScaler())."
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(n_examples, n_features); with it, scikit-learn keeps the type when it splits."""
        return len(self), self.n_features

    @property
    def n_nodes(self) -> int:
        """Nodes of all examples together."""
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.X.shape[1])

    @property
    def mean_squared_norm(self) -> float:
        """Mean over nodes of the squared norm of their features, weighted by ``sample_weight``: R^2 in the docs.

        Unlabelled nodes count too.
        """
        return NormSum.of(self).mean

    @property
    def n_edge_types(self) -> int:
        """One more than the highest edge type; 1 when edges have no types."""
        return 1 if self.edge_types is None else int(self.edge_types.max(initial=0)) + 1

    @property
    def n_edge_features(self) -> int:
        """Columns of ``edge_features``, or 0."""
        return 0 if self.edge_features is None else self.edge_features.shape[1]

    @property
    def n_label_features(self) -> int:
        """Features of a pair of node and label, or 0."""
        return 0 if self.label_features is None else self.label_features.shape[2]

    def __getitem__(self, key: Any) -> Examples:
        rows = self._rows(key)
        nodes, offsets = gather(self.offsets, rows)
        edges_of = chain_edge_offsets(self.offsets) if self.edge_offsets is None else self.edge_offsets
        edges, edge_offsets = gather(edges_of, rows)
        return replace(
            self,
            X=self.X[nodes],
            offsets=offsets,
            y=_take(self.y, nodes),
            edges=_take(self.edges, edges),
            edge_offsets=None if self.edge_offsets is None else edge_offsets,
            edge_types=_take(self.edge_types, edges),
            edge_features=_take(self.edge_features, edges),
            node_types=_take(self.node_types, nodes),
            allowed=_take(self.allowed, nodes),
            label_features=_take(self.label_features, nodes),
            node_weight=_take(self.node_weight, nodes),
            sample_weight=_take(self.sample_weight, rows),
        )

    def _rows(self, key: Any) -> npt.NDArray[np.int64]:
        """The example numbers a key stands for."""
        if isinstance(key, tuple):  # scikit-learn asks for examples[key, ...]
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
            raise IndexError(f"{key!r} is no index; use a number, a slice, an array of numbers or a bool mask.")
        rows = np.atleast_1d(rows).astype(np.int64)
        outside = rows[(rows < -len(self)) | (rows >= len(self))]
        if len(outside):
            raise IndexError(f"Index {outside[0]} is out of range for {len(self)} examples.")
        return np.where(rows < 0, rows + len(self), rows)

    def split(self, values: Array) -> Array | list[Array]:
        """Values of all nodes as one array per example; as they are, when X was one table.

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
    """Examples from whatever a user has.

    Parameters
    ----------
    X : Examples, sequence of examples, array or sparse matrix
        - `Examples`: ``y`` and ``sample_weight`` replace its own;
        - a list with, per example, an array or sparse matrix of shape (n_nodes, n_features), a list of feature dicts
          (one per node), or a list of lists of feature names;
        - a list of pairs ``(node_features, edges)`` for trees and forests, edges of shape (n_edges, 2);
        - a 3-D array, an example per first index;
        - a 2-D array or sparse matrix with a 1-D y: every row an example of one node.
    y : sequence of label sequences, optional
    feature_names : sequence of str, optional
        Names the fitted model knows; other names are ignored.
    n_features : int, optional
        Number of features the fitted model expects.
    sample_weight : array of shape (n_examples,), optional
    estimator : str
        Name for messages.
    needs_y : bool
        Raise when there are no labels.
    whole : bool
        Whether y has one label for each example, which all its nodes get.

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
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None; give a label for every node.")
    return examples


def _refuse_unknown(function: str, unknown: dict[str, Any]) -> None:
    """Raise ``TypeError`` for an argument that a function does not have, with the new name of one that was renamed."""
    for name in unknown:
        now = "; the weight of an example is sample_weight=[...] now" if name == "weights" else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{now}.")


def _refit(examples: Examples, names: Sequence[str] | None, n_features: int | None, estimator: str) -> Examples:
    """The examples with the columns a fitted model expects."""
    if examples.feature_names is not None:
        if names is not None:
            if names is not examples.feature_names and tuple(names) != tuple(examples.feature_names):
                X = align_columns(examples.X, examples.feature_names, names)
                examples = replace(examples, X=X, feature_names=tuple(names))
        elif n_features is not None:
            raise ValueError(f"X has named features, but {estimator} was fitted on arrays without names; give arrays.")
    if names is not None and n_features is None:
        n_features = len(names)
    if n_features is not None and examples.n_features != n_features:
        raise ValueError(
            f"X has {examples.n_features} features, but {estimator} is expecting {n_features} features as input."
        )
    return examples


def _take(array: Any, rows: npt.NDArray[np.int64]) -> Any:
    return None if array is None else array[rows]

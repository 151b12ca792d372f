"""Layout of the flat weight vector: the sizes of its segments, and views of the segments."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.ragged import offsets_of
from maxendnet.structures.automata.ngrams import SeenNGrams
from maxendnet.structures.weights.cache import Cache

FloatArray = NDArray[np.float64]


class SeenPairs(NamedTuple):
    """Pairs of a feature and a label that have a weight, in compressed sparse row format."""

    offsets: NDArray[np.int64]
    """(n_features + 1,): feature f has the pairs ``offsets[f]:offsets[f + 1]``."""
    labels: NDArray[np.int32]
    """(n_pairs,): ascending within a row."""

    @classmethod
    def of(cls, features: NDArray[Any], labels: NDArray[Any], n_features: int, n_labels: int) -> SeenPairs:
        """Return the distinct pairs."""
        keys = features.astype(np.int64) * n_labels + labels
        if n_features * n_labels <= 8 * len(keys):  # flags need no more memory than keys, and are faster than sorting
            is_pair = np.zeros(n_features * n_labels, dtype=bool)
            is_pair[keys] = True
            keys = np.flatnonzero(is_pair)
        else:
            keys = np.unique(keys)
        rows, columns = np.divmod(keys, n_labels)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_features))])
        return cls(offsets.astype(np.int64), columns.astype(np.int32))

    @property
    def features(self) -> NDArray[np.int64]:
        """Feature of each pair, shape (n_pairs,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Segments(NamedTuple):
    """Segments of a weight vector as arrays."""

    node: FloatArray
    """(n_features, n_labels), or (n_pairs,) if only seen pairs have weights"""
    transitions: FloatArray
    """(n_edge_types, n_labels, n_labels)"""
    edge: FloatArray
    """(n_edge_features, n_labels, n_labels)"""
    siblings: FloatArray
    """(n_sibling_types, n_labels, n_labels, n_labels): labels of the parent, the left child and the right child."""
    ngrams: FloatArray
    """(n_ngrams,)"""
    label_features: FloatArray
    """(n_label_features,)"""


@dataclass(frozen=True, eq=False)
class Layout:
    """Sizes of the segments of a weight vector.

    The vector is flat: its segments are in the order of `Segments`, each row-major.

    Parameters
    ----------
    n_features : int
        Number of node features, including the columns that the options ``bias`` and ``ends`` add.
    n_labels : int
    n_edge_types : int, default=0
        Number of edge types; 0 if there are no edges.
    n_edge_features, n_label_features : int, default=0
    siblings : bool, default=False
        Whether neighbouring siblings have weights, given the label of their parent.
    rest : int, default=-1
        Number of the rest label of a `Choice`.
    seen : SeenPairs or None, default=None
        Pairs of a feature and a label that have a weight; None means all pairs.
    n_ngrams : int, default=0
        Number of label n-grams with weights, in addition to ``transitions``.
    ngrams : SeenNGrams or None, default=None
        N-grams that have a weight; None means all n-grams.
    type_allowed : bool ndarray of shape (n_node_types, n_labels) or None, default=None
        Labels that occur with each node type.

    Examples
    --------
    >>> layout = Layout(n_features=3, n_labels=2, n_edge_types=1)
    >>> layout.n_weights
    10
    >>> layout.segments(np.arange(10.0)).transitions
    array([[[6., 7.],
            [8., 9.]]])
    """

    n_features: int
    n_labels: int
    n_edge_types: int = 0
    n_edge_features: int = 0
    n_label_features: int = 0
    siblings: bool = False
    rest: int = -1
    seen: SeenPairs | None = field(default=None, repr=False)
    n_ngrams: int = 0
    ngrams: SeenNGrams | None = field(default=None, repr=False)
    type_allowed: NDArray[np.bool_] | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether both layouts describe the same weight vectors."""
        if not isinstance(other, Layout):
            return False
        pairs: list[tuple[Any, Any]] = [(self.seen, other.seen), (self.ngrams, other.ngrams)]
        for a, b in pairs:
            if (a is None) != (b is None):
                return False
            if a is not None and not all(map(np.array_equal, a, b)):
                return False
        return (self.n_features, self.n_labels, self.sizes, self.rest) == (
            other.n_features, other.n_labels, other.sizes, other.rest
        )  # fmt: skip

    def united(self, other: Layout) -> Layout:
        """Return the layout of the union of both sets of weights.

        Features and labels must be the same.

        Examples
        --------
        >>> first, second = (SeenPairs.of(np.array([0, 1]), np.array(labels), 2, 2) for labels in ([0, 0], [1, 0]))
        >>> both = Layout(2, 2, seen=first).united(Layout(2, 2, seen=second))
        >>> both.seen.features.tolist(), both.seen.labels.tolist()
        ([0, 0, 1], [0, 1, 0])
        """
        for name in ("n_features", "n_labels", "n_edge_features", "n_label_features", "siblings", "rest"):
            expected, value = getattr(self, name), getattr(other, name)
            if value != expected:
                raise ValueError(f"{name} of the weights is {value}, but was {expected}.")
        changes: dict[str, Any] = {"n_edge_types": max(self.n_edge_types, other.n_edge_types)}
        if self.seen is not None and other.seen is not None:
            features, labels = (
                np.concatenate([getattr(self.seen, name), getattr(other.seen, name)]) for name in ("features", "labels")
            )
            changes["seen"] = SeenPairs.of(features, labels, self.n_features, self.n_labels)
        if self.ngrams is not None and other.ngrams is not None:
            grams = sorted({*self.ngrams.tuples(), *other.ngrams.tuples()}, key=lambda gram: (len(gram), gram))
            cuts, symbols = offsets_of([len(gram) for gram in grams]), [symbol for gram in grams for symbol in gram]
            changes["ngrams"] = self.ngrams._replace(offsets=cuts, symbols=np.array(symbols, dtype=np.int32))
            changes["n_ngrams"] = len(grams)
        if self.type_allowed is not None and other.type_allowed is not None:
            n_types = max(len(self.type_allowed), len(other.type_allowed))
            allowed = np.zeros((n_types, self.n_labels), dtype=bool)
            for rows in (self.type_allowed, other.type_allowed):
                allowed[: len(rows)] |= rows
            changes["type_allowed"] = allowed
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        # drop the cache: padded weights are as large as the weights
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __hash__(self) -> int:
        return hash((self.n_features, self.n_labels, self.sizes, self.rest))

    @cached_property
    def n_matrices(self) -> int:
        """Number of transition matrices: one per edge type and one per edge feature."""
        return self.n_edge_types + self.n_edge_features

    @property
    def n_siblings(self) -> int:
        """Number of sibling weights."""
        return self.n_edge_types * self.n_labels**3 if self.siblings else 0

    @cached_property
    def n_node_weights(self) -> int:
        """Number of node weights: pairs of a feature and a label."""
        return self.n_features * self.n_labels if self.seen is None else len(self.seen.labels)

    @cached_property
    def cache(self) -> Cache:
        """Cache for the kernels. It is not compared, copied or saved."""
        return Cache()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of each segment."""
        pairs = self.n_labels**2
        return (
            self.n_node_weights, self.n_edge_types * pairs, self.n_edge_features * pairs, self.n_siblings,
            self.n_ngrams, self.n_label_features,
        )  # fmt: skip

    @cached_property
    def n_weights(self) -> int:
        return sum(self.sizes)

    @cached_property
    def _cuts(self) -> list[tuple[int, int]]:
        """Start and end of each segment in the weight vector."""
        return list(pairwise([0, *accumulate(self.sizes)]))

    def segments(self, w: FloatArray) -> Segments:
        """Views of the segments of ``w``."""
        L = self.n_labels
        node, transitions, edge, siblings, ngrams, label_features = [w[first:last] for first, last in self._cuts]
        return Segments(
            node.reshape(-1, L) if self.seen is None else node,
            transitions.reshape(-1, L, L),
            edge.reshape(-1, L, L),
            siblings.reshape(-1, L, L, L),
            ngrams,
            label_features,
        )

    def join(self, segments: Segments) -> FloatArray:
        """Concatenate segments to a flat vector. This is the inverse of `segments`."""
        return np.concatenate([np.ravel(segment) for segment in segments])

    # ---- node weights, of all pairs or of seen pairs ---------------------------------------------------------------

    def node_rows(self, w: FloatArray, first: int = 0, last: int | None = None) -> Any:
        """Weights of features [first, last), shape (n, n_labels); sparse for seen pairs."""
        node, last = self.segments(w).node, self.n_features if last is None else last
        if self.seen is None:
            return node[first:last]
        offsets, labels = self.seen
        cut = slice(int(offsets[first]), int(offsets[last]))
        shape = (last - first, self.n_labels)
        return sparse.csr_array((node[cut], labels[cut], offsets[first : last + 1] - offsets[first]), shape=shape)

    def node_segment(self, matrix: Any) -> FloatArray:
        """Convert a matrix of shape (n_features, n_labels) to the segment of node weights."""
        return np.asarray(matrix) if self.seen is None else np.asarray(matrix)[self.seen.features, self.seen.labels]

    def node_places(self, features: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
        """Indices of pairs in a weight vector, -1 for pairs that have no weight."""
        keys: NDArray[np.int64] = features.astype(np.int64) * self.n_labels + labels
        if self.seen is None:
            return keys
        seen_keys = self.seen.features * self.n_labels + self.seen.labels
        places = np.searchsorted(seen_keys, keys)
        is_seen = places < len(seen_keys)
        is_seen[is_seen] = seen_keys[places[is_seen]] == keys[is_seen]
        return np.where(is_seen, places, -1)

"""Layout of the flat weight vector: sizes of its segments, and views of them."""

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
    """Pairs of a feature and a label that have a weight, as rows of a sparse matrix."""

    offsets: NDArray[np.int64]
    """(n_features + 1,): feature f has the pairs from ``offsets[f]`` to before ``offsets[f + 1]``."""
    labels: NDArray[np.int32]
    """(n_pairs,): ascending within a row."""

    @classmethod
    def of(cls, features: NDArray, labels: NDArray, n_features: int, n_labels: int) -> SeenPairs:
        """The distinct pairs among these, which may repeat."""
        keys = features.astype(np.int64) * n_labels + labels
        if n_features * n_labels <= 8 * len(
            keys
        ):  # a table of flags is no larger than the keys, and faster than sorting
            seen = np.zeros(n_features * n_labels, dtype=bool)
            seen[keys] = True
            keys = np.flatnonzero(seen)
        else:
            keys = np.unique(keys)
        rows, columns = np.divmod(keys, n_labels)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_features))])
        return cls(offsets.astype(np.int64), columns.astype(np.int32))

    @property
    def features(self) -> NDArray[np.int64]:
        """(n_pairs,): the feature of each pair."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


class Segments(NamedTuple):
    """The segments of a weight vector, each in its own shape."""

    node: FloatArray
    """(n_features, n_labels), or (n_pairs,) where only pairs that were seen have weights"""
    transitions: FloatArray
    """(n_edge_types, n_labels, n_labels)"""
    edge: FloatArray
    """(n_edge_features, n_labels, n_labels)"""
    siblings: FloatArray
    """(n_sibling_types, n_labels, n_labels, n_labels): label of the parent, of the left child, of the right child."""
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
        Features of a node, with the columns that the options ``bias`` and ``ends`` add.
    n_labels : int
    n_edge_types : int, default=0
        0 for nodes that are not joined: no transitions.
    n_edge_features, n_label_features : int, default=0
    siblings : bool, default=False
        Whether there are weights for neighbouring children given their parent.
    rest : int, default=-1
        Of a choice: the label of all nodes but the chosen one, as a number.
    seen : SeenPairs or None, default=None
        The pairs of a feature and a label that have a weight; None is all.
    n_ngrams : int, default=0
        Weights for n-grams of labels beside those of pairs (chains of higher order).
    ngrams : SeenNGrams or None, default=None
        The n-grams that have a weight, where not all have one.
    type_allowed : bool ndarray of shape (n_node_types, n_labels) or None, default=None
        Which labels occur with which type of node, where nodes have types.

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
        """Whether a weight vector of one is a weight vector of the other."""
        if not isinstance(other, Layout):
            return False
        for mine, its in ((self.seen, other.seen), (self.ngrams, other.ngrams)):
            if (mine is None) != (its is None):
                return False
            if mine is not None and its is not None:
                arrays: list[tuple[Any, Any]] = list(zip(mine, its))
                if not all(np.array_equal(one, other) for one, other in arrays):
                    return False
        return (self.n_features, self.n_labels, self.sizes, self.rest) == (
            other.n_features, other.n_labels, other.sizes, other.rest
        )  # fmt: skip

    def united(self, other: Layout) -> Layout:
        """The layout with the weights of both, of examples that have the same features and labels.

        Examples
        --------
        >>> one, two = (SeenPairs.of(np.array([0, 1]), np.array(some), 2, 2) for some in ([0, 0], [1, 0]))
        >>> both = Layout(2, 2, seen=one).united(Layout(2, 2, seen=two))
        >>> both.seen.features.tolist(), both.seen.labels.tolist()
        ([0, 0, 1], [0, 1, 0])
        """
        for name in ("n_features", "n_labels", "n_edge_features", "n_label_features", "siblings", "rest"):
            mine, its = getattr(self, name), getattr(other, name)
            if mine != its:
                raise ValueError(f"{name} of the weights is {its}, and was {mine}.")
        changes: dict[str, Any] = {"n_edge_types": max(self.n_edge_types, other.n_edge_types)}
        if self.seen is not None and other.seen is not None:
            features, labels = (
                np.concatenate([getattr(one, name) for one in (self.seen, other.seen)])
                for name in ("features", "labels")
            )
            changes["seen"] = SeenPairs.of(features, labels, self.n_features, self.n_labels)
        if self.ngrams is not None and other.ngrams is not None:
            found = sorted({*self.ngrams.tuples(), *other.ngrams.tuples()}, key=lambda gram: (len(gram), gram))
            cuts, symbols = offsets_of([len(gram) for gram in found]), [symbol for gram in found for symbol in gram]
            changes["ngrams"] = self.ngrams._replace(offsets=cuts, symbols=np.array(symbols, dtype=np.int32))
            changes["n_ngrams"] = len(found)
        if self.type_allowed is not None and other.type_allowed is not None:
            n_types = max(len(self.type_allowed), len(other.type_allowed))
            allowed = np.zeros((n_types, self.n_labels), dtype=bool)
            for one in (self.type_allowed, other.type_allowed):
                allowed[: len(one)] |= one
            changes["type_allowed"] = allowed
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        # without what was computed: weights as kernels read them are as large as the weights
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __hash__(self) -> int:
        return hash((self.n_features, self.n_labels, self.sizes, self.rest))

    @cached_property
    def n_matrices(self) -> int:
        """Matrices of weights for pairs of labels: one for each edge type and one for each edge feature."""
        return self.n_edge_types + self.n_edge_features

    @property
    def n_siblings(self) -> int:
        """Number of weights of neighbouring children."""
        return self.n_edge_types * self.n_labels**3 if self.siblings else 0

    @cached_property
    def n_node_weights(self) -> int:
        """Number of weights of pairs of a feature and a label."""
        return self.n_features * self.n_labels if self.seen is None else len(self.seen.labels)

    @cached_property
    def cache(self) -> Cache:
        """Cache of what kernels need of these sizes and of weights; it is neither compared nor copied nor saved."""
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
        """Where each segment begins and ends."""
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
        """Concatenate segments to a flat vector; the inverse of `segments`."""
        return np.concatenate([np.ravel(segment) for segment in segments])

    # ---- weights of nodes, whichever pairs have them ---------------------------------------------------------------

    def node_rows(self, w: FloatArray, first: int = 0, last: int | None = None) -> Any:
        """Weights of the features [first, last): an array (n, n_labels), sparse where only seen pairs have weights."""
        node, last = self.segments(w).node, self.n_features if last is None else last
        if self.seen is None:
            return node[first:last]
        offsets, labels = self.seen
        cut = slice(int(offsets[first]), int(offsets[last]))
        shape = (last - first, self.n_labels)
        return sparse.csr_array((node[cut], labels[cut], offsets[first : last + 1] - offsets[first]), shape=shape)

    def node_segment(self, matrix: Any) -> FloatArray:
        """Segment of node weights from a matrix of shape (n_features, n_labels)."""
        return np.asarray(matrix) if self.seen is None else np.asarray(matrix)[self.seen.features, self.seen.labels]

    def node_places(self, features: NDArray, labels: NDArray) -> NDArray[np.int64]:
        """Places of pairs in a weight vector, -1 for pairs that have no weight."""
        keys = features.astype(np.int64) * self.n_labels + labels
        if self.seen is None:
            return keys
        known = self.seen.features * self.n_labels + self.seen.labels
        places = np.searchsorted(known, keys)
        hit = places < len(known)
        hit[hit] = known[places[hit]] == keys[hit]
        return np.where(hit, places, -1)

"""What a fitted model knows of its weights and labels: sizes of the parts of the weight vector, and views of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Parts(NamedTuple):
    """The parts of a weight vector, each in its own shape."""

    node: FloatArray
    """(n_features, n_labels)"""
    transitions: FloatArray
    """(n_edge_types, n_labels, n_labels)"""
    edge: FloatArray
    """(n_edge_features, n_labels, n_labels)"""
    siblings: FloatArray
    """(n_sibling_types, n_labels, n_labels, n_labels): label of the parent, of the left child, of the right child."""
    tied: FloatArray
    """(n_tied,)"""


@dataclass(frozen=True)
class Layout:
    """Sizes of the parts of a weight vector. The vector is flat, its parts in the order of `Parts`, each row-major.

    Parameters
    ----------
    n_features : int
        Features of a node, with the columns that the options ``bias`` and ``ends`` add.
    n_labels : int
    n_edge_types : int, default=0
        0 for nodes that are not joined: no transitions.
    n_edge_features, n_tied : int, default=0
    siblings : bool, default=False
        Whether there are weights for neighbouring children given their parent.
    rest : int, default=-1
        Of a choice: the label of all nodes but the chosen one, as a number.
    type_allowed : bool ndarray of shape (n_node_types, n_labels) or None, default=None
        Which labels occur with which type of node, where nodes have types.

    Examples
    --------
    >>> layout = Layout(n_features=3, n_labels=2, n_edge_types=1)
    >>> layout.n_weights
    10
    >>> layout.parts(np.arange(10.0)).transitions
    array([[[6., 7.],
            [8., 9.]]])
    """

    n_features: int
    n_labels: int
    n_edge_types: int = 0
    n_edge_features: int = 0
    n_tied: int = 0
    siblings: bool = False
    rest: int = -1
    type_allowed: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)

    @property
    def n_matrices(self) -> int:
        """Matrices of weights for pairs of labels: one for each edge type and one for each edge feature."""
        return self.n_edge_types + self.n_edge_features

    @property
    def n_siblings(self) -> int:
        """Number of weights of neighbouring children."""
        return self.n_edge_types * self.n_labels**3 if self.siblings else 0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of each part."""
        L = self.n_labels
        pairs = L * L
        return (
            self.n_features * L,
            self.n_edge_types * pairs,
            self.n_edge_features * pairs,
            self.n_siblings,
            self.n_tied,
        )

    @property
    def n_weights(self) -> int:
        return sum(self.sizes)

    def parts(self, w: FloatArray) -> Parts:
        """Views of the parts of ``w``."""
        L = self.n_labels
        node, transitions, edge, siblings, tied = np.split(w, np.cumsum(self.sizes[:-1]))
        return Parts(
            node.reshape(-1, L),
            transitions.reshape(-1, L, L),
            edge.reshape(-1, L, L),
            siblings.reshape(-1, L, L, L),
            tied,
        )

    def join(self, parts: Parts) -> FloatArray:
        """The flat vector of some parts; undoes `parts`."""
        return np.concatenate([np.ravel(part) for part in parts])

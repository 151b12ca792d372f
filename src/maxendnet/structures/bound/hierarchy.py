"""Bound hierarchies: forests with sibling weights or forbidden pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.threads import Threads
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.kernel_structure import RecursiveStructure
from maxendnet.structures.weights.layout import FloatArray

WIDEST = 600.0
"""Largest range of sibling weights for products of exponentials; float64 underflows at exp(-708)."""


@dataclass(frozen=True, eq=False)
class BoundHierarchy(RecursiveStructure):
    """Forest with weights of neighbouring siblings or with forbidden pairs.

    Neighbouring children ``s, t`` of a node p add ``siblings[type, y_p, y_s, y_t]`` to the score, where the type is
    that of the edge from p to t. Children are ordered by node number. A labelling is invalid if a parent and its child
    have a forbidden pair of labels.

    Inference is exact: given the label of a parent, its children form a chain. The work is the sum over nodes of the
    product of the numbers of allowed labels of parent, node and left sibling, in double precision. Of the
    solvers with kernels, only `BlockFrankWolfe` and `ProximalPoint` support it; the others need ``pairwise``.

    Parameters
    ----------
    layout : Layout
    batch : Batch
    forbidden : tuple of (int, int), default=()
        Pairs (label of the parent, label of the child).

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Tree
    >>> family = Examples.build([[[0.0]] * 3], [["a", "b", "b"]], edges=[[(0, 1), (0, 2)]])
    >>> hierarchy = Tree(siblings=True).bind(family, np.array(["a", "b"]))
    >>> hierarchy.layout.segments(np.arange(14.0)).siblings.shape
    (1, 2, 2, 2)
    """

    forbidden: tuple[tuple[int, int], ...] = ()
    described = "a forest with siblings or forbidden pairs"
    capabilities = Capabilities(
        blocks=True, linear_nodes=True, unknown_labels=True, max_marginals=True, top=True, sample=True
    )

    @cached_property
    def forbidden_matrix(self) -> NDArray[np.uint8]:
        """1 for forbidden pairs; rows are labels of the parent."""
        matrix = np.zeros((self.n_labels, self.n_labels), dtype=np.uint8)
        if self.forbidden:
            matrix[tuple(np.array(self.forbidden).T)] = 1
        return matrix

    # ---- weights for the kernels: not padded, in double precision ------------------------------------------------

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> FloatArray:
        return np.array(w, dtype=np.float64)

    def pad(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        return np.array(w, dtype=dtype)

    def unpad(self, slope: FloatArray) -> FloatArray:
        return slope.copy()

    @property
    def slope_size(self) -> int:
        return self.layout.n_weights

    def pad_rows(self, rows: FloatArray, dtype: type = np.float64) -> FloatArray:
        return np.ascontiguousarray(rows)

    def single_is_enough(self, w: FloatArray) -> bool:
        return False

    def recursion_of(
        self, weights: FloatArray | None, table: FloatArray | None = None, shift: FloatArray | None = None
    ) -> _kernels.Hierarchy:
        forbidden = self.forbidden_matrix if self.forbidden else None
        return _kernels.hierarchy(self.shape, self.layout.siblings, weights, table, shift, forbidden)

    def recursion(self, w: FloatArray, dtype: type = np.float64, sums: bool = False) -> _kernels.Hierarchy:
        """Recursion over labellings; sums need exponentials of sibling weights."""
        table = shift = None
        if self.layout.siblings and sums:
            siblings = self.layout.segments(w).siblings
            if np.all(siblings.max(axis=(2, 3)) - siblings.min(axis=(2, 3)) <= WIDEST):
                shift = siblings.max(axis=(2, 3))
                table = np.exp(siblings - shift[:, :, None, None])
        return self.recursion_of(self.for_search(w), table, shift)

    def clique_tables(self) -> tuple[FloatArray | None, ...]:
        n_nodes, L = len(self.batch.parent), self.n_labels
        return np.zeros((n_nodes, L, L)), np.zeros((n_nodes, L, L, L)) if self.layout.siblings else None

    def impossible(self, backend: Threads | None = None) -> NDArray[np.int64]:
        """First node of each example without a possible label given its subtree, or -1."""
        nodes = np.full(len(self.sample_weight), -1)
        if self.forbidden:
            recursion = self.without_weights
            self.for_each_range(backend, lambda a, b: _kernels.impossible(self.batch, recursion, a, b, nodes))
        return nodes

    # ---- ranges of examples --------------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Approximate number of multiplications per node; an exponential counts as ten."""
        n_nodes = max(1, len(self.batch.parent))
        allowed = self.batch.allowed
        labels = allowed.sum() / n_nodes if allowed.size else float(self.n_labels)
        chain = labels**2 * (3 * labels + 10) if self.layout.siblings else 20 * labels**2
        # factor 6 because these kernels are not vectorised
        return 6 * (labels * len(self.batch.indices) / n_nodes + chain)

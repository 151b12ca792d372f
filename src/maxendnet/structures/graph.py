"""Graphs: pairwise models with cycles. Inference uses exact elimination or a relaxation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.forest_order import check_edges, count_cycles
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.graph import BoundGraph
from maxendnet.structures.bound.graph_edges import Edges
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.linear import LinearStructure

INFERENCE = ("auto", "exact", "relaxed")


@dataclass(eq=False, repr=False)
class Graph(LinearStructure):
    """Graphs with arbitrary edges, cycles included.

    The score of a labelling is the sum over nodes of ``x_t . coef[:, y_t]`` and over edges (s, t) of
    ``transitions[y_s, y_t]``, with one matrix per edge type.

    Inference is *exact*, by variable elimination, for examples whose tables have at most ``max_table`` entries: trees,
    ladders, small grids, or a dozen fully connected binary nodes. Other examples are *relaxed* to the local polytope.
    Their maximum is then the value of a linear programme, which bounds the score of every labelling from above. The
    objective stays convex and is an upper bound of the exact objective; `gap_` refers to the upper bound. Likelihood
    models use the tree-reweighted upper bound of the log-partition. If no example has a cycle, the model is the same
    as with `Tree`.

    Parameters
    ----------
    inference : {"auto", "exact", "relaxed"}, default="auto"
        "auto" uses elimination if the tables are small enough, else the relaxation. "exact" raises an error for
        examples with larger tables. "relaxed" uses elimination only for examples without a cycle.
    max_table : float, default=1e6
        Maximum number of entries of an elimination table. Only allowed labels are counted.
    bias : bool, default=False
        Add a weight for every label.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or those that occur in the training examples.

    Examples
    --------
    >>> from maxendnet import M3N, Graph
    >>> X, y = [([[0.0], [1.0], [1.0]], [(0, 1), (1, 2), (2, 0)])], [["a", "b", "b"]]
    >>> M3N(C=10, structure=Graph()).fit(X, y).predict(X)
    [['a', 'b', 'b']]
    """

    inference: str = "auto"
    max_table: float = 1e6
    bias: bool = False
    pairs: str = "all"
    joined = "graph"

    def check(self) -> None:
        super().check()
        if not (isinstance(self.inference, str) and self.inference in INFERENCE):
            raise ValueError(f"Graph needs inference to be 'auto', 'exact' or 'relaxed', got {self.inference!r}.")
        is_number = isinstance(self.max_table, (int, float, np.number)) and not isinstance(self.max_table, bool)
        if not (is_number and self.max_table >= 1):
            raise ValueError(f"Graph needs max_table to be a number of at least 1, got {self.max_table!r}.")

    def bind(self, examples: Examples, classes: NDArray[Any], layout: Layout | None = None) -> BoundForest | BoundGraph:
        """Return a `BoundForest` of these examples if none has a cycle, else a `BoundGraph`."""
        if examples.edges is None and np.diff(examples.offsets).max(initial=0) > 1:
            raise ValueError(
                "Graph() needs the edges of every example, but X has none; pass items (node_features, edges) or "
                "Examples.build(..., edges=...), or choose structure=Chain()."
            )
        layout = self.layout(examples, classes) if layout is None else layout
        edges = Edges.of(examples)
        check_edges(edges.pairs, edges.offsets, examples.offsets)
        if not count_cycles(edges.pairs, edges.offsets, examples.offsets).any():
            return BoundForest(layout, self.batch_of(examples, classes, layout, "tree"))
        batch = self.batch_of(examples, classes, layout)
        return BoundGraph.of(layout, batch, edges, self.inference, float(self.max_table))

"""Bound graphs: inference by exact elimination, or by bounds over the local polytope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import _kernels
from maxendnet.backends.threads import Range, Threads, each
from maxendnet.data.batch import Batch
from maxendnet.data.forest_order import count_cycles
from maxendnet.data.ragged import owners
from maxendnet.data.sparse_matrices import is_sparse
from maxendnet.structures.base import (
    GRADIENT,
    EdgeTable,
    Excess,
    ExcessOptions,
    IntArray,
    Marginals,
    Table,
    sums,
    table_values,
)
from maxendnet.structures.bound import features as of_cliques
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.curvature import uniform_curvature
from maxendnet.structures.bound.graph_edges import Edges, labelling_rows, matrices_of, sums_by_matrix
from maxendnet.structures.search.branch_and_bound import branch_and_bound
from maxendnet.structures.search.k_best import k_best
from maxendnet.structures.weights.layout import FloatArray, Layout
from maxendnet.utils.memory import check_memory

SOFT_TOL, HARD_TOL = 1e-5, 1e-5
"""Maximum gap between bound and attained value per node, in units of the temperature and of the mean score range."""
MAX_SWEEPS, MAX_SWEEPS_OF_A_LOSS = 300, 100
"""Sweeps over the nodes of an example per call, for predictions and losses; losses resume from the last messages."""
MAX_VARIABLES = 20_000
"""Size of the largest integer programme that is solved for a proof."""


class EdgeMarginals(NamedTuple):
    """Fractional labelling: marginals of nodes and edges."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    edge: FloatArray | None = None
    """(n_edges, n_labels, n_labels); rows are labels of the first node. None if not requested."""


class GraphScores(NamedTuple):
    """Node and edge scores, as the kernels read them."""

    offsets: NDArray[np.int64]
    edge_offsets: NDArray[np.int64]
    edges: IntArray
    matrix: IntArray
    node_scores: FloatArray
    matrices: FloatArray
    order: IntArray
    exact: NDArray[np.uint8]

    def of_labels(self, labels: IntArray) -> FloatArray:
        """Return the score of every example, for a labelling."""
        nodes = self.node_scores[np.arange(len(labels)), labels]
        first, second = labels[self.edges + self.offsets[owners(self.edge_offsets)][:, None]].T
        return sums(nodes, self.offsets) + sums(self.matrices[self.matrix, first, second], self.edge_offsets)


class Proof(NamedTuple):
    """Labellings with their scores and upper bounds of the best score, as arrays over examples."""

    labels: IntArray
    """(n_nodes,)"""
    score: FloatArray
    bound: FloatArray
    """Upper bound of the score of every labelling."""
    scale: FloatArray
    """Sum of the score ranges of nodes and edges; score differences are relative to it."""

    @property
    def proven(self) -> NDArray[np.bool_]:
        """Whether the labelling is optimal, up to rounding."""
        return self.bound - self.score <= 1e-9 * self.scale


class Messages:
    """Messages and temperatures that are reused in the next call."""

    values: NDArray[np.float64]
    temperature: NDArray[np.float64]

    def __init__(self, n_edges: int, n_examples: int, n_labels: int) -> None:
        self.values = np.zeros((n_edges, 2, _kernels.message_lanes(n_labels)))
        self.temperature = np.zeros(n_examples)
        self.previous: FloatArray | None = None

    def prepare(self, w: FloatArray, table: Table | None) -> None:
        """Rescale the messages for new scores; reset them if the scores differ too much."""
        current = w if table is None else np.concatenate([w, table.rows.ravel()])
        previous, self.previous = self.previous, current.copy()
        if previous is None or previous.shape != current.shape:
            return
        product, square = float(current @ previous), float(previous @ previous)
        if not product > 0.5 * np.sqrt(square * float(current @ current)):
            self.values[:] = 0.0
            self.temperature[:] = 0.0
            return
        factor = product / square
        self.values *= factor
        self.temperature *= factor


@dataclass(frozen=True, eq=False)
class BoundGraph(BatchStructure):
    """Graph structure bound to examples, with linear scores.

    The score of a labelling is the sum over nodes of ``x_t . node[:, y_t]`` and over edges (s, t) of
    ``transitions[type, y_s, y_t] + edge_features . edge[:, y_s, y_t]``.

    The maximum and the log-partition are exact for examples whose elimination tables have at most ``max_table``
    entries. For other examples they are upper bounds over the local polytope. Messages are reused between calls.

    Parameters
    ----------
    layout : Layout
    batch : Batch
        Without edges.
    edges : Edges
    inference : {"auto", "exact", "relaxed"}
    max_table : float
    order : int32 ndarray of shape (n_nodes,)
        Elimination order, with nodes numbered within the example.
    exact : uint8 ndarray of shape (n_examples,)
        Whether elimination is used.

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Graph
    >>> triangle = Examples.build([[[1.0]] * 3], [["a", "b", "a"]], edges=[[(0, 1), (1, 2), (2, 0)]])
    >>> graph = Graph().bind(triangle, np.array(["a", "b"]))
    >>> graph.maximum(np.array([0.0, 0.1, 0.0, 1.0, 1.0, 0.0]))[0].round(6)
    array([2.2])
    """

    edges: Edges
    inference: str
    max_table: float
    order: IntArray
    exact: NDArray[np.uint8]
    described = "a graph"

    @cached_property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        return Capabilities(
            linear_nodes=True, relaxed=not self.exact.all(), edge_costs=True, unknown_labels=True, proofs=True,
            max_marginals=True, top=True, sample=True,
        )  # fmt: skip

    @property
    def inference_note(self) -> str:  # type: ignore[override]
        """Note that states how many examples are exact and how many are relaxed."""
        n, n_exact = len(self.exact), int(self.exact.sum())
        if n_exact in (0, n):
            return f"all {n} graphs are {'exact' if n_exact else 'relaxed'}"
        return f"{n_exact} of {n} graphs are exact, the others relaxed"

    @classmethod
    def of(cls, layout: Layout, batch: Batch, edges: Edges, inference: str, max_table: float) -> BoundGraph:
        """Compute an elimination order for every example, and return the bound graph."""
        n_nodes, n_examples = len(batch.parent), len(batch.sample_weight)
        sizes = np.full(n_nodes, layout.n_labels, dtype=np.int32)
        if batch.allowed.size:
            sizes = batch.allowed.sum(axis=1, dtype=np.int32)
        order, largest = np.zeros(n_nodes, dtype=np.int32), np.zeros(n_examples)
        _kernels.graph_orders(
            batch.offsets, edges.offsets, edges.pairs, sizes, max(float(max_table), float(layout.n_labels) ** 2), order,
            largest,
        )  # fmt: skip
        exact = np.isfinite(largest)
        if inference == "relaxed":
            exact &= count_cycles(edges.pairs, edges.offsets, batch.offsets) == 0
        elif inference == "exact" and not exact.all():
            i = int(np.flatnonzero(~exact)[0])
            n = int(np.diff(batch.offsets)[i])
            raise ValueError(
                f"X[{i}], a graph of {n} nodes and {np.diff(edges.offsets)[i]} edges, cannot be eliminated with tables "
                f"of at most max_table={max_table:g} numbers, but inference is 'exact'; choose "
                "Graph(inference='auto') to use bounds for such examples, or raise max_table."
            )
        largest_table = float(largest[exact].max(initial=0.0))
        check_memory(8 * largest_table, f"elimination with max_table={max_table:g}", "lower max_table of Graph")
        return cls(layout, batch, edges, inference, max_table, order, exact.astype(np.uint8))

    def take(self, first: int, last: int) -> BoundGraph:
        """Return examples [first, last) as a bound structure."""
        nodes = slice(int(self.offsets[first]), int(self.offsets[last]))
        return replace(
            self, batch=self.batch.take(first, last), edges=self.edges.take(first, last), order=self.order[nodes],
            exact=self.exact[first:last],
        )  # fmt: skip

    @cached_property
    def within_truth(self) -> BoundGraph:
        """The same examples, with only possible true labels allowed."""
        inference = "auto" if self.inference == "exact" else self.inference
        return BoundGraph.of(self.layout, self.batch.within(self.label_sets), self.edges, inference, self.max_table)

    # ---- ranges of examples, each with its messages -------------------------------------------------------------

    def range_of(self, first: int, last: int) -> BoundGraph:
        """Return examples [first, last) as a cached object, so that messages persist between calls."""
        if (first, last) not in self._ranges:
            self._ranges[first, last] = self.take(first, last)
        return self._ranges[first, last]

    @cached_property
    def _ranges(self) -> dict[Range, BoundGraph]:
        return {}

    @cached_property
    def messages(self) -> Messages:
        return Messages(len(self.edges.kind), len(self.sample_weight), self.n_labels)

    def in_ranges(self, backend: Threads | None, function: Callable[[int, int, BoundGraph], None]) -> None:
        """Call ``function(first, last, graph)`` for ranges of all examples."""
        self.for_each_range(backend, lambda a, b: function(a, b, self.range_of(a, b)))

    @cached_property
    def node_layout(self) -> Layout:
        """Layout of the node weights alone."""
        return replace(self.layout, n_edge_types=0, n_edge_features=0)

    def of_nodes(self, w: FloatArray) -> FloatArray:
        """Return the node weights of ``w``, in the order of `node_layout`."""
        L, n = self.n_labels, self.layout.n_node_weights
        return np.concatenate([w[:n], w[n + self.layout.n_matrices * L * L :]])

    @cached_property
    def _X(self) -> sparse.csr_array:
        shape = (len(self.batch.parent), self.layout.n_features)
        return sparse.csr_array((self.batch.data, self.batch.indices, self.batch.indptr), shape=shape)

    @property
    def edge_offsets(self) -> NDArray[np.int64]:
        """Example i has the edges ``edge_offsets[i]:edge_offsets[i + 1]``."""
        return self.edges.offsets

    def edge_labels(self, labels: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
        """Return a mask (all True), and the labels of the first and of the second node of every edge."""
        first, second = labels[self.edges.nodes(self.offsets)].T
        return np.ones(len(first), dtype=bool), first, second

    def scores(self, w: FloatArray, table: Table | None = None) -> GraphScores:
        """Return the scores of all nodes and edges."""
        node = self._X @ self.layout.node_rows(w)
        node = node.toarray() if is_sparse(node) else np.ascontiguousarray(node)
        if self.layout.n_label_features:
            node += self.batch.label_features @ self.layout.segments(w).label_features
        if table is not None:
            node += table.at_nodes()
        if self.batch.allowed.size:
            node[self.batch.allowed == 0] = -np.inf
        matrices, matrix = matrices_of(self.layout, self.edges, w)
        if table is not None and isinstance(table.joint, EdgeTable):
            pairs, number = np.unique(np.stack([matrix, table.joint.row]), axis=1, return_inverse=True)
            matrices, matrix = matrices[pairs[0]] + table.joint.rows[pairs[1]], number.ravel().astype(np.int32)
        return GraphScores(
            self.offsets, self.edges.offsets, self.edges.pairs, matrix, node, matrices, self.order, self.exact
        )

    def table_of(self, table: Table | None, first: int, last: int) -> Table | None:
        """Return the rows of a table for examples [first, last)."""
        if table is None:
            return None
        joint = table.joint
        if isinstance(joint, EdgeTable):
            joint = joint._replace(row=joint.row[self.edge_offsets[first] : self.edge_offsets[last]])
        return table._replace(row=table.row[self.offsets[first] : self.offsets[last]], joint=joint)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the best score of every example, and its labelling.

        The labelling of a relaxed example may not be optimal.
        """
        proof = self.prove(w, table, backend)
        return proof.score, proof.labels

    def prove(self, w: FloatArray, table: Table | None = None, backend: Threads | None = None) -> Proof:
        """Return labellings, their scores, and upper bounds on the score of any labelling."""
        n_examples, n_nodes = len(self.sample_weight), int(self.offsets[-1])
        proof = Proof(np.zeros(n_nodes, dtype=np.int32), *np.zeros((3, n_examples)))

        def work(a: int, b: int, graph: BoundGraph) -> None:
            scores, nodes = graph.scores(w, self.table_of(table, a, b)), slice(*self.offsets[[a, b]])
            best = graph.hard(scores, w, table, tol=1e-9, tables=False)
            proof.labels[nodes], proof.score[a:b], proof.bound[a:b] = best.labels, best.score, best.upper
            proof.scale[a:b] = score_ranges(scores)

        self.in_ranges(backend, work)
        return proof

    def search(self, w: FloatArray, proof: Proof, max_variables: int = MAX_VARIABLES) -> Proof:
        """Improve a proof by branch and bound, for small examples whose labelling is not yet proven optimal."""
        size = np.diff(self.offsets) * self.n_labels + np.diff(self.edges.offsets) * self.n_labels**2
        for i in np.flatnonzero(~proof.proven & (size <= max_variables)).tolist():
            scores = self.take(i, i + 1).scores(w)
            best = branch_and_bound(scores.node_scores, scores.edges, scores.matrices[scores.matrix])
            if best is None:
                continue
            if best.score > proof.score[i]:
                proof.labels[self.offsets[i] : self.offsets[i + 1]], proof.score[i] = best.labels, best.score
            proof.bound[i] = min(proof.bound[i], max(best.bound, proof.score[i]))
        return proof

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Return the best score with label a at node t, shape (n_nodes, n_labels)."""
        self._need_exact("Max-marginals")
        out = np.full((int(self.offsets[-1]), self.n_labels), -np.inf)

        def work(a: int, b: int, graph: BoundGraph) -> None:
            _kernels.graph_max_marginals(graph.scores(w), out[self.offsets[a] : self.offsets[b]])

        self.in_ranges(backend, work)
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, EdgeMarginals]:
        """Return the log-partition of every example, and the marginals.

        For relaxed examples, return an upper bound and its gradient.
        """
        L, n_edges = self.n_labels, len(self.edges.kind)
        values, node = np.zeros(len(self.sample_weight)), np.zeros((int(self.offsets[-1]), L))
        edge = np.zeros((n_edges, L, L)) if cliques else None

        def work(a: int, b: int, graph: BoundGraph) -> None:
            aggregate = graph.soft(graph.scores(w, self.table_of(table, a, b)), w, table, tables=cliques)
            values[a:b], node[self.offsets[a] : self.offsets[b]] = aggregate.upper, aggregate.node
            if edge is not None:
                edge[self.edges.offsets[a] : self.edges.offsets[b]] = aggregate.edge

        self.in_ranges(backend, work)
        return values, EdgeMarginals(node, edge)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Sample labellings from p(y|x), shape (n_draws, n_nodes)."""
        self._need_exact("Samples")
        uniforms = rng.random((n_draws, int(self.offsets[-1])))
        labels = np.zeros(uniforms.shape, dtype=np.int32)

        def work(a: int, b: int, graph: BoundGraph) -> None:
            nodes = slice(*self.offsets[[a, b]])
            draws = np.zeros((n_draws, len(graph.batch.parent)), dtype=np.int32)
            _kernels.graph_sample(graph.scores(w), np.ascontiguousarray(uniforms[:, nodes]), draws)
            labels[:, nodes] = draws

        self.in_ranges(backend, work)
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """Return the k best labellings, best first."""
        self._need_exact("The k best labellings")
        return k_best(self, w, k)

    def _need_exact(self, quantity: str) -> None:
        relaxed = np.flatnonzero(self.exact == 0)
        if len(relaxed):
            i = int(relaxed[0])
            reason = "its structure is Graph(inference='relaxed')"
            if self.inference != "relaxed":
                reason = f"it cannot be eliminated with tables of at most max_table={self.max_table:g} numbers"
            raise ValueError(
                f"{quantity} of graphs need elimination, but X[{i}], with {np.diff(self.offsets)[i]} nodes and "
                f"{np.diff(self.edges.offsets)[i]} edges, is relaxed: {reason}."
            )

    # ---- features and scores -------------------------------------------------------------------------------------

    def labelling_rows(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        nodes = of_cliques.labelling_rows(self.node_layout, self.batch, examples, labels)
        edges = labelling_rows(self.layout, self.edges, self.offsets, examples, labels)
        n = self.layout.n_node_weights
        return sparse.csr_array(sparse.hstack([nodes[:, :n], edges, nodes[:, n:]], format="csr"))

    def marginal_score(self, w: FloatArray, q: EdgeMarginals) -> FloatArray:
        assert q.edge is not None, "the score of marginals needs marginals of edges: logsum(..., cliques=True)"
        matrices, matrix = matrices_of(self.layout, self.edges, w)
        along = np.einsum("eab,eab->e", matrices[matrix], q.edge)
        nodes = of_cliques.marginal_score(self.node_layout, self.batch, self.of_nodes(w), Marginals(q.node))
        return nodes + sums(along, self.edges.offsets)

    def marginal_features(self, q: EdgeMarginals, weight: FloatArray) -> FloatArray:
        assert q.edge is not None, "features of marginals need marginals of edges: logsum(..., cliques=True)"
        node = np.repeat(weight, np.diff(self.offsets))[:, None] * q.node
        of_nodes = of_cliques.features_of(
            self.node_layout, self.batch, node, np.zeros((0, self.n_labels, self.n_labels))
        )
        along = sums_by_matrix(self.layout, self.edges, q.edge, np.repeat(weight, np.diff(self.edges.offsets)))
        n = self.layout.n_node_weights
        return np.concatenate([of_nodes[:n], along.ravel(), of_nodes[n:]])

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`, with upper bounds for relaxed examples.

        The slope of a relaxed example belongs to a fractional labelling, whose value is lower than the bound by
        ``relaxation_gap``.
        """
        n = len(self.sample_weight)
        out = Excess(np.zeros(n), np.zeros(self.layout.n_weights if options.gradient else 0), np.zeros(n), np.zeros(n))

        def work(a: int, b: int) -> None:
            graph = self.range_of(a, b)
            scores = graph.scores(w, self.table_of(table, a, b))
            solve, max_sweeps = (
                (graph.hard, MAX_SWEEPS) if aggregate == "maximum" else (graph.soft, MAX_SWEEPS_OF_A_LOSS)
            )
            best = solve(scores, w, table, max_sweeps=max_sweeps, tables=options.gradient)
            values = np.maximum(best.upper - scores.of_labels(graph.y), 0.0)
            gap = np.clip(best.upper - best.attained, 0.0, values)
            out.values[a:b], out.relaxation_gap[a:b] = values, gap
            if not options.gradient:
                return
            counted = self.table_of(options.expected_table, a, b)
            if counted is not None:
                out.expected_table[a:b] = table_values(graph, counted, EdgeMarginals(best.node, best.edge))
            derivative = options.slack_derivative
            factor = graph.sample_weight * (1.0 if derivative is None else derivative(values - gap))
            nodes, edges = np.arange(len(graph.y)), np.arange(len(graph.edges.kind))
            best.node[nodes, graph.y] -= 1.0
            first, second = graph.y[graph.edges.nodes(graph.offsets)].T
            best.edge[edges, first, second] -= 1.0
            np.add(out.slope, graph.features(EdgeMarginals(best.node, best.edge), factor), out=out.slope)

        each(work, self.serial_ranges())
        return out

    def hard(
        self, scores: GraphScores, w: FloatArray, table: Table | None, tol: float = HARD_TOL,
        max_sweeps: int = MAX_SWEEPS, tables: bool = True,
    ) -> Aggregate:  # fmt: skip
        """Return maxima, and (fractional) labellings that attain them."""
        aggregate, n = Aggregate.empty(self, tables), len(self.batch.parent)
        score, labels = np.zeros(len(self.sample_weight)), np.zeros(n, dtype=np.int32)
        _kernels.graph_maximum(scores, score, labels)
        aggregate.upper[:] = aggregate.attained[:] = score
        nodes = np.arange(n)
        aggregate.node[nodes, labels] = 1.0
        if tables:
            first, second = labels[self.edges.nodes(self.offsets)].T
            aggregate.edge[np.arange(len(first)), first, second] = 1.0
        if not self.exact.all():
            self.messages.prepare(w, table)
            spread = float(score_ranges(scores).sum()) / max(n, 1)
            self.messages.temperature *= 2.0
            self._relax(scores, False, tol * max(spread, 1e-300), max_sweeps, aggregate, labels, score)
        return aggregate._replace(labels=labels, score=score)

    def soft(
        self, scores: GraphScores, w: FloatArray, table: Table | None, tol: float = SOFT_TOL,
        max_sweeps: int = MAX_SWEEPS, tables: bool = True,
    ) -> Aggregate:  # fmt: skip
        """Return log-partitions or their bounds, and (fractional) marginals."""
        aggregate = Aggregate.empty(self, tables)
        _kernels.graph_logsum(scores, aggregate.upper, aggregate.node, aggregate.edge if tables else None)
        aggregate.attained[:] = aggregate.upper
        if not self.exact.all():
            self.messages.prepare(w, table)
            labels, score = np.zeros(len(aggregate.node), dtype=np.int32), np.zeros(len(aggregate.upper))
            self._relax(scores, True, tol, max_sweeps, aggregate, labels, score)
            self.messages.temperature[:] = 1.0
        return aggregate

    def _relax(
        self, scores: GraphScores, soft: bool, tol: float, max_sweeps: int, aggregate: Aggregate, labels: IntArray,
        score: FloatArray,
    ) -> None:  # fmt: skip
        n_sweeps = np.zeros(len(score), dtype=np.int32)
        _kernels.graph_relaxed(
            scores, soft, tol, max_sweeps, self.messages.values, self.messages.temperature, aggregate.upper,
            aggregate.attained, aggregate.node, aggregate.edge if aggregate.edge.size else None, labels, score,
            n_sweeps,
        )  # fmt: skip

    def curvature(self) -> FloatArray:
        """Return the approximate diagonal Hessian of the log losses at ``w = 0``."""
        L, layout, edges = self.n_labels, self.layout, self.edges
        weight = np.repeat(self.sample_weight, np.diff(edges.offsets))
        kinds = np.bincount(edges.kind, weight, minlength=layout.n_edge_types)
        matrices = np.concatenate([kinds, weight @ edges.features**2])
        of_nodes = uniform_curvature(self.node_layout, self.batch)
        n = layout.n_node_weights
        return np.concatenate([of_nodes[:n], np.repeat((1 - 1 / L**2) / L**2 * matrices, L * L), of_nodes[n:]])

    # ---- work per range ------------------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Approximate number of multiplications per node."""
        n_nodes = max(1, len(self.batch.parent))
        n_entries = len(self.batch.indices) / n_nodes
        return self.n_labels * (1 + n_entries + 100 * len(self.edges.kind) / n_nodes * self.n_labels)


class Aggregate(NamedTuple):
    """Maxima or log-partitions of examples."""

    upper: FloatArray
    attained: FloatArray
    """Value of the marginals in ``tables``; for exact examples equal to ``upper`` up to rounding."""
    node: FloatArray
    edge: FloatArray
    labels: Any = None
    score: Any = None

    @classmethod
    def empty(cls, graph: BoundGraph, tables: bool) -> Aggregate:
        n, L = len(graph.sample_weight), graph.n_labels
        n_edges = len(graph.edges.kind) if tables else 0
        return cls(np.zeros(n), np.zeros(n), np.zeros((len(graph.batch.parent), L)), np.zeros((n_edges, L, L)))


def score_ranges(scores: GraphScores) -> FloatArray:
    """Sum of the score ranges of nodes and edges, for every example."""
    low = np.where(np.isfinite(scores.node_scores), scores.node_scores, np.inf).min(axis=1, initial=np.inf)
    node = scores.node_scores.max(axis=1, initial=-np.inf) - low
    edge = scores.matrices.max(axis=(1, 2), initial=-np.inf) - scores.matrices.min(axis=(1, 2), initial=np.inf)
    return sums(node, scores.offsets) + sums(edge[scores.matrix], scores.edge_offsets)

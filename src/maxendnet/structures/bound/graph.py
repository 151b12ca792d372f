"""Graphs with examples: exact where elimination is possible, and bounds over the local polytope elsewhere."""

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
"""How far a bound may be above what the tables attain, for each node: in units of the temperature, and of the average
range of the scores."""
MOST_SWEEPS, SWEEPS_OF_A_LOSS = 300, 100
"""Over the nodes of an example, for one call: of a prediction, and of a loss, whose next call goes on from there."""
MOST_VARIABLES = 20_000
"""Of an integer programme that is tried for a proof: ten seconds at most are given to each."""


class EdgeMarginals(NamedTuple):
    """A fractional labelling: the weight of every label at every node, and of the two labels of every edge."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    edge: FloatArray | None = None
    """(n_edges, n_labels, n_labels), row: the first node. None where it was not asked for."""


class GraphScores(NamedTuple):
    """Scores of graphs, as the kernels take them."""

    offsets: NDArray[np.int64]
    edge_offsets: NDArray[np.int64]
    edges: IntArray
    matrix: IntArray
    node_scores: FloatArray
    matrices: FloatArray
    order: IntArray
    exact: NDArray[np.uint8]

    def of_labels(self, labels: IntArray) -> FloatArray:
        """Scores of a labelling, for every example."""
        nodes = self.node_scores[np.arange(len(labels)), labels]
        first, second = labels[self.edges + self.offsets[owners(self.edge_offsets)][:, None]].T
        return sums(nodes, self.offsets) + sums(self.matrices[self.matrix, first, second], self.edge_offsets)


class Proof(NamedTuple):
    """Labellings, and how good they are known to be; an array over examples each."""

    labels: IntArray
    """(n_nodes,)"""
    score: FloatArray
    bound: FloatArray
    """No labelling has a higher score."""
    scale: FloatArray
    """The range of the scores of all nodes and edges, to which differences are compared."""

    @property
    def proven(self) -> NDArray[np.bool_]:
        """Whether no labelling is better, up to rounding."""
        return self.bound - self.score <= 1e-9 * self.scale


class Messages:
    """What one call leaves for the next: messages, and the temperature that they were made for."""

    def __init__(self, n_edges: int, n_examples: int, n_labels: int) -> None:
        self.values = np.zeros((n_edges, 2, _kernels.message_lanes(n_labels)))
        self.temperature = np.zeros(n_examples)
        self.before: FloatArray | None = None

    def prepare(self, w: FloatArray, table: Table | None) -> None:
        """Scale the messages to new scores; scores that point elsewhere begin anew."""
        now = w if table is None else np.concatenate([w, table.rows.ravel()])
        before, self.before = self.before, now.copy()
        if before is None or before.shape != now.shape:
            return
        across, size, other = float(now @ before), float(before @ before), float(now @ now)
        if not across > 0.5 * np.sqrt(size * other):
            self.values[:] = 0.0
            self.temperature[:] = 0.0
            return
        factor = across / size
        self.values *= factor
        self.temperature *= factor


@dataclass(frozen=True, eq=False)
class BoundGraph(BatchStructure):
    """Linear scores on graphs.

    The score of a labelling is the sum over nodes of ``x_t . node[:, y_t]`` and over edges (s, t) of
    ``transitions[type, y_s, y_t] + edge_features . edge[:, y_s, y_t]``.

    Where an example can be eliminated with tables of at most ``max_table`` numbers, all aggregates are exact. Elsewhere
    the maximum and the log-partition in losses are upper bounds, over tables of nodes and edges that agree in the place
    of labellings. Messages are kept from call to call.

    Parameters
    ----------
    layout : Layout
    batch : Batch
        Nodes are not joined in it.
    edges : Edges
    inference : {"auto", "exact", "relaxed"}
    max_table : float
    order : int32 ndarray of shape (n_nodes,)
        In which nodes are eliminated, numbered within the example.
    exact : uint8 ndarray of shape (n_examples,)
        Whether an example is eliminated.

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
        """How many of the examples are exact, and how many relaxed."""
        n, n_exact = len(self.exact), int(self.exact.sum())
        if n_exact in (0, n):
            return f"all {n} graphs are {'exact' if n_exact else 'relaxed'}"
        return f"{n_exact} of {n} graphs are exact, the others relaxed"

    @classmethod
    def of(cls, layout: Layout, batch: Batch, edges: Edges, inference: str, max_table: float) -> BoundGraph:
        """With the best order of elimination that is found."""
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
                f"of at most max_table={max_table:g} numbers, and inference is 'exact'; choose "
                "Graph(inference='auto') for bounds in such cases, or raise max_table."
            )
        largest_table = float(largest[exact].max(initial=0.0))
        check_memory(8 * largest_table, f"elimination with max_table={max_table:g}", "lower max_table of Graph")
        return cls(layout, batch, edges, inference, max_table, order, exact.astype(np.uint8))

    def take(self, first: int, last: int) -> BoundGraph:
        """Examples [first, last) as a bound structure of their own."""
        nodes = slice(int(self.offsets[first]), int(self.offsets[last]))
        return replace(
            self, batch=self.batch.take(first, last), edges=self.edges.take(first, last), order=self.order[nodes],
            exact=self.exact[first:last],
        )  # fmt: skip

    @cached_property
    def within_truth(self) -> BoundGraph:
        """The same examples, of which a node may have only labels that may be its true one: with smaller tables."""
        inference = "auto" if self.inference == "exact" else self.inference
        return BoundGraph.of(self.layout, self.batch.within(self.label_sets), self.edges, inference, self.max_table)

    # ---- parts of the examples, each with messages of its own ---------------------------------------------------

    def part(self, first: int, last: int) -> BoundGraph:
        """Examples [first, last), the same object every time."""
        if (first, last) not in self._parts:
            self._parts[first, last] = self.take(first, last)
        return self._parts[first, last]

    @cached_property
    def _parts(self) -> dict[Range, BoundGraph]:
        return {}

    @cached_property
    def messages(self) -> Messages:
        return Messages(len(self.edges.kind), len(self.sample_weight), self.n_labels)

    def in_parts(self, backend: Threads | None, function: Callable[[int, int, BoundGraph], None]) -> None:
        """Call ``function(first, last, part)`` for parts that together are all examples."""
        self.for_each_range(backend, lambda a, b: function(a, b, self.part(a, b)))

    @cached_property
    def node_layout(self) -> Layout:
        """The layout of what belongs to nodes."""
        return replace(self.layout, n_edge_types=0, n_edge_features=0)

    def of_nodes(self, w: FloatArray) -> FloatArray:
        """The weights of that layout."""
        L, n = self.n_labels, self.layout.n_node_weights
        return np.concatenate([w[:n], w[n + self.layout.n_matrices * L * L :]])

    @cached_property
    def _X(self) -> sparse.csr_array:
        shape = (len(self.batch.parent), self.layout.n_features)
        return sparse.csr_array((self.batch.data, self.batch.indices, self.batch.indptr), shape=shape)

    @property
    def edge_offsets(self) -> NDArray[np.int64]:
        """Example i owns edges ``edge_offsets[i]:edge_offsets[i + 1]``."""
        return self.edges.offsets

    def edge_labels(self, labels: NDArray) -> tuple[NDArray[np.bool_], NDArray, NDArray]:
        """Of every edge: that it is one, and the labels of its first and second node."""
        first, second = labels[self.edges.nodes(self.offsets)].T
        return np.ones(len(first), dtype=bool), first, second

    def scores(self, w: FloatArray, table: Table | None = None) -> GraphScores:
        """Scores of all nodes and edges."""
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
            both, own = np.unique(np.stack([matrix, table.joint.row]), axis=1, return_inverse=True)
            matrices, matrix = matrices[both[0]] + table.joint.rows[both[1]], own.ravel().astype(np.int32)
        return GraphScores(
            self.offsets, self.edges.offsets, self.edges.pairs, matrix, node, matrices, self.order, self.exact
        )

    def table_of(self, table: Table | None, first: int, last: int) -> Table | None:
        """The table of examples [first, last)."""
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
        """Best score of every example and a labelling that has it; without elimination the best that was found."""
        proof = self.prove(w, table, backend)
        return proof.score, proof.labels

    def prove(self, w: FloatArray, table: Table | None = None, backend: Threads | None = None) -> Proof:
        """The best labellings that were found, and bounds of all scores."""
        n_examples, n_nodes = len(self.sample_weight), int(self.offsets[-1])
        found = Proof(np.zeros(n_nodes, dtype=np.int32), *np.zeros((3, n_examples)))

        def work(a: int, b: int, part: BoundGraph) -> None:
            scores, nodes = part.scores(w, self.table_of(table, a, b)), slice(*self.offsets[[a, b]])
            best = part.hard(scores, w, table, tol=1e-9, tables=False)
            found.labels[nodes], found.score[a:b], found.bound[a:b] = best.labels, best.score, best.upper
            found.scale[a:b] = score_ranges(scores)

        self.in_parts(backend, work)
        return found

    def search(self, w: FloatArray, proof: Proof, most: int = MOST_VARIABLES) -> Proof:
        """Branch and bound, for examples that are not proven and small."""
        size = np.diff(self.offsets) * self.n_labels + np.diff(self.edges.offsets) * self.n_labels**2
        for i in np.flatnonzero(~proof.proven & (size <= most)).tolist():
            scores = self.take(i, i + 1).scores(w)
            best = branch_and_bound(scores.node_scores, scores.edges, scores.matrices[scores.matrix])
            if best is None:
                continue
            if best.score > proof.score[i]:
                proof.labels[self.offsets[i] : self.offsets[i + 1]], proof.score[i] = best.labels, best.score
            proof.bound[i] = min(proof.bound[i], max(best.bound, proof.score[i]))
        return proof

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        self._need_exact("max-marginals")
        out = np.full((int(self.offsets[-1]), self.n_labels), -np.inf)

        def work(a: int, b: int, part: BoundGraph) -> None:
            _kernels.graph_max_marginals(part.scores(w), out[self.offsets[a] : self.offsets[b]])

        self.in_parts(backend, work)
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, EdgeMarginals]:
        """Log-partition of every example and its gradient, the marginals; without elimination a bound and its
        gradient."""
        L, n_edges = self.n_labels, len(self.edges.kind)
        values, node = np.zeros(len(self.sample_weight)), np.zeros((int(self.offsets[-1]), L))
        edge = np.zeros((n_edges, L, L)) if cliques else None

        def work(a: int, b: int, part: BoundGraph) -> None:
            some = self.table_of(table, a, b)
            found = part.soft(part.scores(w, some), w, table, tables=cliques)
            values[a:b], node[self.offsets[a] : self.offsets[b]] = found.upper, found.node
            if edge is not None:
                edge[self.edges.offsets[a] : self.edges.offsets[b]] = found.edge

        self.in_parts(backend, work)
        return values, EdgeMarginals(node, edge)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        self._need_exact("samples")
        uniforms = rng.random((n_draws, int(self.offsets[-1])))
        labels = np.zeros(uniforms.shape, dtype=np.int32)

        def work(a: int, b: int, part: BoundGraph) -> None:
            nodes = slice(*self.offsets[[a, b]])
            own = np.zeros((n_draws, len(part.batch.parent)), dtype=np.int32)
            _kernels.graph_sample(part.scores(w), np.ascontiguousarray(uniforms[:, nodes]), own)
            labels[:, nodes] = own

        self.in_parts(backend, work)
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """The k best labellings, best first."""
        self._need_exact("the k best labellings")
        return k_best(self, w, k)

    def _need_exact(self, what: str) -> None:
        wide = np.flatnonzero(self.exact == 0)
        if len(wide):
            i = int(wide[0])
            how = "its structure is Graph(inference='relaxed')"
            if self.inference != "relaxed":
                how = f"it cannot be eliminated with tables of at most max_table={self.max_table:g} numbers"
            raise ValueError(
                f"There are {what} of graphs only by elimination, and X[{i}], of {np.diff(self.offsets)[i]} nodes and "
                f"{np.diff(self.edges.offsets)[i]} edges, has none: {how}."
            )

    # ---- features and scores -------------------------------------------------------------------------------------

    def labelling_rows(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        nodes = of_cliques.labelling_rows(self.node_layout, self.batch, examples, labels)
        edges = labelling_rows(self.layout, self.edges, self.offsets, examples, labels)
        n = self.layout.n_node_weights
        return sparse.csr_array(sparse.hstack([nodes[:, :n], edges, nodes[:, n:]], format="csr"))

    def marginal_score(self, w: FloatArray, q: EdgeMarginals) -> FloatArray:
        assert q.edge is not None, "the score of marginals needs those of edges: logsum(..., cliques=True)"
        matrices, matrix = matrices_of(self.layout, self.edges, w)
        along = np.einsum("eab,eab->e", matrices[matrix], q.edge)
        nodes = of_cliques.marginal_score(self.node_layout, self.batch, self.of_nodes(w), Marginals(q.node))
        return nodes + sums(along, self.edges.offsets)

    def marginal_features(self, q: EdgeMarginals, weight: FloatArray) -> FloatArray:
        assert q.edge is not None, "features of marginals need those of edges: logsum(..., cliques=True)"
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
        """As `BoundStructure.excess`; where an example is not eliminated, the value is an upper bound, and the slope
        that of tables whose score is lower by ``relaxation_gap``."""
        n = len(self.sample_weight)
        out = Excess(np.zeros(n), np.zeros(self.layout.n_weights if options.gradient else 0), np.zeros(n), np.zeros(n))

        def work(a: int, b: int) -> None:
            part, own = self.part(a, b), self.table_of(table, a, b)
            scores = part.scores(w, own)
            solve, most = (part.hard, MOST_SWEEPS) if aggregate == "maximum" else (part.soft, SWEEPS_OF_A_LOSS)
            found = solve(scores, w, table, max_sweeps=most, tables=options.gradient)
            values = np.maximum(found.upper - scores.of_labels(part.y), 0.0)
            gap = np.clip(found.upper - found.attained, 0.0, values)
            out.values[a:b], out.relaxation_gap[a:b] = values, gap
            if not options.gradient:
                return
            counted = self.table_of(options.expected_table, a, b)
            if counted is not None:
                out.expected_table[a:b] = table_values(part, counted, EdgeMarginals(found.node, found.edge))
            derivative = options.slack_derivative
            factor = part.sample_weight * (1.0 if derivative is None else derivative(values - gap))
            nodes, edges = np.arange(len(part.y)), np.arange(len(part.edges.kind))
            found.node[nodes, part.y] -= 1.0
            first, second = part.y[part.edges.nodes(part.offsets)].T
            found.edge[edges, first, second] -= 1.0
            np.add(out.slope, part.features(EdgeMarginals(found.node, found.edge), factor), out=out.slope)

        each(work, self.one_after_the_other())
        return out

    def hard(
        self, scores: GraphScores, w: FloatArray, table: Table | None, tol: float = HARD_TOL,
        max_sweeps: int = MOST_SWEEPS, tables: bool = True,
    ) -> Aggregate:  # fmt: skip
        """Maxima, and labellings or fractional labellings that attain them."""
        found, n = Aggregate.empty(self, tables), len(self.batch.parent)
        score, labels = np.zeros(len(self.sample_weight)), np.zeros(n, dtype=np.int32)
        _kernels.graph_maximum(scores, score, labels)
        found.upper[:] = found.attained[:] = score
        nodes = np.arange(n)
        found.node[nodes, labels] = 1.0
        if tables:
            first, second = labels[self.edges.nodes(self.offsets)].T
            found.edge[np.arange(len(first)), first, second] = 1.0
        if not self.exact.all():
            self.messages.prepare(w, table)
            spread = float(score_ranges(scores).sum()) / max(n, 1)
            self.messages.temperature *= 2.0
            self._relax(scores, False, tol * max(spread, 1e-300), max_sweeps, found, labels, score)
        return found._replace(labels=labels, score=score)

    def soft(
        self, scores: GraphScores, w: FloatArray, table: Table | None, tol: float = SOFT_TOL,
        max_sweeps: int = MOST_SWEEPS, tables: bool = True,
    ) -> Aggregate:  # fmt: skip
        """Log-partitions and marginals, or bounds and fractional labellings that attain them."""
        found = Aggregate.empty(self, tables)
        _kernels.graph_logsum(scores, found.upper, found.node, found.edge if tables else None)
        found.attained[:] = found.upper
        if not self.exact.all():
            self.messages.prepare(w, table)
            labels, score = np.zeros(len(found.node), dtype=np.int32), np.zeros(len(found.upper))
            self._relax(scores, True, tol, max_sweeps, found, labels, score)
            self.messages.temperature[:] = 1.0
        return found

    def _relax(
        self, scores: GraphScores, soft: bool, tol: float, max_sweeps: int, found: Aggregate, labels: IntArray,
        score: FloatArray,
    ) -> None:  # fmt: skip
        n_sweeps = np.zeros(len(score), dtype=np.int32)
        _kernels.graph_relaxed(
            scores, soft, tol, max_sweeps, self.messages.values, self.messages.temperature, found.upper,
            found.attained, found.node, found.edge if found.edge.size else None, labels, score, n_sweeps,
        )  # fmt: skip

    def curvature(self) -> FloatArray:
        """About the diagonal of the Hessian of the weighted log losses at ``w = 0``, as that of a forest."""
        L, layout, edges = self.n_labels, self.layout, self.edges
        weight = np.repeat(self.sample_weight, np.diff(edges.offsets))
        kinds = np.bincount(edges.kind, weight, minlength=layout.n_edge_types)
        matrices = np.concatenate([kinds, weight @ edges.features**2])
        of_nodes = uniform_curvature(self.node_layout, self.batch)
        n = layout.n_node_weights
        return np.concatenate([of_nodes[:n], np.repeat((1 - 1 / L**2) / L**2 * matrices, L * L), of_nodes[n:]])

    # ---- how the work is shared out ------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Multiplications for one node, about."""
        n_nodes = max(1, len(self.batch.parent))
        n_entries = len(self.batch.indices) / n_nodes
        return self.n_labels * (1 + n_entries + 100 * len(self.edges.kind) / n_nodes * self.n_labels)


class Aggregate(NamedTuple):
    """Maxima or log-partitions of examples."""

    upper: FloatArray
    attained: FloatArray
    """By the tables; equal but for rounding where an example was eliminated."""
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
    """For every example the ranges of the scores of its nodes and edges, added up."""
    low = np.where(np.isfinite(scores.node_scores), scores.node_scores, np.inf).min(axis=1, initial=np.inf)
    node = scores.node_scores.max(axis=1, initial=-np.inf) - low
    edge = scores.matrices.max(axis=(1, 2), initial=-np.inf) - scores.matrices.min(axis=(1, 2), initial=np.inf)
    return sums(node, scores.offsets) + sums(edge[scores.matrix], scores.edge_offsets)

"""Chains that an automaton reads, with examples: order k, rules that remember, durations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import _kernels
from maxendnet.backends.threads import Threads, each
from maxendnet.data.ragged import gather
from maxendnet.structures.automata.automaton import Automaton, renumbered, sweeps_of
from maxendnet.structures.base import (
    GRADIENT,
    Excess,
    ExcessOptions,
    IntArray,
    Marginals,
    NGramTable,
    Table,
    composed_excess,
    no_table,
)
from maxendnet.structures.bound import features as of_cliques
from maxendnet.structures.bound.batch_structure import BatchStructure
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.forest import kernels_take, single_is_enough, uniform_curvature
from maxendnet.structures.bound.marked_labels import MarkedLabels
from maxendnet.structures.bound.padded_blocks import KernelPrior
from maxendnet.structures.search.k_best import k_best
from maxendnet.structures.weights import padding
from maxendnet.structures.weights.layout import FloatArray, Layout


class NGramMarginals(NamedTuple):
    """A fractional labelling: the weight of every label at every node, and expected numbers of n-grams."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    grams: FloatArray | None = None
    """(n_examples, n_grams): of the n-grams that have weights, pairs of labels first. None where they were not asked
    for."""
    ending: FloatArray | None = None
    """(n_nodes, n_ngrams): the weight of every n-gram of an `NGramTable` where it ends. None without such a table."""


@dataclass(frozen=True, eq=False)
class Reader:
    """An automaton with its states in the order of sweeps, as the kernels take it.

    Parameters
    ----------
    automaton : Automaton
    groups : ndarray of shape (n_groups + 1,)
    targets : ndarray of shape (n_groups, lanes)
        See `maxendnet.structures.automata.automaton.Sweeps`; widened to whole vector registers with -1.
    n_grams : int
        N-grams that have weights.
    """

    automaton: Automaton
    groups: NDArray[np.int64]
    targets: IntArray
    n_grams: int

    @classmethod
    def of(cls, automaton: Automaton, n_grams: int) -> Reader:
        """A reader for an automaton."""
        sweeps = sweeps_of(automaton.arcs)
        ordered = renumbered(automaton, sweeps.order)
        number = np.empty(automaton.n_states, dtype=np.int32)
        number[sweeps.order] = np.arange(automaton.n_states, dtype=np.int32)
        targets = np.full((len(sweeps.targets), _kernels.padded(automaton.n_labels)), -1, dtype=np.int32)
        targets[:, : automaton.n_labels] = np.where(sweeps.targets < 0, -1, number[sweeps.targets])
        return cls(ordered, np.ascontiguousarray(sweeps.groups), targets, n_grams)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def kernel(self) -> _kernels.Automaton:
        """The automaton as the kernels hold it."""
        a = self.automaton
        offsets, fired = a.rows_fired
        return _kernels.Automaton(
            a.arcs, a.accepting.view(np.uint8), offsets, fired, self.groups, self.targets, a.start, self.n_grams
        )


@dataclass(frozen=True, eq=False)
class BoundAutomaton(BatchStructure):
    """Linear scores of nodes, and of the n-grams that an automaton fires while it reads the labels of an example.

    A labelling that the automaton does not accept does not exist. The recursions are exact. For every node they take a
    time in proportion to the number of arcs, eight labels at a time. Maxima are searched in single precision where
    that is safe, sums are in double precision.

    Parameters
    ----------
    layout : Layout
        Weights of pairs of labels (``transitions``) and then ``ngrams`` are what the automaton fires.
    batch : Batch
        Nodes are not joined in it.
    reader : Reader

    Examples
    --------
    >>> from maxendnet.data.examples import Examples
    >>> from maxendnet.structures import Chain
    >>> bound = Chain(order=2).bind(Examples.build([[[1.0]] * 3], [["a", "b", "a"]]), np.array(["a", "b"]))
    >>> bound.layout.n_weights, bound.reader.automaton.n_states
    (14, 7)
    """

    reader: Reader
    described = "a chain of higher order or with rules"
    capabilities = Capabilities(
        blocks=True, linear_nodes=True, ngram_costs=True, unknown_labels=True, max_marginals=True, top=True,
        sample=True, cost_of_sums=10.0,
    )  # fmt: skip  # a sum leaves out no state, and is in float64

    @cached_property
    def shape(self) -> _kernels.Shape:
        layout = self.layout
        sizes = (layout.n_features, layout.n_labels, 0, 0, layout.n_label_features, -1)
        return _kernels.Shape(*sizes) if layout.seen is None else _kernels.Shape(*sizes, *layout.seen)

    @cached_property
    def blocks(self) -> AutomatonBlocks:
        """What solvers that go from example to example need."""
        return AutomatonBlocks(self)

    # ---- weight vectors as the kernels read them -----------------------------------------------------------------

    @property
    def grams(self) -> slice:
        """The weights of n-grams in a weight vector."""
        return slice(self.layout.n_node_weights, self.layout.n_weights - self.layout.n_label_features)

    @property
    def first_gram(self) -> int:
        """Where they begin in a padded vector."""
        return padding.node_size(self.layout) + _kernels.padded(self.layout.n_label_features)

    @property
    def slope_size(self) -> int:
        return self.first_gram + self.reader.n_grams

    def _parts(self, padded: NDArray, w: FloatArray):
        """Views of the same weights in a padded vector and in a plain one."""
        layout, n = self.layout, self.layout.n_node_weights
        if layout.seen is None:
            wide = padded[: padding.node_size(layout)].reshape(-1, padding.lanes(layout))[:, : layout.n_labels]
            yield wide, w[:n].reshape(-1, layout.n_labels)
        else:
            yield padded[:n], w[:n]
        begin, many = padding.node_size(layout), layout.n_label_features
        yield padded[begin : begin + many], w[layout.n_weights - many :]
        yield padded[self.first_gram : self.slope_size], w[self.grams]

    def pad(self, w: FloatArray) -> FloatArray:
        """The layout in which kernels accumulate: nodes, label features, n-grams."""
        out = np.zeros(self.slope_size)
        for wide, narrow in self._parts(out, w):
            wide[:] = narrow
        return out

    def unpad(self, slope: FloatArray) -> FloatArray:
        """A vector that kernels have added up, in the order of the weights."""
        out = np.empty(self.layout.n_weights)
        for wide, narrow in self._parts(slope, out):
            narrow[:] = wide
        return out

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        """Weights as the recursions read them, and behind them the scores of arcs; those of a fitted model once."""
        return self.layout.cache.of_weights(w, ("scores of arcs", dtype, self.reader), lambda: self._laid_out(w, dtype))

    def recursion(self, w: FloatArray, dtype: type = np.float64) -> _kernels.Paths32 | _kernels.Paths64:
        """The recursion over labellings."""
        return _kernels.paths(self.shape, self.reader.kernel, self.for_search(w, dtype))

    @cached_property
    def without_weights(self) -> _kernels.Paths32 | _kernels.Paths64:
        """For operations that depend on the automaton alone."""
        return _kernels.paths(self.shape, self.reader.kernel, None)

    def _laid_out(self, w: FloatArray, dtype: type) -> NDArray:
        kernel = self.reader.kernel
        out: NDArray = np.zeros(self.slope_size + kernel.n_scores, dtype=dtype)
        for wide, narrow in self._parts(out, w):
            wide[:] = narrow
        _kernels.automaton_scores(kernel, out[self.first_gram : self.slope_size], out[self.slope_size :])
        return out

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Best score of every example and a labelling that has it."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, symbols = structure.maximum(w, table, backend)
            return values, marked.label[symbols]
        return self._best(w, table, np.float64, True, backend)

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """Best labelling, searched in single precision where that cannot overflow."""
        if added is not None:
            return super().decode(w, backend, added)
        return self._best(w, None, np.float32 if single_is_enough(w, self.batch) else np.float64, False, backend)[1]

    def _best(self, w: FloatArray, table: Table | None, dtype: type, scored: bool, backend: Threads | None):
        recursion, (batch, rows) = self.recursion(w, dtype), self.with_rows(table)
        rows = None if rows is None else padding.pad_rows(self.layout, rows, dtype)
        values, labels = np.zeros(len(self.sample_weight)), np.zeros(len(batch.parent), dtype=np.int32)
        out = values if scored else None
        self.for_each_range(backend, lambda a, b: _kernels.decode(batch, recursion, rows, a, b, out, labels))
        return values, labels

    def max_marginals(self, w: FloatArray, backend: Threads | None = None) -> FloatArray:
        """Score of the best labelling that has label a at node t, shape (n_nodes, n_labels)."""
        recursion, out = self.recursion(w), np.zeros((len(self.batch.parent), self.n_labels))
        self.for_each_range(backend, lambda a, b: _kernels.max_marginals(self.batch, recursion, a, b, out))
        return out

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, NGramMarginals]:
        """Log-partition of every example, and its gradient: marginals, with ``cliques`` expected numbers of n-grams."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, found = structure.logsum(w, table, cliques, backend)
            return values, NGramMarginals(marked.by_label(found.node), found.grams, found.node @ marked.marks)
        batch, rows = self.with_rows(table)
        padded = None if rows is None else padding.pad_rows(self.layout, rows)
        recursion, n = self.recursion(w), len(self.sample_weight)
        values, node = np.zeros(n), np.zeros((len(batch.parent), self.n_labels))
        grams = np.zeros((n, self.reader.n_grams)) if cliques else None
        self.for_each_range(
            backend,
            lambda a, b: _kernels.marginals(batch, recursion, padded, a, b, values, node, grams),
            slow=5,
        )
        return values, NGramMarginals(node, grams)

    def _with_marks(
        self, w: FloatArray, table: Table, joint: NGramTable
    ) -> tuple[MarkedLabels, BoundAutomaton, FloatArray, Table]:
        """Marked labels, a structure of these, its weights, and its table, which has all scores of nodes."""
        reader = self.reader
        what = ("marks", reader, joint.ngrams.offsets.tobytes(), joint.ngrams.symbols.tobytes())

        def make() -> tuple[MarkedLabels, Reader]:
            marked = MarkedLabels.of(reader.automaton, joint.ngrams, reader.n_grams)
            return marked, Reader.of(marked.automaton, reader.n_grams)

        marked, marked_reader = self.layout.cache.result(what, make)
        layout = Layout(n_features=0, n_labels=len(marked.label), n_edge_types=0, n_ngrams=reader.n_grams)
        batch = marked.batch(self.batch)
        scores = of_cliques.node_scores(self.layout, self.batch, w) + table.at_nodes()
        rows = scores[:, marked.label] + joint.rows[joint.row] @ marked.marks.T
        return marked, BoundAutomaton(layout, batch, marked_reader), w[self.grams].copy(), Table(rows, batch.row)

    def sample(self, w: FloatArray, n_draws: int, rng: np.random.Generator, backend: Threads | None = None) -> IntArray:
        """Labellings drawn from p(y|x), shape (n_draws, n_nodes)."""
        recursion, uniforms = self.recursion(w), rng.random((n_draws, len(self.batch.parent)))
        labels = np.zeros((n_draws, len(self.batch.parent)), dtype=np.int32)
        self.for_each_range(
            backend,
            lambda a, b: _kernels.sample(self.batch, recursion, None, uniforms, n_draws, a, b, labels),
            slow=5 + n_draws / self.reader.automaton.n_states,
        )
        return labels

    def top(self, w: FloatArray, k: int, backend: Threads | None = None) -> tuple[FloatArray, IntArray]:
        """The k best labellings, best first."""
        return k_best(self, w, k)

    def impossible(self, backend: Threads | None = None) -> NDArray[np.int64]:
        """Of every example the first node that no labelling reaches, the last one if none may end there, or -1."""
        nodes, recursion = np.full(len(self.sample_weight), -1), self.without_weights
        self.for_each_range(backend, lambda a, b: _kernels.impossible(self.batch, recursion, a, b, nodes))
        return nodes

    # ---- features and scores -------------------------------------------------------------------------------------

    def _rows(self, examples: NDArray[np.int64], labels: IntArray) -> tuple[sparse.csr_array, NDArray[np.bool_]]:
        """Features of labellings, one behind the other, as sparse rows; and which of them exist."""
        automaton, layout = self.reader.automaton, self.layout
        _, cuts = gather(self.offsets, examples)
        before, last = automaton.walk(labels, cuts)
        some = np.diff(cuts) > 0
        there = ~some | ((last >= 0) & automaton.accepting[last])
        arcs = np.concatenate([before * automaton.n_labels + labels, automaton.arcs.size + last[some]])
        owner = np.concatenate([np.repeat(np.arange(len(examples)), np.diff(cuts)), np.flatnonzero(some)])
        kept = there[owner]
        offsets, fired = automaton.rows_fired
        places, lengths = gather(offsets, arcs[kept])
        shape = (len(examples), layout.n_weights)
        columns = fired[places].astype(np.int64) + self.grams.start
        entries = (np.ones(len(columns)), (np.repeat(owner[kept], np.diff(lengths)), columns))
        grams = sparse.csr_array(entries, shape=shape)
        return of_cliques.labelling_rows(layout, self.batch, examples, labels) + grams, there

    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Score of a labelling or fractional labelling, for every example; -inf where the labelling does not exist."""
        if not isinstance(q, NGramMarginals):
            rows, there = self._rows(np.arange(len(self.sample_weight)), q)
            return np.where(there, rows @ w, -np.inf)
        assert q.grams is not None, "the score of marginals needs expected n-grams: logsum(..., cliques=True)"
        return of_cliques.score(self.layout, self.batch, w, Marginals(q.node)) + q.grams @ w[self.grams]

    def features(self, q: Any, weight: FloatArray | None = None) -> FloatArray:
        """Features of a labelling or fractional labelling, summed over examples times ``weight``."""
        size = np.ones(len(self.sample_weight)) if weight is None else weight
        if not isinstance(q, NGramMarginals):
            return self._rows(np.arange(len(size)), q)[0].T @ size
        assert q.grams is not None, "features of marginals need expected n-grams: logsum(..., cliques=True)"
        node = np.repeat(size, np.diff(self.offsets))[:, None] * q.node
        L = self.n_labels
        out = of_cliques.features_of(self.layout, self.batch, node, np.zeros((self.layout.n_matrices, L, L)))
        out[self.grams] += size @ q.grams
        return out

    def differences(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        """Features of the truth minus those of other labellings, as sparse rows."""
        truth = self.y[gather(self.offsets, examples)[0]]
        result = sparse.csr_array(self._rows(examples, truth)[0] - self._rows(examples, labels)[0])
        result.eliminate_zeros()
        return result

    # ---- sums over examples -------------------------------------------------------------------------------------

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """As `BoundStructure.excess`."""
        gradient, derivative, counted = options.gradient, options.slack_derivative, options.expected_table
        if not kernels_take(aggregate, table, options):
            excess = composed_excess(self, aggregate, w, table, options)
            return excess._replace(slope=self.pad(excess.slope)) if gradient else excess
        values, costs = np.zeros(len(self.sample_weight)), np.zeros(len(self.sample_weight))
        slope = np.zeros(self.slope_size if gradient else 0)
        added = slope if gradient else None
        if aggregate == "logsum":
            recursion, batch = self.recursion(w), self.with_rows(table or counted)[0]
            rows, expected = (None if t is None else padding.pad_rows(self.layout, t.rows) for t in (table, counted))

            def part(a: int, b: int) -> None:
                _kernels.log_oracle(batch, recursion, rows, expected, a, b, values, costs, added)

        else:
            table = no_table(self) if table is None else table
            batch, small = self.with_rows(table)[0], np.abs(table.rows).max(initial=0) < 1e5
            dtype = np.float32 if options.single and small and single_is_enough(w, batch) else np.float64
            recursion, hinge_rows = self.recursion(w, dtype), padding.pad_rows(self.layout, table.rows, dtype)
            slack, C = (0, 1.0) if derivative is None else (derivative.code, derivative.C)

            def part(a: int, b: int) -> None:
                _kernels.hinge_oracle(batch, recursion, hinge_rows, a, b, values, added, slack, C)

        each(part, self.one_after_the_other())
        return Excess(values, slope, np.zeros(len(values)) if counted is None or not gradient else costs)

    def curvature(self) -> FloatArray:
        """About the diagonal of the Hessian of the weighted log losses at ``w = 0``.

        For n-grams, which are rare, the variance of their number is about the expected number.
        """
        layout = self.layout
        plain = uniform_curvature(replace(layout, n_edge_types=0, n_ngrams=0, ngrams=None), self.batch)
        slope = self.unpad(self.excess("logsum", np.zeros(layout.n_weights)).slope)
        expected = (slope + self.features(self.y, self.sample_weight))[self.grams]
        n = layout.n_node_weights
        return np.concatenate([plain[:n], np.maximum(expected, 0.0), plain[n:]])

    # ---- how the work is shared out ------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Multiplications for one node, about."""
        n_nodes = max(1, len(self.batch.parent))
        return self.n_labels * (2 * self.reader.automaton.n_states + len(self.batch.indices) / n_nodes)


@dataclass(frozen=True, eq=False)
class AutomatonBlocks:
    """What `BlockFrankWolfe` asks of a structure, see `PaddedBlocks`."""

    structure: BoundAutomaton

    @property
    def size(self) -> int:
        return self.structure.slope_size

    def pad(self, w: FloatArray) -> FloatArray:
        return self.structure.pad(w)

    def unpad(self, padded: FloatArray) -> FloatArray:
        return self.structure.unpad(padded)

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        return self.structure.for_search(w, dtype)

    def update(
        self, prior: KernelPrior, C: float, weights: NDArray, eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        s = self.structure
        wide = padding.pad_rows(s.layout, cost)
        recursion = _kernels.paths(s.shape, s.reader.kernel, weights)
        return _kernels.block_frank_wolfe(
            s.batch, recursion, *prior, C, eta, wide.astype(weights.dtype), wide, picks, inner, sets, gaps
        )

    def look(
        self, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        s = self.structure
        recursion, wide = s.recursion(w), padding.pad_rows(s.layout, cost)
        return lambda a, b: _kernels.block_gaps(s.batch, recursion, wide, C, a, b, sets, hinges, gaps)

    def add_features(self, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        s = self.structure
        _kernels.active_features(s.batch, s.without_weights, sets, first, last, eta)

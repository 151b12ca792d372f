"""Chains that an automaton reads, with examples: order k, rules that remember, durations."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import _kernels
from maxendnet.backends.threads import Threads
from maxendnet.data.ragged import gather
from maxendnet.structures.automata.automaton import Automaton, renumbered, sweeps_of
from maxendnet.structures.base import IntArray, Marginals, NGramTable, Table
from maxendnet.structures.bound import features as of_cliques
from maxendnet.structures.bound.batch_structure import kernel_shape
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.bound.curvature import uniform_curvature
from maxendnet.structures.bound.kernel_structure import RecursiveStructure
from maxendnet.structures.bound.marked_labels import MarkedLabels
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
class BoundAutomaton(RecursiveStructure):
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
    marginals_type = NGramMarginals
    capabilities = Capabilities(
        blocks=True, linear_nodes=True, ngram_costs=True, unknown_labels=True, max_marginals=True, top=True,
        sample=True, cost_of_sums=10.0,
    )  # fmt: skip  # a sum leaves out no state, and is in float64

    @cached_property
    def shape(self) -> _kernels.Shape:
        return kernel_shape(replace(self.layout, n_edge_types=0, n_edge_features=0))

    # ---- weight vectors as the kernels read them -----------------------------------------------------------------

    @property
    def grams(self) -> slice:
        """The weights of n-grams in a weight vector."""
        return slice(self.layout.n_node_weights, self.layout.n_weights - self.layout.n_label_features)

    @property
    def slope_size(self) -> int:
        return padding.padded_size(self.layout, by_automaton=True)

    def pad(self, w: FloatArray) -> FloatArray:
        return padding.pad(self.layout, w, by_automaton=True)

    def unpad(self, slope: FloatArray) -> FloatArray:
        return padding.unpad(self.layout, slope, by_automaton=True)

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        """Weights as the recursions read them: padded, then the scores of arcs. Cached for read-only weights."""

        def compute() -> NDArray:
            kernel, size = self.reader.kernel, self.slope_size
            out: NDArray = np.zeros(size + kernel.n_scores, dtype=dtype)
            padding.fill(self.layout, out, w, by_automaton=True)
            _kernels.automaton_scores(kernel, out[size - self.reader.n_grams : size], out[size:])
            return out

        return self.layout.cache.of_weights(w, ("scores of arcs", dtype, self.reader), compute)

    def recursion_of(self, weights: NDArray | None) -> Any:
        return _kernels.paths(self.shape, self.reader.kernel, weights)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Best score of every example and a labelling that has it."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, symbols = structure.maximum(w, table, backend)
            return values, marked.label[symbols]
        return super().maximum(w, table, backend)

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, NGramMarginals]:
        """Log-partition of every example, and its gradient: marginals, with ``cliques`` expected numbers of n-grams."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, found = structure.logsum(w, table, cliques, backend)
            return values, NGramMarginals(marked.by_label(found.node), found.grams, found.node @ marked.marks)
        return super().logsum(w, table, cliques, backend)

    def clique_tables(self) -> tuple[FloatArray]:
        return (np.zeros((len(self.sample_weight), self.reader.n_grams)),)

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

    def labelling_rows(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        return self._rows(examples, labels)[0]

    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Score of a labelling or fractional labelling, for every example; -inf where the labelling does not exist."""
        if not isinstance(q, np.ndarray):
            return self.marginal_score(w, q)
        rows, exists = self._rows(np.arange(len(self.sample_weight)), q)
        return np.where(exists, rows @ w, -np.inf)

    def marginal_score(self, w: FloatArray, q: NGramMarginals) -> FloatArray:
        assert q.grams is not None, "the score of marginals needs expected n-grams: logsum(..., cliques=True)"
        return of_cliques.marginal_score(self.layout, self.batch, w, Marginals(q.node)) + q.grams @ w[self.grams]

    def marginal_features(self, q: NGramMarginals, weight: FloatArray) -> FloatArray:
        assert q.grams is not None, "features of marginals need expected n-grams: logsum(..., cliques=True)"
        node = np.repeat(weight, np.diff(self.offsets))[:, None] * q.node
        L = self.n_labels
        out = of_cliques.features_of(self.layout, self.batch, node, np.zeros((self.layout.n_matrices, L, L)))
        out[self.grams] += weight @ q.grams
        return out

    # ---- sums over examples -------------------------------------------------------------------------------------

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

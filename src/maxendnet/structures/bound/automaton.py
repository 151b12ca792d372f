"""Bound chains with an automaton: higher orders, rules and durations."""

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
    """Fractional labelling: node marginals and expected n-gram counts."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    grams: FloatArray | None = None
    """(n_examples, n_grams): expected counts of the n-grams with weights, pairs first. None if not requested."""
    ending: FloatArray | None = None
    """(n_nodes, n_ngrams): marginals of the n-grams of an `NGramTable` at their last node, if there is such a table."""


@dataclass(frozen=True, eq=False)
class Reader:
    """Automaton prepared for the kernels: its states are reordered by groups, see `Sweeps`.

    Parameters
    ----------
    automaton : Automaton
    groups : ndarray of shape (n_groups + 1,)
    targets : ndarray of shape (n_groups, lanes)
        See `maxendnet.structures.automata.automaton.Sweeps`; padded with -1.
    n_grams : int
        Number of n-grams with weights.
    """

    automaton: Automaton
    groups: NDArray[np.int64]
    targets: IntArray
    n_grams: int

    @classmethod
    def of(cls, automaton: Automaton, n_grams: int) -> Reader:
        """Reorder the states of an automaton by groups, and pad the groups to vector lanes."""
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
        """The automaton as a kernel object."""
        a = self.automaton
        offsets, fired = a.rows_fired
        return _kernels.Automaton(
            a.arcs, a.accepting.view(np.uint8), offsets, fired, self.groups, self.targets, a.start, self.n_grams
        )


@dataclass(frozen=True, eq=False)
class BoundAutomaton(RecursiveStructure):
    """Chain with linear node scores, and weights of the n-grams that an automaton fires.

    Labellings that the automaton does not accept are invalid. Inference is exact. The time per node is proportional to
    the number of arcs, vectorised over labels. Maxima are in single precision if the scores cannot overflow; sums are
    in double precision.

    Parameters
    ----------
    layout : Layout
        The n-grams of the automaton are the segments ``transitions`` and ``ngrams``, in this order.
    batch : Batch
        Without edges.
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
    )  # fmt: skip  # sums use float64 and visit every state

    @cached_property
    def shape(self) -> _kernels.Shape:
        return kernel_shape(replace(self.layout, n_edge_types=0, n_edge_features=0))

    # ---- weights for the kernels ---------------------------------------------------------------------------------

    @property
    def grams(self) -> slice:
        """Slice of the n-grams in a weight vector."""
        return slice(self.layout.n_node_weights, self.layout.n_weights - self.layout.n_label_features)

    @property
    def slope_size(self) -> int:
        return padding.padded_size(self.layout, by_automaton=True)

    def pad(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        return padding.pad(self.layout, w, by_automaton=True, dtype=dtype)

    def unpad(self, slope: FloatArray) -> FloatArray:
        return padding.unpad(self.layout, slope, by_automaton=True)

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Padded weights and arc scores, cached for read-only weights."""

        def compute() -> NDArray[Any]:
            kernel, size = self.reader.kernel, self.slope_size
            out: NDArray[Any] = np.zeros(size + kernel.n_scores, dtype=dtype)
            padding.fill(self.layout, out, w, by_automaton=True)
            _kernels.automaton_scores(kernel, out[size - self.reader.n_grams : size], out[size:])
            return out

        return self.layout.cache.of_weights(w, ("scores of arcs", dtype, self.reader), compute)

    def recursion_of(self, weights: NDArray[Any] | None) -> Any:
        return _kernels.paths(self.shape, self.reader.kernel, weights)

    # ---- aggregates over all labellings -------------------------------------------------------------------------

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """As `RecursiveStructure.maximum`, but supports n-gram costs."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, symbols = structure.maximum(w, table, backend)
            return values, marked.label[symbols]
        return super().maximum(w, table, backend)

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, NGramMarginals]:
        """As `RecursiveStructure.logsum`, but supports n-gram costs."""
        if table is not None and isinstance(table.joint, NGramTable):
            marked, structure, w, table = self._with_marks(w, table, table.joint)
            values, q = structure.logsum(w, table, cliques, backend)
            return values, NGramMarginals(marked.by_label(q.node), q.grams, q.node @ marked.marks)
        return super().logsum(w, table, cliques, backend)

    def clique_tables(self) -> tuple[FloatArray]:
        return (np.zeros((len(self.sample_weight), self.reader.n_grams)),)

    def _with_marks(
        self, w: FloatArray, table: Table, joint: NGramTable
    ) -> tuple[MarkedLabels, BoundAutomaton, FloatArray, Table]:
        """Return the marked labels, a structure over them, its weights, and a table with all node scores."""
        reader = self.reader
        key = ("marks", reader, joint.ngrams.offsets.tobytes(), joint.ngrams.symbols.tobytes())

        def compute() -> tuple[MarkedLabels, Reader]:
            marked = MarkedLabels.of(reader.automaton, joint.ngrams, reader.n_grams)
            return marked, Reader.of(marked.automaton, reader.n_grams)

        marked, marked_reader = self.layout.cache.result(key, compute)
        layout = Layout(n_features=0, n_labels=len(marked.label), n_edge_types=0, n_ngrams=reader.n_grams)
        batch = marked.batch(self.batch)
        scores = of_cliques.node_scores(self.layout, self.batch, w) + table.at_nodes()
        rows = scores[:, marked.label] + joint.rows[joint.row] @ marked.marks.T
        return marked, BoundAutomaton(layout, batch, marked_reader), w[self.grams].copy(), Table(rows, batch.row)

    def impossible(self, backend: Threads | None = None) -> NDArray[np.int64]:
        """First node of each example without a possible label, or -1.

        The last node is returned if labels are possible, but no labelling can end there.
        """
        nodes, recursion = np.full(len(self.sample_weight), -1), self.without_weights
        self.for_each_range(backend, lambda a, b: _kernels.impossible(self.batch, recursion, a, b, nodes))
        return nodes

    # ---- features and scores -------------------------------------------------------------------------------------

    def _rows(self, examples: NDArray[np.int64], labels: IntArray) -> tuple[sparse.csr_array, NDArray[np.bool_]]:
        """Return the features of concatenated labellings, and whether each labelling is valid."""
        automaton, layout = self.reader.automaton, self.layout
        _, cuts = gather(self.offsets, examples)
        before, last = automaton.walk(labels, cuts)
        nonempty = np.diff(cuts) > 0
        valid = ~nonempty | ((last >= 0) & automaton.accepting[last])
        arcs = np.concatenate([before * automaton.n_labels + labels, automaton.arcs.size + last[nonempty]])
        owner = np.concatenate([np.repeat(np.arange(len(examples)), np.diff(cuts)), np.flatnonzero(nonempty)])
        of_valid = valid[owner]
        offsets, fired = automaton.rows_fired
        places, lengths = gather(offsets, arcs[of_valid])
        shape = (len(examples), layout.n_weights)
        columns = fired[places].astype(np.int64) + self.grams.start
        entries = (np.ones(len(columns)), (np.repeat(owner[of_valid], np.diff(lengths)), columns))
        grams = sparse.csr_array(entries, shape=shape)
        return of_cliques.labelling_rows(layout, self.batch, examples, labels) + grams, valid

    def labelling_rows(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        return self._rows(examples, labels)[0]

    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Return the score of every example; -inf for invalid labellings."""
        if not isinstance(q, np.ndarray):
            return self.marginal_score(w, q)
        rows, valid = self._rows(np.arange(len(self.sample_weight)), q)
        return np.where(valid, rows @ w, -np.inf)

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
        """Return the approximate diagonal Hessian of the log losses at ``w = 0``.

        N-grams are rare, so the variance of a count is approximately its expectation.
        """
        layout = self.layout
        plain = uniform_curvature(replace(layout, n_edge_types=0, n_ngrams=0, ngrams=None), self.batch)
        slope = self.unpad(self.excess("logsum", np.zeros(layout.n_weights)).slope)
        expected = (slope + self.features(self.y, self.sample_weight))[self.grams]
        n = layout.n_node_weights
        return np.concatenate([plain[:n], np.maximum(expected, 0.0), plain[n:]])

    # ---- ranges of examples --------------------------------------------------------------------------------------

    @cached_property
    def work_per_node(self) -> float:
        """Approximate number of multiplications per node."""
        n_nodes = max(1, len(self.batch.parent))
        return self.n_labels * (2 * self.reader.automaton.n_states + len(self.batch.indices) / n_nodes)

"""What a structure offers: the piece that a user composes, and the same piece bound to examples.

A *piece* (`Chain`, `Tree`, `Independent`, `Choice`) holds options and no data. `bind` gives a *bound structure*, which
knows the sizes, the layout of the weight vector, and the examples; losses, solvers and estimators see examples only
through its methods. docs/extend/structure.md shows how to write one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.backends.partial import EMPTY
from maxendnet.data.truth import Kinds, known
from maxendnet.structures.layout import FloatArray
from maxendnet.structures.ngrams import SeenNGrams, ends_of

if TYPE_CHECKING:
    from maxendnet.backends import Threads
    from maxendnet.data.examples import Examples

IntArray = NDArray[np.int32]


class EdgeTable(NamedTuple):
    """Numbers that are added to the score of the two labels of an edge.

    ``rows[row[e], a, b]`` is added where edge e has the labels a and b; a is that of its first node, as the user wrote
    it. Edges of a forest have the number of the node that they join to its parent.
    """

    rows: FloatArray
    """(n_rows, n_labels, n_labels); the first row is 0."""
    row: IntArray
    """(n_edges,), or of a forest (n_nodes,): 0 for a root."""

    def values(self, structure: Any, q: Any) -> FloatArray:
        """What is added to every example under a labelling or a fractional labelling."""
        if isinstance(q, np.ndarray):
            _, first, second = structure.edge_labels(q)
            added = self.rows[self.row, first, second]
        else:
            added = np.einsum("eab,eab->e", q.edge, self.rows[self.row])
        return sums(added, getattr(structure, "edge_offsets", structure.offsets))


class NGramTable(NamedTuple):
    """Numbers that are added to the score of labels of several nodes in a row.

    ``rows[row[t], k]`` is added where n-gram k ends at node t.
    """

    ngrams: SeenNGrams
    rows: FloatArray
    """(n_rows, n_ngrams)"""
    row: IntArray
    """(n_nodes,)"""

    def values(self, structure: Any, q: Any) -> FloatArray:
        """What is added to every example under a labelling or a fractional labelling."""
        ending = getattr(q, "ending", None)
        if ending is None:
            ending = np.stack([ends_of(gram, q, structure.offsets) for gram in self.ngrams.tuples()], axis=1)
        return sums(np.einsum("tk,tk->t", ending, self.rows[self.row]), structure.offsets)


class Table(NamedTuple):
    """Numbers that are added to the score of a label at a node, such as the costs of wrong labels.

    ``rows[row[t], a]`` is added for label a at node t: a small table of rows, and a row number for every node. A
    structure that has ``edge_labels`` also takes a table for edges, and one that has ``takes_ngrams`` one for n-grams.
    """

    rows: FloatArray
    """(n_rows, n_labels)"""
    row: IntArray
    """(n_nodes,)"""
    joint: EdgeTable | NGramTable | None = None

    def at_nodes(self) -> FloatArray:
        """What is added at every node, shape (n_nodes, n_labels)."""
        return self.rows[self.row]


class Marginals(NamedTuple):
    """A fractional labelling: the weight of every label at every node, and of the labels of every clique."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    edge: FloatArray | None = None
    """(n_nodes, n_labels, n_labels) of the edge that joins a node to its parent, as the user wrote it (row: first
    node); zero for a root. None where it was not asked for."""
    siblings: FloatArray | None = None
    """(n_nodes, n_labels, n_labels, n_labels) of a node with its left neighbour and its parent: label of the parent,
    of the left neighbour, of the node; zero where there is none."""


class Excess(NamedTuple):
    """By how much a maximum over all labellings, hard or soft, is above the score of the truth."""

    values: FloatArray
    """(n_examples,)"""
    slope: FloatArray
    """Gradient with respect to the weights of the sum over examples, each times its weight and its price; (n_weights,).
    Empty if it was not asked for."""
    counted: FloatArray
    """(n_examples,): expected value of the table ``counted``; zeros where none was given or there is no slope."""
    short: FloatArray = EMPTY
    """(n_examples,): of a structure whose aggregates are upper bounds, by how much the values are above those of the
    fractional labellings that the slope and ``counted`` belong to. Empty where they are equal."""


class Price(Protocol):
    """From the values of examples to a factor for the gradient of each."""

    @property
    def C(self) -> float: ...

    @property
    def code(self) -> int:
        """The number by which kernels know it; see `maxendnet.losses.slack`."""
        ...

    def __call__(self, values: FloatArray) -> FloatArray: ...


class Ask(NamedTuple):
    """What is wanted of `excess` beside the values."""

    counted: Table | None = None
    """Its expected value is reported."""
    price: Price | None = None
    """From the values to a factor for the gradient of each example; None is 1."""
    gradient: bool = True
    single: bool = False
    """The search may be made in float32."""
    packed: bool = False
    """The slope may stay in the order in which kernels add it up; `unpack` puts it in that of the weights."""


GRADIENT = Ask()


@runtime_checkable
class BoundStructure(Protocol):
    """A structure with examples: what losses, solvers and estimators need of it.

    Labellings are int32 arrays over all nodes. Fractional labellings are `Marginals`, or another object with an array
    ``node``. ``table`` is a `Table` or None. Methods that work on all examples take a ``backend`` for its threads, or
    None.

    What a structure may offer beyond this, each by the method of that name: ``excess`` (losses without holding all
    marginals), ``decode``, ``max_marginals``, ``top`` and ``sample`` (predictions), ``differences`` (sparse features of
    labellings), ``curvature`` (a scale of the weights), ``ranges``, ``work_per_node`` and ``slope_size`` (shares of
    work for threads), ``edge_labels`` and ``takes_ngrams`` (costs of several labels together, see `EdgeTable` and
    `NGramTable`), ``blocks`` (kernels for `BlockFrankWolfe`), ``pairwise`` (kernels for forests), ``relaxed`` (the
    aggregates of `excess` are upper bounds, and not attained by labellings), ``prove`` (a bound for every prediction).
    Labels that are not known need ``row`` and ``kinds`` (what is known, see `maxendnet.data.truth`), ``within_truth``
    (the same structure, limited to labellings that agree with what is known) and ``completed`` (the same structure with
    a labelling taken for the true one).
    """

    described: str
    """What it is, for messages."""
    layout: Any
    """A `Layout`, or another object with ``n_weights``, ``parts`` and ``join``."""
    n_labels: int
    offsets: NDArray[np.int64]
    """Example i owns nodes ``offsets[i]:offsets[i + 1]``."""
    y: IntArray
    """The true labels; empty if the examples have none."""
    sample_weight: FloatArray
    """(n_examples,): the weight of each example."""

    def take(self, first: int, last: int) -> BoundStructure:
        """Examples [first, last) as a bound structure of their own."""
        ...

    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Highest score of every example, and a labelling that has it."""
        ...

    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Marginals]:
        """Log-partition of every example and its gradient with respect to scores: the marginals.

        With ``cliques`` those of cliques too.
        """
        ...

    def score(self, w: FloatArray, q: IntArray | Marginals) -> FloatArray:
        """Score of a labelling or fractional labelling, for every example."""
        ...

    def features(self, q: IntArray | Marginals, weight: FloatArray | None = None) -> FloatArray:
        """Features of a labelling or fractional labelling, summed over examples; the adjoint of `score`.

        ``weight`` has a factor for every example; None is 1.
        """
        ...


class Structure(Protocol):
    """A structure without examples: options only. It is a dataclass on `maxendnet.piece.Piece`.

    Model files need ``layout_type``, the class of its layouts, where that is not `maxendnet.structures.Layout`: a
    dataclass of numbers, text, arrays, None, or tuples of these. ``misfit(layout, n_features_in, classes)``, which is
    optional, says what of a layout from a file does not fit the options; empty if all does.
    """

    def layout(self, examples: Examples, classes: NDArray) -> Any:
        """The layout of weights for labelled examples."""
        ...

    def bind(self, examples: Examples, classes: NDArray, layout: Any = None) -> BoundStructure:
        """The structure with these examples. With a layout, that of a fitted model, which the examples must fit."""
        ...


# ---- what follows from the methods above -----------------------------------------------------------------------------


def excess(structure: Any, aggregate: str, w: FloatArray, table: Table | None = None, ask: Ask = GRADIENT) -> Excess:
    """``aggregate(w, table) - score(w, truth)`` for every example, and a (sub)gradient.

    The table must be 0 for the true labels, or is counted for them too.

    Parameters
    ----------
    structure : BoundStructure
        A structure that has a method of this name, with kernels that never hold all marginals at once, is asked itself.
    aggregate : {"maximum", "logsum"}
    w : ndarray of shape (n_weights,)
    table : Table, optional
        Added to the scores.
    ask : Ask
    """
    own = getattr(structure, "excess", None)
    return composed_excess(structure, aggregate, w, table, ask) if own is None else own(aggregate, w, table, ask)


def composed_excess(structure: Any, aggregate: str, w: FloatArray, table: Table | None, ask: Ask) -> Excess:
    """`excess` from the methods that every structure has: an aggregate, its features, and the score of the truth."""
    if aggregate == "maximum":
        values, q = structure.maximum(w, table)
    else:
        values, q = structure.logsum(w, table, cliques=ask.gradient)
    truth = structure.score(w, structure.y)
    if table is not None:
        truth = truth + table_values(structure, table, structure.y)
    values = np.maximum(values - truth, 0.0)  # the truth is among all labellings: what is below is rounding
    expected = np.zeros(len(values))
    if not ask.gradient:
        return Excess(values, np.zeros(0), expected)
    if ask.counted is not None:
        expected = table_values(structure, ask.counted, q)
    factor = structure.sample_weight * (1.0 if ask.price is None else ask.price(values))
    return Excess(values, structure.features(q, factor) - structure.features(structure.y, factor), expected)


def table_values(structure: Any, table: Table, q: Any) -> FloatArray:
    """What a table adds to every example under a labelling or a fractional labelling, which has cliques if needed."""
    if isinstance(q, np.ndarray):
        values = table.rows[table.row, q]
    else:
        values = (q.node * table.at_nodes()).sum(axis=1)
    total = sums(values, structure.offsets)
    return total if table.joint is None else total + table.joint.values(structure, q)


def decode(structure: Any, w: FloatArray, backend: Threads | None = None) -> IntArray:
    """A best labelling of every example."""
    if backend is not None and not backend.local:
        return backend.decode(structure, w)  # type: ignore[attr-defined]
    if hasattr(structure, "decode"):
        return structure.decode(w, backend=backend)
    return structure.maximum(w, backend=backend)[1]


def no_table(structure: Any) -> Table:
    """A table of zeros."""
    return Table(np.zeros((1, structure.n_labels)), np.zeros_like(structure.y))


def row_of(structure: Any) -> IntArray:
    """The row of every node in tables of costs: the kind of its truth, or where all is known its label."""
    return structure.row if hasattr(structure, "row") else structure.y


def kinds_of(structure: Any) -> Kinds:
    """What is known of nodes, for each of these rows."""
    return structure.kinds if hasattr(structure, "kinds") else known(structure.n_labels)


def unpack(structure: Any, slope: FloatArray) -> FloatArray:
    """A slope that `excess` left packed, in the order of the weights."""
    return structure.unpack(slope) if hasattr(structure, "unpack") else slope


def differences(structure: Any, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
    """``df_i(y) = f(x_i, y_i) - f(x_i, y)`` for several labellings, shape (n_rows, n_weights).

    Parameters
    ----------
    structure : BoundStructure
        With true labels.
    examples : ndarray of shape (n_rows,)
        The example of each labelling; one may occur several times.
    labels : ndarray
        All labellings, one behind the other.
    """
    own = getattr(structure, "differences", None)
    if own is not None:
        return own(examples, labels)
    rows, begin = [], 0
    for i in examples.tolist():
        one = structure.take(i, i + 1)
        found = labels[begin : begin + len(one.y)]
        begin += len(one.y)
        rows.append(sparse.csr_array((one.features(one.y) - one.features(found))[None, :]))
    return sparse.csr_array(sparse.vstack([sparse.csr_array((0, structure.layout.n_weights)), *rows]))


def sums(values: FloatArray, offsets: NDArray[np.int64]) -> FloatArray:
    """Sum of the values of each example's nodes.

    Examples
    --------
    >>> sums(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 3.0]
    """
    some = np.diff(offsets) > 0
    out = np.zeros(len(some))
    if some.any():
        out[some] = np.add.reduceat(values, offsets[:-1][some])
    return out

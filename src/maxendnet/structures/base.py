"""What a structure offers: the piece that a user composes, and the same piece bound to examples.

A *piece* (`Chain`, `Tree`, `Independent`, `Choice`) holds options and no data. `bind` gives a *bound structure*, which
knows the sizes, the layout of the weight vector, and the examples; losses, solvers and estimators see examples only
through its methods. docs/extend/structure.md shows how to write one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.backends.partial import EMPTY
from maxendnet.data.truth import LabelSets, known
from maxendnet.piece import Piece
from maxendnet.structures.automata.ngrams import SeenNGrams, ends_of
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.weights.layout import FloatArray, Layout

if TYPE_CHECKING:
    from maxendnet.backends import Threads
    from maxendnet.backends.threads import Range
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
        return sums(added, structure.edge_offsets)


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
    structure with the capability ``edge_costs`` also takes a table for edges, one with ``ngram_costs`` one for n-grams.
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
    """(slope_size,): gradient with respect to the weights of the sum over examples, each times its weight and its slack
    derivative, in the layout in which kernels add it up; `unpad` puts it in the order of the weights. Empty if it was
    not requested."""
    expected_table: FloatArray
    """(n_examples,): expected value of the table of this name; zeros without a table or a slope."""
    relaxation_gap: FloatArray = EMPTY
    """(n_examples,): for relaxed structures, the bound minus the value of the fractional labelling of the slope and of
    ``expected_table``. Empty for exact structures."""


class Derivative(Protocol):
    """Derivative of a function of the value of an example: the factor of its gradient."""

    @property
    def C(self) -> float: ...

    @property
    def code(self) -> int:
        """The number by which kernels know it; see `maxendnet.losses.slack`."""
        ...

    def __call__(self, values: FloatArray) -> FloatArray: ...


class ExcessOptions(NamedTuple):
    """Options of `excess`, from the solver by way of the loss to the kernels."""

    gradient: bool = True
    single: bool = False
    """Whether the search may be in float32."""
    values: bool = False
    """Whether a loss reports its value for every example; `excess` always does."""
    expected_table: Table | None = None
    """Table whose expected value is reported; set by the loss."""
    slack_derivative: Derivative | None = None
    """Factor of the gradient of each example, by its value; set by the loss. None is 1."""


GRADIENT = ExcessOptions()


class BoundStructure(ABC):
    """A structure with examples: all that losses, solvers and estimators see of them.

    Labellings are int32 arrays over all nodes. Fractional labellings are `Marginals`, or another object with an array
    ``node``. ``table`` is a `Table` or None. Methods that work on all examples take a ``backend`` for its threads, or
    None. A subclass writes the abstract methods. The others have a default, which a faster one may replace. What a
    structure offers beyond them it declares in ``capabilities``.
    """

    capabilities: Capabilities = Capabilities()
    described: str = "a structure"
    """What it is, for messages."""
    inference_note: str = ""
    """How inference is done, for ``solver_``; empty where there is nothing to say."""
    mapped: bool = False
    """Whether features are memory-mapped."""
    layout: Any
    """A `Layout`, or another object with ``n_weights``, ``segments`` and ``join``."""
    n_labels: Any
    """int"""
    offsets: Any
    """int64 ndarray: example i owns nodes ``offsets[i]:offsets[i + 1]``."""
    y: Any
    """int32 ndarray: the true labels; empty if the examples have none."""
    sample_weight: Any
    """ndarray of shape (n_examples,): the weight of each example."""

    @abstractmethod
    def take(self, first: int, last: int) -> Any:
        """Examples [first, last) as a bound structure of their own."""

    @abstractmethod
    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Highest score of every example, and a labelling that has it."""

    @abstractmethod
    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Any]:
        """Log-partition of every example and its gradient with respect to scores: the marginals.

        With ``cliques`` those of cliques too.
        """

    @abstractmethod
    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Score of a labelling or fractional labelling, for every example."""

    @abstractmethod
    def features(self, q: Any, weight: FloatArray | None = None) -> FloatArray:
        """Features of a labelling or fractional labelling, summed over examples; the adjoint of `score`.

        ``weight`` has a factor for every example; None is 1.
        """

    # ---- with a default ------------------------------------------------------------------------------------------

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """A best labelling of every example; ``added`` has a number for every label, which is added to its scores."""
        if added is None:
            return self.maximum(w, backend=backend)[1]
        same_row = np.zeros(int(self.offsets[-1]), dtype=np.int32)
        return self.maximum(w, Table(added[None], same_row), backend=backend)[1]

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """``aggregate(w, table) - score(w, truth)`` for every example, and a (sub)gradient.

        The table must be 0 for the true labels, or is counted for them too. Kernels replace it, so that marginals of
        all examples are never held at once.

        Parameters
        ----------
        aggregate : {"maximum", "logsum"}
        w : ndarray of shape (n_weights,)
        table : Table, optional
            Added to the scores.
        options : ExcessOptions
        """
        return composed_excess(self, aggregate, w, table, options)

    def unpad(self, slope: FloatArray) -> FloatArray:
        """The slope of `excess` in the order of the weights, shape (n_weights,)."""
        return slope

    def differences(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        """``df_i(y) = f(x_i, y_i) - f(x_i, y)`` for several labellings, shape (n_rows, n_weights).

        Parameters
        ----------
        examples : ndarray of shape (n_rows,)
            The example of each labelling; one may occur several times.
        labels : ndarray
            All labellings, concatenated.
        """
        rows, begin = [], 0
        for i in examples.tolist():
            example = self.take(i, i + 1)
            labelling = labels[begin : begin + len(example.y)]
            begin += len(example.y)
            rows.append(sparse.csr_array((example.features(example.y) - example.features(labelling))[None, :]))
        return sparse.csr_array(sparse.vstack([sparse.csr_array((0, self.layout.n_weights)), *rows]))

    def curvature(self) -> FloatArray:
        """About the diagonal of the Hessian of the log loss at ``w = 0``, as a scale of the weights."""
        return np.ones(self.layout.n_weights)

    def ranges(self, n_shards: int = 16, slow: float = 1.0) -> list[list[Range]]:
        """Examples in shards, and those in short ranges; without, the structure stays whole."""
        return []

    @property
    def work_per_node(self) -> float:
        """Multiplications for one node, about."""
        return float(self.n_labels) ** 2

    @property
    def slope_size(self) -> int:
        """Numbers that a shard adds up for a gradient."""
        return int(self.layout.n_weights)

    @property
    def row(self) -> IntArray:
        """Row of every node in tables of costs: its label set, or where all labels are known its label."""
        return self.y

    @property
    def label_sets(self) -> LabelSets:
        """The label sets of nodes: what is known of their labels, for each of these rows."""
        return known(self.n_labels)

    @property
    def edge_offsets(self) -> NDArray[np.int64]:
        """Example i owns edges ``edge_offsets[i]:edge_offsets[i + 1]``."""
        return self.offsets


class Structure(Piece):
    """A structure without examples: options only. Subclasses are dataclasses with `layout` and `bind`."""

    layout_type: type = Layout
    """Class of the layout. If it is not `Layout`, it is a dataclass of numbers, text, arrays, None, or tuples of these,
    so that model files can hold it."""
    whole: bool = False
    """Whether an example has one label, which all its nodes have."""
    hidden: int = 1
    """States of a label."""
    takes_rules: bool = False
    """Whether `bind` takes ``rules`` for predictions."""
    expects_sequences: bool = False
    """Whether a table of single rows is probably a mistake."""

    def layout(self, examples: Examples, classes: NDArray) -> Any:
        """The layout of weights for labelled examples."""
        raise NotImplementedError(f"{type(self).__name__} needs a method layout(examples, classes).")

    def bind(self, examples: Examples, classes: NDArray, layout: Any = None) -> Any:
        """The structure with these examples. With a layout, that of a fitted model, which the examples must fit."""
        raise NotImplementedError(f"{type(self).__name__} needs a method bind(examples, classes, layout).")

    def pair_masks(self, classes: NDArray, rules: Any = None) -> Any:
        """`PairMasks` of a structure that joins each node to the previous one or to none; None for others.

        With it, predictions need no `bind` for examples that have only features; see `SequenceBinder`.
        """
        return None

    def label_view(self, bound: Any) -> Any:
        """What predicts labels with a bound structure, whose own may be states of labels."""
        return bound

    def named_weights(self, layout: Any, w: FloatArray) -> dict[str, Any]:
        """The weights by name; estimators show them with an underscore, as ``coef_``."""
        return {}

    def ngram_weights(self, layout: Any, w: FloatArray, classes: NDArray) -> Any:
        """The weights of n-grams by their labels; None where there are none."""
        return None

    def layout_error(self, layout: Any, n_features_in: int, classes: NDArray) -> str:
        """What is wrong with the layout of a model file; empty if it fits."""
        return ""


# ---- what follows from the methods above -----------------------------------------------------------------------------


def composed_excess(
    structure: Any, aggregate: str, w: FloatArray, table: Table | None, options: ExcessOptions
) -> Excess:
    """`excess` from the methods that every structure has: an aggregate, its features, and the score of the truth."""
    if aggregate == "maximum":
        values, q = structure.maximum(w, table)
    else:
        values, q = structure.logsum(w, table, cliques=options.gradient)
    truth = structure.score(w, structure.y)
    if table is not None:
        truth = truth + table_values(structure, table, structure.y)
    values = np.maximum(values - truth, 0.0)  # the truth is among all labellings: what is below is rounding
    expected = np.zeros(len(values))
    if not options.gradient:
        return Excess(values, np.zeros(0), expected)
    if options.expected_table is not None:
        expected = table_values(structure, options.expected_table, q)
    derivative = options.slack_derivative
    factor = structure.sample_weight * (1.0 if derivative is None else derivative(values))
    return Excess(values, structure.features(q, factor) - structure.features(structure.y, factor), expected)


def table_values(structure: Any, table: Table, q: Any) -> FloatArray:
    """What a table adds to every example under a labelling or a fractional labelling, which has cliques if needed."""
    if isinstance(q, np.ndarray):
        values = table.rows[table.row, q]
    else:
        values = (q.node * table.at_nodes()).sum(axis=1)
    total = sums(values, structure.offsets)
    return total if table.joint is None else total + table.joint.values(structure, q)


def decode(structure: Any, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
    """`BoundStructure.decode`, on the workers of the backend if it has any."""
    if backend is not None and not backend.local:
        if added is None:
            labels = backend.each(decode, backend.place(structure), np.asarray(w))
            return np.concatenate([np.zeros(0, np.int32), *labels])
        backend = None
    return structure.decode(w, backend, added)


def no_table(structure: Any) -> Table:
    """A table of zeros."""
    return Table(np.zeros((1, structure.n_labels)), np.zeros_like(structure.y))


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

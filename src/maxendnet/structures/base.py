"""Base classes of structures and bound structures.

A *structure* (`Chain`, `Tree`, `Graph`, `Independent`, `Choice`) holds options and no data. `bind` returns a *bound
structure*, which holds the layout of the weight vector and the examples. Losses, solvers and estimators access examples
only through its methods. docs/extend/structure.md shows how to write one.
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
    """Values added to the scores of label pairs at edges, such as edge costs.

    ``rows[row[e], a, b]`` is added if edge e has the labels a and b, where a is the label of the user's first node.
    Edges of a forest are numbered by their child node.
    """

    rows: FloatArray
    """(n_rows, n_labels, n_labels); the first row is zero."""
    row: IntArray
    """(n_edges,), or (n_nodes,) for a forest, where roots have row 0."""

    def values(self, structure: Any, q: Any) -> FloatArray:
        """Sum of the values of each example, for a labelling or a fractional labelling."""
        if isinstance(q, np.ndarray):
            _, first, second = structure.edge_labels(q)
            values = self.rows[self.row, first, second]
        else:
            values = np.einsum("eab,eab->e", q.edge, self.rows[self.row])
        return sums(values, structure.edge_offsets)


class NGramTable(NamedTuple):
    """Values added to the scores of label n-grams, such as n-gram costs.

    ``rows[row[t], k]`` is added if n-gram k ends at node t.
    """

    ngrams: SeenNGrams
    rows: FloatArray
    """(n_rows, n_ngrams)"""
    row: IntArray
    """(n_nodes,)"""

    def values(self, structure: Any, q: Any) -> FloatArray:
        """Sum of the values of each example, for a labelling or a fractional labelling."""
        ending = getattr(q, "ending", None)
        if ending is None:
            ending = np.stack([ends_of(gram, q, structure.offsets) for gram in self.ngrams.tuples()], axis=1)
        return sums(np.einsum("tk,tk->t", ending, self.rows[self.row]), structure.offsets)


class Table(NamedTuple):
    """Values added to the scores of labels at nodes, such as costs of wrong labels.

    ``rows[row[t], a]`` is added for label a at node t. Structures with the capability ``edge_costs`` also support an
    `EdgeTable`, and structures with ``ngram_costs`` an `NGramTable`.
    """

    rows: FloatArray
    """(n_rows, n_labels)"""
    row: IntArray
    """(n_nodes,)"""
    joint: EdgeTable | NGramTable | None = None

    def at_nodes(self) -> FloatArray:
        """Values of every node, shape (n_nodes, n_labels)."""
        return self.rows[self.row]


class Marginals(NamedTuple):
    """Fractional labelling of a forest: node, edge and sibling marginals."""

    node: FloatArray
    """(n_nodes, n_labels)"""
    edge: FloatArray | None = None
    """(n_nodes, n_labels, n_labels): marginals of the edge between a node and its parent; rows are labels of the user's
    first node.
    Zero for roots. None if not requested."""
    siblings: FloatArray | None = None
    """(n_nodes, n_labels, n_labels, n_labels): joint marginals of the labels of the parent, the left sibling and
    the node; zero for nodes without a left sibling."""


class Excess(NamedTuple):
    """Maximum or log-partition minus the score of the truth, and its gradient."""

    values: FloatArray
    """(n_examples,)"""
    slope: FloatArray
    """(slope_size,): gradient of the sum over examples, each times its sample weight and slack derivative, in the
    layout of the kernels; `unpad` converts it to the order of the weights. Empty if not requested."""
    expected_table: FloatArray
    """(n_examples,): expected value of `ExcessOptions.expected_table`; zeros without such a table or a slope."""
    relaxation_gap: FloatArray = EMPTY
    """(n_examples,): for relaxed structures, the bound minus the value of the fractional labelling. Empty for exact
    structures."""


class Derivative(Protocol):
    """Derivative of the slack function, the factor of the gradient of an example."""

    @property
    def C(self) -> float: ...

    @property
    def code(self) -> int:
        """Number of the slack function in the kernels; see `maxendnet.losses.slack`."""
        ...

    def __call__(self, values: FloatArray) -> FloatArray: ...


class ExcessOptions(NamedTuple):
    """Options of `excess`, from the solver through the loss to the kernels."""

    gradient: bool = True
    single: bool = False
    """Whether kernels may use float32."""
    values: bool = False
    """Whether a loss returns its value for every example. `excess` always returns these values."""
    expected_table: Table | None = None
    """Table whose expected value is returned. It is set by the loss."""
    slack_derivative: Derivative | None = None
    """Slack derivative: the factor of the gradient of each example, set by the loss. None means 1."""


GRADIENT = ExcessOptions()


class BoundStructure(ABC):
    """A structure together with examples.

    Losses, solvers and estimators access the examples through this interface.

    Labellings are int32 arrays over all nodes. Fractional labellings are `Marginals`, or another object with an array
    ``node``. ``table`` is a `Table` or None. ``backend`` provides threads, or is None for one thread. Subclasses
    implement the abstract methods, and may replace the other methods by faster ones. Optional methods are declared in
    ``capabilities``.
    """

    capabilities: Capabilities = Capabilities()
    described: str = "a structure"
    """Short description, for messages."""
    inference_note: str = ""
    """Note on exact or relaxed inference that is appended to ``solver_``."""
    mapped: bool = False
    """Whether features are memory-mapped."""
    layout: Any
    """A `Layout`, or another object with ``n_weights``, ``segments`` and ``join``."""
    n_labels: Any
    """int"""
    offsets: Any
    """int64 ndarray: example i has the nodes ``offsets[i]:offsets[i + 1]``."""
    y: Any
    """int32 ndarray: the true labels; empty if the examples have none."""
    sample_weight: Any
    """ndarray of shape (n_examples,)"""

    @abstractmethod
    def take(self, first: int, last: int) -> Any:
        """Return examples [first, last) as a bound structure."""

    @abstractmethod
    def maximum(
        self, w: FloatArray, table: Table | None = None, backend: Threads | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the highest score of every example, and a labelling that attains it."""

    @abstractmethod
    def logsum(
        self, w: FloatArray, table: Table | None = None, cliques: bool = False, backend: Threads | None = None
    ) -> tuple[FloatArray, Any]:
        """Return the log-partition of every example, and the marginals.

        With ``cliques``, marginals include those of cliques.
        """

    @abstractmethod
    def score(self, w: FloatArray, q: Any) -> FloatArray:
        """Return the score of every example, for a labelling or a fractional labelling."""

    @abstractmethod
    def features(self, q: Any, weight: FloatArray | None = None) -> FloatArray:
        """Return the features of a labelling or fractional labelling.

        The features are summed over examples, each multiplied by its ``weight``, an array of shape (n_examples,) or
        None for 1. `features` is the adjoint of `score`.
        """

    # ---- methods with a default --------------------------------------------------------------------------------------

    def decode(self, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
        """Return the best labelling of every example.

        ``added``, of shape (n_labels,), is added to the scores of labels.
        """
        if added is None:
            return self.maximum(w, backend=backend)[1]
        same_row = np.zeros(int(self.offsets[-1]), dtype=np.int32)
        return self.maximum(w, Table(added[None], same_row), backend=backend)[1]

    def excess(
        self, aggregate: str, w: FloatArray, table: Table | None = None, options: ExcessOptions = GRADIENT
    ) -> Excess:
        """Return ``aggregate(w, table) - score(w, truth)`` and a (sub)gradient.

        The value of the table for the true labels is subtracted too. Structures with kernels override this method, to
        avoid storing the marginals of all examples.

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
        """Convert the slope of `excess` to the order of the weights, shape (n_weights,)."""
        return slope

    def differences(self, examples: NDArray[np.int64], labels: IntArray) -> sparse.csr_array:
        """Return rows ``df_i(y) = f(x_i, y_i) - f(x_i, y)``, shape (n_rows, n_weights).

        Parameters
        ----------
        examples : ndarray of shape (n_rows,)
            The example of each labelling; examples may repeat.
        labels : ndarray
            The labellings, concatenated.
        """
        rows, begin = [], 0
        for i in examples.tolist():
            example = self.take(i, i + 1)
            labelling = labels[begin : begin + len(example.y)]
            begin += len(example.y)
            rows.append(sparse.csr_array((example.features(example.y) - example.features(labelling))[None, :]))
        return sparse.csr_array(sparse.vstack([sparse.csr_array((0, self.layout.n_weights)), *rows]))

    def curvature(self) -> FloatArray:
        """Return the approximate diagonal Hessian of the log loss at ``w = 0``."""
        return np.ones(self.layout.n_weights)

    def ranges(self, n_shards: int = 16, slow: float = 1.0) -> list[list[Range]]:
        """Return shards of examples as lists of short ranges, or an empty list for one shard."""
        return []

    @property
    def work_per_node(self) -> float:
        """Approximate number of multiplications per node."""
        return float(self.n_labels) ** 2

    @property
    def slope_size(self) -> int:
        """Length of the slope of `excess`."""
        return int(self.layout.n_weights)

    @property
    def row(self) -> IntArray:
        """Row of every node in cost tables.

        The row is the number of the label set of the node, or its label if all labels are known.
        """
        y: IntArray = self.y
        return y

    @property
    def label_sets(self) -> LabelSets:
        """Label sets: the possible true labels for each row."""
        return known(self.n_labels)

    @property
    def edge_offsets(self) -> NDArray[np.int64]:
        """Offsets of edges: example i has the edges ``edge_offsets[i]:edge_offsets[i + 1]``."""
        offsets: NDArray[np.int64] = self.offsets
        return offsets


class Structure(Piece):
    """Base class of structures, which hold options but no examples.

    Subclasses are dataclasses that implement `layout` and `bind`.
    """

    layout_type: type = Layout
    """Class of the layout. Model files need a `Layout`, or a dataclass of numbers, strings, arrays, None, or tuples of
    these."""
    whole: bool = False
    """Whether all nodes of an example share one label."""
    hidden: int = 1
    """Number of hidden states per label."""
    takes_rules: bool = False
    """Whether `bind` accepts an argument ``rules``."""
    expects_sequences: bool = False
    """Whether to warn if every example has a single node."""

    def layout(self, examples: Examples, classes: NDArray[Any]) -> Any:
        """Return the layout of the weights for labelled examples."""
        raise NotImplementedError(f"{type(self).__name__} needs a method layout(examples, classes).")

    def bind(self, examples: Examples, classes: NDArray[Any], layout: Any = None) -> Any:
        """Return the structure bound to these examples.

        ``layout`` is the layout of a fitted model, or None for new weights.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method bind(examples, classes, layout).")

    def pair_masks(self, classes: NDArray[Any], rules: Any = None) -> Any:
        """Return the `PairMasks` of a first-order chain or of independent nodes, or None.

        With masks, examples that consist only of features are predicted without `bind`; see `SequenceBinder`.
        """
        return None

    def label_view(self, bound: Any) -> Any:
        """Return a view that predicts labels instead of hidden states."""
        return bound

    def named_weights(self, layout: Any, w: FloatArray) -> dict[str, Any]:
        """Return the weights by name; estimators append an underscore, as in ``coef_``."""
        return {}

    def ngram_weights(self, layout: Any, w: FloatArray, classes: NDArray[Any]) -> Any:
        """Return the weights of n-grams by their labels, or None."""
        return None

    def layout_error(self, layout: Any, n_features_in: int, classes: NDArray[Any]) -> str:
        """Error message if the layout does not match the structure, else an empty string."""
        return ""


# ---- functions of any bound structure --------------------------------------------------------------------------------


def composed_excess(
    structure: Any, aggregate: str, w: FloatArray, table: Table | None, options: ExcessOptions
) -> Excess:
    """Compute `excess` from an aggregate, its features and the true score."""
    if aggregate == "maximum":
        values, q = structure.maximum(w, table)
    else:
        values, q = structure.logsum(w, table, cliques=options.gradient)
    truth = structure.score(w, structure.y)
    if table is not None:
        truth = truth + table_values(structure, table, structure.y)
    values = np.maximum(values - truth, 0.0)  # negative values are rounding errors
    expected = np.zeros(len(values))
    if not options.gradient:
        return Excess(values, np.zeros(0), expected)
    if options.expected_table is not None:
        expected = table_values(structure, options.expected_table, q)
    derivative = options.slack_derivative
    factor = structure.sample_weight * (1.0 if derivative is None else derivative(values))
    return Excess(values, structure.features(q, factor) - structure.features(structure.y, factor), expected)


def table_values(structure: Any, table: Table, q: Any) -> FloatArray:
    """Sum of the table values of each example, for a labelling or a fractional labelling."""
    if isinstance(q, np.ndarray):
        values = table.rows[table.row, q]
    else:
        values = (q.node * table.at_nodes()).sum(axis=1)
    total = sums(values, structure.offsets)
    return total if table.joint is None else total + table.joint.values(structure, q)


def decode(structure: Any, w: FloatArray, backend: Threads | None = None, added: FloatArray | None = None) -> IntArray:
    """Return the best labellings, on the workers of the backend if it has any."""
    if backend is not None and not backend.local:
        if added is None:
            parts = backend.each(decode, backend.place(structure), np.asarray(w))
            return np.concatenate([np.zeros(0, np.int32), *parts])
        backend = None
    labels: NDArray[np.int32] = structure.decode(w, backend, added)
    return labels


def no_table(structure: Any) -> Table:
    """Table of zeros."""
    return Table(np.zeros((1, structure.n_labels)), np.zeros_like(structure.y))


def sums(values: FloatArray, offsets: NDArray[np.int64]) -> FloatArray:
    """Sum node values by example.

    Examples
    --------
    >>> sums(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 3.0]
    """
    nonempty = np.diff(offsets) > 0
    totals = np.zeros(len(nonempty))
    if nonempty.any():
        totals[nonempty] = np.add.reduceat(values, offsets[:-1][nonempty])
    return totals

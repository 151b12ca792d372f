"""Types of `_kernels.py` and of the compiled functions, which are bound in `kernels/bindings`.

Functions write their results to arrays of the caller.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import final

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.structures.bound.graph import GraphScores

_F32 = NDArray[np.float32]
_F64 = NDArray[np.float64]
_I32 = NDArray[np.int32]
_I64 = NDArray[np.int64]
_U8 = NDArray[np.uint8]
_U64 = NDArray[np.uint64]
_Real = NDArray[np.float32] | NDArray[np.float64]

def levels() -> tuple[str, ...]: ...
def level() -> str: ...
def use(name: str) -> None: ...
def at_level(name: str) -> AbstractContextManager[None]: ...

@final
class Shape:
    def __init__(
        self,
        n_features: int,
        n_labels: int,
        n_edge_types: int,
        n_edge_features: int,
        n_label_features: int,
        rest: int = -1,
        row_offsets: _I64 | None = None,
        row_labels: _I32 | None = None,
    ) -> None: ...

@final
class Groups:
    def __init__(
        self,
        examples: _I64,
        node_offsets: _I64,
        feature_offsets: _I64,
        features: _I32,
        entry_offsets: _I64,
        entry_nodes: _I32,
        entry_values: _F64,
        /,
    ) -> None: ...

@final
class ActiveSets:
    """Dual variables: for each example, the labellings with dual weight."""

    def __init__(self, offsets: _I64, y: _I32, sample_weight: _F64, C: float, /) -> None: ...
    def __len__(self) -> int: ...
    def copy(self) -> ActiveSets: ...
    def __getstate__(self) -> tuple[_I64, _I64, NDArray[np.uint16], _F64, _F64]: ...
    def __setstate__(self, arg: tuple[_I64, _I64, NDArray[np.uint16], _F64, _F64], /) -> None: ...
    def labellings(self) -> tuple[_I64, _F64, _F64, _I32]: ...
    def set_truth(self, offsets: _I64, y: _I32, /) -> None: ...
    def total_cost(self) -> float: ...
    def scale(self, factor: float, share: float) -> None: ...
    def fits(self, offsets: _I64, y: _I32, /) -> bool: ...

def padded(n_labels: int) -> int: ...
def group_features(
    indptr: _I64, indices: _I32, data: _F64, node_offsets: _I64, n_features: int
) -> tuple[_I64, _I32, _I64, _I32, _F64]: ...
def potential_ascent(
    batch: Batch,
    shape: Shape,
    kind: str,
    a: float,
    b: float,
    variance: _F64 | None,
    mean: _F64 | None,
    row_variance: _F64 | None,
    C: float,
    weights: _Real,
    eta: _Real,
    cost: _Real,
    picks: _I64,
    most_spread: float,
    least_change: float,
    bonus: float,
    steps: _F64,
    node_potentials: _Real,
    matrix_potentials: _Real,
    node_marginals: _Real,
    matrix_marginals: _Real,
    gaps: _F64,
) -> None: ...
def potential_look(
    batch: Batch,
    shape: Shape,
    cost: _F64,
    first: int,
    last: int,
    most_spread: float,
    node_potentials: _Real,
    matrix_potentials: _Real,
    node_marginals: _Real,
    matrix_marginals: _Real,
    entropies: _F64,
    truths: _F64,
    features: _F64,
) -> None: ...
def add_gram(indptr: _I64, indices: _I32, data: _F32, low: int, high: int, out: _F32) -> None: ...
def top(
    batch: Batch,
    forest: _Forest,
    k: int,
    first: int,
    last: int,
    values: _F64,
    labels: _I32,
    pause: Callable[[], object],
) -> None: ...
def prior_mean(
    kind: str, a: float, b: float, variance: _F64 | None, mean: _F64 | None, eta: _F64, out: _F64
) -> None: ...
def node_scores(batch: Batch, shape: Shape, weights: _F64, first: int, last: int, scores: _F64) -> None: ...
def add_features(batch: Batch, shape: Shape, shares: _F64, first: int, last: int, gradient: _F64) -> None: ...

@final
class Automaton:
    """Automaton: states in groups, arcs, and the n-grams that they fire."""

    def __init__(
        self,
        arcs: _I32,
        accepting: _U8,
        fired_offsets: _I64,
        fired: _I32,
        groups: _I64,
        targets: _I32,
        start: int,
        n_grams: int,
    ) -> None: ...
    @property
    def n_scores(self) -> int: ...

def automaton_scores(automaton: Automaton, grams: _Real, scores: _Real) -> None: ...

# Recursions: the weights and other arrays of a structure, apart from the batch. Weights and costs are float32 for
# searches or float64 for reported values. active_features and impossible accept a recursion without weights (None).
@final
class Forest32: ...

@final
class Forest64: ...

@final
class Paths32: ...

@final
class Paths64: ...

@final
class Hierarchy: ...

_Forest = Forest32 | Forest64
_Paths = Paths32 | Paths64
_Recursion = _Forest | _Paths | Hierarchy

def forest(
    shape: Shape, weights: _Real | None, mode: int = 0, steps: int = 0, groups: Groups | None = None
) -> _Forest: ...
def paths(shape: Shape, automaton: Automaton, weights: _Real | None) -> _Paths: ...
def hierarchy(
    shape: Shape,
    siblings: bool,
    weights: _F64 | None,
    table: _F64 | None,
    shift: _F64 | None,
    forbidden: _U8 | None,
) -> Hierarchy: ...

# Operations of recursions, overloaded in the bindings.
def decode(
    batch: Batch,
    recursion: _Recursion,
    cost: _Real | None,
    first: int,
    last: int,
    values: _F64 | None,
    labels: _I32,
) -> None: ...
def max_marginals(batch: Batch, recursion: _Recursion, first: int, last: int, out: _F64) -> None: ...
def marginals(
    batch: Batch,
    recursion: _Recursion,
    cost: _F64 | None,
    first: int,
    last: int,
    values: _F64,
    node: _F64 | None,
    *cliques: _F64 | None,
) -> None: ...
def sample(
    batch: Batch,
    recursion: _Recursion,
    cost: _F64 | None,
    uniforms: _F64,
    n_draws: int,
    first: int,
    last: int,
    labels: _I32,
) -> None: ...
def hinge_oracle(
    batch: Batch,
    recursion: _Recursion,
    cost: _Real,
    first: int,
    last: int,
    values: _F64,
    gradient: _F64 | None,
    slack: int,
    C: float,
) -> None: ...
def log_oracle(
    batch: Batch,
    recursion: _Recursion,
    cost: _Real | None,
    counted: _Real | None,
    first: int,
    last: int,
    values: _F64,
    costs: _F64 | None,
    gradient: _F64 | None,
) -> None: ...
def block_frank_wolfe(
    batch: Batch,
    recursion: _Recursion,
    kind: str,
    a: float,
    b: float,
    variance: _F64 | None,
    mean: _F64 | None,
    C: float,
    eta: _F64,
    cost: _Real,
    cost64: _F64,
    picks: _I64,
    inner: int,
    sets: ActiveSets,
    gaps: _F64,
) -> float: ...
def block_gaps(
    batch: Batch,
    recursion: _Recursion,
    cost: _F64,
    C: float,
    first: int,
    last: int,
    sets: ActiveSets,
    values: _F64,
    gaps: _F64,
) -> None: ...
def active_features(
    batch: Batch, recursion: _Recursion, sets: ActiveSets, first: int, last: int, eta: _F64
) -> None: ...
def impossible(batch: Batch, recursion: _Paths | Hierarchy, first: int, last: int, nodes: _I64) -> None: ...
def graph_orders(
    offsets: _I64, edge_offsets: _I64, edges: _I32, sizes: _I32, max_table: float, order: _I32, largest: _F64
) -> None: ...
def graph_maximum(graph: GraphScores, values: _F64, labels: _I32) -> None: ...
def graph_logsum(graph: GraphScores, values: _F64, node: _F64 | None, edge: _F64 | None) -> None: ...
def graph_max_marginals(graph: GraphScores, out: _F64) -> None: ...
def graph_sample(graph: GraphScores, uniforms: _F64, labels: _I32) -> None: ...
def graph_relaxed(
    graph: GraphScores,
    soft: bool,
    tol: float,
    max_sweeps: int,
    messages: _F64,
    temperature: _F64,
    upper: _F64,
    attained: _F64,
    node: _F64,
    edge: _F64 | None,
    labels: _I32,
    labels_score: _F64,
    n_sweeps: _I32,
) -> None: ...
def message_lanes(n_labels: int) -> int: ...
def read_cells(
    text: bytes, separator: str, docstart: bool
) -> tuple[list[tuple[_I32, _I64, _I64]], _I64, _I64] | None: ...
def name_slots(names: bytes, offsets: _I64, slots: _U64) -> bool: ...
def find_features(
    names: bytes,
    offsets: _I64,
    slots: _U64,
    macro_offsets: _I64,
    rows: _I64,
    columns: _I64,
    texts: bytes,
    text_offsets: _I64,
    cells: list[tuple[_I32, bytes, _I64]],
    at: _I64,
    out: _I32,
) -> None: ...

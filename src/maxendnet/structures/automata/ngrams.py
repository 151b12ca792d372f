"""N-grams of labels, and the automata that fire them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.ragged import offsets_of
from maxendnet.structures.automata.automaton import Automaton, check_arcs, trim
from maxendnet.utils.memory import check_memory

FloatArray = NDArray[np.float64]

START, END = "<start>", "<end>"
"""Symbols before the first and after the last node, as shown to users."""
BYTES_PER_SYMBOL = 24
"""Memory per symbol of an n-gram, which is stored in two arrays, a tuple, and the tuple of a prefix."""


class SeenNGrams(NamedTuple):
    """N-grams that have a weight, as a ragged array of symbols.

    Symbols are labels, ``n_labels`` for the start and ``n_labels + 1`` for the end of an example.
    """

    offsets: NDArray[np.int64]
    """(n_ngrams + 1,)"""
    symbols: NDArray[np.int32]

    def tuples(self) -> list[tuple[int, ...]]:
        symbols, cuts = self.symbols.tolist(), self.offsets.tolist()
        return [tuple(symbols[a:b]) for a, b in pairwise(cuts)]


def seen_ngrams(
    labels: NDArray[Any], offsets: NDArray[np.int64], n_labels: int, order: int, ends: bool = False
) -> SeenNGrams:
    """Return the n-grams of 2 to ``order + 1`` labels that occur in ``y``, shorter n-grams first.

    With ``ends``, also return n-grams of at least three symbols that include the start or the end of an example
    (shorter ones are node features). A label of -1 is unknown and belongs to no n-gram.

    Examples
    --------
    >>> seen_ngrams(np.array([0, 1, 0]), np.array([0, 3]), n_labels=2, order=2).tuples()
    [(0, 1), (1, 0), (0, 1, 0)]
    """
    offsets = np.asarray(offsets)
    if ends:
        lengths = np.diff(offsets)
        padded = np.full(len(labels) + 2 * len(lengths), n_labels, dtype=np.int64)
        shift = 2 * np.repeat(np.arange(len(lengths)), lengths) + 1
        padded[np.arange(len(labels)) + shift] = labels
        offsets = offsets + 2 * np.arange(len(offsets))
        padded[offsets[1:] - 1] = n_labels + 1
        labels = padded
    example = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    base, rows, n_symbols = n_labels + 2, [], 0
    longest = int(np.diff(offsets).max(initial=0))
    for n in range(2, max(2, min(order + 1, longest)) + 1):
        places = np.arange(len(labels) - n + 1)
        places = places[example[places] == example[places + n - 1]]
        grams = np.asarray(labels)[places[:, None] + np.arange(n)]
        special = (grams >= n_labels).sum(axis=1)
        grams = grams[(grams >= 0).all(axis=1) & ((special == 0) | ((n > 2) & (n > special)))]
        if base**n < 2**62:
            codes = np.unique(grams @ base ** np.arange(n - 1, -1, -1))
            grams = codes[:, None] // base ** np.arange(n - 1, -1, -1) % base
        else:
            grams = np.unique(grams, axis=0)
        rows.append(grams.astype(np.int32))
        n_symbols += grams.size
        check_memory(
            BYTES_PER_SYMBOL * n_symbols,
            f"order {order}: the table of n-grams of at most {n} labels",
            "use a lower order",
        )
    cuts = offsets_of(np.concatenate([np.full(len(grams), grams.shape[1]) for grams in rows]))
    return SeenNGrams(cuts, np.concatenate([grams.ravel() for grams in rows]).astype(np.int32))


def ends_of(gram: Sequence[int], labels: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the nodes at which this n-gram ends, shape (n_nodes,).

    Examples
    --------
    >>> ends_of((0, 1), np.array([0, 1, 0, 1]), np.array([0, 3, 4])).tolist()
    [False, True, False, False]
    """
    n, is_end = len(gram), np.zeros(len(labels), dtype=bool)
    if len(labels) >= n:
        last = np.arange(n - 1, len(labels))
        is_end[last] = np.all([labels[last - n + 1 + k] == symbol for k, symbol in enumerate(gram)], axis=0)
        is_end &= np.arange(len(labels)) - np.repeat(offsets[:-1], np.diff(offsets)) >= n - 1
    return is_end


def n_long(n_labels: int, order: int, ends: bool) -> int:
    """Number of possible n-grams of at least three symbols.

    Raises ``ValueError`` if their automaton would be too large.
    """
    _check_all(n_labels, order)
    return sum(_sizes(n_labels, order, ends))


def _check_all(L: int, order: int) -> None:
    """Raise ``ValueError`` if the automaton of all n-grams is too large."""
    k = order if L == 1 else min(order, 99)  # higher powers are slow to compute, and far too large in any case
    n_states = k + 1 if L == 1 else (L ** (k + 1) - 1) // (L - 1)
    check_arcs(n_states, L, f"order {order} with all n-grams of {L} labels", n_fired=n_states * L * k)


def _sizes(L: int, order: int, ends: bool) -> list[int]:
    """Numbers of n-grams by length: of labels alone, with the start, with the end, with both."""
    sizes = [L**n for n in range(3, order + 2)]
    if ends:
        sizes += [L ** (n - 1) for n in range(3, order + 2)] * 2 + [L ** (n - 2) for n in range(3, order + 2)]
    return sizes


def all_ngrams(n_labels: int, order: int, ends: bool) -> Automaton:
    """Automaton that fires all n-grams of 2 to ``order + 1`` symbols.

    N-grams are numbered by length: pairs of labels, triples, ..., where the last label varies fastest. With ``ends``,
    the n-grams of at least three symbols that include the start, the end, or both follow. A state is the last
    ``order`` labels, or fewer at the start of an example.

    Examples
    --------
    >>> automaton = all_ngrams(2, order=2, ends=False)
    >>> automaton.n_states, int(automaton.fired.max()) + 1
    (7, 12)
    """
    L, k = n_labels, order
    _check_all(L, k)
    first = np.cumsum([0] + [L**m for m in range(k + 1)])  # first state with m labels
    cuts = np.cumsum([0, L * L, *_sizes(L, k, ends)])
    n_states = int(first[-1])
    longer = range(3, k + 2)
    from_start, to_end, whole = (
        ({n: cuts[1 + group * (k - 1) + n - 3] for n in longer} for group in (1, 2, 3)) if ends else ({}, {}, {})
    )
    inner = {2: 0} | {n: cuts[n - 2] for n in longer}
    label = np.arange(L)
    arcs, arc_fired, end_fired = [], [], []
    for m in range(k + 1):
        code = np.arange(L**m)
        joined = code[:, None] * L + label
        arcs.append(first[m + 1] + joined if m < k else first[k] + joined % L**k)
        fired = [inner[n] + joined % L**n for n in range(2, m + 2)]
        fired += [from_start[m + 2] + joined] if ends and 1 <= m < k else []
        arc_fired.append(np.stack(fired, axis=-1) if fired else np.zeros((L**m, L, 0), dtype=np.int64))
        ending = [to_end[n + 1] + code % L**n for n in range(2, m + 1)] if ends else []
        ending += [whole[m + 2] + code] if ends and 1 <= m < k else []
        end_fired.append(np.stack(ending, axis=-1) if ending else np.zeros((L**m, 0), dtype=np.int64))
    tables = [*(fired.reshape(fired.shape[0] * L, fired.shape[2]) for fired in arc_fired), *end_fired]
    offsets = offsets_of(np.concatenate([np.full(len(table), table.shape[1]) for table in tables]))
    return Automaton(
        np.concatenate(arcs).astype(np.int32),
        np.ones(n_states, dtype=bool),
        0,
        offsets,
        np.concatenate([table.ravel() for table in tables]).astype(np.int32),
    )


def automaton_of(ngrams: SeenNGrams, n_labels: int) -> Automaton:
    """Automaton that fires each n-gram where it ends (Aho & Corasick 1975).

    States are the proper prefixes of n-grams. From state s a label b leads to the longest suffix of s b that is a
    state, and fires every n-gram that is a suffix of s b.

    Examples
    --------
    >>> seen = seen_ngrams(np.array([0, 1, 0]), np.array([0, 3]), n_labels=2, order=2)
    >>> automaton_of(seen, 2).n_states
    4
    """
    L = n_labels
    what = f"the table of {len(ngrams.offsets) - 1:,} n-grams of {L} labels"
    check_memory(BYTES_PER_SYMBOL * len(ngrams.symbols), what, "use a lower order")
    number = {gram: k for k, gram in enumerate(ngrams.tuples())}
    prefixes: set[tuple[int, ...]] = set()
    for gram in number:
        prefix = gram[:-1]
        while prefix and prefix not in prefixes:
            prefixes.add(prefix)
            prefix = prefix[:-1]
    states = [(), *sorted(prefixes, key=lambda prefix: (len(prefix), prefix))]
    place = {state: k for k, state in enumerate(states)}
    check_arcs(len(states), L, what)
    # columns are symbols, including start and end; a state copies the row of its longest suffix, which is shorter
    arcs = np.zeros((len(states), L + 2), dtype=np.int32)
    fired: list[dict[int, tuple[int, ...]]] = []  # per state: fired n-grams by symbol
    longer: dict[tuple[int, ...], set[int]] = {}
    for gram in (*number, *states[1:]):
        longer.setdefault(gram[:-1], set()).add(gram[-1])
    for k, state in enumerate(states):
        suffix = -1
        if state:
            suffix = next(place[state[m:]] for m in range(1, len(state) + 1) if state[m:] in place)
            arcs[k] = arcs[suffix]
        here = dict(fired[suffix]) if suffix >= 0 else {}
        for symbol in sorted(longer.get(state, ())):
            gram = (*state, symbol)
            if gram in place:
                arcs[k, symbol] = place[gram]
            if gram in number:
                here[symbol] = (number[gram], *here.get(symbol, ()))
        fired.append(here)
    rows = [here.get(a, ()) for here in fired for a in range(L)] + [here.get(L + 1, ()) for here in fired]
    offsets = offsets_of([len(row) for row in rows])
    numbers = np.fromiter((k for row in rows for k in row), dtype=np.int32, count=int(offsets[-1]))
    start = int(arcs[0, L])
    return trim(Automaton(np.ascontiguousarray(arcs[:, :L]), np.ones(len(states), dtype=bool), start, offsets, numbers))


class NGramWeights(Mapping[tuple[Any, ...], float]):
    """Mapping from n-grams to weights. N-grams are tuples of labels, `START` and `END`.

    Parameters
    ----------
    symbols : list of hashable
        Labels in the order of their numbers, then start and end.
    ngrams : SeenNGrams
    weights : ndarray of shape (n_ngrams,)

    Examples
    --------
    >>> table = SeenNGrams(np.array([0, 2, 5]), np.array([0, 1, 0, 1, 3], dtype=np.int32))
    >>> weights = NGramWeights(["a", "b", START, END], table, np.array([0.5, -1.0]))
    >>> dict(weights)
    {('a', 'b'): 0.5, ('a', 'b', '<end>'): -1.0}
    """

    ngrams: SeenNGrams
    symbols: list[Any]
    weights: FloatArray

    def __init__(self, symbols: list[Any], ngrams: SeenNGrams, weights: FloatArray) -> None:
        self.symbols, self.ngrams, self.weights = symbols, ngrams, weights
        self._places: dict[tuple[Any, ...], int] | None = None

    def _table(self) -> dict[tuple[Any, ...], int]:
        if self._places is None:  # computed on first use, because there may be hundreds of thousands
            self._places = {tuple(self.symbols[s] for s in gram): k for k, gram in enumerate(self.ngrams.tuples())}
        return self._places

    def __getitem__(self, labels: tuple[Any, ...]) -> float:
        return float(self.weights[self._table()[labels]])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._table())

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"<weights of {len(self)} n-grams>"


def table_of_all(n_labels: int, order: int, ends: bool) -> SeenNGrams:
    """Return all n-grams, numbered as in `all_ngrams`."""
    L, tables = n_labels, []

    def add(n: int, before: list[int], after: list[int]) -> None:
        grams = np.stack(np.meshgrid(*[np.arange(L)] * n, indexing="ij"), axis=-1).reshape(-1, n)
        sides = [np.broadcast_to(np.array(side, dtype=np.int64), (len(grams), len(side))) for side in (before, after)]
        tables.append(np.hstack([sides[0], grams, sides[1]]))

    for n in range(2, order + 2):
        add(n, [], [])
    for before, after in (([L], []), ([], [L + 1]), ([L], [L + 1])) if ends else ():
        for n in range(3, order + 2):
            add(n - len(before) - len(after), before, after)
    offsets = offsets_of(np.concatenate([np.full(len(table), table.shape[1]) for table in tables]))
    return SeenNGrams(offsets, np.concatenate([table.ravel() for table in tables]).astype(np.int32))

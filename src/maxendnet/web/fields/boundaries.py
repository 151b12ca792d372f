"""Where a value begins and ends in the text around it: learned from labelled values, on the gaps between tokens.

The place of a field is a leaf; its value may be a part of the leaf ("12.50" of "Price: $12.50 incl. VAT"), or go over
several ("$", "12", ".50"). A gap lies between two tokens, and before the first and after the last. For every field the
gaps around a labelled value compete for its beginning, and for its end, as the leaves of a page compete for a field:
captions before, units after, separators and the bounds of texts are features of gaps. A value is then the stretch
from one gap to a later one with the largest sum of scores.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.data.examples import Examples
from maxendnet.web.fields.leaf_labels import NONE
from maxendnet.web.fields.spans import (
    Span,
    Tokens,
    is_part,
    leaves_of_span,
    span_of_tokens,
    tokens_around,
    tokens_of_span,
    whole,
)
from maxendnet.web.model.systems import boundary_estimator
from maxendnet.web.views.view import CACHE_SIZE, View

SIDES = ("begin", "end")
SURE = 3.0
"""Leads beyond this say no more; what is always a whole leaf has this."""
FIXED = 0.6  # share of pages on which a token must be to be no part of a value
COUNTED = 4  # positions and separators are counted up to this
COUNTED_IN_RECORDS = 2  # the same for positions in a record: one is labelled, and others have names of other lengths
OUTSIDE = "\0"
WITHIN_WORD = 100.0  # beyond any score


class Found(NamedTuple):
    """A value: where it is, and how far the next best choice of its bounds is behind."""

    span: Span
    lead: float


class Labelled(NamedTuple):
    """A labelled value."""

    view: View
    field: str
    span: Span


class Boundaries:
    """Finds values in the text around chosen leaves. Fields whose values were whole leaves, all of them, stay so.

    Attributes
    ----------
    names : list of str
        Features.
    weights : dict of str to ndarray of shape (n_names, 2)
        For the begin and the end of every field that has parts.
    reach : dict of str to int
        How many leaves beyond the chosen one a labelled value has covered.
    cutting : set of str
        Fields with a labelled value that begins or ends within a word made of two texts, as the price in
        ``$12<i>In stock</i>``. Values of the others do not.
    """

    def __init__(
        self, names: Sequence[str] = (), weights: dict[str, NDArray[np.float64]] | None = None,
        reach: dict[str, int] | None = None, cutting: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.names = list(names)
        self.weights = weights or {}
        self.reach = reach or {}
        self.cutting = set(cutting)
        self._column = {name: k for k, name in enumerate(self.names)}

    @classmethod
    def learn(cls, values: Sequence[Labelled], same_site: bool = True, tol: float | None = None) -> Boundaries:
        """Learn from labelled values.

        Parameters
        ----------
        values : sequence of Labelled
        same_site : bool
            Whether pages will be of the same sites: then places that are alike are features.
        tol : float, optional
            A looser gap than usual, for a quick fit.
        """
        parts = {value.field for value in values if is_part(value.view, value.span)}
        reach = {name: 0 for name in parts}
        for value in values:
            if value.field in parts:
                reach[value.field] = max(reach[value.field], len(leaves_of_span(value.view, value.span)) - 1)
        made = [example for value in values if value.field in parts for example in _examples(value, reach, same_site)]
        if not made:
            return cls()
        cutting = {value.field for value in values if value.field in parts and _cuts_word(value, reach[value.field])}
        column: dict[str, int] = {}
        fields = sorted(parts)
        labels = [NONE, *(f"{name} {side}" for name in fields for side in SIDES)]
        matrices, y, allowed, sample_weight = [], [], [], []
        for gaps, name, right, weight in made:
            matrix = _matrix(gaps, column, grow=True)
            for side, gap in zip(SIDES, right):
                matrices.append(matrix)
                own = f"{name} {side}"
                y.append([own if g == gap else NONE for g in range(len(gaps))])
                mask = np.zeros((len(gaps), len(labels)), dtype=bool)
                mask[:, [0, labels.index(own)]] = True
                allowed.append(mask)
                sample_weight.append(weight)
        matrices = [sparse.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], len(column))) for m in matrices]
        estimator = boundary_estimator()
        if tol is not None:
            estimator.set_params(tol=tol)
        estimator.fit(Examples.build(matrices, y, labels=labels, allowed=allowed, sample_weight=sample_weight))
        coef = estimator.coef_ - estimator.coef_[:, [estimator.classes_.tolist().index(NONE)]]
        at = estimator.classes_.tolist().index
        kept = np.flatnonzero(np.abs(coef).max(axis=1) > 1e-9)
        names = np.array(list(column), dtype=object)[kept].tolist()
        found = {name: coef[np.ix_(kept, [at(f"{name} {side}") for side in SIDES])] for name in fields}
        return cls(names, found, reach, cutting)

    def find(self, view: View, name: str, k: int, others: Collection[int] = ()) -> Found:
        """The value of a field whose place is leaf k; it does not reach ``others``, the leaves of other fields."""
        if name not in self.weights or view.images[k]:
            return Found(whole(view, k), SURE)
        tokens = tokens_around(view, k, self.reach.get(name, 0))
        if k not in tokens.leaves:
            return Found(whole(view, k), SURE)
        scores = _matrix(gap_features(view, tokens, k), self._column, grow=False) @ self.weights[name]
        if name not in self.cutting:
            scores[within_words(view, tokens)] -= WITHIN_WORD
        at = tokens.leaves.index(k)
        first = next((t + 1 for t in range(at - 1, -1, -1) if tokens.leaves[t] in others), 0)
        after = next((t for t in range(at, len(tokens.leaves)) if tokens.leaves[t] in others), len(tokens.leaves))
        # labelled values have had up to reach + 1 leaves; twice as many are two values rather than one
        far = 2 * self.reach.get(name, 0) + 1
        first = max(first, bisect_left(tokens.leaves, k - far))
        after = min(after, bisect_right(tokens.leaves, k + far))
        i, j, lead = best_stretch(scores[first : after + 1, 0], scores[first : after + 1, 1])
        i, j = i + first, j + first
        return Found(span_of_tokens(view, tokens, i, j), min(lead, SURE))

    # ---- files ----------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """As lists and numbers, for a file."""
        return {
            "names": self.names,
            "weights": {name: w.tolist() for name, w in self.weights.items()},
            "reach": self.reach,
            "cutting": sorted(self.cutting),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Boundaries:
        """What `to_plain` gave; a ValueError, TypeError or KeyError if it is something else."""
        names = plain["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("names of bounds are no list of names")
        weights = {}
        for name, rows in plain["weights"].items():
            w = np.array(rows, dtype=float)
            if w.shape != (len(names), 2) or not np.isfinite(w).all():
                raise ValueError(f"{len(names)} features of bounds do not have two weights each")
            weights[name] = w
        reach = {name: int(n) for name, n in plain["reach"].items()}
        if any(not 0 <= n <= 1000 for n in reach.values()):
            raise ValueError("a value cannot go over so many leaves")
        cutting = plain.get("cutting", [*weights])
        if not isinstance(cutting, list) or not all(isinstance(name, str) for name in cutting):
            raise TypeError("fields whose values cut words are no list of names")
        return cls(names, weights, reach, cutting)


def best_stretch(begins: NDArray, ends: NDArray) -> tuple[int, int, float]:
    """The tokens from i to j with the largest score, and how far the next best stretch is behind.

    Parameters
    ----------
    begins, ends : ndarray of shape (n_tokens + 1,)
        Scores of the gaps: gap g lies before token g.

    Examples
    --------
    >>> best_stretch(np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.0, 3.0]))
    (1, 1, 2.0)
    """
    n = len(begins) - 1
    best, where, second = -np.inf, 0, -np.inf  # of the ends after this gap
    top, stretch, next_best = -np.inf, (0, 0), -np.inf
    for b in range(n - 1, -1, -1):
        score = float(ends[b + 1])
        if score > best:
            best, where, second = score, b + 1, best
        else:
            second = max(second, score)
        total = float(begins[b]) + best
        if total > top:
            top, stretch, next_best = total, (b, where - 1), max(top, float(begins[b]) + second)
        else:
            next_best = max(next_best, total)
    return *stretch, top - next_best


def _examples(
    value: Labelled, reach: dict[str, int], same_site: bool
) -> list[tuple[list[list[str]], str, tuple[int, int], float]]:
    """The gaps around a labelled value, seen from every leaf that it lies on, and where it begins and ends."""
    view, name, span = value
    found = []
    covered = leaves_of_span(view, span)
    for k in covered:
        if view.images[k]:
            continue
        tokens = tokens_around(view, k, reach[name])
        inside = tokens_of_span(view, tokens, span)
        if inside is not None:
            features = gap_features(view, tokens, k, same_site)
            found.append((features, name, (inside[0], inside[1] + 1), 1.0 / len(covered)))
    return found


def within_words(view: View, tokens: Tokens) -> list[int]:
    """Gaps between two texts that a reader sees as one word: they touch, a letter or number on either side.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>by <b>Ann L</b>ee</p>"))
    >>> within_words(view, tokens_around(view, 1))
    [3]
    """
    texts, leaves = tokens.texts, tokens.leaves
    return [
        g
        for g in range(1, len(texts))
        if leaves[g - 1] != leaves[g]
        and view.runs.run[leaves[g - 1]] == view.runs.run[leaves[g]]
        and not view.runs.before[leaves[g]]
        and texts[g - 1][-1].isalnum()
        and texts[g][0].isalnum()
    ]


def _cuts_word(value: Labelled, reach: int) -> bool:
    view, _, span = value
    k = leaves_of_span(view, span)[0]
    tokens = tokens_around(view, k, reach)
    inside = tokens_of_span(view, tokens, span)
    return inside is not None and bool({inside[0], inside[1] + 1} & set(within_words(view, tokens)))


def _matrix(rows: Sequence[Sequence[str]], column: dict[str, int], grow: bool) -> sparse.csr_array:
    indices: list[int] = []
    indptr = [0]
    for names in rows:
        if grow:
            indices += [column.setdefault(name, len(column)) for name in dict.fromkeys(names)]
        else:
            indices += [column[name] for name in dict.fromkeys(names) if name in column]
        indptr.append(len(indices))
    return sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(rows), len(column)))


# ---- features of gaps ---------------------------------------------------------------------------------------------


def gap_features(view: View, tokens: Tokens, k: int, same_site: bool = True) -> list[list[str]]:
    """Names of the features of every gap around leaf k.

    Examples
    --------
    >>> from maxendnet.web.pages.page import Page
    >>> view = View(Page.from_html("<p>Price: $5"))
    >>> names = gap_features(view, tokens_around(view, 0), 0)
    >>> len(names), "left=:" in names[2], "start" in names[0]
    (5, True, True)
    """
    texts, leaves = tokens.texts, tokens.leaves
    n = len(texts)
    counted = COUNTED if view.page.source is None else COUNTED_IN_RECORDS
    words = [_word(text) for text in texts]
    shapes = [_shape(text) for text in texts]
    fixed = _fixed(view, tokens)
    own = [t for t in range(n) if leaves[t] == k]
    first, last = (own[0], own[-1]) if own else (0, -1)
    left_signs, right_signs = _ordinals(texts, leaves)
    pad = [OUTSIDE]
    words, shapes, marks = pad * 2 + words + pad * 2, pad * 2 + shapes + pad * 2, pad * 2 + fixed + pad * 2
    out = []
    for g in range(n + 1):
        l2, l1, r1, r2 = words[g : g + 4]
        a, b = shapes[g + 1], shapes[g + 2]
        names = [
            f"left={l1}", f"left2={l2} {l1}", f"right={r1}", f"right2={r1} {r2}", f"before={a}", f"after={b}",
            f"shapes={a} {b}", f"left_shape={l1} {b}", f"shape_right={a} {r1}", f"words={l1} {r1}",
            f"fixed={marks[g + 1]}{marks[g + 2]}", f"fixed_left={marks[g + 1]} {b}", f"fixed_right={a} {marks[g + 2]}",
        ]  # fmt: skip
        names += [f"any_left={word}" for word in words[max(2, g - 1) : g + 2]]
        names += [f"any_right={word}" for word in words[g + 2 : min(g + 5, n + 2)]]
        if g == first:
            names += ["start", f"start {b}"]
        if g == last + 1:
            names += ["stop", f"stop {a}"]
        if first <= g <= last + 1:
            # at the bounds of a text it does not matter how many words away the other one is
            places = [f"from={min(g - first, counted)}"] if g <= last or not own else []
            places += [f"to={min(last + 1 - g, counted)}"] if g > first or not own else []
            names += places
            if same_site:
                names += [f"{view.kinds[k]} {place}" for place in (*places, f"left={l1}", f"right={r1}")]
        else:
            names.append("outside")
        if 0 < g < n:
            if leaves[g - 1] != leaves[g]:
                tags = [view.page.tags[view.elements[leaves[t]]] for t in (g - 1, g)]
                close = "touch" if not view.runs.before[leaves[g]] else "apart"
                block = "run" if view.runs.run[leaves[g - 1]] == view.runs.run[leaves[g]] else "blocks"
                names += [f"leaves={block} {close}", f"tags={tags[0]} {tags[1]}"]
                if same_site:  # between the same two elements on every page: surer than what the texts look like
                    left, right = view.kinds[leaves[g - 1]], view.kinds[leaves[g]]
                    names += [f"edge={left} {right}", f"edge_left={left}", f"edge_right={right}"]
            else:
                names.append("space" if tokens.ends[g - 1] < tokens.begins[g] else "tight")
        if g and left_signs[g - 1]:
            names += [f"left_sign={left_signs[g - 1]}", f"left_sign_back={right_signs[g - 1]}"]
        if g < n and left_signs[g]:
            names += [f"right_sign={left_signs[g]}", f"right_sign_back={right_signs[g]}"]
        out.append(names)
    return out


@lru_cache(maxsize=CACHE_SIZE)
def _word(text: str) -> str:
    return "0" * min(len(text), 5) if text.isdigit() else text.lower()


@lru_cache(maxsize=CACHE_SIZE)
def _shape(text: str) -> str:
    if text.isdigit():
        return "0"
    if not text.isalpha():
        return text
    return "A" if text.isupper() else "a" if text.islower() else "Aa"


def _ordinals(texts: Sequence[str], leaves: Sequence[int]) -> tuple[list[str], list[str]]:
    """For every sign its number among its like in the leaf, from the front and from the back; empty for words."""
    total: Counter[tuple[int, str]] = Counter(zip(leaves, texts))
    seen: Counter[tuple[int, str]] = Counter()
    front, back = [], []
    for leaf, text in zip(leaves, texts):
        if text.isalnum():
            front.append("")
            back.append("")
            continue
        seen[leaf, text] += 1
        n = seen[leaf, text]
        front.append(f"{text}{min(n, COUNTED)}")
        back.append(f"{text}{min(total[leaf, text] - n, COUNTED)}")
    return front, back


def _fixed(view: View, tokens: Tokens) -> list[str]:
    """Whether each token stands on most pages of the site at the same place: a caption or a unit, not a value."""
    return [
        "?" if share is None else "f" if share > FIXED else "v"
        for share in (view.share_at_place(leaf, _word(text)) for leaf, text in zip(tokens.leaves, tokens.texts))
    ]

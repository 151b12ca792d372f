"""Model of the boundaries of values within texts, learned from labelled values.

A field is assigned to a leaf, but its value may be part of the leaf ("12.50" of "Price: $12.50 incl. VAT"), or span
several leaves ("$", "12", ".50"). Gaps are the positions between two tokens, before the first and after the last. In
training, the gaps around a labelled value compete to be its start, and to be its end, in the same way as the leaves of
a page compete for a field. Features of a gap are captions before, units after, separators and the ends of texts. The
extracted value is the span between the two gaps with the largest sum of scores.
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
    FIXED_SHARE,
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
MAX_LEAD = 3.0
"""Upper bound on leads, and the lead of fields whose values are always whole leaves."""
MIN_SITES = 2  # with labelled parts of texts, for a field whose boundaries transfer to other sites
MAX_COUNT = 4  # positions and separators are counted up to this number
MAX_COUNT_IN_ITEMS = 2  # the same for positions in an item, smaller because few items are labelled
OUTSIDE = "\0"
WORD_PENALTY = 100.0  # for a gap within a word; larger than any score


class FoundValue(NamedTuple):
    """Span of a value, and the lead of its score over that of the second best span."""

    span: Span
    lead: float


class LabelledValue(NamedTuple):
    """A labelled value: its page, span and field."""

    view: View
    field: str
    span: Span


class Limit(NamedTuple):
    """Extent of the labelled values of a field on a site.

    Attributes
    ----------
    parts : bool
        Whether some value is something else than a whole leaf.
    reach : int
        Maximum number of leaves, in addition to the first.
    crosses : bool
        Whether some value covers leaves of several runs.
    """

    parts: bool
    reach: int
    crosses: bool


class Boundaries:
    """Model that finds the span of a value in the text around its leaf.

    If all labelled values of a field are whole leaves, the field has no weights, and its values are whole leaves. The
    same holds for each labelled site, because the values of a site have the same markup on all of its pages.

    Attributes
    ----------
    names : list of str
        Feature names.
    weights : dict of str to ndarray of shape (n_names, 2)
        Weights for the start and the end of the values of a field.
    reach : dict of str to int
        Maximum number of leaves, in addition to the first, that a labelled value of a field spans.
    limits : dict of str to dict of str to Limit
        Extents of the labelled values by site and field.
    shared : set of str
        Fields with labelled parts of texts on at least `MIN_SITES` sites (or on all sites, if there are fewer). Values
        of other fields are whole leaves on unlabelled sites, because boundaries of a single site do not transfer.
    cutting : set of str
        Fields with a labelled value that starts or ends where two texts form one word, such as the price in
        ``$12<i>In stock</i>``. Values of other fields never start or end there.
    """

    def __init__(
        self, names: Sequence[str] = (), weights: dict[str, NDArray[np.float64]] | None = None,
        reach: dict[str, int] | None = None, cutting: Collection[str] = (),
        limits: dict[str, dict[str, Limit]] | None = None, shared: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        self.names: list[str] = list(names)
        self.weights: dict[str, NDArray[np.float64]] = weights or {}
        self.reach: dict[str, int] = reach or {}
        self.cutting: set[str] = set(cutting)
        self.limits: dict[str, dict[str, Limit]] = limits or {}
        self.shared: set[str] = set(self.weights if shared is None else shared)
        self._column = {name: k for k, name in enumerate(self.names)}

    @classmethod
    def learn(cls, values: Sequence[LabelledValue], same_site: bool = True, tol: float | None = None) -> Boundaries:
        """Fit the model to labelled values.

        Parameters
        ----------
        values : sequence of LabelledValue
        same_site : bool
            Whether values will be extracted from pages of the same sites. If so, the kinds of leaves are features.
        tol : float, optional
            Tolerance of the duality gap, if it should be larger than the default to make the fit faster.
        """
        parts = {value.field for value in values if is_part(value.view, value.span)}
        reach = {name: 0 for name in parts}
        for value in values:
            if value.field in parts:
                reach[value.field] = max(reach[value.field], len(leaves_of_span(value.view, value.span)) - 1)
        examples = [
            example for value in values if value.field in parts for example in _examples(value, reach, same_site)
        ]
        if not examples:
            return cls()
        limits = _limits(values)
        n_sites = {name: sum(of_site[name].parts for of_site in limits.values() if name in of_site) for name in parts}
        shared = {name for name, n in n_sites.items() if n >= min(MIN_SITES, len(limits))}
        cutting = {value.field for value in values if value.field in parts and _cuts_word(value, reach[value.field])}
        column: dict[str, int] = {}
        fields = sorted(parts)
        labels = [NONE, *(f"{name} {side}" for name in fields for side in SIDES)]
        matrices, y, allowed, sample_weight = [], [], [], []
        for gaps, name, true_gaps, weight in examples:
            matrix = _matrix(gaps, column, grow=True)
            for side, true_gap in zip(SIDES, true_gaps):
                matrices.append(matrix)
                label = f"{name} {side}"
                y.append([label if g == true_gap else NONE for g in range(len(gaps))])
                mask = np.zeros((len(gaps), len(labels)), dtype=bool)
                mask[:, [0, labels.index(label)]] = True
                allowed.append(mask)
                sample_weight.append(weight)
        matrices = [sparse.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], len(column))) for m in matrices]
        estimator = boundary_estimator()
        if tol is not None:
            estimator.set_params(tol=tol)
        estimator.fit(Examples.build(matrices, y, labels=labels, allowed=allowed, sample_weight=sample_weight))
        index = estimator.classes_.tolist().index
        coef = estimator.coef_ - estimator.coef_[:, [index(NONE)]]
        nonzero = np.flatnonzero(np.abs(coef).max(axis=1) > 1e-9)
        names = np.array(list(column), dtype=object)[nonzero].tolist()
        weights = {name: coef[np.ix_(nonzero, [index(f"{name} {side}") for side in SIDES])] for name in fields}
        return cls(names, weights, reach, cutting, limits if same_site else {}, shared)

    def find(self, view: View, name: str, k: int, others: Collection[int] = ()) -> FoundValue:
        """Return the value of a field at leaf k. It does not extend into ``others``, the leaves of other fields."""
        reach = self.reach.get(name, 0)
        limit = self.limits.get(view.page.site, {}).get(name, Limit(name in self.shared, reach, True))
        if name not in self.weights:
            return FoundValue(whole(view, k), MAX_LEAD)
        tokens = tokens_around(view, k, reach)
        if k not in tokens.leaves:  # leaf k has no tokens, for example because it is an image
            return FoundValue(whole(view, k), MAX_LEAD)
        scores = _matrix(gap_features(view, tokens, k), self._column, grow=False) @ self.weights[name]
        if name not in self.cutting:
            scores[within_words(view, tokens)] -= WORD_PENALTY
        at = tokens.leaves.index(k)
        first = next((t + 1 for t in range(at - 1, -1, -1) if tokens.leaves[t] in others), 0)
        after = next((t for t in range(at, len(tokens.leaves)) if tokens.leaves[t] in others), len(tokens.leaves))
        # labelled values span at most reach + 1 leaves; a span of twice as many would be two values
        far = 2 * limit.reach + 1
        first = max(first, bisect_left(tokens.leaves, k - far))
        after = min(after, bisect_right(tokens.leaves, k + far))
        if not limit.crosses:
            of_run = [t for t, leaf in enumerate(tokens.leaves) if view.runs.run[leaf] == view.runs.run[k]]
            first, after = max(first, of_run[0]), min(after, of_run[-1] + 1)
        i, j, lead = best_interval(scores[first : after + 1, 0], scores[first : after + 1, 1])
        span, lead = span_of_tokens(view, tokens, i + first, j + first), min(lead, MAX_LEAD)
        if limit.parts or span == whole(view, k):
            return FoundValue(span, lead)
        return FoundValue(whole(view, k), 0.0)

    # ---- files ----------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """Return the model as JSON values, to be stored in a file."""
        return {
            "names": self.names,
            "weights": {name: w.tolist() for name, w in self.weights.items()},
            "reach": self.reach,
            "cutting": sorted(self.cutting),
            "shared": sorted(self.shared),
            "limits": {site: {name: list(x) for name, x in fields.items()} for site, fields in self.limits.items()},
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Boundaries:
        """Return the model from the output of `to_plain`.

        Raises
        ------
        ValueError, TypeError, KeyError
            ``plain`` is damaged.
        """
        names = plain["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("names of boundary features must be a list of strings")
        weights = {}
        for name, rows in plain["weights"].items():
            w = np.array(rows, dtype=float)
            if w.shape != (len(names), 2) or not np.isfinite(w).all():
                raise ValueError(f"{len(names)} boundary features must have two finite weights each")
            weights[name] = w
        reach = {name: int(n) for name, n in plain["reach"].items()}
        if any(not 0 <= n <= 1000 for n in reach.values()):
            raise ValueError(f"a value covers 0 to 1000 more leaves, got {max(reach.values())}")
        cutting = plain.get("cutting", [*weights])
        if not isinstance(cutting, list) or not all(isinstance(name, str) for name in cutting):
            raise TypeError("fields whose values cut words must be a list of strings")
        shared = plain.get("shared", [*weights])
        if not isinstance(shared, list) or not all(isinstance(name, str) for name in shared):
            raise TypeError("fields with parts of texts on several sites must be a list of strings")
        limits = {
            str(site): {str(name): Limit(bool(x[0]), int(x[1]), bool(x[2])) for name, x in fields.items()}
            for site, fields in plain.get("limits", {}).items()
        }
        return cls(names, weights, reach, cutting, limits, shared)


def best_interval(begins: NDArray[Any], ends: NDArray[Any]) -> tuple[int, int, float]:
    """Return the first and last token of the interval with the largest score, and its lead over the second best.

    Parameters
    ----------
    begins, ends : ndarray of shape (n_tokens + 1,)
        Scores of the gaps: gap g is before token g.

    Examples
    --------
    >>> best_interval(np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.0, 3.0]))
    (1, 1, 2.0)
    """
    n = len(begins) - 1
    best, best_end, second = -np.inf, 0, -np.inf  # best and second best score of an end after gap b
    top, interval, runner_up = -np.inf, (0, 0), -np.inf
    for b in range(n - 1, -1, -1):
        score = float(ends[b + 1])
        if score > best:
            best, best_end, second = score, b + 1, best
        else:
            second = max(second, score)
        total = float(begins[b]) + best
        if total > top:
            top, interval, runner_up = total, (b, best_end - 1), max(top, float(begins[b]) + second)
        else:
            runner_up = max(runner_up, total)
    return *interval, top - runner_up


def _limits(values: Sequence[LabelledValue]) -> dict[str, dict[str, Limit]]:
    """Return the extents of labelled values by site and field."""
    limits: dict[str, dict[str, Limit]] = {}
    for view, name, span in values:
        covered = leaves_of_span(view, span)
        of_site = limits.setdefault(view.page.site, {})
        before = of_site.get(name, Limit(False, 0, False))
        of_site[name] = Limit(
            before.parts or is_part(view, span),
            max(before.reach, len(covered) - 1),
            before.crosses or len({view.runs.run[k] for k in covered}) > 1,
        )
    return limits


def _examples(
    value: LabelledValue, reach: dict[str, int], same_site: bool
) -> list[tuple[list[list[str]], str, tuple[int, int], float]]:
    """Return, for every leaf of a labelled value, the features of the gaps, the field, the true gaps and the weight."""
    view, name, span = value
    examples = []
    covered = leaves_of_span(view, span)
    for k in covered:
        if view.images[k]:
            continue
        tokens = tokens_around(view, k, reach[name])
        inside = tokens_of_span(view, tokens, span)
        if inside is not None:
            features = gap_features(view, tokens, k, same_site)
            examples.append((features, name, (inside[0], inside[1] + 1), 1.0 / len(covered)))
    return examples


def within_words(view: View, tokens: Tokens) -> list[int]:
    """Return the gaps at which two texts form one word, because they touch with a letter or digit on both sides.

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


def _cuts_word(value: LabelledValue, reach: int) -> bool:
    """Whether a labelled value begins or ends within a word."""
    view, _, span = value
    k = leaves_of_span(view, span)[0]
    tokens = tokens_around(view, k, reach)
    inside = tokens_of_span(view, tokens, span)
    return inside is not None and bool({inside[0], inside[1] + 1} & set(within_words(view, tokens)))


def _matrix(rows: Sequence[Sequence[str]], column: dict[str, int], grow: bool) -> sparse.csr_array:
    """Return the binary feature matrix of rows. With ``grow``, new feature names are added to ``column``."""
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
    """Return the feature names of every gap around leaf k.

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
    max_count = MAX_COUNT if view.page.source is None else MAX_COUNT_IN_ITEMS
    words = [_word(text) for text in texts]
    shapes = [_shape(text) for text in texts]
    fixed = _fixed(view, tokens)
    of_leaf = [t for t in range(n) if leaves[t] == k]
    first, last = (of_leaf[0], of_leaf[-1]) if of_leaf else (0, -1)
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
            # at one end of a text, the distance to the other end does not matter
            places = [f"from={min(g - first, max_count)}"] if g <= last or not of_leaf else []
            places += [f"to={min(last + 1 - g, max_count)}"] if g > first or not of_leaf else []
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
                if same_site:  # a gap between the same two elements on every page is more reliable than texts
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
    """Return, for every sign, its ordinal among equal signs of the leaf, from both ends; empty for words."""
    total: Counter[tuple[int, str]] = Counter(zip(leaves, texts))
    n_before: Counter[tuple[int, str]] = Counter()
    front, back = [], []
    for leaf, text in zip(leaves, texts):
        if text.isalnum():
            front.append("")
            back.append("")
            continue
        n_before[leaf, text] += 1
        n = n_before[leaf, text]
        front.append(f"{text}{min(n, MAX_COUNT)}")
        back.append(f"{text}{min(total[leaf, text] - n, MAX_COUNT)}")
    return front, back


def _fixed(view: View, tokens: Tokens) -> list[str]:
    """Return, for every token, "f" (fixed) if most pages of the site have it at this place, "v" (varying) or "?"."""
    return [
        "?" if share is None else "f" if share > FIXED_SHARE else "v"
        for share in (view.share_at_place(leaf, _word(text)) for leaf, text in zip(tokens.leaves, tokens.texts))
    ]

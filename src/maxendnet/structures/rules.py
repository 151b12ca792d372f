"""Rules: constraints on the labellings of chains.

A rule holds options and no data. Rules about consecutive nodes, the first node or the last node are *pairwise*: they
are compiled to masks, and cost no time in the recursions. Other rules are compiled to automata.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.forbidden_pairs import pair_codes
from maxendnet.structures.automata.automaton import Automaton, anything, check_arcs, intersect, trim
from maxendnet.structures.automata.label_regex import Pattern

BoolArray = NDArray[np.bool_]


class PairMasks(NamedTuple):
    """Masks of the labels of first nodes, of consecutive nodes and of last nodes that are permitted."""

    first: BoolArray
    """(n_labels,)"""
    pairs: BoolArray
    """(n_labels, n_labels); rows are labels of the left node."""
    last: BoolArray
    """(n_labels,)"""

    @classmethod
    def everything(cls, n_labels: int) -> PairMasks:
        return cls(np.ones(n_labels, bool), np.ones((n_labels, n_labels), bool), np.ones(n_labels, bool))

    def __and__(self, other: PairMasks) -> PairMasks:
        return PairMasks(*(a & b for a, b in zip(self, other)))

    @property
    def forbidden_matrix(self) -> NDArray[np.uint8] | None:
        """1 for pairs of labels that are forbidden at consecutive nodes; None if all pairs are permitted."""
        return None if self.pairs.all() else np.ascontiguousarray(~self.pairs, np.uint8)

    def allowed(self, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Allowed labels of first, inner and last nodes, shape (n_nodes, n_labels).

        Examples
        --------
        >>> masks = PairMasks(np.array([True, False]), np.ones((2, 2), bool), np.array([True, True]))
        >>> masks.allowed(np.array([0, 2, 2, 3])).tolist()
        [[1, 0], [1, 1], [1, 0]]
        """
        n_nodes = int(offsets[-1])
        allowed = np.ones((n_nodes, len(self.first)), dtype=np.uint8)
        allowed[offsets[offsets < n_nodes]] = self.first  # the offset of an empty example is that of the next example
        allowed[offsets[offsets > 0] - 1] &= self.last
        return allowed

    def automaton(self) -> Automaton:
        """Automaton with a start state and one state per label, which stores the last label."""
        n_labels = len(self.first)
        permitted = np.vstack([self.first, self.pairs])
        arcs = np.where(permitted, np.arange(1, n_labels + 1), -1).astype(np.int32)
        return trim(Automaton(arcs, np.concatenate([[True], self.last])))


class Rule:
    """Base class of rules, which are dataclasses of their options.

    Rules implement ``get_params`` and ``set_params``, so that they are cloned, tuned and saved with a structure. They
    are not scikit-learn estimators, because these are printed with their class names instead of ``bio()``.
    """

    name = "rule"

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(field.name for field in fields(cls))  # type: ignore[arg-type]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Rule:
        """Set options by name."""
        for key, value in params.items():
            if key not in self._get_param_names():
                raise ValueError(f"{self.name} has no option {key!r}.")
            setattr(self, key, value)
        return self

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self._shown())})"

    def _shown(self) -> list[str]:
        """Arguments of the public function of the rule, for `repr`."""
        return [repr(value) for value in self.get_params().values()]

    def check(self) -> None:
        """Raise ``ValueError`` for an invalid option."""

    def within(self, longest: int) -> Rule:
        """Return an equivalent rule for examples of at most ``longest`` nodes, if possible with fewer states."""
        return self

    def masks(self, classes: NDArray[Any]) -> PairMasks | None:
        """Return the rule as masks, or None if it is not pairwise."""
        return None

    def automaton(self, classes: NDArray[Any]) -> Automaton:
        """Return the rule as an automaton that reads class numbers."""
        masks = self.masks(classes)
        if masks is None:
            raise NotImplementedError(f"{type(self).__name__} has neither masks nor an automaton")
        return masks.automaton()


# ---- chunks ----------------------------------------------------------------------------------------------------------


@dataclass(repr=False)
class Chunks(Rule):
    """Complete chunks in prefixed tags; see `bio` and `bioes`."""

    scheme: str = "bio"
    outside: str = "O"
    separator: str = "-"
    inside: str = "I"

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.scheme

    def _shown(self) -> list[str]:
        shown = [f"outside={self.outside!r}"] if self.outside != "O" else []
        shown += [f"separator={self.separator!r}"] if self.separator != "-" else []
        return shown + ([f"inside={self.inside!r}"] if self.inside != "I" else [])

    def check(self) -> None:
        if self.scheme not in ("bio", "bioes"):
            raise ValueError(f"scheme must be 'bio' or 'bioes', got {self.scheme!r}.")

    def masks(self, classes: NDArray[Any]) -> PairMasks:
        self.check()
        prefixes = {"bio": ("B", self.inside), "bioes": ("B", self.inside, "E", "S")}[self.scheme]
        parsed = [self._parse(label, prefixes) for label in classes.tolist()]
        begun = np.array([prefix in ("B", self.inside) for prefix, _ in parsed])
        inside = np.array([prefix in (self.inside, "E") for prefix, _ in parsed])
        same = np.array([[a == b and a is not None for _, b in parsed] for _, a in parsed])
        if self.scheme == "bio":  # I-x follows B-x or I-x; all other tags may follow any tag
            return PairMasks(~inside, ~inside[None, :] | (same & begun[:, None]), np.ones(len(parsed), bool))
        # B-x and I-x are followed by I-x or E-x; other tags are followed by a tag that begins a chunk or is outside
        pairs = np.where(begun[:, None], inside[None, :] & same, ~inside[None, :])
        return PairMasks(~inside, pairs, ~begun)

    def _parse(self, label: Any, prefixes: tuple[str, ...]) -> tuple[str, str | None]:
        if label == self.outside:
            return "", None
        if not isinstance(label, str):
            raise ValueError(f"{self!r} needs labels of type str such as 'B{self.separator}x', but y has {label!r}.")
        if label in prefixes:  # a prefix without a chunk type, such as B or I
            return label, ""
        prefix, separator, kind = label.partition(self.separator)
        if not separator or prefix not in prefixes:
            expected = ", ".join(f"'{p}{self.separator}...'" for p in prefixes)
            raise ValueError(
                f"{self!r} needs labels {expected} or {self.outside!r}, but y has {label!r}; name the outside label "
                "with outside=, or remove the rule."
            )
        return prefix, kind


def bio(outside: str = "O", separator: str = "-", inside: str = "I") -> Chunks:
    """Complete chunks in BIO tags.

    ``I-x`` occurs only after ``B-x`` or ``I-x``, and not at the first node. Tags are recognised by name: ``B-x``,
    ``I-x`` (or ``B`` and ``I`` without a type) and ``outside``.

    Parameters
    ----------
    outside : str, default="O"
        Label of nodes outside of chunks.
    separator : str, default="-"
        Text between the prefix and the type.
    inside : str, default="I"
        Prefix of the nodes of a chunk after the first.

    Examples
    --------
    >>> from maxendnet import Chain
    >>> Chain(rules=[bio()])
    Chain(rules=[bio()])
    """
    return Chunks("bio", outside, separator, inside)


def bioes(outside: str = "O", separator: str = "-", inside: str = "I") -> Chunks:
    """Complete chunks in BIOES tags: ``S-x``, or ``B-x``, ``I-x`` ..., ``E-x``.

    Parameters
    ----------
    outside : str, default="O"
        Label of nodes outside of chunks.
    separator : str, default="-"
        Text between the prefix and the type.
    inside : str, default="I"
        Prefix of the nodes between the first and the last node of a chunk; ``"M"`` for BMES tags.

    Examples
    --------
    >>> bioes().masks(np.array(["B-x", "E-x", "O"])).last.tolist()
    [False, True, True]
    """
    return Chunks("bioes", outside, separator, inside)


# ---- the first and the last node, pairs ------------------------------------------------------------------------------


@dataclass(repr=False)
class LabelRule(Rule):
    """Base class of rules with a list of labels."""

    labels: Any = None

    def _shown(self) -> list[str]:
        return [repr(label) for label in self.labels or ()]


@dataclass(repr=False)
class StartsWith(LabelRule):
    """The first node has one of these labels; see `starts_with`."""

    name = "starts_with"

    def masks(self, classes: NDArray[Any]) -> PairMasks:
        return PairMasks.everything(len(classes))._replace(first=_chosen(self, self.labels, classes))


def starts_with(*labels: Hashable) -> StartsWith:
    """The first node has one of these labels.

    Parameters
    ----------
    *labels : hashable

    Examples
    --------
    >>> starts_with("a", "b")
    starts_with('a', 'b')
    """
    return StartsWith(list(labels))


@dataclass(repr=False)
class EndsWith(LabelRule):
    """The last node has one of these labels; see `ends_with`."""

    name = "ends_with"

    def masks(self, classes: NDArray[Any]) -> PairMasks:
        return PairMasks.everything(len(classes))._replace(last=_chosen(self, self.labels, classes))


def ends_with(*labels: Hashable) -> EndsWith:
    """The last node has one of these labels.

    Parameters
    ----------
    *labels : hashable

    Examples
    --------
    >>> ends_with("stop")
    ends_with('stop')
    """
    return EndsWith(list(labels))


@dataclass(repr=False)
class Never(Rule):
    """A label is never followed by another; see `never`."""

    pairs: Any = None
    name = "never"

    def _shown(self) -> list[str]:
        return [repr(item) for item in self.pairs] if isinstance(self.pairs, (list, tuple)) else [repr(self.pairs)]

    def masks(self, classes: NDArray[Any]) -> PairMasks:
        masks = PairMasks.everything(len(classes))
        for a, b in pair_codes(self.pairs, classes):
            masks.pairs[a, b] = False
        return masks


def never(*pairs: tuple[Hashable, Hashable]) -> Never:
    """The second label of a pair never directly follows the first.

    Parameters
    ----------
    *pairs : tuple of two labels

    Examples
    --------
    >>> never(("a", "b")).masks(np.array(["a", "b"])).pairs.tolist()
    [[True, False], [True, True]]
    """
    return Never([tuple(pair) for pair in pairs])


# ---- rules that need an automaton ------------------------------------------------------------------------------------

MAX_LABELS_ONCE = 12


@dataclass(repr=False)
class AtMostOnce(LabelRule):
    """Each of these labels occurs at most once in an example; see `at_most_once`."""

    runs: bool = False
    name = "at_most_once"

    def _shown(self) -> list[str]:
        return super()._shown() + (["runs=True"] if self.runs else [])

    def automaton(self, classes: NDArray[Any]) -> Automaton:
        once = np.flatnonzero(_chosen(self, self.labels, classes))
        if len(once) > MAX_LABELS_ONCE:
            raise ValueError(
                f"at_most_once needs {2 ** len(once)} states for {len(once)} labels; pass at most {MAX_LABELS_ONCE}."
            )
        L, m = len(classes), len(once)
        check_arcs((1 << m) * (m + 1 if self.runs else 1), L, repr(self))
        bit = np.zeros(L, dtype=np.int64)
        bit[once] = 1 << np.arange(m)
        used = np.arange(1 << m)[:, None]
        if not self.runs:
            arcs = np.where(used & bit, -1, used | bit)
            return Automaton(arcs.astype(np.int32), np.ones(1 << m, dtype=bool))
        # a run counts as one occurrence, so a state also stores the last label if it is one of these labels
        last = np.concatenate([[-1], once])  # 0 is any other label
        place = np.zeros(L, dtype=np.int64)
        place[once] = np.arange(1, m + 1)
        arcs = np.where((used[:, None] & bit)[:, :, :] > 0, -1, (used[:, None] | bit) * (m + 1) + place)
        arcs = np.broadcast_to(arcs, (1 << m, m + 1, L)).copy()
        for k in range(1, m + 1):
            has_label = np.flatnonzero(np.arange(1 << m) & bit[last[k]])
            arcs[has_label, k, last[k]] = has_label * (m + 1) + k
        return trim(Automaton(arcs.reshape(-1, L).astype(np.int32), np.ones((1 << m) * (m + 1), dtype=bool)))


def at_most_once(*labels: Hashable, runs: bool = False) -> AtMostOnce:
    """Each of these labels occurs at most once in an example.

    Parameters
    ----------
    *labels : hashable
        At most 12 labels, because the automaton has a state for every subset of them.
    runs : bool, default=False
        Whether consecutive nodes with the same label count as one occurrence.

    Examples
    --------
    >>> rule = at_most_once("price").automaton(np.array(["-", "price"]))
    >>> rule.accepts([0, 1, 0]), rule.accepts([1, 0, 1])
    (True, False)
    """
    return AtMostOnce(list(labels), runs)


@dataclass(repr=False)
class Regex(Rule):
    """The labelling matches a pattern; see `regex`."""

    pattern: Any = None
    name = "regex"

    def automaton(self, classes: NDArray[Any]) -> Automaton:
        if not isinstance(self.pattern, str):
            raise ValueError(f"regex needs a pattern of type str, got {self.pattern!r}.")
        return Pattern(self.pattern, classes).automaton()


def regex(pattern: str) -> Regex:
    """The labels of an example match a regular expression over labels.

    Parameters
    ----------
    pattern : str
        Labels separated by spaces: ``"(noun | verb)* stop"``. ``*``, ``+``, ``?``, ``{2}`` and ``{1,3}`` repeat,
        ``.`` matches any label, ``[a b]`` one of these labels, ``[^ a b]`` any other label. Labels that contain a
        space or one of the characters ``( ) | * + ? . [ ] { }`` are written in single quotes.

    Examples
    --------
    >>> rule = regex("intro? body+").automaton(np.array(["body", "intro"]))
    >>> rule.accepts([1, 0, 0]), rule.accepts([0, 1])
    (True, False)
    """
    return Regex(pattern)


@dataclass(repr=False)
class Durations(Rule):
    """Limits on the length of runs of equal labels; see the option ``durations`` of `Chain`.

    Parameters
    ----------
    limits : int or dict
        Maximum length of every run, or ``{label: (shortest, longest)}``, where None means no limit.
    """

    limits: Any = None
    name = "durations"

    def automaton(self, classes: NDArray[Any]) -> Automaton:
        """Return an automaton with a start state and states (label, length of the run so far)."""
        low, high = self._bounds(classes)
        L = len(classes)
        depth = np.where(high > 0, high, low)  # an unlimited run needs no states beyond the shortest length
        check_arcs(1 + sum(depth.tolist()), L, repr(self))
        first = 1 + np.concatenate([[0], np.cumsum(depth)])
        arcs = np.full((int(first[-1]), L), -1, dtype=np.int32)
        accepting = np.ones(len(arcs), dtype=bool)
        arcs[0] = first[:-1]
        for a in range(L):
            states = np.arange(first[a], first[a + 1])
            arcs[states[low[a] - 1 :]] = first[:-1]
            accepting[states[: low[a] - 1]] = False
            arcs[states, a] = states + 1
            arcs[states[-1], a] = -1 if high[a] > 0 else states[-1]
        return trim(Automaton(arcs, accepting))

    def within(self, longest: int) -> Durations:
        """Return equivalent limits for examples of at most ``longest`` nodes."""
        if _whole(self.limits):
            return Durations({}) if self.limits >= max(longest, 1) else self
        if not isinstance(self.limits, dict):
            return self
        pairs = {label: self._pair(label, bounds) for label, bounds in self.limits.items()}
        return Durations(
            {
                label: (min(low, longest + 1), high if 0 < high < longest else None)
                for label, (low, high) in pairs.items()
            }
        )

    def _bounds(self, classes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the shortest and the longest run of each label; 0 means no limit."""
        low, high = np.ones(len(classes), dtype=np.int64), np.zeros(len(classes), dtype=np.int64)
        if _whole(self.limits):
            if self.limits < 1:
                raise ValueError(f"durations must be at least 1, got {self.limits!r}.")
            high[:] = self.limits
            return low, high
        if not isinstance(self.limits, dict):
            raise ValueError(
                f"durations must be a whole number or a dict {{label: (shortest, longest)}}, got {self.limits!r}."
            )
        for label, bounds in self.limits.items():
            k = np.flatnonzero(_chosen(self, [label], classes))[0]
            low[k], high[k] = self._pair(label, bounds)
        return low, high

    @staticmethod
    def _pair(label: Any, bounds: Any) -> tuple[int, int]:
        """Return the shortest and the longest run of a label; 0 means no limit."""
        if not (isinstance(bounds, (tuple, list)) and len(bounds) == 2):
            raise ValueError(f"durations[{label!r}] must be a pair (shortest, longest), got {bounds!r}.")
        shortest, longest = 1 if bounds[0] is None else bounds[0], 0 if bounds[1] is None else bounds[1]
        if not (_whole(shortest) and _whole(longest) and shortest >= 1 and (longest == 0 or longest >= shortest)):
            raise ValueError(
                f"durations[{label!r}] is {tuple(bounds)!r}; expected whole numbers 1 <= shortest <= longest, or None."
            )
        return int(shortest), int(longest)


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def _chosen(rule: Any, labels: Any, classes: NDArray[Any]) -> BoolArray:
    """Return a mask of the classes that are in ``labels``."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise ValueError(f"{rule.name} needs labels, got {labels!r}.")
    number = {label: k for k, label in enumerate(classes.tolist())}
    chosen = np.zeros(len(classes), dtype=bool)
    for label in labels:
        if not isinstance(label, Hashable) or label not in number:
            raise ValueError(f"{rule!r} names {label!r}, which is not a label of y; remove or correct it.")
        chosen[number[label]] = True
    return chosen


# ---- one label -------------------------------------------------------------------------------------------------------


@dataclass(repr=False)
class OneLabel(Rule):
    """All nodes of an example have the same label."""

    name = "one_label"

    def masks(self, classes: NDArray[Any]) -> PairMasks:
        return PairMasks.everything(len(classes))._replace(pairs=np.eye(len(classes), dtype=bool))


# ---- several rules ---------------------------------------------------------------------------------------------------

ALL = (Chunks, StartsWith, EndsWith, Never, AtMostOnce, Regex, Durations)
"""The rule classes."""


def as_rules(given: Any, name: str = "rules") -> list[Rule]:
    """Convert a rule, a list of rules or None to a list of rules."""
    if given is None:
        return []
    if isinstance(given, Rule):
        return [given]
    if not isinstance(given, (list, tuple)) or not all(isinstance(rule, Rule) for rule in given):
        raise ValueError(f"{name} must be a rule such as bio() or a list of rules of maxendnet.rules, got {given!r}.")
    return list(given)


def combine(rules: list[Rule], classes: NDArray[Any]) -> tuple[PairMasks, Automaton | None]:
    """Combine the pairwise rules to masks and the other rules to an automaton, None if there are none."""
    masks, automaton = PairMasks.everything(len(classes)), None
    for rule in rules:
        rule_masks = rule.masks(classes)
        if rule_masks is not None:
            masks = masks & rule_masks
        else:
            automaton = intersect(anything(len(classes)) if automaton is None else automaton, rule.automaton(classes))
    return masks, automaton

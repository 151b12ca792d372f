"""Regular expressions over labels, compiled to automata."""

from __future__ import annotations

import re
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from maxendnet.structures.automata.automaton import Automaton, trim

TOKEN = re.compile(r"\s+|'([^']*)'|([()|*+?.\[\]]|\[\^)|\{(\d+)(,?)(\d*)\}|([^\s()|*+?.\[\]{}']+)")
MAX_STATES = 100_000
MAX_WORK = 50_000_000
"""Maximum number of arcs and labels visited to build an automaton (a few seconds)."""


class Pattern:
    """Parsed pattern; `automaton` accepts the labellings that match it completely.

    Labels are separated by spaces. ``a b`` matches a then b, ``a | b`` matches a or b, ``( )`` is a group, ``*``,
    ``+``, ``?``, ``{2}``, ``{1,3}`` and ``{2,}`` repeat the previous item, ``.`` matches any label, ``[a b]`` one of
    these labels and ``[^ a b]`` any other label. Labels that contain one of these characters are written in single
    quotes.

    Parameters
    ----------
    pattern : str
    classes : ndarray of shape (n_labels,)
        Labels of the pattern are compared with ``str(label)``.

    Examples
    --------
    >>> Pattern("a* b?", np.array(["a", "b"])).automaton().accepts([0, 0, 1])
    True
    """

    first: int
    last: int
    work: int
    place: int

    def __init__(self, pattern: str, classes: NDArray[Any]) -> None:
        self.pattern = pattern
        self.number: dict[str, int] = {str(label): k for k, label in enumerate(classes.tolist())}
        self.n_labels: int = len(classes)
        self.tokens: list[tuple[str, Any]] = self._tokens()
        self.place = 0
        # nondeterministic automaton: each arc has a set of labels, or None for an empty move
        self.arcs: list[list[tuple[Any, int]]] = []
        self.work = 0
        self.first, self.last = self._alternatives()
        if self.place < len(self.tokens):
            self._fail(f"{self.tokens[self.place][1]!r} closes no bracket")

    def automaton(self) -> Automaton:
        """Build the deterministic automaton, trimmed."""
        start = self._closure(frozenset([self.first]))
        number, rows, waiting = {start: 0}, [], [start]
        while waiting:
            here = waiting.pop(0)
            self._count(self.n_labels * len(here))
            row = np.full(self.n_labels, -1, dtype=np.int32)
            for label in range(self.n_labels):
                reached = {to for state in here for labels, to in self.arcs[state] if labels and label in labels}
                if not reached:
                    continue
                target = self._closure(frozenset(reached))
                if target not in number:
                    if len(number) >= MAX_STATES:
                        self._fail(f"its automaton has more than {MAX_STATES} states")
                    number[target] = len(number)
                    waiting.append(target)
                row[label] = number[target]
            rows.append(row)
        accepting = np.array([self.last in states for states in number])
        return trim(Automaton(np.stack(rows), accepting))

    def _closure(self, states: frozenset[int]) -> frozenset[int]:
        """Return the states that are reachable by empty moves."""
        reached, waiting = set(states), list(states)
        while waiting:
            for labels, to in self.arcs[waiting.pop()]:
                if labels is None and to not in reached:
                    reached.add(to)
                    waiting.append(to)
        return frozenset(reached)

    # ---- parsing ---------------------------------------------------------------------------------------------------

    def _fail(self, why: str) -> NoReturn:
        raise ValueError(f"the pattern {self.pattern!r} cannot be parsed: {why}; see maxendnet.rules.regex.")

    def _tokens(self) -> list[tuple[str, Any]]:
        tokens: list[tuple[str, Any]] = []
        place = 0
        text = self.pattern.replace("[^", " [ ^ ") if "'" not in self.pattern else self.pattern
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                self._fail(f"{text[place]!r} is unexpected")
            quoted, sign, low, comma, high, label = match.groups()
            place = match.end()
            if quoted is not None:
                tokens.append(("label", quoted))
            elif sign is not None:
                tokens.append(("sign", sign))
            elif low is not None:
                tokens.append(("repeat", (int(low), (int(high) if high else None) if comma else int(low))))
            elif label is not None:
                tokens.append(("label", label))
        return tokens

    def _peek(self) -> tuple[str, Any]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("end", "the end")

    def _count(self, work: int) -> None:
        self.work += work
        if self.work > MAX_WORK:
            self._fail("its automaton is too large; repeat fewer labels")

    def _new(self) -> int:
        if len(self.arcs) >= 10 * MAX_STATES:
            self._fail("its automaton is too large; repeat fewer labels")
        self.arcs.append([])
        return len(self.arcs) - 1

    def _alternatives(self) -> tuple[int, int]:
        first, last = self._new(), self._new()
        while True:
            a, b = self._sequence()
            self.arcs[first].append((None, a))
            self.arcs[b].append((None, last))
            if self._peek() != ("sign", "|"):
                return first, last
            self.place += 1

    def _sequence(self) -> tuple[int, int]:
        first = last = self._new()
        while self._peek()[0] != "end" and self._peek() not in (("sign", "|"), ("sign", ")")):
            a, b = self._repeated()
            self.arcs[last].append((None, a))
            last = b
        return first, last

    def _repeated(self) -> tuple[int, int]:
        begin = self.place
        first, last = self._atom()
        after = self.place
        kind, value = self._peek()
        if kind == "sign" and value in ("*", "+", "?"):
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[value]
        elif kind == "repeat":
            low, high = value
            if max(low, high or 0) > MAX_STATES:
                self._fail(f"it repeats more than {MAX_STATES:,} times")
            if high is not None and high < low:
                self._fail(f"{{{low},{high}}} has a maximum below its minimum")
        else:
            return first, last
        copies = [(first, last)]
        for _ in range(max(low, 1 if high is None else high) - 1):  # parse the repeated item again for every copy
            self.place = begin
            copies.append(self._atom())
        self.place = after + 1
        start = end = self._new()
        done = self._new()
        for k, (a, b) in enumerate(copies):
            if k >= low:
                self.arcs[end].append((None, done))
            self.arcs[end].append((None, a))
            end = b
        if high == 0:
            return done, done
        self.arcs[end].append((None, done))
        if high is None:
            self.arcs[copies[-1][1]].append((None, copies[-1][0]))
        return start, done

    def _atom(self) -> tuple[int, int]:
        kind, value = self._peek()
        self.place += 1
        if (kind, value) == ("sign", "("):
            inside = self._alternatives()
            if self._peek() != ("sign", ")"):
                self._fail("a bracket is not closed")
            self.place += 1
            return inside
        if (kind, value) == ("sign", "["):
            labels: set[int] = set()
            inverted = self._peek() == ("label", "^")
            self.place += int(inverted)
            while self._peek()[0] == "label":
                labels.add(self._label(self._peek()[1]))
                self.place += 1
            if self._peek() != ("sign", "]"):
                self._fail("a bracket [ is not closed, or contains more than labels")
            self.place += 1
            return self._labels(set(range(self.n_labels)) - labels if inverted else labels)
        if (kind, value) == ("sign", "."):
            return self._labels(set(range(self.n_labels)))
        if kind == "label":
            return self._labels({self._label(value)})
        self._fail(f"{value!r} does not follow an item" if kind != "end" else "it ends early")

    def _labels(self, labels: set[int]) -> tuple[int, int]:
        first, last = self._new(), self._new()
        self._count(len(labels))
        self.arcs[first].append((frozenset(labels), last))
        return first, last

    def _label(self, text: str) -> int:
        if text not in self.number:
            raise ValueError(
                f"the pattern {self.pattern!r} names {text!r}, which is not a label of y; correct the pattern."
            )
        return self.number[text]

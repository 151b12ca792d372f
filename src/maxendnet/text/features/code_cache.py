"""Feature codes of short inputs, with caches for words and template lines.

The features of a few tokens are looked up one by one, because array operations and kernel calls take longer then. A
template line with a single macro depends on one word, so the codes of all these lines are cached for each word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.text.features.templates import Pattern
from maxendnet.text.features.word_forms import Gazetteer

IntArray = NDArray[Any]

CACHE_SIZE = 100_000
"""Maximum number of entries of each cache."""


class Cache(dict[Any, Any]):
    """Cache of a function, which is computed once for each key."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def __missing__(self, key: Any) -> Any:
        value = self.function(key)
        if len(self) < CACHE_SIZE:
            self[key] = value
        return value


class WordLines(NamedTuple):
    """Template lines whose feature is determined by one word."""

    lines: IntArray
    """(n_word_lines,): their numbers in the template."""
    rows: IntArray
    """(n_word_lines,): position of the word relative to the token."""
    numbers: list[int]
    """Input columns that determine the word forms."""
    codes: Cache
    """From a word, or a tuple of its cells in ``numbers``, to the codes of the lines."""
    borders: list[IntArray]
    """Codes for each border cell: first those before a sentence, then those after it."""


class CodeCache:
    """Looks up the feature codes of single sentences.

    Parameters
    ----------
    patterns : sequence of Pattern
        Lines of the template.
    forms : dict of str to (int, form)
        Input column and word form of each template column: a function, a gazetteer, or None for the word itself.
    reach : int
        Number of border cells on either side of a sentence.
    code_of : callable
        Function from the name of a feature to its code.

    Examples
    --------
    >>> from maxendnet.text.features.templates import Template
    >>> template = Template.parse("U0=%x[0,0]\\nU1=%x[-1,0]/%x[0,0]")
    >>> names = {"U0=a": 0, "U0=b": 1, "U1=a/b": 2}
    >>> cache = CodeCache(template.patterns, {"0": (0, None)}, template.reach, lambda name: names.get(name, -1))
    >>> cache.codes({0: ["a", "b"]}, 2).tolist()
    [[0, -1], [1, 2]]
    """

    def __init__(
        self, patterns: Sequence[Pattern], forms: Mapping[str, tuple[int, Any]], reach: int,
        code_of: Callable[[str], int],
    ) -> None:  # fmt: skip
        self.patterns, self.forms, self.reach, self.code_of = patterns, forms, reach, code_of
        self.before = [f"_B-{k}" for k in range(reach, 0, -1)]
        self.after = [f"_B+{k}" for k in range(1, reach + 1)]
        self.form_caches = {name: Cache(form) for name, (_, form) in forms.items() if callable(form)}
        self.word_lines = self._word_lines()
        of_words = set(self.word_lines.lines.tolist())
        self.other_lines = [
            (p, pattern, self._line_cache(pattern)) for p, pattern in enumerate(patterns) if p not in of_words
        ]
        self.other_columns = {macro.column for _, pattern, _ in self.other_lines for macro in pattern.macros}

    def _line_cache(self, pattern: Pattern) -> Cache:
        """Return a cache from the cell, or tuple of cells, of a template line to the feature code."""
        name = "%s".join(text.replace("%", "%%") for text in pattern.texts)

        def code(cells: Any) -> int:
            missing = "" in cells if type(cells) is tuple else not cells
            return -1 if missing else self.code_of(name % cells)

        return Cache(code)

    def _word_lines(self) -> WordLines:
        chosen = [
            (p, pattern)
            for p, pattern in enumerate(self.patterns)
            if len(pattern.macros) == 1 and not isinstance(self.forms[pattern.macros[0].column][1], Gazetteer)
        ]
        sources = [self.forms[pattern.macros[0].column] for _, pattern in chosen]
        caches = [self._line_cache(pattern) for _, pattern in chosen]
        numbers = sorted({number for number, _ in sources})
        parts = [(source, cache.function) for source, cache in zip(sources, caches)]

        def codes(word: Any) -> IntArray:
            cell_of = dict(zip(numbers, word if type(word) is tuple else (word,)))
            forms = {(k, form): cell_of[k] if form is None else form(cell_of[k]) for k, form in set(sources)}
            return np.array([code(forms[source]) for source, code in parts], dtype=np.int32)

        borders = [np.array([code(cell) for _, code in parts], dtype=np.int32) for cell in self.before + self.after]
        return WordLines(
            np.array([p for p, _ in chosen], dtype=np.int64),
            np.array([pattern.macros[0].row for _, pattern in chosen], dtype=np.int64), numbers, Cache(codes), borders,
        )  # fmt: skip

    def codes(self, cells: Mapping[int, list[str]], n: int) -> IntArray:
        """Return the codes of one sentence, shape (n_tokens, n_lines).

        Parameters
        ----------
        cells : dict of int to list of str
            The cells of each input column.
        n : int
            Number of tokens.
        """
        reach = self.reach
        out = np.empty((n, len(self.patterns)), dtype=np.int32)
        lines, rows, numbers, cache, borders = self.word_lines
        if len(lines) and n:
            words: Any = cells[numbers[0]] if len(numbers) == 1 else zip(*[cells[k] for k in numbers])
            table = np.array([*borders[:reach], *map(cache.__getitem__, words), *borders[reach:]])
            places = np.arange(reach, reach + n)[:, None] + rows
            out[:, lines] = table[places, np.arange(len(lines))]
        columns = {}
        for name in self.other_columns:
            number, form = self.forms[name]
            values = cells[number]
            if isinstance(form, Gazetteer):
                values = form.tags(values)
            elif form is not None:
                values = list(map(self.form_caches[name].__getitem__, values))
            columns[name] = self.before + values + self.after
        for p, pattern, line_cache in self.other_lines:
            parts = [columns[name][reach + row : reach + row + n] for row, name in pattern.macros]
            keys: Any = parts[0] if len(parts) == 1 else zip(*parts) if parts else [()] * n
            out[:, p] = list(map(line_cache.__getitem__, keys))
        return out

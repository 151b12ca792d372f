"""Word forms for features: lower case, shape, affixes, gazetteers and clusters.

=================  =======================================================================  ==================
form               value                                                                    for ``iPhone-12``
=================  =======================================================================  ==================
``lower``          word in lower case                                                       ``iphone-12``
``shape``          classes of letters and digits                                            ``xXxxxx-dd``
``short_shape``    shape without repetitions                                                ``xXx-d``
``case``           ``lower``, ``title``, ``upper``, ``mixed``, ``number`` or ``sign``       ``mixed``
``digits``         word with 0 for each digit; no value if it has no digits                 ``iPhone-00``
``kind``           Unicode category of the first character                                  ``Ll``
``length``         number of characters                                                     ``9``
``prefix3``        first 3 characters (any number 1 to 9); no value for shorter words       ``iPh``
``suffix3``        last 3 characters                                                        ``-12``
=================  =======================================================================  ==================

Forms apply to the first column. ``1.lower`` applies ``lower`` to the second column. Names of gazetteers and clusters
are also forms, and ``brown:4`` is the first four characters of the cluster in ``brown``.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.text_files import text_of


def shape(word: str) -> str:
    """Replace upper-case letters by X, other letters by x, and digits by d.

    Examples
    --------
    >>> shape("Rolls-Royce"), shape("42nd")
    ('Xxxxx-Xxxxx', 'ddxx')
    """
    return word.translate(_letter_classes)


def short_shape(word: str) -> str:
    """Return the `shape` without repetitions.

    Examples
    --------
    >>> short_shape("Rolls-Royce"), short_shape("42nd")
    ('Xx-Xx', 'dx')
    """
    return "".join([letter for letter, _ in groupby(shape(word))])


class _LetterClasses(dict[int, str]):
    """Class of each character, by its number: a table for ``str.translate`` that is filled on first use."""

    def __missing__(self, number: int) -> str:
        letter = chr(number)
        value = "X" if letter.isupper() else "x" if letter.isalpha() else "d" if letter.isdigit() else letter
        self[number] = value
        return value


_letter_classes = _LetterClasses()


def case(word: str) -> str:
    """Return the case of a word: lower, title, upper, mixed, number or sign.

    Examples
    --------
    >>> [case(word) for word in ("the", "The", "THE", "iPhone", "1,000", "--")]
    ['lower', 'title', 'upper', 'mixed', 'number', 'sign']
    """
    if not any(map(str.isalpha, word)):
        return "number" if any(map(str.isdigit, word)) else "sign"
    if word.islower() or word == word.lower():
        return "lower"
    if word.isupper():
        return "title" if len(word) == 1 else "upper"
    return "title" if word[0].isupper() and word[1:] == word[1:].lower() else "mixed"


def digits(word: str) -> str:
    """Return the word with 0 for each digit, or an empty string if it has no digits."""
    return "".join("0" if letter.isdigit() else letter for letter in word) if any(map(str.isdigit, word)) else ""


FORMS: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "shape": shape,
    "short_shape": short_shape,
    "case": case,
    "digits": digits,
    "kind": lambda word: unicodedata.category(word[0]),
    "length": lambda word: str(len(word)),
}


def affix(side: str, n: int) -> Callable[[str], str]:
    """Return a function that returns the first or last n characters of a word.

    For words of at most n characters it returns an empty string.

    Examples
    --------
    >>> affix("suffix", 3)("running"), affix("prefix", 3)("the")
    ('ing', '')
    """
    if side == "prefix":
        return lambda word: word[:n] if len(word) > n else ""
    return lambda word: word[-n:] if len(word) > n else ""


def form_of(name: str) -> Callable[[str], str] | None:
    """Return the function of a built-in form, or None if there is no such form."""
    match = re.fullmatch(r"(prefix|suffix)([1-9])", name)
    return affix(match[1], int(match[2])) if match else FORMS.get(name)


# ---- gazetteers and clusters of words --------------------------------------------------------------------------------


class Gazetteer:
    """Phrases to find in sentences.

    Matches are the longest ones, from left to right, ignoring case.

    Parameters
    ----------
    phrases : iterable of str
        Phrases, as words separated by spaces.

    Examples
    --------
    >>> places = Gazetteer(["New York", "York", "Rome"])
    >>> places.tags(["from", "new", "york", "to", "Rome"])
    ['', 'B', 'I', '', 'B']
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self.phrases: list[str] = sorted({" ".join(phrase.lower().split()) for phrase in phrases} - {""})
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for phrase in self.phrases:
            words = tuple(phrase.split())
            self._by_first.setdefault(words[0], []).append(words)
        for candidates in self._by_first.values():
            candidates.sort(key=len, reverse=True)

    def tags(self, words: Sequence[str]) -> list[str]:
        """Return B for the first word of a phrase, I for its other words, and "" for words outside of phrases."""
        lower = [word.lower() for word in words]
        tags = [""] * len(words)
        t = 0
        while t < len(words):
            for phrase in self._by_first.get(lower[t], ()):
                n = len(phrase)
                if tuple(lower[t : t + n]) == phrase:
                    tags[t : t + n] = ["B", *["I"] * (n - 1)]
                    t += n - 1
                    break
            t += 1
        return tags


def read_gazetteer(source: Any, name: str) -> Gazetteer:
    """Build a gazetteer from a file with one phrase per line, or from strings.

    Phrases are converted to lower case. ``name`` is used in error messages.

    Examples
    --------
    >>> read_gazetteer(["New York"], "places").phrases
    ['new york']
    """
    if isinstance(source, Gazetteer):
        return source
    if isinstance(source, (str, os.PathLike)):
        source = [line for _, line in _lines(source)]
    phrases: list[Any] = list(source) if isinstance(source, Iterable) else [None]
    wrong = next((phrase for phrase in phrases if not isinstance(phrase, str)), "")
    if wrong != "":
        raise TextError(f"gazetteer {name!r} has the phrase {wrong!r}; expected a path or a list of strings.")
    return Gazetteer(phrases)


def read_clusters(source: Any, name: str) -> dict[str, str]:
    """Read word clusters from a file, or from a mapping of words to clusters.

    Each line of a file contains a word and its cluster, separated by a tab or spaces. The format of Brown clusters is
    also accepted: the cluster in 0s and 1s, the word, and optionally a count, which is ignored.

    Examples
    --------
    >>> read_clusters({"dog": "0110"}, "brown")
    {'dog': '0110'}
    """
    if isinstance(source, Mapping):
        cluster_of = dict(source)
    elif isinstance(source, (str, os.PathLike)):
        cluster_of = {}
        for place, line in _lines(source):
            cells = line.split("\t") if "\t" in line else line.split()
            if len(cells) not in (2, 3):
                raise TextError(
                    f"{place}: expected a word and its cluster, or a cluster, a word and a count: {line!r}."
                )
            brown = len(cells) == 3 or (set(cells[0]) <= {"0", "1"} and not set(cells[1]) <= {"0", "1"})
            word, cluster = (cells[1], cells[0]) if brown else (cells[0], cells[1])
            cluster_of[word] = cluster
    else:
        raise TextError(
            f"clusters {name!r} are a {type(source).__name__}; expected a path or a dict from words to clusters."
        )
    wrong = next((item for item in cluster_of.items() if not all(isinstance(part, str) for part in item)), None)
    if wrong is not None:
        raise TextError(f"clusters {name!r} map {wrong[0]!r} to {wrong[1]!r}; both must be strings.")
    return cluster_of


def _lines(path: Any) -> list[tuple[str, str]]:
    """Return pairs (``file:line``, text) for the non-blank lines of a file."""
    text, name = text_of(path)
    return [(f"{name}:{k}", line.strip()) for k, line in enumerate(text.split("\n"), 1) if line.strip()]

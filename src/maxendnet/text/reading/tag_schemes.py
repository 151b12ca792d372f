"""The scheme that tags are written in: found by majority, checked, repaired, and converted into another.

A tag can break its scheme in two ways. A *misplaced* tag, such as an ``I-PER`` that begins a span of IOB2, is read all
the same, as conlleval reads it. A *misspelt* tag, such as ``0`` or ``b-PER``, would be read as a span of another type,
and is refused unless it is to be repaired.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from maxendnet.data.unknown import UNKNOWN
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import (
    LABELS,
    NO_TYPE,
    OUT,
    OUTSIDE,
    SCHEMES,
    find_spans,
    joins,
    read_tag,
    scheme_of,
    write_tags,
)

TAG = re.compile("[BIMELSU](-.+)?", re.DOTALL)
MISSPELT = re.compile(r"([BIMELSU])[\W_](.+)", re.DOTALL | re.IGNORECASE)
"""A tag with a small letter, or with another separator than ``-``."""
NEARLY_ALL = 0.95
"""Share of labels above which letters alone, or misspelt tags, make a scheme; half of them is enough for tags such as
B-PER. Labels of other kinds look like them too: B in handwriting and protein structure, B_M among chords."""
MOST_NAMED = 4
"""Tags that a message names, and places."""

Place = Callable[[int, int], str]
"""From the numbers of a sentence and a token to words for them; `Columns.place` names file and line."""


def form_of(tag: Any) -> str:
    """Form of a label: "typed" and "bare" tags, "outside" for O and unknown labels, and "label" for all else.

    Examples
    --------
    >>> [form_of(tag) for tag in ("B-PER", "B", "O", "b-PER", "NN")]
    ['typed', 'bare', 'outside', 'label', 'label']
    """
    if tag == OUTSIDE or tag is UNKNOWN:
        return "outside"
    if not isinstance(tag, str) or not TAG.fullmatch(tag):
        return "label"
    return "bare" if len(tag) == 1 else "typed"


def corrected(tag: Any) -> Any:
    """The tag that a misspelt one stands for; others are returned as they are.

    Examples
    --------
    >>> [corrected(tag) for tag in ("0", "b-PER", "B_PER", "B-PER", "NN")]
    ['O', 'B-PER', 'B-PER', 'B-PER', 'NN']
    """
    if not isinstance(tag, str) or form_of(tag) != "label":
        return tag
    match = MISSPELT.fullmatch(tag)
    return OUTSIDE if tag in ("0", "o") else tag if match is None else f"{match[1].upper()}-{match[2]}"


def found_scheme(sentences: Iterable[Sequence[Any]]) -> str:
    """The scheme of most tags: the one that the fewest tags break; `LABELS` where most labels are no tags.

    Examples
    --------
    >>> found_scheme([["B-PER", "I-PER", "O"]]), found_scheme([["I-PER", "O"]]), found_scheme([["S-PER", "O"]])
    ('IOB2', 'IOB1', 'BIOES')
    >>> found_scheme([["Street", "City", "City"]])
    'LABELS'
    """
    rows = [list(tags) for tags in sentences]
    counts = Counter(tag for tags in rows for tag in tags)
    meant = {tag: corrected(tag) for tag in counts}
    total = sum(n for tag, n in counts.items() if form_of(meant[tag]) != "outside")
    if not total:
        return "IOB2" if meant.keys() == set(meant.values()) else LABELS
    places = Counter(place for tags in rows for place in with_neighbours([meant[tag] for tag in tags]))
    form = main_form((meant[tag], n) for tag, n in counts.items())
    broken = {}
    for scheme in SCHEMES:
        tags = [tag for tag in counts if is_of(meant[tag], form, scheme)]
        n_meant = sum(counts[tag] for tag in tags)
        n_spelt = sum(counts[tag] for tag in tags if tag == meant[tag])
        is_likely = n_meant > NEARLY_ALL * total or (form == "typed" and n_spelt > total / 2)
        # labels such as E-mail alone make no scheme: one that labels break has B or I
        if is_likely and (n_spelt == total or any(meant[tag][0] in "BI" for tag in tags)):
            n_broken = sum(n for place, n in places.items() if problem_of(*place, scheme))
            broken[scheme] = n_broken, total - n_meant
    return min(broken, key=broken.__getitem__, default=LABELS)


def main_form(counts: Iterable[tuple[Any, int]]) -> str:
    """The form of most tags, "typed" or "bare", from pairs of a tag and its number."""
    forms: Counter[str] = Counter()
    for tag, n in counts:
        forms[form_of(tag)] += n
    return "bare" if forms["bare"] > forms["typed"] else "typed"


def is_of(tag: Any, form: str, scheme: str) -> bool:
    """Whether this is a tag of a scheme."""
    return form_of(tag) == form and tag[0] in letters_of(scheme)


def letters_of(scheme: str) -> set[str]:
    """The letters of a scheme; IOB1 has a ``B`` too."""
    return {*SCHEMES[scheme], "B"}


def read_tags(
    sentences: Iterable[Sequence[Any]], scheme: str = "auto", repair: bool = False, place: Place | None = None
) -> tuple[list[list[Any]], str]:
    """Tags that are all read as the scheme means them, and the scheme.

    Parameters
    ----------
    sentences : iterable of sequences of str
    scheme : str, default="auto"
        "auto" is the scheme of most tags.
    repair : bool, default=False
        Correct misspelt tags: ``0`` is ``O``, ``b-PER`` and ``B_PER`` are ``B-PER``. Misplaced tags are written as the
        scheme asks for, with the same spans.
    place : callable, optional
        As for `check_tags`.

    Raises
    ------
    TextError
        There are misspelt tags, or labels that are no tags.

    Examples
    --------
    >>> read_tags([["b-PER", "I_PER", "0"], ["B-LOC", "O", "I-PER"], ["B-PER"]], repair=True)
    ([['B-PER', 'I-PER', 'O'], ['B-LOC', 'O', 'B-PER'], ['B-PER']], 'IOB2')
    >>> read_tags([["B-PER", "I-PER", "0"]])
    Traceback (most recent call last):
    maxendnet.text.TextError: sentence 0 token 2: '0' is no tag of IOB2; such labels: ...
    """
    rows = as_lists(sentences)
    chosen = found_scheme(rows) if scheme == "auto" else scheme_of(scheme)
    if repair:
        rows = repaired(rows, chosen)
    if chosen != LABELS:
        refuse_labels(rows, chosen, place)
    return rows, chosen


def as_lists(sentences: Iterable[Any]) -> list[list[Any]]:
    """Tags of every sentence as a list."""
    return [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in sentences]


def repaired(rows: list[list[Any]], scheme: str) -> list[list[Any]]:
    """Tags that keep the scheme, with the same spans; labels that are no tags stay as they are."""
    if scheme == LABELS:
        return rows
    meant = (list(map(corrected, tags)) for tags in rows)
    return [[written(*near, scheme).tag for near in with_neighbours(tags)] for tags in meant]


def refuse_labels(rows: list[list[Any]], scheme: str, place: Place | None) -> None:
    """Raise `TextError` that names all labels which are no tags, or not of the form of most tags."""
    counts = Counter(tag for tags in rows for tag in tags)
    form = main_form(counts.items())
    wrong = {tag: n for tag, n in counts.items() if form_of(tag) not in (form, "outside")}
    if not wrong:
        return
    first: dict[Any, str] = {}
    for i, tags in enumerate(rows):
        for t, tag in enumerate(tags):
            if tag in wrong and tag not in first:
                first[tag] = words_for(i, t, place)
    tag, where = next(iter(first.items()))
    named = listed([f"{tag!r} ({wrong[tag]}, first at {where})" for tag, where in first.items()])
    repairs = [f"{tag!r} as {corrected(tag)!r}" for tag in first if form_of(corrected(tag)) in (form, "outside")]
    how = f"; repair=True (--repair) reads {listed(repairs)}" if repairs else ""
    raise TextError(
        f"{where}: {tag!r} is no tag of {scheme}; such labels: {named}. Correct them{how}; scheme='LABELS' (--scheme "
        f"LABELS) is for labels that are no tags."
    )


def listed(texts: list[str]) -> str:
    """The first few with commas between, and how many more there are."""
    rest = len(texts) - MOST_NAMED
    return ", ".join(texts[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def words_for(sentence: int, token: int, place: Place | None) -> str:
    """Where a token is."""
    return f"sentence {sentence} token {token}" if place is None else place(sentence, token)


def convert_tags(
    sentences: Iterable[Sequence[str]], to: str, scheme: str = "auto", repair: bool = False
) -> list[list[str]]:
    """Tags of all sentences in another scheme, with the same spans.

    Parameters
    ----------
    sentences : iterable of sequences of str
    to : str
        The new scheme.
    scheme : str, default="auto"
        The old scheme; "auto" finds it in the tags.
    repair : bool, default=False
        Correct misspelt tags, such as ``0`` for ``O`` and ``B_PER`` for ``B-PER``. Otherwise they are an error.

    Examples
    --------
    >>> convert_tags([["I-PER", "I-PER", "O", "I-LOC"]], "BIOES")
    [['B-PER', 'E-PER', 'O', 'S-LOC']]
    """
    rows, old = read_tags(sentences, scheme, repair)
    return [write_tags(find_spans(tags, old), len(tags), to) for tags in rows]


# ---- single tags -----------------------------------------------------------------------------------------------------


def with_neighbours(tags: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Every tag between the one before and the one behind it; O beyond the ends."""
    return zip([OUTSIDE, *tags], tags, [*tags[1:], OUTSIDE])


class Written(NamedTuple):
    """A tag as a scheme writes it."""

    tag: Any
    starts: bool
    """Whether it begins a span."""


@lru_cache(maxsize=65536)
def written(before: Any, tag: Any, after: Any, scheme: str) -> Written:
    """A tag as the scheme writes it between its neighbours, in the spans that `find_spans` reads.

    What is no tag stays as it is, and so does a tag beside an unknown label.

    Examples
    --------
    >>> written("O", "I-PER", "I-PER", "IOB2")
    Written(tag='B-PER', starts=True)
    """
    if form_of(tag) in ("outside", "label") or UNKNOWN in (before, after):
        return Written(tag, False)
    left, own, right = (OUT if form_of(near) == "label" else read_tag(near) for near in (before, tag, after))
    begin, inside, end, single = SCHEMES[scheme]
    starts, ends = not joins(left, own), not joins(own, right)
    letter = (single if ends else begin) if starts else (end if ends else inside)
    if scheme == "IOB1" and starts and left.type == own.type:
        letter = "B"
    return Written(letter if own.type == NO_TYPE else f"{letter}-{own.type}", starts)


@lru_cache(maxsize=65536)
def problem_of(before: Any, tag: Any, after: Any, scheme: str) -> str:
    """What is wrong with a tag between its neighbours; empty if nothing is."""
    if form_of(tag) == "label" or (form_of(tag) != "outside" and tag[0] not in letters_of(scheme)):
        letters = ", ".join(sorted(letters_of(scheme)))
        return f"{tag!r} is no tag of {scheme}; its tags are O, and {letters} with a type: B-PER"
    right, starts = written(before, tag, after, scheme)
    if tag == right:
        return ""
    if not starts:
        return f"{tag} is inside a span or at its end, and {scheme} writes there {right}"
    if scheme == "IOB1":
        return f"{tag} begins a span with none of its type before it, and IOB1 begins it with {right}"
    return f"{tag} begins a span, and {scheme} begins spans with {right}"


class Problem(NamedTuple):
    """A tag that breaks its scheme."""

    sentence: int
    token: int
    message: str


def tag_problems(sentences: Iterable[Sequence[Any]], scheme: str) -> Iterator[Problem]:
    """Every tag that breaks the scheme, and what is wrong with it.

    Examples
    --------
    >>> for problem in tag_problems([["O", "I-PER"]], "IOB2"):
    ...     print(problem.message)
    I-PER begins a span, and IOB2 begins spans with B-PER
    """
    scheme = scheme_of(scheme)
    if scheme == LABELS:
        return
    for i, tags in enumerate(sentences):
        for t, near in enumerate(with_neighbours(list(tags))):
            message = problem_of(*near, scheme)
            if message:
                yield Problem(i, t, message)


def check_tags(sentences: Iterable[Sequence[Any]], scheme: str, place: Place | None = None) -> None:
    """Raise `TextError` at the first tag that breaks the scheme.

    Parameters
    ----------
    sentences : iterable of sequences of str
    scheme : str
    place : callable, optional
        From the numbers of a sentence and a token to words for them; `Columns.place` names file and line.

    Examples
    --------
    >>> check_tags([["B-PER", "O", "I-PER"]], "IOB2")
    Traceback (most recent call last):
    maxendnet.text.TextError: sentence 0 token 2: I-PER begins a span, and IOB2 begins spans with B-PER.
    """
    for problem in tag_problems(sentences, scheme):
        raise TextError(f"{words_for(problem.sentence, problem.token, place)}: {problem.message}.")


def problems_note(sentences: Iterable[Sequence[Any]], scheme: str, place: Place | None = None) -> str:
    """The first tags that break the scheme, where they are, and how many there are; empty if none does.

    Examples
    --------
    >>> problems_note([["B-PER", "O"], ["I-PER"]], "IOB2")
    'sentence 1 token 0: I-PER begins a span, and IOB2 begins spans with B-PER; such tags: 1, at sentence 1 token 0'
    """
    problems = list(tag_problems(sentences, scheme))
    if not problems:
        return ""
    places = [words_for(problem.sentence, problem.token, place) for problem in problems]
    return f"{places[0]}: {problems[0].message}; such tags: {len(problems)}, at {listed(places)}"

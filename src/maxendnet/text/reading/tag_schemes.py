"""Tag schemes: detection by majority, checks, repair and conversion.

Tags can violate their scheme in two ways. *Misplaced* tags, such as an ``I-PER`` at the start of an IOB2 span, are
interpreted as by conlleval. *Misspelt* tags, such as ``0`` or ``b-PER``, would be interpreted as spans of another type,
so they raise an error unless ``repair=True``.
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
"""A tag with a lower-case letter, or with a separator other than ``-``."""
NEARLY_ALL = 0.95
"""Minimum share of labels to detect a scheme from single letters or misspelt tags, because other labels resemble them:
B in handwriting and protein structure, B_M in chords. For tags like B-PER, half of the labels is enough."""
MAX_LISTED = 4
"""Maximum number of tags or positions that a message lists."""

Place = Callable[[int, int], str]
"""Function that describes where a token is, from the indices of its sentence and of the token; see `Columns.place`."""


def numbered_place(sentence: int, token: int) -> str:
    """Describe where a token is by its indices."""
    return f"sentence {sentence} token {token}"


def form_of(tag: Any) -> str:
    """Return the form of a label: "typed", "bare", "outside" or "label".

    O and unknown labels are "outside", tags such as B-PER are "typed", single letters such as B are "bare", and all
    other labels are "label".

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
    """Return the correct spelling of a misspelt tag, and other labels unchanged.

    Examples
    --------
    >>> [corrected(tag) for tag in ("0", "b-PER", "B_PER", "B-PER", "NN")]
    ['O', 'B-PER', 'B-PER', 'B-PER', 'NN']
    """
    if not isinstance(tag, str) or form_of(tag) != "label":
        return tag
    match = MISSPELT.fullmatch(tag)
    return OUTSIDE if tag in ("0", "o") else tag if match is None else f"{match[1].upper()}-{match[2]}"


def detect_scheme(sentences: Iterable[Sequence[Any]]) -> str:
    """Detect the scheme that the fewest tags violate.

    The result is `LABELS` if most labels are not tags.

    Examples
    --------
    >>> detect_scheme([["B-PER", "I-PER", "O"]]), detect_scheme([["I-PER", "O"]]), detect_scheme([["S-PER", "O"]])
    ('IOB2', 'IOB1', 'BIOES')
    >>> detect_scheme([["Street", "City", "City"]])
    'LABELS'
    """
    rows = [list(tags) for tags in sentences]
    counts = Counter(tag for tags in rows for tag in tags)
    spelling = {tag: corrected(tag) for tag in counts}
    total = sum(n for tag, n in counts.items() if form_of(spelling[tag]) != "outside")
    if not total:
        return "IOB2" if spelling.keys() == set(spelling.values()) else LABELS
    contexts = Counter(context for tags in rows for context in with_neighbours([spelling[tag] for tag in tags]))
    form = main_form((spelling[tag], n) for tag, n in counts.items())
    violations = {}
    for scheme in SCHEMES:
        tags = [tag for tag in counts if is_of(spelling[tag], form, scheme)]
        n_tags = sum(counts[tag] for tag in tags)
        n_correct = sum(counts[tag] for tag in tags if tag == spelling[tag])
        is_likely = n_tags > NEARLY_ALL * total or (form == "typed" and n_correct > total / 2)
        # labels such as E-mail alone are not a scheme, and if some labels are not tags, a scheme must have B or I
        if is_likely and (n_correct == total or any(spelling[tag][0] in "BI" for tag in tags)):
            n_violations = sum(n for context, n in contexts.items() if problem_of(*context, scheme))
            violations[scheme] = n_violations, total - n_tags
    return min(violations, key=violations.__getitem__, default=LABELS)


def main_form(counts: Iterable[tuple[Any, int]]) -> str:
    """Return the form of most tags, "typed" or "bare", from pairs (tag, count)."""
    forms: Counter[str] = Counter()
    for tag, n in counts:
        forms[form_of(tag)] += n
    return "bare" if forms["bare"] > forms["typed"] else "typed"


def is_of(tag: Any, form: str, scheme: str) -> bool:
    """Whether a label is a tag of this scheme and has this form."""
    return form_of(tag) == form and tag[0] in letters_of(scheme)


def letters_of(scheme: str) -> set[str]:
    """Return the letters of a scheme, including the ``B`` of IOB1."""
    return {*SCHEMES[scheme], "B"}


def read_tags(
    sentences: Iterable[Sequence[Any]], scheme: str = "auto", repair: bool = False, place: Place = numbered_place
) -> tuple[list[list[Any]], str]:
    """Check or repair the tags of all sentences, and detect their scheme.

    Parameters
    ----------
    sentences : iterable of sequences of str
    scheme : str, default="auto"
        Tag scheme. "auto" detects the scheme of most tags.
    repair : bool, default=False
        Whether to correct misspelt tags, such as ``0`` for ``O``, and ``b-PER`` or ``B_PER`` for ``B-PER``, and to
        rewrite misplaced tags without changing spans.
    place : callable, optional
        Describes where a token is in messages, as for `check_tags`.

    Returns
    -------
    tags : list of lists of str
    scheme : str

    Raises
    ------
    TextError
        If there are misspelt tags, or labels that are not tags.

    Examples
    --------
    >>> read_tags([["b-PER", "I_PER", "0"], ["B-LOC", "O", "I-PER"], ["B-PER"]], repair=True)
    ([['B-PER', 'I-PER', 'O'], ['B-LOC', 'O', 'B-PER'], ['B-PER']], 'IOB2')
    >>> read_tags([["B-PER", "I-PER", "0"]])
    Traceback (most recent call last):
    maxendnet.text.TextError: sentence 0 token 2: '0' is not a tag of IOB2; such labels: ...
    """
    rows = as_lists(sentences)
    chosen = detect_scheme(rows) if scheme == "auto" else scheme_of(scheme)
    if repair:
        rows = repaired(rows, chosen)
    if chosen != LABELS:
        refuse_labels(rows, chosen, place)
    return rows, chosen


def has_unknown(sentences: Iterable[Iterable[Any]]) -> bool:
    """Whether there are unknown labels or sets of labels."""
    return any(label is UNKNOWN or isinstance(label, (set, frozenset)) for row in sentences for label in row)


def read_partial_tags(
    sentences: Iterable[Any], scheme: str = "auto", repair: bool = False, place: Place = numbered_place
) -> tuple[list[list[Any]], str]:
    """Check or repair tags as `read_tags`, with unknown labels and sets of labels.

    Sets are checked for misspelt tags.

    Examples
    --------
    >>> read_partial_tags([["B-PER", {"I-PER", "O"}, UNKNOWN]])[0][0][1] == {"I-PER", "O"}
    True
    """
    rows = as_lists(sentences)
    tags, chosen = read_tags(without_sets(rows), scheme, repair, place)
    forms = {form_of(tag) for row in tags for tag in row} | {"outside"}
    for i, row in enumerate(rows):
        for t, label in enumerate(row):
            if not isinstance(label, (set, frozenset)):
                continue
            wrong = sorted(str(member) for member in label if form_of(member) not in forms)
            if chosen != LABELS and wrong:
                raise TextError(f"{place(i, t)}: {wrong[0]!r} in a set of labels is not a tag of {chosen}.")
            tags[i][t] = frozenset(label)
    return tags, chosen


def without_sets(rows: list[list[Any]]) -> list[list[Any]]:
    """Return the labels with `UNKNOWN` instead of sets."""
    return [[UNKNOWN if isinstance(label, (set, frozenset)) else label for label in row] for row in rows]


def as_lists(sentences: Iterable[Any]) -> list[list[Any]]:
    """Convert the tags of each sentence to a list."""
    return [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in sentences]


def repaired(rows: list[list[Any]], scheme: str) -> list[list[Any]]:
    """Rewrite misplaced tags by the rules of the scheme, without changing spans.

    Labels that are not tags do not change.
    """
    if scheme == LABELS:
        return rows
    spelt = (list(map(corrected, tags)) for tags in rows)
    return [[written(*context, scheme)[0] for context in with_neighbours(tags)] for tags in spelt]


def refuse_labels(rows: list[list[Any]], scheme: str, place: Place) -> None:
    """Raise `TextError` if there are labels that are not tags of the main form."""
    counts = Counter(tag for tags in rows for tag in tags)
    form = main_form(counts.items())
    wrong = {tag: n for tag, n in counts.items() if form_of(tag) not in (form, "outside")}
    if not wrong:
        return
    first: dict[Any, str] = {}
    for i, tags in enumerate(rows):
        for t, tag in enumerate(tags):
            if tag in wrong and tag not in first:
                first[tag] = place(i, t)
    tag, where = next(iter(first.items()))
    labels = listed([f"{tag!r} ({wrong[tag]}, first at {where})" for tag, where in first.items()])
    repairs = [f"{tag!r} as {corrected(tag)!r}" for tag in first if form_of(corrected(tag)) in (form, "outside")]
    hint = f", or use repair=True (--repair) to read {listed(repairs)}" if repairs else ""
    raise TextError(
        f"{where}: {tag!r} is not a tag of {scheme}; such labels: {labels}. Correct them{hint}. For labels that are "
        f"not tags, use scheme='LABELS' (--scheme LABELS)."
    )


def listed(texts: list[str]) -> str:
    """Join the first texts with commas, followed by the number of the remaining ones."""
    rest = len(texts) - MAX_LISTED
    return ", ".join(texts[:MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def convert_tags(
    sentences: Iterable[Sequence[str]], to: str, scheme: str = "auto", repair: bool = False
) -> list[list[str]]:
    """Convert the tags of all sentences to another scheme, with the same spans.

    Parameters
    ----------
    sentences : iterable of sequences of str
    to : str
        New scheme.
    scheme : str, default="auto"
        Current scheme. "auto" detects it.
    repair : bool, default=False
        Whether to correct misspelt tags, such as ``0`` for ``O`` and ``B_PER`` for ``B-PER``. By default they raise an
        error.

    Examples
    --------
    >>> convert_tags([["I-PER", "I-PER", "O", "I-LOC"]], "BIOES")
    [['B-PER', 'E-PER', 'O', 'S-LOC']]
    """
    rows, old = read_tags(sentences, scheme, repair)
    return [write_tags(find_spans(tags, old), len(tags), to) for tags in rows]


# ---- single tags -----------------------------------------------------------------------------------------------------


def with_neighbours(tags: list[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Iterate over (previous tag, tag, next tag), with O at the ends."""
    return zip([OUTSIDE, *tags], tags, [*tags[1:], OUTSIDE])


@lru_cache(maxsize=65536)
def written(before: Any, tag: Any, after: Any, scheme: str) -> tuple[Any, bool]:
    """Return the tag that the scheme requires, and whether it starts a span.

    Spans are those of `find_spans`. Labels that are not tags, and tags beside an unknown label, do not change.

    Examples
    --------
    >>> written("O", "I-PER", "I-PER", "IOB2")
    ('B-PER', True)
    """
    if form_of(tag) in ("outside", "label") or UNKNOWN in (before, after):
        return tag, False
    left, middle, right = (OUT if form_of(near) == "label" else read_tag(near) for near in (before, tag, after))
    begin, inside, end, single = SCHEMES[scheme]
    starts, ends = not joins(left, middle), not joins(middle, right)
    letter = (single if ends else begin) if starts else (end if ends else inside)
    if scheme == "IOB1" and starts and left.type == middle.type:
        letter = "B"
    return letter if middle.type == NO_TYPE else f"{letter}-{middle.type}", starts


@lru_cache(maxsize=65536)
def problem_of(before: Any, tag: Any, after: Any, scheme: str) -> str:
    """Describe how a tag between its neighbours violates the scheme, or return an empty string if it does not."""
    if form_of(tag) == "label" or (form_of(tag) != "outside" and tag[0] not in letters_of(scheme)):
        letters = ", ".join(sorted(letters_of(scheme)))
        return f"{tag!r} is not a tag of {scheme}; its tags are O, and {letters} with a type, such as B-PER"
    expected, starts = written(before, tag, after, scheme)
    if tag == expected:
        return ""
    if not starts:
        return f"{tag} continues a span, where {scheme} has {expected}"
    if scheme == "IOB1":
        return f"{tag} starts a span that does not follow one of its type, where IOB1 has {expected}"
    return f"{tag} starts a span, where {scheme} has {expected}"


class Problem(NamedTuple):
    """A tag that violates its scheme."""

    sentence: int
    token: int
    message: str


def tag_problems(sentences: Iterable[Sequence[Any]], scheme: str) -> Iterator[Problem]:
    """Yield the tags that violate the scheme, with messages.

    Examples
    --------
    >>> for problem in tag_problems([["O", "I-PER"]], "IOB2"):
    ...     print(problem.message)
    I-PER starts a span, where IOB2 has B-PER
    """
    scheme = scheme_of(scheme)
    if scheme == LABELS:
        return
    for i, tags in enumerate(sentences):
        for t, context in enumerate(with_neighbours(list(tags))):
            message = problem_of(*context, scheme)
            if message:
                yield Problem(i, t, message)


def check_tags(sentences: Iterable[Sequence[Any]], scheme: str, place: Place = numbered_place) -> None:
    """Raise `TextError` for the first tag that violates the scheme.

    Parameters
    ----------
    sentences : iterable of sequences of str
    scheme : str
    place : callable, optional
        Describes where a token is, from the indices of its sentence and of the token. `Columns.place` returns file and
        line.

    Examples
    --------
    >>> check_tags([["B-PER", "O", "I-PER"]], "IOB2")
    Traceback (most recent call last):
    maxendnet.text.TextError: sentence 0 token 2: I-PER starts a span, where IOB2 has B-PER.
    """
    for problem in tag_problems(sentences, scheme):
        raise TextError(f"{place(problem.sentence, problem.token)}: {problem.message}.")


def problems_note(sentences: Iterable[Sequence[Any]], scheme: str, place: Place = numbered_place) -> str:
    """Describe the tags that violate the scheme, or return an empty string if there are none.

    Examples
    --------
    >>> problems_note([["B-PER", "O"], ["I-PER"]], "IOB2")
    'sentence 1 token 0: I-PER starts a span, where IOB2 has B-PER; such tags: 1, at sentence 1 token 0'
    """
    problems = list(tag_problems(sentences, scheme))
    if not problems:
        return ""
    places = [place(problem.sentence, problem.token) for problem in problems]
    return f"{places[0]}: {problems[0].message}; such tags: {len(problems)}, at {listed(places)}"

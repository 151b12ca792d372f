"""Spans in label sequences: which tokens belong together, by the usual schemes of tags.

=========  ==========================================================================================
``IOB2``   ``B-X`` begins a span, ``I-X`` goes on; also called BIO
``IOB1``   ``I-X`` begins and goes on, ``B-X`` begins where a span of the same type was just before
``BIOES``  ``B-X I-X ... E-X``, and ``S-X`` for a span of one token; also called IOBES
``BILOU``  the same with ``L`` for ``E`` and ``U`` for ``S``
``BMES``   the same with ``M`` for ``I``; often without types, for words in Chinese text
``LABELS`` no letters: every run of one label is a span, except runs of ``O``
=========  ==========================================================================================

Tags of all schemes with letters are read by one rule, that of conlleval and seqeval: two neighbours belong to one span
if both have the same type, the left one has not ended (no ``E`` or ``S``) and the right one does not begin (no ``B`` or
``S``). So misplaced tags, such as an ``I-X`` that begins a span of IOB2, still have spans. ``strict=True`` takes only
spans that are written as the scheme asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.text.reading.errors import TextError

OUTSIDE = "O"
NO_TYPE = "_"
"""Type of tags that are a letter alone, as seqeval has it."""


class Letters(NamedTuple):
    """The letters of a scheme: at the beginning of a span, inside, at its end, and for a span of one token."""

    begin: str
    inside: str
    end: str
    single: str


SCHEMES = {
    "IOB2": Letters("B", "I", "I", "B"),
    "IOB1": Letters("I", "I", "I", "I"),
    "BIOES": Letters("B", "I", "E", "S"),
    "BILOU": Letters("B", "I", "L", "U"),
    "BMES": Letters("B", "M", "E", "S"),
}
OTHER_NAMES = {"BIO": "IOB2", "IOBES": "BIOES", "IOB": "IOB1", "BMEWO": "BMES", "BMESO": "BMES"}
LABELS = "LABELS"
MEANS = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""What a letter says, whatever the scheme."""


class Span(NamedTuple):
    """Tokens ``start:end`` of a sentence, and what they are.

    Examples
    --------
    >>> span = Span(0, 2, "PER")
    >>> ["Ada", "Lovelace", "wrote"][span.start : span.end]
    ['Ada', 'Lovelace']
    """

    start: int
    end: int
    """The token behind the last one."""
    type: str


class Tag(NamedTuple):
    """A tag in its parts."""

    letter: str
    """B, I, E or S, or O outside of spans."""
    type: str


OUT = Tag(OUTSIDE, "")


def scheme_of(name: str) -> str:
    """The name of a scheme as it is written here; `TextError` if there is none.

    Examples
    --------
    >>> scheme_of("bio")
    'IOB2'
    """
    upper = name.upper() if isinstance(name, str) else ""
    upper = OTHER_NAMES.get(upper, upper)
    if upper not in SCHEMES and upper != LABELS:
        known = ", ".join((*SCHEMES, LABELS))
        raise TextError(f"scheme must be one of {known}, or 'auto' where that is offered, got {name!r}.")
    return upper


@lru_cache(maxsize=4096)
def read_tag(tag: Any, scheme: str = "IOB2") -> Tag:
    """The parts of a tag; a tag without a letter that the schemes know is a letter I with the whole as its type.

    Examples
    --------
    >>> read_tag("B-LOC"), read_tag("O"), read_tag("U-date-time")
    (Tag(letter='B', type='LOC'), Tag(letter='O', type=''), Tag(letter='S', type='date-time'))
    """
    if tag == OUTSIDE:
        return OUT
    if not isinstance(tag, str) or not tag:
        raise TextError(f"{tag!r} is no tag; give strings such as 'B-LOC', and 'O' outside of spans.")
    if scheme == LABELS:
        return Tag("I", tag)
    if tag[0] in MEANS and (len(tag) == 1 or tag[1] == "-"):
        return Tag(MEANS[tag[0]], tag[2:] or NO_TYPE)
    return Tag("I", tag)


def joins(left: Tag, right: Tag) -> bool:
    """Whether two neighbouring tags are of one span."""
    return left.type == right.type and left.letter in "BI" and right.letter in "IE"


def find_spans(tags: Sequence[Any], scheme: str = "IOB2", strict: bool = False) -> list[Span]:
    """The spans of one sentence.

    Parameters
    ----------
    tags : sequence of str
    scheme : str, default="IOB2"
        Only `LABELS` makes a difference, unless ``strict``: the letters of all schemes are known.
    strict : bool, default=False
        Leave out spans that are not written as the scheme asks for.

    Returns
    -------
    list of Span

    Examples
    --------
    >>> find_spans(["B-PER", "I-PER", "O", "I-LOC"])
    [Span(start=0, end=2, type='PER'), Span(start=3, end=4, type='LOC')]
    >>> find_spans(["B-PER", "I-PER", "O", "I-LOC"], strict=True)
    [Span(start=0, end=2, type='PER')]
    >>> find_spans(["City", "City", "O", "State"], "labels")
    [Span(start=0, end=2, type='City'), Span(start=3, end=4, type='State')]
    """
    scheme = scheme_of(scheme)
    read = [read_tag(tag, scheme) for tag in tags]
    found = [Span(first, last, read[first].type) for first, last in _runs(read)]
    if strict and scheme != LABELS:
        found = [span for span in found if well_formed(tags[span.start : span.end], scheme)]
    return found


def _runs(read: Sequence[Tag]) -> Iterator[tuple[int, int]]:
    """First token and end of every span."""
    first = -1
    for t, tag in enumerate(read):
        if first >= 0 and not joins(read[t - 1], tag):
            yield first, t
            first = -1
        if first < 0 and tag is not OUT:
            first = t
    if first >= 0:
        yield first, len(read)


def well_formed(tags: Sequence[str], scheme: str) -> bool:
    """Whether the tags of one span are written as the scheme asks for; for IOB1, whatever the tags before it."""
    letters = SCHEMES[scheme]
    found = "".join(tag[0] for tag in tags)
    if scheme == "IOB1":
        return set(found[1:]) <= {"I"} and found[0] in "IB"
    if len(found) == 1:
        return found == letters.single
    return found[0] == letters.begin and found[-1] == letters.end and set(found[1:-1]) <= {letters.inside}


def write_tags(spans: Iterable[Span | tuple[int, int, str]], n_tokens: int, scheme: str = "IOB2") -> list[str]:
    """The tags of one sentence; undoes `find_spans`.

    Parameters
    ----------
    spans : iterable of Span
        They must not overlap.
    n_tokens : int
    scheme : str, default="IOB2"

    Examples
    --------
    >>> write_tags([Span(0, 2, "PER"), Span(2, 3, "PER")], 4, "BIOES")
    ['B-PER', 'E-PER', 'S-PER', 'O']
    >>> write_tags([Span(0, 2, "PER"), Span(2, 3, "PER")], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    scheme = scheme_of(scheme)
    tags = [OUTSIDE] * n_tokens
    before = Span(0, 0, "")
    for span in sorted(Span(*span) for span in spans):
        start, end, kind = span
        if not 0 <= start < end <= n_tokens:
            raise TextError(f"{span} is not within a sentence of {n_tokens} tokens.")
        if start < before.end:
            raise TextError(f"{span} overlaps {before}; tags have room for one span at a token.")
        beside = start == before.end and kind == before.type
        if scheme == LABELS:
            if beside:
                raise TextError(f"{span} touches {before} of the same type, which {LABELS} cannot tell apart.")
            tags[start:end] = [kind] * (end - start)
        else:
            begin, inside, last, single = SCHEMES[scheme]
            if scheme == "IOB1" and beside:
                begin = single = "B"
            written = [single] if end - start == 1 else [begin, *[inside] * (end - start - 2), last]
            tags[start:end] = [letter if kind == NO_TYPE else f"{letter}-{kind}" for letter in written]
        before = span
    return tags


class SpanRules(NamedTuple):
    """Which pairs of labels are of one span, as tables over the labels of a model."""

    inside: NDArray[np.bool_]
    """(n_labels,): whether a label belongs to a span."""
    joined: NDArray[np.bool_]
    """(n_labels, n_labels): whether the two are of one span when the second follows the first."""
    types: tuple[str, ...]
    """(n_labels,): the type of the span, empty outside."""


def span_rules(labels: Iterable[Any], scheme: str = "IOB2") -> SpanRules:
    """The tables of a set of labels.

    Examples
    --------
    >>> span_rules(["B-X", "I-X", "O"]).joined.astype(int).tolist()
    [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    read = [read_tag(label, scheme_of(scheme)) for label in labels]
    joined = np.array([[joins(a, b) for b in read] for a in read], dtype=bool).reshape(len(read), len(read))
    return SpanRules(np.array([tag is not OUT for tag in read], dtype=bool), joined, tuple(tag.type for tag in read))


def forbidden_pairs(labels: Iterable[str], scheme: str) -> list[tuple[str, str]]:
    """Pairs of labels that a scheme does not allow one after the other: for ``Chain(forbidden=...)``.

    Examples
    --------
    >>> forbidden_pairs(["B-X", "I-X", "O"], "IOB2")
    [('O', 'I-X')]
    """
    scheme = scheme_of(scheme)
    labels = list(labels)
    if scheme in (LABELS, "IOB1"):  # in IOB1 only a B without a span before it is wrong, and it is always readable
        return []
    letters = SCHEMES[scheme]
    starts, goes_on = {letters.begin, letters.single}, {letters.begin, letters.inside} - {letters.single}
    if scheme == "IOB2":
        goes_on = set()  # a span may end anywhere
    found = []
    for a in labels:
        for b in labels:
            a_type, b_type = read_tag(a).type, read_tag(b).type
            continues = b != OUTSIDE and b[0] not in starts
            must_continue = a != OUTSIDE and a[0] in goes_on
            open_before = a != OUTSIDE and a_type == b_type and (scheme == "IOB2" or must_continue)
            if (continues and not open_before) or (must_continue and not continues):
                found.append((a, b))
    return found

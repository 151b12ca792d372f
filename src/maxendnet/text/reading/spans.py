"""Spans of tokens in label sequences, by the usual tag schemes.

==========  ==========================================================================================
``IOB2``    ``B-X`` starts a span, ``I-X`` continues it; also called BIO
``IOB1``    ``I-X`` starts and continues; ``B-X`` starts a span directly after one of the same type
``BIOES``   ``B-X I-X ... E-X``, and ``S-X`` for a span of one token; also called IOBES
``BILOU``   BIOES with ``L`` for ``E`` and ``U`` for ``S``
``BMES``    BIOES with ``M`` for ``I``; often without types, for Chinese word segmentation
``LABELS``  labels without letters: every run of one label is a span, except runs of ``O``
==========  ==========================================================================================

All schemes with letters are read by one rule, that of conlleval and seqeval. Neighbouring tags are in one span if they
have the same type, the left one does not end a span (``E`` or ``S``), and the right one does not start one (``B`` or
``S``). So misplaced tags, such as an ``I-X`` at the start of an IOB2 span, also form spans. ``strict=True`` ignores
spans that violate the scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.rules import bio, bioes
from maxendnet.text.reading.errors import TextError

OUTSIDE = "O"
NO_TYPE = "_"
"""Span type of tags that consist of a single letter, as in seqeval."""


class Letters(NamedTuple):
    """Letters that a scheme uses for the first, inner and last token of a span, and for a span of one token."""

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
ALIASES = {"BIO": "IOB2", "IOBES": "BIOES", "IOB": "IOB1", "BMEWO": "BMES", "BMESO": "BMES"}
LABELS = "LABELS"
BIOES_LETTERS = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
"""BIOES letter for each letter of the other schemes."""


class Span(NamedTuple):
    """Tokens ``start:end`` of a sentence, with a type.

    Examples
    --------
    >>> span = Span(0, 2, "PER")
    >>> ["Ada", "Lovelace", "wrote"][span.start : span.end]
    ['Ada', 'Lovelace']
    """

    start: int
    end: int
    """One past the last token."""
    type: str


class Tag(NamedTuple):
    """A parsed tag."""

    letter: str
    """B, I, E or S, or O outside of spans."""
    type: str


OUT = Tag(OUTSIDE, "")


def scheme_of(name: str) -> str:
    """Return the canonical name of a scheme, or raise `TextError` if it is unknown.

    Examples
    --------
    >>> scheme_of("bio")
    'IOB2'
    """
    upper = name.upper() if isinstance(name, str) else ""
    upper = ALIASES.get(upper, upper)
    if upper not in SCHEMES and upper != LABELS:
        known = ", ".join((*SCHEMES, LABELS))
        raise TextError(f"scheme must be one of {known}, or 'auto' if available, got {name!r}.")
    return upper


@lru_cache(maxsize=4096)
def read_tag(tag: Any, scheme: str = "IOB2") -> Tag:
    """Parse a tag.

    A label that does not begin with a letter of a scheme is parsed as I, with the label as its type.

    Examples
    --------
    >>> read_tag("B-LOC"), read_tag("O"), read_tag("U-date-time")
    (Tag(letter='B', type='LOC'), Tag(letter='O', type=''), Tag(letter='S', type='date-time'))
    """
    if tag == OUTSIDE:
        return OUT
    if not isinstance(tag, str) or not tag:
        raise TextError(f"{tag!r} is not a tag; expected strings such as 'B-LOC', and 'O' outside of spans.")
    if scheme == LABELS:
        return Tag("I", tag)
    if tag[0] in BIOES_LETTERS and (len(tag) == 1 or tag[1] == "-"):
        return Tag(BIOES_LETTERS[tag[0]], tag[2:] or NO_TYPE)
    return Tag("I", tag)


def joins(left: Tag, right: Tag) -> bool:
    """Whether two neighbouring tags are in the same span."""
    return left.type == right.type and left.letter in "BI" and right.letter in "IE"


def find_spans(tags: Sequence[Any], scheme: str = "IOB2", strict: bool = False) -> list[Span]:
    """Return the spans of one sentence.

    Parameters
    ----------
    tags : sequence of str
    scheme : str, default="IOB2"
        Tag scheme. Without ``strict``, all schemes except `LABELS` yield the same spans.
    strict : bool, default=False
        Whether to leave out spans that violate the scheme.

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
    parsed = [read_tag(tag, scheme) for tag in tags]
    spans = [Span(first, last, parsed[first].type) for first, last in _runs(parsed)]
    if strict and scheme != LABELS:
        spans = [span for span in spans if is_well_formed(tags[span.start : span.end], scheme)]
    return spans


def _runs(tags: Sequence[Tag]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each span."""
    first = -1
    for t, tag in enumerate(tags):
        if first >= 0 and not joins(tags[t - 1], tag):
            yield first, t
            first = -1
        if first < 0 and tag is not OUT:
            first = t
    if first >= 0:
        yield first, len(tags)


def is_well_formed(tags: Sequence[str], scheme: str) -> bool:
    """Whether the tags of one span follow the scheme.

    For IOB1, the tags before the span are not considered.
    """
    begin, inside, end, single = SCHEMES[scheme]
    letters = "".join(tag[0] for tag in tags)
    if scheme == "IOB1":
        return letters[0] in "IB" and set(letters[1:]) <= {"I"}
    if len(letters) == 1:
        return letters == single
    return letters[0] == begin and letters[-1] == end and set(letters[1:-1]) <= {inside}


def write_tags(spans: Iterable[Span | tuple[int, int, str]], n_tokens: int, scheme: str = "IOB2") -> list[str]:
    """Return the tags of one sentence from its spans (inverse of `find_spans`).

    Parameters
    ----------
    spans : iterable of Span
        Spans without overlap.
    n_tokens : int
        Length of the sentence.
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
    previous = Span(0, 0, "")
    for span in sorted(Span(*span) for span in spans):
        start, end, kind = span
        if not 0 <= start < end <= n_tokens:
            raise TextError(f"{span} is not within a sentence of {n_tokens} tokens.")
        if start < previous.end:
            raise TextError(f"{span} overlaps {previous}; a token can belong to only one span.")
        is_adjacent = start == previous.end and kind == previous.type
        if scheme == LABELS:
            if is_adjacent:
                raise TextError(
                    f"{span} directly follows {previous} of the same type, but {LABELS} cannot separate them."
                )
            tags[start:end] = [kind] * (end - start)
        else:
            begin, inside, last, single = SCHEMES[scheme]
            if scheme == "IOB1" and is_adjacent:
                begin = single = "B"
            letters = [single] if end - start == 1 else [begin, *[inside] * (end - start - 2), last]
            tags[start:end] = [letter if kind == NO_TYPE else f"{letter}-{kind}" for letter in letters]
        previous = span
    return tags


class SpanRules(NamedTuple):
    """Tables for a set of labels: which consecutive labels belong to one span, and the span types."""

    joined: NDArray[np.bool_]
    """(n_labels, n_labels): whether the second label (column) continues a span of the first (row)."""
    types: tuple[str, ...]
    """(n_labels,): span type of each label, or an empty string for O."""


def span_rules(labels: Iterable[Any], scheme: str = "IOB2") -> SpanRules:
    """Return the `SpanRules` of a set of labels.

    Examples
    --------
    >>> span_rules(["B-X", "I-X", "O"]).joined.astype(int).tolist()
    [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    """
    tags = [read_tag(label, scheme_of(scheme)) for label in labels]
    joined = np.array([[joins(a, b) for b in tags] for a in tags], dtype=bool).reshape(len(tags), len(tags))
    return SpanRules(joined, tuple(tag.type for tag in tags))


def forbidden_pairs(labels: Iterable[str], scheme: str) -> list[tuple[str, str]]:
    """Return the label pairs that violate a scheme, for ``Chain(forbidden=...)``.

    Examples
    --------
    >>> forbidden_pairs(["B-X", "I-X", "O"], "IOB2")
    [('O', 'I-X')]
    """
    scheme = scheme_of(scheme)
    if scheme in (LABELS, "IOB1"):  # a misplaced B of IOB1 is still unambiguous
        return []
    labels = list(labels)
    tags = [read_tag(label) for label in labels]
    canonical = [OUTSIDE if tag is OUT else f"{tag.letter}-{tag.type}" for tag in tags]
    rule = bio() if scheme == "IOB2" else bioes()
    pairs = rule.masks(np.array(canonical, dtype=object)).pairs
    return [(labels[a], labels[b]) for a, b in np.argwhere(~pairs).tolist()]

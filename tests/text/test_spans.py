"""Spans and tags: round trips, conversion, tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxendnet.text import TextError, convert_tags, find_spans, write_tags
from maxendnet.text.reading.spans import (
    LABELS,
    SCHEMES,
    Span,
    forbidden_pairs,
    scheme_of,
    span_rules,
)
from maxendnet.text.reading.tag_schemes import tag_problems


@st.composite
def spans_of_a_sentence(draw, types=("X", "Y", "X-Y")):
    n = draw(st.integers(0, 10))
    spans, at = [], 0
    while at < n:
        length = draw(st.integers(0, min(3, n - at)))
        if length:
            spans.append(Span(at, at + length, draw(st.sampled_from(types))))
        at += max(length, 1)
    return spans, n


@pytest.mark.parametrize("scheme", SCHEMES)
@given(case=spans_of_a_sentence())
def test_round_trip_of_tags_and_spans(scheme, case):
    spans, n = case
    tags = write_tags(spans, n, scheme)
    assert len(tags) == n
    assert find_spans(tags, scheme) == find_spans(tags, scheme, strict=True) == spans
    assert list(tag_problems([tags], scheme)) == []


@given(case=spans_of_a_sentence(types=["_"]))
def test_single_letters_have_no_type(case):
    spans, n = case
    tags = write_tags(spans, n, "BMES")
    assert set(tags) <= {"O", "B", "M", "E", "S"}
    assert find_spans(tags, "BMES") == spans


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("to", SCHEMES)
@given(case=spans_of_a_sentence())
def test_conversion_keeps_spans(scheme, to, case):
    spans, n = case
    (converted,) = convert_tags([write_tags(spans, n, scheme)], to, scheme)
    assert find_spans(converted, to) == spans


tags = st.lists(st.sampled_from(["O", *(f"{a}-{b}" for a in "BIES" for b in "XY")]), max_size=8)


def test_any_tags_have_the_spans_of_seqeval():
    cases = json.loads(Path(__file__).with_name("seqeval_cases.json").read_text())
    for case in cases:
        if case["scheme"] != "BILOU":  # seqeval does not read BILOU letters without a scheme
            for sentence, spans in zip(case["true"], case["spans"], strict=True):
                assert find_spans(sentence.split()) == [Span(first, last + 1, kind) for kind, first, last in spans]


@given(tags)
def test_tags_without_problems_are_those_written_for_their_spans(sentence):
    fine = sentence == write_tags(find_spans(sentence, "BIOES"), len(sentence), "BIOES")
    assert fine == (list(tag_problems([sentence], "BIOES")) == [])


def test_labels_are_runs():
    assert find_spans(["A", "A", "O", "B", "A"], LABELS) == [Span(0, 2, "A"), Span(3, 4, "B"), Span(4, 5, "A")]
    assert write_tags([Span(0, 2, "A")], 3, "labels") == ["A", "A", "O"]
    with pytest.raises(TextError, match=r"directly follows .* of the same type"):
        write_tags([Span(0, 2, "A"), Span(2, 3, "A")], 3, "labels")


def test_aliases_of_schemes():
    assert [scheme_of(name) for name in ("bio", "IOBES", "iob", "labels")] == ["IOB2", "BIOES", "IOB1", "LABELS"]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3, "X")], "not within a sentence of 2"),
        ([(0, 2, "X"), (1, 2, "X")], "overlaps"),
        ([(1, 1, "X")], "not within"),
    ],
)
def test_spans_that_cannot_be_written(spans, message):
    with pytest.raises(TextError, match=message):
        write_tags(spans, 2)


@pytest.mark.parametrize("scheme", ["IOB2", "BIOES", "BILOU", "BMES"])
def test_forbidden_pairs_violate_the_scheme_in_any_context(scheme):
    letters = sorted({*SCHEMES[scheme]})
    labels = ["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")]
    begin, inside, end, single = SCHEMES[scheme]

    def complete(a, b):
        """Return the two tags with the tags that complete their spans."""
        before = [f"{begin}-{a[2:]}"] if a != "O" and a[0] in (inside, end) and a[0] != begin and a[0] != single else []
        behind = [f"{end}-{b[2:]}"] if b != "O" and b[0] in (begin, inside) and b[0] not in (single, end) else []
        return [*before, a, b, *behind]

    forbidden = set(forbidden_pairs(labels, scheme))
    for a in labels:
        for b in labels:
            assert ((a, b) in forbidden) == bool(list(tag_problems([complete(a, b)], scheme))), (a, b)


def test_span_rules():
    rules = span_rules(["B-X", "E-X", "I-X", "I-Y", "O", "S-X"])
    assert rules.types == ("X", "X", "X", "Y", "", "X")
    pairs = {(a, b) for a in range(6) for b in range(6) if rules.joined[a, b]}
    assert pairs == {(0, 1), (0, 2), (2, 1), (2, 2), (3, 3)}

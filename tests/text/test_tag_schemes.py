"""Tag schemes: detection by majority, checks, repair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_spans import spans_of_a_sentence

from maxendnet import UNKNOWN
from maxendnet.text import TextError, check_tags, convert_tags, find_spans, read_columns, write_tags
from maxendnet.text.reading.spans import LABELS, SCHEMES
from maxendnet.text.reading.tag_schemes import detect_scheme, problems_note, read_tags, tag_problems


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["B-X", "I-X"], ["O"]], "IOB2"),
        ([["O", "I-X"], ["I-X", "B-X"]], "IOB1"),
        ([["S-X"], ["B-X", "E-X"]], "BIOES"),
        ([["U-X"], ["B-X", "L-X"]], "BILOU"),
        ([["B", "M", "E", "S"]], "BMES"),
        ([["B", "E", "S"]], "BIOES"),
        ([["NN", "VB"]], LABELS),
        ([["B-X", "NN"]], LABELS),
        ([["B-X", "I"]], LABELS),
        ([["M-X", "U-X"]], LABELS),
        ([[1, 2]], LABELS),
        ([["O"], []], "IOB2"),
        ([["B-X", "I-X", UNKNOWN]], "IOB2"),
        ([["B-X", "O", "I-X"], *[["B-X"]] * 9], "IOB2"),
        ([["I-X", "B-X"], *[["O", "I-X"]] * 9, ["B-X"]], "IOB1"),
        ([["B-X", "E-X"], *[["B-X", "I-X"]] * 9], "IOB2"),
        ([["B-X", "I-X"], *[["B-X", "E-X"]] * 9], "BIOES"),
        ([["B-X", "I-X", "L-X", "E-X", "E-X", "S-X"]], "BIOES"),
        ([["B-X", "I-X", "0", "0", "0"]], "IOB2"),
        ([["B-X", "b-X", "NN", "B-X", "I-X"]], "IOB2"),
        ([["b-X", "i-X", "o"]], "IOB2"),
        ([["S_X", "B_X", "E_X"]], "BIOES"),
        ([["B", "M", "E", "S"] * 10 + ["X"]], "BMES"),
    ],
)
def test_detect_scheme(sentences, scheme):
    assert detect_scheme(sentences) == scheme


LABEL_SETS = {
    "parts of speech": ["NN", "VB", "IN", "O", "B"], "handwriting": list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "lower case": list("abcdefghijklmnopqrstuvwxyz"), "digits": list("0123456789"), "one digit": ["0"],
    "proteins": list("HBEGITSL"), "membranes": ["i", "o", "M"], "chords": ["B_M", "E_M", "A_M", "D_m"],
    "fields": ["E-mail", "Phone", "O"], "small fields": ["e-mail", "O"], "lines": ["U-Bahn", "S-Bahn", "Bus"],
    "types": ["S/NP", "NP", "S", "N"], "numbers": [0, 1, 2],
}  # fmt: skip


@pytest.mark.parametrize("labels", LABEL_SETS)
@given(sentences=st.data())
def test_plain_labels_are_not_tags(labels, sentences):
    """All labels occur, and none is rare."""
    rows = [sentences.draw(st.permutations(LABEL_SETS[labels])) for _ in range(3)]
    assert read_tags(rows) == read_tags(rows, repair=True) == (rows, LABELS)


def corpus(scheme):
    """Sentences with 40 spans."""
    spans = [[(0, 1, "PER"), (1, 3, "PER")], [(1, 4, "GPE"), (4, 5, "ART")]] * 10
    return [write_tags(row, 6, scheme) for row in spans]


MISSPELT = [("O", "0"), ("O", "o"), ("-PER", "_PER"), ("-", "_"), ("-", ":"), ("B-PER", "b-PER")]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("often", [1, 10**6])
@pytest.mark.parametrize(("right", "wrong"), MISSPELT)
def test_misspelt_tags_are_listed_and_repaired(scheme, often, right, wrong):
    y = corpus(scheme)
    flat = " ".join(tag for tags in y for tag in tags)
    replaced = iter(flat.replace(right, wrong, often).split(" "))
    rows = [[next(replaced) for _ in tags] for tags in y]
    i, t = next((i, t) for i, tags in enumerate(y) for t, tag in enumerate(tags) if rows[i][t] != tag)
    message = f"^sentence {i} token {t}: '{rows[i][t]}' is not a tag of {scheme}; .*'{rows[i][t]}' as '{y[i][t]}'"
    for given_scheme in ("auto", scheme):
        with pytest.raises(TextError, match=message):
            read_tags(rows, given_scheme)
        assert read_tags(rows, given_scheme, repair=True) == (y, scheme)
    assert read_tags(rows, LABELS) == read_tags(rows, LABELS, repair=True) == (rows, LABELS)


@pytest.mark.parametrize("wrong", ["NN", "B", "X-PER", "", "B-", None, 3, "PER"])
def test_labels_that_are_not_misspelt_tags_are_not_repaired(wrong):
    y = corpus("IOB2")
    y[2][5] = wrong
    for repair in (False, True):
        with pytest.raises(TextError, match=f"^sentence 2 token 5: {wrong!r} is not a tag of IOB2") as caught:
            read_tags(y, repair=repair)
        assert "repair=True" not in str(caught.value)


def test_all_misspelt_tags_are_listed_with_their_places():
    lines = ["Ada B-PER", "met 0", "Bob b-PER", "", "Ada B-PER", "met 0", "Eve B-PER", "Smith I-PER"]
    columns = read_columns(lines, name="t.txt")
    with pytest.raises(TextError) as caught:
        read_tags(columns.column(1), place=columns.place)
    assert str(caught.value) == (
        "t.txt:2: '0' is not a tag of IOB2; such labels: '0' (2, first at t.txt:2), 'b-PER' (1, first at t.txt:3). "
        "Correct them, or use repair=True (--repair) to read '0' as 'O', 'b-PER' as 'B-PER'. For labels that are not "
        "tags, use scheme='LABELS' (--scheme LABELS)."
    )


def test_misplaced_tags_are_not_an_error():
    y = corpus("IOB2")
    assert y[0][0] == y[2][0] == "B-PER"
    y[0][0] = y[2][0] = "I-PER"
    assert read_tags(y) == (y, "IOB2")
    note = problems_note(y, "IOB2")
    assert note.startswith("sentence 0 token 0: I-PER starts a span, where IOB2 has B-PER; such tags: 2, at ")
    assert note.endswith("at sentence 0 token 0, sentence 2 token 0")
    assert read_tags(y, repair=True) == (corpus("IOB2"), "IOB2") and problems_note(corpus("IOB2"), "IOB2") == ""


def test_many_places_are_counted():
    assert problems_note([["O", "I-X"]] * 9, "IOB2").endswith("sentence 3 token 1 and 5 more")


@pytest.mark.parametrize("scheme", SCHEMES)
@given(tags=st.lists(st.sampled_from(["O", *(f"{a}-{b}" for a in "BIMELSU" for b in "XY")]), max_size=8))
def test_repaired_tags_have_the_same_spans_and_follow_the_scheme(scheme, tags):
    ((repaired,), _) = read_tags([tags], scheme, repair=True)
    assert repaired == write_tags(find_spans(tags), len(tags), scheme)
    assert not list(tag_problems([repaired], scheme))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(cases=st.lists(spans_of_a_sentence(), min_size=1, max_size=5))
def test_valid_tags_do_not_change(scheme, cases):
    rows = [write_tags(spans, n, scheme) for spans, n in cases]
    assert read_tags(rows, scheme, repair=True) == read_tags(rows, scheme) == (rows, scheme)
    spans = [find_spans(tags) for tags in rows]
    assert [find_spans(tags) for tags in convert_tags(rows, "BIOES")] == spans  # whatever scheme is detected


def test_unknown_labels_do_not_affect_tags():
    tags = [["B-X", UNKNOWN, "I-X", "I-Y"]]
    assert read_tags(tags, "IOB2", repair=True) == ([["B-X", UNKNOWN, "I-X", "B-Y"]], "IOB2")
    assert [problem.token for problem in tag_problems(tags, "IOB2")] == [3]


@pytest.mark.parametrize(
    ("sentence", "scheme", "message"),
    [
        (["O", "I-X"], "IOB2", "sentence 0 token 1: I-X starts a span, where IOB2 has B-X"),
        (["B-X", "I-Y"], "IOB2", "token 1: I-Y starts a span, where IOB2 has B-Y"),
        (
            ["O", "B-X"],
            "IOB1",
            "token 1: B-X starts a span that does not follow one of its type, where IOB1 has I-X",
        ),
        (["B-X", "I-X"], "BIOES", "token 1: I-X continues a span, where BIOES has E-X"),
        (["B-X"], "BIOES", "token 0: B-X starts a span, where BIOES has S-X"),
        (["Q-X"], "IOB2", "token 0: 'Q-X' is not a tag of IOB2"),
        (["B-"], "IOB2", "token 0: 'B-' is not a tag of IOB2"),
        ([""], "IOB2", "'' is not a tag of IOB2"),
        ([None], "IOB2", "None is not a tag of IOB2"),
    ],
)
def test_messages(sentence, scheme, message):
    with pytest.raises(TextError, match=message):
        check_tags([sentence], scheme)

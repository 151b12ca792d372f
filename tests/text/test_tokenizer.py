"""Tokens of raw text: offsets are exact, and tokens are those of common data sets."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_text_commands import run

from maxendnet.text import Tagger, TextError, tokenize
from maxendnet.text.reading.columns import columns_text
from maxendnet.text.reading.tokenizer import INVISIBLE

pieces = st.sampled_from(
    ["Ada", "don't", "U.S.", "3.14", " ", "\t", "e\u0301", "東京", "👩‍👩‍👧", "...", "'", ".", "-", "@", "http://"]
)
texts = st.one_of(st.text(), st.lists(pieces).map("".join))


@given(texts, st.sampled_from(["words", "characters", "spaces"]))
@example("", "words")
@example("\u0301a\u200d", "words")
@example("\ufeffa\u200bb\u3000c", "spaces")
def test_tokens_are_slices_of_the_text(text, by):
    end = 0
    for token in tokenize(text, by):
        assert token.text == text[token.start : token.end] != ""
        assert token.start >= end and not any(sign.isspace() or sign in INVISIBLE for sign in token.text)
        assert all(sign.isspace() or sign in INVISIBLE for sign in text[end : token.start])
        end = token.end
    assert all(sign.isspace() or sign in INVISIBLE for sign in text[end:])


@given(texts)
def test_words_can_be_written_to_column_files(text):
    words = [token.text for token in tokenize(text) if "\0" not in token.text and token.text < "\ud800"]
    if words:
        columns_text([words])


@given(st.text(st.characters(whitelist_categories=["L", "M"], max_codepoint=0x5FF), min_size=1).filter(str.isalnum))
def test_composed_and_decomposed_words_have_the_same_number_of_tokens(text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert len(tokenize(composed)) == len(tokenize(decomposed))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada,met", "Ada , met"),
        ("It's Ada's dog; they don't, can't and won’t.", "It 's Ada 's dog ; they do n't , ca n't and wo n’t ."),
        ("O'Brien rock'n'roll l'homme state-of-the-art", "O'Brien rock'n'roll l'homme state-of-the-art"),
        ("Mr. Ng (Ph.D.) and J. R. Smith Jr. of AT&T", "Mr. Ng ( Ph.D. ) and J. R. Smith Jr. of AT&T"),
        ("in the U.S., e.g. at 3 p.m.", "in the U.S. , e.g. at 3 p.m."),
        ("This is it. So is B2. x=3.", "This is it . So is B2 . x = 3 ."),
        ("3.14 1,000.50 12:30 2024-05-01 50% $5 3rd 10km", "3.14 1,000.50 12:30 2024-05-01 50 % $ 5 3rd 10km"),
        ("see https://b.org/a?x=1, www.b.org.", "see https://b.org/a?x=1 , www.b.org ."),
        ("mail a.b@c-d.org! @ada #tag", "mail a.b@c-d.org ! @ada #tag"),
        ('"No!?" ... -- (yes)', '" No !? " ... -- ( yes )'),
        ("e\u0301te\u0301 nai\u0308ve नमस्ते שָׁלוֹם", "e\u0301te\u0301 nai\u0308ve नमस्ते שָׁלוֹם"),
        ("我在北京 東京タワー", "我 在 北 京 東 京 タ ワ ー"),
        ("👩‍👩‍👧🇩🇪🇫🇷 👍🏽ok ☺️", "👩‍👩‍👧 🇩🇪 🇫🇷 👍🏽 ok ☺️"),
    ],
)  # fmt: skip
def test_tokens_of_a_text(text, words):
    assert [token.text for token in tokenize(text)] == words.split()
    # tokens that are separated already remain as they are
    assert [token.text for token in tokenize(words)] == words.split()


def test_wrong_arguments():
    with pytest.raises(TextError, match="by must be 'words', 'characters' or 'spaces', got 'x'"):
        tokenize("a", "x")
    with pytest.raises(TextError, match="text must be a string, got a list"):
        tokenize(["a"])


def corpus_of(words):
    return [[word, "met", "."] for word in words], [["B-PER", "O", "O"] for _ in words]


@pytest.fixture
def model(tmp_path):
    Tagger().fit(*corpus_of(["Ada", "Bob", "Eve"] * 4)).save(tmp_path / "m")
    return tmp_path / "m"


def test_spans_of_raw_text_have_character_offsets(model):
    text = "  Ada,met\n\nBob\u3000met. Eve met.\n"
    lines = text.split("\n")
    records = [
        json.loads(line) for line in run("tag", model, "--text", "--format", "json", text=text).stdout.splitlines()
    ]
    assert [record["text"] for record in records] == [lines[0], lines[2]]
    assert [record["tokens"] for record in records] == [["Ada", ",", "met"], ["Bob", "met", ".", "Eve", "met", "."]]
    for record in records:
        assert record["tokens"] == [record["text"][start:end] for start, end in record["offsets"]]
        assert record["spans"]
        for span in record["spans"]:
            assert span["text"] == record["text"][span["start_char"] : span["end_char"]]
    rows = [
        line.split("\t") for line in run("tag", model, "--text", "--format", "spans", text=text).stdout.splitlines()
    ]
    assert [(row[0], row[5], row[6], row[7]) for row in rows] == [
        ("0", "2", "5", "Ada"), ("1", "0", "3", "Bob"), ("1", "9", "12", "Eve")
    ]  # fmt: skip


def test_tokens_option(model):
    spaces = run("tag", model, "--text", "--tokens", "spaces", text="Ada,met Bob\n").stdout
    assert [line.split("\t")[0] for line in spaces.splitlines()] == ["Ada,met", "Bob", ""]
    assert "--tokens is an option of --text" in run("tag", model, "--tokens", "spaces", text="Ada\n", code=2).stderr


def test_models_of_characters_label_characters(tmp_path):
    X, y = [list("今天天气好"), list("我在北京")] * 6, [list("BEBES"), list("SSBE")] * 6
    Tagger(calibrate=False).fit(X, y).save(tmp_path / "m")
    output = run("tag", tmp_path / "m", "--text", text="我在 北京ok\n").stdout
    assert [line.split("\t")[0] for line in output.splitlines()] == [*"我在北京ok", ""]
    (record,) = map(
        json.loads, run("tag", tmp_path / "m", "--text", "--format", "json", text="我在 北京\n").stdout.splitlines()
    )
    assert record["offsets"] == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert [span["text"] for span in record["spans"]] == ["我", "在", "北京"]

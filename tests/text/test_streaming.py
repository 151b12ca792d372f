"""Streams of sentences: the same results as for whole files, without waiting, in constant memory."""

from __future__ import annotations

import io
import itertools
import json
import random
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_columns import malformed, tables
from test_tagger import corpus
from test_text_commands import run

from maxendnet.text import Columns, Tagger, TextError, read_columns, stream_columns
from maxendnet.text.reading.columns import columns_text
from maxendnet.text.tool import commands

MAXENDNET = [sys.executable, "-m", "maxendnet"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("stream") / "names.medn"
    Tagger().fit(*corpus(40, 0)).save(path)
    return path


class Pipe(io.BytesIO):
    """Binary file whose content arrives in parts of given sizes."""

    def __init__(self, content, sizes):
        super().__init__(content)
        self.sizes = itertools.cycle(sizes)

    def read1(self, n=-1):
        return self.read(min(n, next(self.sizes)))


def outcome(columns_of):
    """Return cells, sentence lengths and line numbers of all sentences, or the message of an error."""
    try:
        parts = [part for part in columns_of() if part.n_tokens]
    except TextError as error:
        return str(error)
    columns = Columns.joined(parts) if parts else None
    lines = [line for part in parts for line in part.lines.tolist()]
    return columns and (columns.cells, columns.offsets.tolist(), lines)


def read_all(content, **options):
    return outcome(lambda: [read_columns(io.BytesIO(content), name="f", empty=True, **options)])


def read_stream(content, sizes, **options):
    return outcome(lambda: stream_columns(Pipe(content, sizes), name="f", **options))


@given(tables(), st.lists(st.integers(1, 40), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_blocks_add_up_to_the_file(table, sizes, end):
    content = columns_text(table).replace("\n", end).encode()
    assert read_stream(content, sizes, separator="\t") == read_all(content, separator="\t")


def test_malformed_streams_are_refused_as_files_are():
    n_refused = 0
    for seed in range(1_500):
        rng = random.Random(seed)
        content, comment = malformed(rng), rng.choice([None, "#", " "])
        expected = read_all(content, comment=comment)
        result = read_stream(content, [rng.randint(1, 30) for _ in range(5)], comment=comment)
        if isinstance(expected, str):  # a stream reports the first error of a block, a file the worst error
            assert isinstance(result, str) and result.startswith("f:"), seed
            n_refused += 1
        else:
            assert result == expected, seed
    assert n_refused > 200


@pytest.mark.parametrize("open_text", [False, True])
def test_a_sentence_does_not_wait_for_the_next(open_text):
    n_read = 0

    def lines():
        nonlocal n_read
        for line in itertools.cycle(["Ada O\n", "met O\n", "\n"]):
            n_read += 1
            yield line

    blocks = stream_columns(lines() if open_text else (line.rstrip("\n") for line in lines()))
    for k in range(1, 5):
        assert next(blocks).cells == (["Ada", "met"], ["O", "O"])
        assert n_read == 3 * k


def test_a_stream_needs_constant_memory():
    content = b"Ada\tO\nmet\tO\n\n" * 20_000
    peaks = []
    for n in (4, 16):
        tracemalloc.start()
        file = Pipe(content * n, [1 << 14])
        before = tracemalloc.get_traced_memory()[0]
        assert sum(len(columns) for columns in stream_columns(file)) == 20_000 * n
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] < 4e6


def test_a_sentence_without_end_is_an_error(monkeypatch):
    from maxendnet.text.reading import text_files

    monkeypatch.setattr(text_files, "ALWAYS_READ", 2**10)
    monkeypatch.setattr(text_files, "available_memory", lambda: 2**16)
    with pytest.raises(TextError, match="there is no blank line that ends the sentence"):
        list(stream_columns(itertools.repeat("Ada O")))


def test_tag_answers_each_sentence_of_an_open_pipe(model):
    for options, sentence, n_lines in (
        ([], b"Ada\nmet\n\n", 3), (["--text"], b"Ada met\n", 3), (["--text", "--format", "json"], b"Ada met\n", 1)
    ):  # fmt: skip
        process = subprocess.Popen(
            [*MAXENDNET, "tag", model, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3):
            process.stdin.write(sentence)
            process.stdin.flush()
            answer = [process.stdout.readline() for _ in range(n_lines)]
            assert b"Ada" in answer[0] and b"B-PER" in answer[0]
        assert process.communicate() == (b"", b"") and process.returncode == 0


@pytest.mark.parametrize("options", [[], ["--format", "spans"], ["--format", "json"]])
def test_a_reader_such_as_head_ends_tag_quietly(model, options):
    process = subprocess.Popen(
        [*MAXENDNET, "tag", model, "--text", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"Ada met Bob\n")
    process.stdin.flush()
    assert process.stdout.readline().strip()
    process.stdout.close()
    process.stdin.write(b"Ada met Bob\n" * 2)
    process.stdin.close()
    assert process.wait() == 141  # as of a program that SIGPIPE ends
    assert process.stderr.read() == b""
    process.stderr.close()


def test_sentences_before_an_error_are_labelled(model):
    result = run("tag", model, text="Ada\nmet\n\n" + "Bob\n\n" * 5 + "Ada B-PER\n", code=1)
    assert "<stdin>:14: 2 columns, but line 1 has 1: 'Ada B-PER'" in result.stderr


def test_blocks_of_spans_and_json_are_numbered_through(model, monkeypatch):
    text = "Ada met Bob\n" * 5
    whole = [run("tag", model, "--text", "--format", form, text=text).stdout for form in ("spans", "json")]
    monkeypatch.setattr("maxendnet.text.reading.text_files.BLOCK_BYTES", 13)
    assert whole == [run("tag", model, "--text", "--format", form, text=text).stdout for form in ("spans", "json")]
    assert [line.split("\t")[0] for line in whole[0].splitlines()] == [str(k) for k in range(5) for _ in range(2)]


def test_evaluate_adds_up_blocks(model, tmp_path, monkeypatch):
    X, y = corpus(30, 1)
    y[3][0], y[20][0] = "B-LOC", "O"
    (tmp_path / "t").write_text(columns_text(X, y))
    (tmp_path / "e").write_text(run("tag", model, tmp_path / "t").stdout)
    arguments = (["evaluate", model, tmp_path / "t"], ["evaluate", tmp_path / "e"])
    whole = [json.loads(run(*names, "--json").stdout) for names in arguments]
    assert whole[0] == whole[1] and 0 < whole[0]["f1"] < 1
    monkeypatch.setattr(commands, "SCORED_BYTES", 100)
    assert whole == [json.loads(run(*names, "--json").stdout) for names in arguments]


def test_a_full_disk_is_named(model, tmp_path):
    (tmp_path / "t").write_text("Ada\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MAXENDNET, "tag", model, tmp_path / "t"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1 and done.stderr == b"Error: <stdout>: No space left on device.\n"


def test_predict_stream_is_predict_one_by_one():
    X, y = corpus(40, 0)
    tagger = Tagger(calibrate=False).fit(X, y)
    for n_at_once in (1, 7, 50):
        assert list(tagger.predict_stream(iter(X), n_at_once=n_at_once)) == tagger.predict(X)
    blocks = stream_columns(io.StringIO(columns_text(X)))
    assert list(tagger.predict_stream(itertools.chain(X[:3], blocks), n_at_once=5)) == tagger.predict(X[:3] + X)
    n_read = itertools.count()
    endless = (X[0] for _ in n_read)
    answers = tagger.predict_stream(endless)
    assert [next(answers), next(answers)] == tagger.predict([X[0], X[0]]) and next(n_read) == 2
    with pytest.raises(TextError, match="n_at_once must be a whole number of at least 1, got 0"):
        next(tagger.predict_stream(X, n_at_once=0))

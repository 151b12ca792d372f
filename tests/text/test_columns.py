"""Column files: round trips, valid formats, and errors with file and line for malformed files."""

from __future__ import annotations

import gzip
import io
import random
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from maxendnet.text import Columns, TextError, read_columns, write_columns
from maxendnet.text.reading import text_files
from maxendnet.text.reading.columns import ColumnParser, _parse_by_kernel, columns_text

# valid cells: no line ends, and no white space at the ends
cell = st.text(
    st.characters(blacklist_characters="\t\n\r\0", blacklist_categories=["Cs"]), min_size=1, max_size=6
).filter(lambda text: text == text.strip(" ") and text[0] != "\ufeff" and text != "-DOCSTART-")


@st.composite
def tables(draw):
    width = draw(st.integers(1, 3))
    row = st.tuples(*[cell] * width)
    return draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=4))


@given(tables(), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_round_trip(table, line_end, mark):
    text = columns_text(table).replace("\n", line_end)
    columns = read_columns(io.BytesIO((("\ufeff" if mark else "") + text).encode()), "\t")
    assert list(columns) == table
    assert columns_text(columns) == text.replace("\r\n", "\n")


def test_files(tmp_path):
    table = [[("ä", "B"), ("b c", "I")], [("d", "O")]]
    for name in ("plain.tsv", "packed.tsv.gz"):
        write_columns(tmp_path / name, table)
        assert list(read_columns(tmp_path / name)) == table
    assert gzip.decompress((tmp_path / "packed.tsv.gz").read_bytes()) == (tmp_path / "plain.tsv").read_bytes()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a b\nc d\n\ne f", {}, [[("a", "b"), ("c", "d")], [("e", "f")]]),
        ("\n\n a   b \n\t\n\n\nc \t d\n\n\n", {}, [[("a", "b")], [("c", "d")]]),
        ("a b\tc\nd\te f \n", {}, [[("a b", "c"), ("d", "e f")]]),
        ("a,b\nc,d e", {"separator": ","}, [[("a", "b"), ("c", "d e")]]),
        ("a|||b\nc|||d", {"separator": "|||"}, [[("a", "b"), ("c", "d")]]),
        ("a\u00a0b c\nd\u2028e f\x0bg", {}, [[("a\u00a0b", "c"), ("d\u2028e", "f\x0bg")]]),
        ("-DOCSTART- -X- O\n\na b c\n-DOCSTART-\nd e f", {}, [[("a", "b", "c")], [("d", "e", "f")]]),
        ("-DOCSTART- O\na b", {"docstart": False}, [[("-DOCSTART-", "O"), ("a", "b")]]),
        ("-DOCSTART-x O", {}, [[("-DOCSTART-x", "O")]]),
        ("# a comment\na b\n# another\nc d", {"comment": "# "}, [[("a", "b"), ("c", "d")]]),
        ("# text = x\n#\tNN\nx\tNN", {"comment": "# "}, [[("#", "NN"), ("x", "NN")]]),
        ("# NN\nx NN", {}, [[("#", "NN"), ("x", "NN")]]),
        ("a b\r\n\r\nc d\r\n", {}, [[("a", "b")], [("c", "d")]]),
        ("a b\r", {}, [[("a", "b")]]),
        ("one\n\ntwo", {}, [[("one",)], [("two",)]]),
    ],
)
def test_valid_formats(text, options, expected):
    assert list(read_columns(io.StringIO(text, newline=""), **options)) == expected
    assert list(read_columns(io.BytesIO(text.encode()), **options)) == expected


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"a b\nc", {}, r"^f:2: 1 column, but line 1 has 2: 'c'; all tokens must have the same columns"),
        (b"a b\n\nc d e", {}, r"^f:3: 3 columns, but line 1 has 2: 'c d e'"),
        (b"a\tb\nc\t\td\n", {}, r"^f:2: 3 columns, but line 1 has 2"),
        (b"a\tb\n\tc\n", {}, r"^f:2: column 0 is empty: '\\tc'"),
        (b"a,b\nc,,\n", {"separator": ","}, r"^f:2: 3 columns"),
        (b"a b\nc \xff\n", {}, r"^f:2: byte 3 of the line, 0xff, is not UTF-8"),
        (b"a b\n\xe2\x82", {}, r"^f:2: byte 1 of the line, 0xe2, is not UTF-8 \(unexpected end of data\)"),
        (b"a b\nc\0 d\n", {}, r"^f:2: NUL character"),
        ("a b\n".encode("utf-16"), {}, r"^f:1: the file is encoded in UTF-16; convert .* iconv -f UTF-16 -t UTF-8"),
        ("a b\n".encode("utf-32"), {}, r"^f:1: the file is encoded in UTF-32"),
        ("a b\n".encode("utf-16-le"), {}, r"^f:1: NUL character .*UTF-16 without a byte order mark"),
        (b"# sent_id = 1\na b\n", {}, r"^f:2: 2 columns, but line 1 has 4.* skip them with --comment '# '"),
        (b"a b\n\n# text = so it is\n", {}, r"^f:3: 6 columns, but line 1 has 2.* skip them with --comment '# '"),
        (b"a b\rc d\n", {}, r"^f:1: lone carriage return"),
        (b"", {}, r"^f:1: the file has no tokens"),
        (b"\n \n\t\n", {}, r"^f:1: the file has no tokens"),
        (b"# a\n", {"comment": "#"}, r"^f:1: the file has no tokens"),
        (b"a b", {"separator": ""}, r"separator must be a non-empty string without line breaks, got ''"),
        (b"a b", {"comment": "\n"}, r"comment must be a non-empty string without line breaks"),
    ],
)
def test_messages(content, options, message):
    with pytest.raises(TextError, match=message):
        read_columns(io.BytesIO(content), name="f", **options)


def test_damaged_gzip_files_are_an_error(tmp_path):
    for content in (b"no gzip", gzip.compress(b"a b\n" * 100)[:-9], gzip.compress(b"a b\n" * 100)[:30] + b"x" * 40):
        (tmp_path / "x.gz").write_bytes(content)
        with pytest.raises(TextError, match=r"x\.gz:1: the name ends in \.gz, but the file is not a complete"):
            read_columns(tmp_path / "x.gz")
    with pytest.raises(FileNotFoundError):
        read_columns(tmp_path / "none")


def test_a_gzip_file_that_does_not_fit_in_memory_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"a b\n" * 2**24))
    monkeypatch.setattr(text_files, "ALWAYS_READ", 2**16)
    monkeypatch.setattr(text_files, "available_memory", lambda: 2**21)
    tracemalloc.start()
    with pytest.raises(TextError, match=r"x\.gz:1: more than .* of text, but only 2 MiB of memory are available"):
        read_columns(tmp_path / "x.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21


def test_other_sources():
    with pytest.raises(TextError, match=r"lines>:1: expected a path, an open file or lines, got a int"):
        read_columns(3)
    with pytest.raises(TextError, match=r"lines>:2: expected a line of text, got 3"):
        read_columns(["a", 3])
    assert len(read_columns([], empty=True)) == 0


def test_places_are_lines_of_the_file():
    columns = read_columns(io.StringIO("a b\n\n\nc d\ne f"), name="x")
    assert columns.lines.tolist() == [1, 4, 5]
    assert columns.place(1, 1) == "x:5" and columns[[1]].place(0, 0) == "x:4"
    assert Columns.of([["a"]]).place(0, 0) == "sentence 0 token 0"


def test_column_select_and_split():
    columns = read_columns(["a b c", "d e f", "", "g h i"])
    X, y = columns.split()
    assert list(X) == [[("a", "b"), ("d", "e")], [("g", "h")]] and y == [["c", "f"], ["i"]]
    X, y = columns.split(0)
    assert X[1] == [("h", "i")] and y == [["a", "d"], ["g"]]
    assert columns.select([2, 0])[1] == [("i", "g")]
    assert columns[-1] == [("g", "h", "i")] and list(columns[::-1]) == [columns[1], columns[0]]
    assert list(columns[np.array([False, True])]) == [columns[1]]
    for call in (lambda: columns.select([3]), lambda: columns.column(-4)):
        with pytest.raises(TextError, match="there is no column"):
            call()
    with pytest.raises(IndexError):
        columns[2]
    with pytest.raises(TextError, match="there is only one column"):
        read_columns(["a"]).split()


def test_scikit_learn_splits_sentences():
    from sklearn.utils import _safe_indexing

    columns = read_columns([line for k in range(6) for line in (f"a{k}", "b", "")])
    for train, _ in KFold(3).split(columns):
        assert [row[0] for row in _safe_indexing(columns, train)] == [(f"a{k}",) for k in train]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ("a b", "sentences must be a list .* got a str"),
        (["a b"], r"sentence 0 is 'a b'; expected a list of tokens, for instance \['a', 'b'\]"),
        ([["a"], [3]], "sentence 1 token 0 is 3; expected a string"),
        ([[("a", "b")], [("a",)]], "sentence 1 token 0 has 1 columns, but the first token has 2"),
        ([[()]], r"sentence 0 token 0 is \(\)"),
        (3, "sentences must be a list .* got a int"),
    ],
)
def test_messages_of_lists(sentences, message):
    with pytest.raises(TextError, match=message):
        Columns.of(sentences)


@pytest.mark.parametrize("bad", ["", "a\tb", "a\nb", "a\rb", " a", "-DOCSTART-", "\ufeffa", "a\0"])
def test_cells_that_could_not_be_read_back_are_an_error(bad, tmp_path):
    with pytest.raises(TextError, match="could not be read back"):
        write_columns(tmp_path / "x", [["fine"], [bad]], [["O"], ["O"]])
    assert not (tmp_path / "x").exists()


def test_columns_of_unequal_length_are_an_error(tmp_path):
    with pytest.raises(TextError, match="all columns must contain the same sentences"):
        write_columns(tmp_path / "x", [["a", "b"]], [["O"]])
    with pytest.raises(TextError, match="no column"):
        write_columns(tmp_path / "x")


def malformed(rng: random.Random) -> bytes:
    """Return a column file with random bytes deleted, doubled, changed or inserted."""
    separator = rng.choice([b" ", b"\t", b"  ", b","])
    lines = []
    for _ in range(rng.randrange(12)):
        words = [rng.choice(["the", "ä", "-DOCSTART-", "#", "𝔘", "B-X", "O", "…"]).encode() for _ in range(3)]
        lines.append(separator.join(words) if rng.random() < 0.8 else b"")
    content = bytearray(rng.choice([b"\n", b"\r\n"]).join(lines) + rng.choice([b"", b"\n"]))
    for _ in range(rng.randrange(5)):
        at = rng.randrange(len(content) + 1)
        part = rng.choice(
            [b"\0", b"\xff", b"\xe2\x82", b"\r", b"\n", b"\t", b" ", b"\xef\xbb\xbf", b"\xc2\xa0", b"#", b""]
        )
        content[at : at + rng.randrange(3)] = part
    return bytes(content)


def fuzz(seeds):
    refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        content = malformed(rng)
        options = {
            "separator": rng.choice([None, "\t", " ", ",", "ä"]), "comment": rng.choice([None, "#", "# "]),
            "docstart": rng.random() < 0.5,
        }  # fmt: skip
        try:
            columns = read_columns(io.BytesIO(content), name="f", **options)
        except TextError as error:
            assert re.match(r"f:\d+: ", str(error)), (seed, str(error))
            assert 1 <= int(str(error).split(":")[1]) <= content.count(b"\n") + 1, (seed, str(error))
            refused += 1
            continue
        assert columns.n_tokens == columns.offsets[-1] == len(columns.lines) > 0
        assert all(len(cells) == columns.n_tokens and all(cells) for cells in columns.cells)
        assert (np.diff(columns.offsets) > 0).all()
    return refused


def test_malformed_files_give_our_error_with_file_and_line():
    assert 500 < fuzz(range(2_000)) < 1_900


def test_the_kernel_agrees_with_python():
    """The kernel reads the same columns as Python code, and returns None if that raises an error."""
    n_read = 0
    for seed in range(3_000):
        rng = random.Random(seed)
        text = malformed(rng).decode("utf-8", "ignore").replace("\r", "").replace("\0", "")
        if rng.random() < 0.3:  # as comments during parsing
            text = "\n".join("\0" if line.startswith("#") else line for line in text.split("\n"))
        separator, docstart = rng.choice(["\t", " ", ",", "-"]), rng.random() < 0.5
        parsed = _parse_by_kernel(text, "f", separator, docstart, 1)
        try:
            expected = ColumnParser("f", separator, docstart=docstart)._parse_slowly(text, separator)
        except TextError:
            assert parsed is None
            continue
        if parsed is None:
            assert expected.n_tokens == 0
            continue
        n_read += 1
        assert parsed.cells == expected.cells, seed
        assert parsed.offsets.tolist() == expected.offsets.tolist() and parsed.lines.tolist() == expected.lines.tolist()
        for k, cells in enumerate(expected.cells):
            codes, values = parsed.numbered(k)
            assert values == list(dict.fromkeys(cells)) and [values[code] for code in codes.tolist()] == cells
    assert n_read > 500


def test_many_distinct_cells_have_distinct_codes():
    """Enough distinct cells that the hash table grows."""
    words = [f"w{k * 7919 % 5000}" for k in range(12_000)]
    columns = read_columns([f"{word} {word[::-1]}" for word in words])
    assert columns.cells == (words, [word[::-1] for word in words])
    assert columns.numbered(0).values == list(dict.fromkeys(words))


def test_lines_with_a_lone_surrogate_are_read():
    assert read_columns(["a\ud800 b"]).cells == (["a\ud800"], ["b"])


@pytest.mark.long
def test_many_malformed_files_give_our_error_with_file_and_line():
    assert 20_000 < fuzz(range(2_000, 102_000)) < 95_000

"""Column files: one token a line, its columns side by side, a blank line between sentences (CoNLL).

::

    Rolls-Royce  NNP  B-NP
    said         VBD  B-VP

    It           PRP  B-NP

A file is read whole, checked whole, and kept column by column, which is the form that features are made from.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.data.ragged import gather, offsets_of
from maxendnet.text.reading.errors import TextError
from maxendnet.utils.atomic_write import write_whole
from maxendnet.utils.memory import available_memory, shown

DOCSTART = "-DOCSTART-"
BYTE_ORDER_MARK = "\ufeff"
LEFT_OUT = "\0"
"""Stands for a comment while a file is read."""
LINE = re.compile("[^\n]+")
READ_BYTES = 1 << 24
"""Bytes that are read at a time."""
MEMORY_PER_BYTE = 6
"""Bytes of memory for a byte of text while it is read, measured on three columns."""


class Coded(NamedTuple):
    """A column as numbers."""

    codes: NDArray[Any]
    """(n_tokens,)"""
    values: list[str]
    """What the numbers stand for."""

    @classmethod
    def of(cls, cells: Sequence[str]) -> Coded:
        """Cells numbered in the order in which they first occur."""
        values = list(dict.fromkeys(cells))
        code_of = dict(zip(values, range(len(values))))
        return cls(np.fromiter(map(code_of.__getitem__, cells), dtype=np.int32, count=len(cells)), values)


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Sentences, column by column: sentence i owns the tokens ``offsets[i]:offsets[i + 1]`` of every column.

    Indexing by a number gives the rows of a sentence; a slice, an index array or a mask gives `Columns`, so that
    scikit-learn splits sentences.

    Parameters
    ----------
    cells : tuple of lists of str
        One list for each column, with an entry for every token of all sentences.
    offsets : ndarray of shape (n_sentences + 1,)
    source : str, default=""
        Where they were read, for messages.
    lines : ndarray of shape (n_tokens,) or None, default=None
        The line of every token in its source.
    coded : tuple of Coded or None, default=None
        The same columns as numbers, where they are known.
    parts : tuple of Columns, default=()
        What they were joined from.

    Examples
    --------
    >>> columns = read_columns(["the DT", "dog NN", "", "It PRP"])
    >>> columns
    Columns(n_sentences=2, n_tokens=3, n_columns=2)
    >>> columns[0]
    [('the', 'DT'), ('dog', 'NN')]
    >>> columns.column(1)
    [['DT', 'NN'], ['PRP']]
    """

    cells: tuple[list[str], ...]
    offsets: NDArray[np.int64]
    source: str = ""
    lines: NDArray[np.int64] | None = None
    coded: tuple[Coded, ...] | None = None
    parts: tuple[Columns, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Columns(n_sentences={len(self)}, n_tokens={self.n_tokens}, n_columns={self.n_columns})"

    @property
    def n_tokens(self) -> int:
        """Tokens of all sentences together."""
        return int(self.offsets[-1])

    @property
    def n_columns(self) -> int:
        return len(self.cells)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_sentences, n_columns); with it, scikit-learn keeps the type when it splits."""
        return len(self), self.n_columns

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # how scikit-learn asks
            key = key[0]
        if isinstance(key, (int, np.integer)):
            if not -len(self) <= key < len(self):
                raise IndexError(f"Index {key} is out of range for {len(self)} sentences.")
            key = int(key) % len(self)
            first, last = int(self.offsets[key]), int(self.offsets[key + 1])
            return list(zip(*(cells[first:last] for cells in self.cells), strict=True))
        rows = np.arange(len(self))[key]
        tokens, offsets = gather(self.offsets, rows)
        chosen = tokens.tolist()
        cells = tuple([column[t] for t in chosen] for column in self.cells)
        return Columns(cells, offsets, self.source, None if self.lines is None else self.lines[tokens])

    def column(self, number: int) -> list[list[str]]:
        """One column as a list for every sentence; -1 is the last."""
        if not -self.n_columns <= number < self.n_columns:
            raise TextError(f"{self.source or 'the columns'}: there is no column {number} among {self.n_columns}.")
        cells = self.cells[number]
        return [cells[first:last] for first, last in pairwise(self.offsets.tolist())]

    def select(self, numbers: Sequence[int]) -> Columns:
        """Some of the columns, in this order; negative numbers count from the last."""
        for number in numbers:
            if not -self.n_columns <= number < self.n_columns:
                raise TextError(
                    f"{self.source or 'the columns'}: there is no column {number}; there are {self.n_columns}, "
                    f"numbered from 0."
                )
        coded = None if self.coded is None else tuple(self.coded[k] for k in numbers)
        return Columns(tuple(self.cells[k] for k in numbers), self.offsets, self.source, self.lines, coded)

    def numbered(self, number: int) -> Coded:
        """One column as numbers, in the order in which its cells first occur."""
        return Coded.of(self.cells[number]) if self.coded is None else self.coded[number]

    def split(self, labels: int = -1) -> tuple[Columns, list[list[str]]]:
        """The columns without that of the labels, and the labels of every sentence.

        Examples
        --------
        >>> X, y = read_columns(["the DT B", "dog NN I"]).split()
        >>> X[0], y
        ([('the', 'DT'), ('dog', 'NN')], [['B', 'I']])
        """
        if self.n_columns < 2:
            raise TextError(
                f"{self.source or 'the columns'}: one column has no room for labels; give the token first and its "
                f"label last, with a tab or a space between."
            )
        y = self.column(labels)
        rest = [k for k in range(self.n_columns) if k != labels % self.n_columns]
        return self.select(rest), y

    def place(self, sentence: int, token: int) -> str:
        """Where a token stands: ``file:line`` if that is known."""
        for part in self.parts:
            if sentence < len(part):
                return part.place(sentence, token)
            sentence -= len(part)
        if self.lines is not None and sentence < len(self) and self.offsets[sentence] + token < len(self.lines):
            return f"{self.source}:{self.lines[self.offsets[sentence] + token]}"
        return f"sentence {sentence} token {token}"

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """The sentences of several files, one file after the other.

        Examples
        --------
        >>> both = Columns.joined([read_columns(["It", "", "is"], name="a"), read_columns(["so"], name="b")])
        >>> both, both.place(2, 0)
        (Columns(n_sentences=3, n_tokens=3, n_columns=1), 'b:1')
        """
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            if part.n_columns != parts[0].n_columns:
                raise TextError(
                    f"{part.source} has {part.n_columns} columns, and {parts[0].source} has {parts[0].n_columns}; give "
                    f"files with the same columns."
                )
        cells = tuple(list(chain.from_iterable(columns)) for columns in zip(*(part.cells for part in parts)))
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(cells, offsets_of(lengths), parts=tuple(parts))

    @classmethod
    def of(cls, sentences: Any) -> Columns:
        """Sentences given as lists: of tokens, or of rows with a cell for every column.

        Examples
        --------
        >>> Columns.of([["It", "works"], ["Yes"]]).cells
        (['It', 'works', 'Yes'],)
        >>> Columns.of([[("It", "PRP"), ("works", "VBZ")]]).cells
        (['It', 'works'], ['PRP', 'VBZ'])
        """
        if isinstance(sentences, Columns):
            return sentences
        if isinstance(sentences, (str, bytes)) or not isinstance(sentences, Iterable):
            raise TextError(
                f"sentences are a {type(sentences).__name__}; give a list with a list of tokens for each sentence."
            )
        cells = _cells_of_lists(sentences)
        if cells is not None:
            return cls(cells, offsets_of(map(len, sentences)))
        read = [_rows(i, sentence) for i, sentence in enumerate(sentences)]
        offsets = offsets_of(map(len, read))
        rows = [row for sentence in read for row in sentence]
        width = len(rows[0]) if rows else 1
        for i, sentence in enumerate(read):
            for t, row in enumerate(sentence):
                if len(row) != width:
                    raise TextError(
                        f"sentence {i} token {t} has {len(row)} columns, and the first token has {width}; give every "
                        f"token the same columns."
                    )
        cells = tuple(list(column) for column in zip(*rows)) if rows else ([],)
        return cls(cells, offsets)


def _cells_of_lists(sentences: Any) -> tuple[list[str], ...] | None:
    """The columns of lists of lists of strings, or of rows of strings; None for all else, which `_rows` looks at."""
    if type(sentences) is not list or not set(map(type, sentences)) <= {list}:
        return None
    tokens = list(chain.from_iterable(sentences))
    kinds = set(map(type, tokens))
    if kinds == {str}:
        return (tokens,)
    if kinds <= {tuple, list} and len(set(map(len, tokens))) == 1 and tokens[0]:
        cells = tuple(map(list, zip(*tokens)))
        if all(set(map(type, column)) == {str} for column in cells):
            return cells
    return None


def _rows(i: int, sentence: Any) -> list[tuple[str, ...]]:
    """The tokens of one sentence as rows of cells."""
    if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
        raise TextError(f"sentence {i} is {sentence!r}; give a list of tokens, for instance {str(sentence).split()!r}.")
    rows: list[tuple[str, ...]] = []
    for t, token in enumerate(sentence):
        row = (token,) if isinstance(token, str) else token
        if not isinstance(row, (tuple, list)) or not row or not all(isinstance(cell, str) for cell in row):
            raise TextError(
                f"sentence {i} token {t} is {token!r}; give a string, or a tuple of strings for its columns."
            )
        rows.append(tuple(row))
    return rows


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_columns(
    source: Any,
    separator: str | None = None,
    *,
    comment: str | None = None,
    docstart: bool = True,
    empty: bool = False,
    name: str | None = None,
) -> Columns:
    """Read a column file.

    Parameters
    ----------
    source : path, open file, or iterable of lines
        A path that ends in ``.gz`` is decompressed; ``"-"`` is the standard input.
    separator : str or None, default=None
        Between columns. None is a tab if the first token's line has one, and otherwise any number of spaces. (Other
        white space, such as a no-break space, belongs to tokens.)
    comment : str or None, default=None
        Lines that begin with it are passed over. None: there are no comments; ``#`` is a token in many files. Where
        both occur, ``"# "`` tells comments of CoNLL-U from tokens.
    docstart : bool, default=True
        Pass over the lines ``-DOCSTART- ...`` of CoNLL-2003; they end a sentence.
    empty : bool, default=False
        Whether a file without any sentence is fine.
    name : str, optional
        For messages, where the source has no name of its own.

    Returns
    -------
    Columns

    Raises
    ------
    TextError
        A line has fewer or more columns than the first, an empty cell, bytes that are not UTF-8, or characters that
        no text file has. The message begins with ``file:line:``.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> read_columns(["He\\tPRP", "runs\\tVBZ", "", "", "Stop\\tVB"]).column(0)
    [['He', 'runs'], ['Stop']]
    >>> read_columns(["He\\tPRP", "runs"], name="dev.txt")
    Traceback (most recent call last):
    maxendnet.text.TextError: dev.txt:2: 1 column, and line 1 has 2: 'runs'; give every token the same columns.
    """
    for what, value in (("separator", separator), ("comment", comment)):
        if value is not None and (not isinstance(value, str) or value == "" or "\n" in value or "\r" in value):
            raise TextError(f"{what} must be None or text within a line, got {value!r}.")
    text, name = text_of(source, name)
    return _parse(text, name, separator, comment, docstart, empty)


def text_of(source: Any, name: str | None = None) -> tuple[str, str]:
    """All of a source as text with ``\\n`` at line ends, and its name."""
    if isinstance(source, (str, os.PathLike)) and os.fspath(source) == "-":
        return _decode(sys.stdin.buffer.read(), name or "<stdin>"), name or "<stdin>"
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        name = name or str(path)
        try:
            with gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as file:
                return _decode(_read_limited(file, name), name), name
        except (EOFError, gzip.BadGzipFile, gzip.zlib.error) as error:  # type: ignore[attr-defined]
            raise TextError(f"{name}:1: the file ends in .gz and is no whole gzip file ({error}).") from None
    if hasattr(source, "read"):
        name = name or str(getattr(source, "name", "<file>"))
        content = source.read()
        return (_decode(content, name) if isinstance(content, bytes) else _checked(content, name)), name
    name = name or "<lines>"
    if isinstance(source, (bytes, bytearray)) or not isinstance(source, Iterable):
        raise TextError(f"{name}:1: expected a path, an open file or lines, got a {type(source).__name__}.")
    lines = list(source)
    for k, line in enumerate(lines):
        if not isinstance(line, str) or "\n" in line.removesuffix("\n"):
            raise TextError(f"{name}:{k + 1}: expected a line of text, got {line!r}.")
    return _checked("\n".join(line.removesuffix("\n") for line in lines), name), name


def _read_limited(file: Any, name: str) -> bytes:
    """All of a file, as long as its columns fit into memory."""
    limit = available_memory() / MEMORY_PER_BYTE
    blocks, n_bytes = [], 0
    while block := file.read(READ_BYTES):
        blocks.append(block)
        n_bytes += len(block)
        if n_bytes > limit:
            raise TextError(
                f"{name}:1: the file has more than {shown(n_bytes)} of text, and {shown(available_memory())} of memory "
                "are available; split it into several files."
            )
    return b"".join(blocks)


def _decode(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise TextError(
            f"{name}:{line}: byte {column} of the line, 0x{content[error.start]:02x}, is not UTF-8 ({error.reason}); "
            f"convert the file, for instance with iconv -f latin1 -t utf8."
        ) from None
    return _checked(text, name)


def _checked(text: str, name: str) -> str:
    """Without a byte order mark and carriage returns before line ends; NUL and lone carriage returns are refused."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    for character, what in (("\0", "a NUL character; it is binary, or UTF-16"), ("\r", "a lone carriage return")):
        at = text.find(character)
        if at >= 0:
            raise TextError(f"{name}:{text.count(chr(10), 0, at) + 1}: {what}; give a text file in UTF-8.")
    return text


def _parse(text: str, name: str, separator: str | None, comment: str | None, docstart: bool, empty: bool) -> Columns:
    if comment is not None:
        # a line that is left out must not look like the blank line between sentences; no line read so far has a NUL
        text = "\n".join(LEFT_OUT if line.startswith(comment) else line for line in text.split("\n"))
    if separator is None:
        separator = _found_separator(text, docstart)
    if len(separator) == 1 and separator.isascii():
        found = _parse_quickly(text, name, separator, docstart)
        if found is not None:
            return found
    return _parse_slowly(text, name, separator, docstart, empty)


def _parse_quickly(text: str, name: str, separator: str, docstart: bool) -> Columns | None:
    """The columns of a well-formed text by a kernel; None if it is not well-formed."""
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, in lines that were not read from a file
        return None
    found = _kernels.read_cells(content, separator, docstart)
    if found is None:
        return None
    columns, offsets, lines = found
    coded = []
    for codes, starts, sizes in columns:
        ends = (starts + sizes).tolist()
        coded.append(Coded(codes, [content[a:b].decode("utf-8") for a, b in zip(starts.tolist(), ends)]))
    # a cell that comes often is one string
    cells = tuple(np.array(values, dtype=object)[codes].tolist() for codes, values in coded)
    return Columns(cells, offsets, name, lines, tuple(coded))


def _parse_slowly(text: str, name: str, separator: str, docstart: bool, empty: bool) -> Columns:
    """The same for any separator; raises where the text is not well-formed."""
    if separator == " " and ("\t" in text or "  " in text):
        text = re.sub("[ \t]+", " ", text)
    lines = text.split("\n")
    if "\t\n" in text or " \n" in text or "\n " in text or text[:1] == " " or text[-1:] in ("\t", " "):
        # white space at the end of a line is no column, at its beginning only where spaces are between columns
        lines = [line.strip(" \t") if separator == " " else line.rstrip(" \t") for line in lines]
    tokens: list[str] = []
    numbers: list[int] = []
    breaks = [0]
    start_of_document = DOCSTART + separator
    for k, line in enumerate(lines, 1):
        if line == LEFT_OUT:
            continue
        if line and not (docstart and (line == DOCSTART or line.startswith(start_of_document))):
            tokens.append(line)
            numbers.append(k)
        elif len(tokens) != breaks[-1]:
            breaks.append(len(tokens))
    if len(tokens) != breaks[-1]:
        breaks.append(len(tokens))
    if not tokens:
        if empty:
            return Columns(([],), np.zeros(1, dtype=np.int64), name, np.zeros(0, dtype=np.int64))
        raise TextError(f"{name}:1: no token at all; give a token a line, and a blank line between sentences.")
    width = tokens[0].count(separator) + 1
    counts = np.fromiter(map(str.count, tokens, repeat(separator)), dtype=np.int64, count=len(tokens)) + 1
    wrong = np.flatnonzero(counts != width)
    if len(wrong):
        k = int(wrong[0])
        columns = "1 column" if counts[k] == 1 else f"{counts[k]} columns"
        raise TextError(
            f"{name}:{numbers[k]}: {columns}, and line {numbers[0]} has {width}: {_shown(tokens[k])}; give every token "
            f"the same columns."
        )
    flat = separator.join(tokens).split(separator)
    if "" in flat:
        k = flat.index("")
        raise TextError(
            f"{name}:{numbers[k // width]}: column {k % width} is empty: {_shown(tokens[k // width])}; write a sign "
            f"such as _ where there is no value."
        )
    cells = tuple(flat[k::width] for k in range(width))
    return Columns(cells, np.array(breaks, dtype=np.int64), name, np.array(numbers, dtype=np.int64))


def _found_separator(text: str, docstart: bool) -> str:
    """A tab if the first token's line has one, else a space."""
    for found in LINE.finditer(text):
        line = found[0].strip(" \t")
        if line and line != LEFT_OUT and not (docstart and line.startswith(DOCSTART)):
            return "\t" if "\t" in line else " "
    return " "


def _shown(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "...")


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_columns(target: Any, *columns: Any, separator: str = "\t") -> None:
    """Write a column file, whole or not at all.

    Parameters
    ----------
    target : path or open text file
        ``"-"`` is the standard output. A path that ends in ``.gz`` is compressed.
    *columns : Columns, or lists with a list of cells for every sentence
        Side by side, in this order.
    separator : str, default="\\t"

    Raises
    ------
    TextError
        A cell that could not be read again: empty, or with a line end or the separator inside.

    Examples
    --------
    >>> import sys
    >>> write_columns(sys.stdout, [["He", "runs"], ["Stop"]], [["PRP", "VBZ"], ["VB"]], separator=" ")
    He PRP
    runs VBZ
    <BLANKLINE>
    Stop VB
    """
    text = columns_text(*columns, separator=separator)
    if isinstance(target, (str, os.PathLike)) and os.fspath(target) == "-":
        sys.stdout.write(text)
    elif isinstance(target, (str, os.PathLike)):
        content = text.encode("utf-8")
        if str(os.fspath(target)).endswith(".gz"):
            content = gzip.compress(content, mtime=0)
        write_whole(target, lambda file: file.write(content))
    else:
        stream: IO[str] = target
        stream.write(text)


def columns_text(*columns: Any, separator: str = "\t") -> str:
    """The text that `write_columns` writes."""
    if not isinstance(separator, str) or separator == "" or "\n" in separator or "\r" in separator:
        raise TextError(f"separator must be text within a line, got {separator!r}.")
    parts = [Columns.of(part) for part in columns]
    if not parts:
        raise TextError("there is no column to write; give at least one.")
    for k, part in enumerate(parts[1:], 1):
        if not np.array_equal(part.offsets, parts[0].offsets):
            raise TextError(
                f"the columns differ in length: part 0 has {parts[0]!r} and part {k} has {part!r}; give every token a "
                f"cell in each."
            )
    cells = [column for part in parts for column in part.cells]
    for k, column in enumerate(cells):
        for cell in dict.fromkeys(column):
            if not cell or separator in cell or _unwritable(cell) or (k == 0 and cell == DOCSTART):
                raise TextError(
                    f"column {k} of token {column.index(cell)} is {cell!r}, which would not be read again as it is; "
                    f"cells are not empty, and hold no separator, tab, line end or {DOCSTART}."
                )
    lines = list(map(separator.join, zip(*cells)))
    sentences = ["\n".join(lines[first:last]) for first, last in pairwise(parts[0].offsets.tolist()) if last > first]
    return "\n\n".join(sentences) + ("\n" if sentences else "")


def _unwritable(cell: str) -> bool:
    return (
        "\n" in cell
        or "\r" in cell
        or "\0" in cell
        or "\t" in cell
        or cell != cell.strip(" ")
        or cell[0] == BYTE_ORDER_MARK
    )

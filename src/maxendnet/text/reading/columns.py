"""Column files (CoNLL): one token per line, and a blank line between sentences.

::

    Rolls-Royce  NNP  B-NP
    said         VBD  B-VP

    It           PRP  B-NP

A file is read and checked as a whole, and stored by column, because features are computed by column.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.data.ragged import gather, locate, offsets_of
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.text_files import BYTE_ORDER_MARK, blank_line, name_of, text_blocks, text_of
from maxendnet.utils.atomic_write import write_whole

DOCSTART = "-DOCSTART-"
COMMENT = "\0"
"""Text that replaces comment lines during parsing."""
LINE = re.compile("[^\n]+")


class Coded(NamedTuple):
    """A column as integer codes."""

    codes: NDArray[Any]
    """(n_tokens,)"""
    values: list[str]
    """Value of each code."""

    @classmethod
    def of(cls, cells: Sequence[str]) -> Coded:
        """Encode cells by codes, which are numbered in order of first occurrence."""
        values = list(dict.fromkeys(cells))
        code_of = dict(zip(values, range(len(values))))
        return cls(np.fromiter(map(code_of.__getitem__, cells), dtype=np.int32, count=len(cells)), values)


@dataclass(frozen=True, eq=False, repr=False)
class Columns:
    """Sentences, stored by column.

    An integer index returns the rows of a sentence. A slice, an index array or a mask returns `Columns`, so that
    scikit-learn's splitters split sentences.

    Parameters
    ----------
    cells : tuple of lists of str
        One list per column, with an entry for each token of all sentences.
    offsets : ndarray of shape (n_sentences + 1,)
        Sentence i consists of the tokens ``offsets[i]:offsets[i + 1]``.
    source : str, default=""
        Name of the file, for messages.
    lines : ndarray of shape (n_tokens,) or None, default=None
        Line number of each token in the file.
    coded : tuple of Coded or None, default=None
        The columns as integer codes, or None to compute them when needed.
    parts : tuple of Columns, default=()
        The `Columns` of the files that were concatenated.

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
        """Number of tokens of all sentences."""
        return int(self.offsets[-1])

    @property
    def n_columns(self) -> int:
        return len(self.cells)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n_sentences, n_columns), which scikit-learn needs for indexing."""
        return len(self), self.n_columns

    def __iter__(self) -> Iterator[list[tuple[str, ...]]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:  # the form that scikit-learn uses
            key = key[0]
        if isinstance(key, (int, np.integer)):
            if not -len(self) <= key < len(self):
                raise IndexError(f"Index {key} is out of range for {len(self)} sentences.")
            key = int(key) % len(self)
            first, last = int(self.offsets[key]), int(self.offsets[key + 1])
            return list(zip(*(cells[first:last] for cells in self.cells), strict=True))
        rows = np.arange(len(self))[key]
        tokens, offsets = gather(self.offsets, rows)
        indices = tokens.tolist()
        cells = tuple([column[t] for t in indices] for column in self.cells)
        return Columns(cells, offsets, self.source, None if self.lines is None else self.lines[tokens])

    def column(self, number: int) -> list[list[str]]:
        """Return one column as a list of cells per sentence. -1 is the last column."""
        (cells,) = self.select([number]).cells
        return [cells[first:last] for first, last in pairwise(self.offsets.tolist())]

    def select(self, numbers: Sequence[int]) -> Columns:
        """Return the columns with these numbers, in this order. Negative numbers count from the last column."""
        for number in numbers:
            if not -self.n_columns <= number < self.n_columns:
                raise TextError(
                    f"{self.source or 'the columns'}: there is no column {number}; there are {self.n_columns} columns, "
                    f"numbered from 0."
                )
        coded = None if self.coded is None else tuple(self.coded[k] for k in numbers)
        return Columns(tuple(self.cells[k] for k in numbers), self.offsets, self.source, self.lines, coded)

    def numbered(self, number: int) -> Coded:
        """Return one column as integer codes, in order of first occurrence."""
        return Coded.of(self.cells[number]) if self.coded is None else self.coded[number]

    def split(self, labels: int = -1) -> tuple[Columns, list[list[str]]]:
        """Split into the feature columns and the labels of each sentence.

        Parameters
        ----------
        labels : int, default=-1
            Number of the label column.

        Examples
        --------
        >>> X, y = read_columns(["the DT B", "dog NN I"]).split()
        >>> X[0], y
        ([('the', 'DT'), ('dog', 'NN')], [['B', 'I']])
        """
        if self.n_columns < 2:
            raise TextError(
                f"{self.source or 'the columns'}: there is only one column; expected the token first and its label "
                f"last, "
                f"separated by a tab or a space."
            )
        y = self.column(labels)
        rest = [k for k in range(self.n_columns) if k != labels % self.n_columns]
        return self.select(rest), y

    def place(self, sentence: int, token: int) -> str:
        """Describe where a token is: ``file:line`` if known, else the numbers of the sentence and token."""
        for part in self.parts:
            if sentence < len(part):
                return part.place(sentence, token)
            sentence -= len(part)
        if self.lines is not None and sentence < len(self) and self.offsets[sentence] + token < len(self.lines):
            return f"{self.source}:{self.lines[self.offsets[sentence] + token]}"
        return f"sentence {sentence} token {token}"

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Concatenate the sentences of several files.

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
                    f"{part.source} has {part.n_columns} columns, but {parts[0].source} has {parts[0].n_columns}; pass "
                    f"files with the same columns."
                )
        cells = tuple(list(chain.from_iterable(columns)) for columns in zip(*(part.cells for part in parts)))
        lengths = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(cells, offsets_of(lengths), parts=tuple(parts))

    @classmethod
    def of(cls, sentences: Any) -> Columns:
        """Convert sentences from lists of tokens, or of rows with a cell for each column.

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
                f"sentences must be a list with a list of tokens for each sentence, got a {type(sentences).__name__}."
            )
        lists = [_tokens(i, sentence) for i, sentence in enumerate(sentences)]
        offsets = offsets_of(map(len, lists))
        tokens = list(chain.from_iterable(lists))
        if set(map(type, tokens)) <= {str}:
            return cls((tokens,), offsets)
        rows = [(token,) if isinstance(token, str) else token for token in tokens]
        _check_rows(rows, offsets)
        return cls(tuple(map(list, zip(*rows))), offsets)

    @classmethod
    def of_objects(cls, sentences: Any) -> Columns:
        """Convert sentences whose tokens may be any objects, such as feature dicts.

        Unless all tokens are strings or tuples, they are the cells of a single column.

        Examples
        --------
        >>> Columns.of_objects([[{"word": "It"}, {"word": "works"}]]).column(0)
        [[{'word': 'It'}, {'word': 'works'}]]
        """
        if isinstance(sentences, (str, bytes, Columns)) or not isinstance(sentences, Iterable):
            return cls.of(sentences)
        lists = [_tokens(i, sentence) for i, sentence in enumerate(sentences)]
        tokens = list(chain.from_iterable(lists))
        if set(map(type, tokens)) <= {str, tuple}:
            return cls.of(lists)
        return cls((tokens,), offsets_of(map(len, lists)))


def _tokens(i: int, sentence: Any) -> Sequence[Any]:
    if type(sentence) is list:
        return sentence
    if isinstance(sentence, (str, bytes)) or not isinstance(sentence, Iterable):
        raise TextError(
            f"sentence {i} is {sentence!r}; expected a list of tokens, for instance {str(sentence).split()!r}."
        )
    return list(sentence)


def _check_rows(rows: list[Any], offsets: NDArray[np.int64]) -> None:
    """Raise `TextError` unless all rows consist of strings and have the same length."""
    is_plain = set(map(type, rows)) <= {tuple, list} and len(set(map(len, rows))) == 1
    if is_plain and set(map(type, chain.from_iterable(rows))) == {str}:
        return
    for k, row in enumerate(rows):
        is_row = isinstance(row, (tuple, list)) and row and all(isinstance(cell, str) for cell in row)
        if is_row and len(row) == len(rows[0]):
            continue
        i, t = locate(offsets, k)
        if is_row:
            raise TextError(
                f"sentence {i} token {t} has {len(row)} columns, but the first token has {len(rows[0])}; all "
                f"tokens must have the same columns."
            )
        raise TextError(f"sentence {i} token {t} is {row!r}; expected a string, or a tuple of strings for its columns.")


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
        Column separator. None means a tab if the line of the first token contains one, else any number of spaces. Other
        white space, such as a no-break space, is part of a token.
    comment : str or None, default=None
        Prefix of comment lines, which are skipped. By default there are no comments, because ``#`` is a token in many
        files. For CoNLL-U, ``"# "`` distinguishes comments from tokens.
    docstart : bool, default=True
        Whether to skip the lines ``-DOCSTART- ...`` of CoNLL-2003. They also end a sentence.
    empty : bool, default=False
        Whether a file without sentences is allowed.
    name : str, optional
        Name of the source for messages.

    Returns
    -------
    Columns

    Raises
    ------
    TextError
        If a line has a different number of columns than the first, an empty cell, invalid UTF-8 or control characters.
        The message begins with ``file:line:``.
    OSError
        If the file cannot be opened or read.

    Examples
    --------
    >>> read_columns(["He\\tPRP", "runs\\tVBZ", "", "", "Stop\\tVB"]).column(0)
    [['He', 'runs'], ['Stop']]
    >>> read_columns(["He\\tPRP", "runs"], name="dev.txt")
    Traceback (most recent call last):
    maxendnet.text.TextError: dev.txt:2: 1 column, but line 1 has 2: 'runs'; all tokens must have the same columns.
    """
    text, name = text_of(source, name)
    columns = ColumnParser(name, separator, comment, docstart).parse(text)
    if not columns.n_tokens and not empty:
        raise no_tokens(name)
    return columns


def no_tokens(name: str) -> TextError:
    """Return the error for a file without tokens."""
    return TextError(
        f"{name}:1: the file has no tokens; expected one token per line and a blank line between sentences."
    )


def stream_columns(
    source: Any,
    separator: str | None = None,
    *,
    comment: str | None = None,
    docstart: bool = True,
    name: str | None = None,
    block_bytes: int | None = None,
) -> Iterator[Columns]:
    """Read a column file in blocks of sentences, as soon as they arrive.

    The memory does not depend on the length of the file. From a pipe, a block contains the complete sentences that have
    arrived. A sentence is complete when its blank line has arrived.

    Parameters
    ----------
    source, separator, comment, docstart, name : as for `read_columns`
    block_bytes : int, optional
        Number of bytes to wait for. None yields the sentences of a pipe as soon as they arrive.

    Yields
    ------
    Columns
        At least one sentence. All blocks have the same number of columns.

    Raises
    ------
    TextError, OSError
        As for `read_columns`, when the invalid line is reached.

    Examples
    --------
    >>> for columns in stream_columns(["He", "runs", "", "Stop"]):
    ...     print(columns.column(0))
    [['He', 'runs']]
    [['Stop']]
    """
    name = name_of(source) if name is None else name
    parser = ColumnParser(name, separator, comment, docstart)
    for text in text_blocks(source, name, blank_line(comment), block_bytes):
        columns = parser.parse(text)
        if columns.n_tokens:
            yield columns


def _check_within_line(option: str, value: Any) -> None:
    if not isinstance(value, str) or value == "" or "\n" in value or "\r" in value:
        raise TextError(f"{option} must be a non-empty string without line breaks, got {value!r}.")


@dataclass
class ColumnParser:
    """Parser of the text of a column file, as a whole or block by block.

    Parameters
    ----------
    name : str
        Name of the file for messages.
    separator, comment, docstart : as for `read_columns`
    """

    name: str
    separator: str | None = None
    comment: str | None = None
    docstart: bool = True
    line: int = field(default=1, init=False)
    """Number of the next line."""
    width: int = field(default=0, init=False)
    """Number of columns, or 0 before the first token."""
    width_line: int = field(default=1, init=False)
    """Line of the first token."""

    def __post_init__(self) -> None:
        for option, value in (("separator", self.separator), ("comment", self.comment)):
            if value is not None:
                _check_within_line(option, value)

    def parse(self, text: str) -> Columns:
        """Parse the next lines, which end at the end of a sentence."""
        n_lines = text.count("\n")
        if self.comment is not None:
            # a comment must not become a blank line, which would end a sentence, so it becomes NUL, which does not
            # occur in checked text
            text = "\n".join(COMMENT if line.startswith(self.comment) else line for line in text.split("\n"))
        separator = _detect_separator(text, self.docstart) if self.separator is None else self.separator
        columns = None
        if len(separator) == 1 and separator.isascii():
            columns = _parse_by_kernel(text, self.name, separator, self.docstart, self.line)
        if columns is None or self.width not in (0, columns.n_columns):
            columns = self._parse_slowly(text, separator)
        if columns.n_tokens and not self.width:
            assert columns.lines is not None
            self.separator, self.width, self.width_line = separator, columns.n_columns, int(columns.lines[0])
        self.line += n_lines
        return columns

    def _parse_slowly(self, text: str, separator: str) -> Columns:
        """Parse text with any separator, or raise `TextError` if it is not well-formed."""
        if separator == " " and ("\t" in text or "  " in text):
            text = re.sub("[ \t]+", " ", text)
        lines = text.split("\n")
        if "\t\n" in text or " \n" in text or "\n " in text or text[:1] == " " or text[-1:] in ("\t", " "):
            # trailing white space is not a column; leading white space is an empty column unless the separator is a
            # space
            lines = [line.strip(" \t") if separator == " " else line.rstrip(" \t") for line in lines]
        tokens: list[str] = []
        numbers: list[int] = []
        breaks = [0]
        start_of_document = DOCSTART + separator
        for k, line in enumerate(lines, self.line):
            if line == COMMENT:
                continue
            if line and not (self.docstart and (line == DOCSTART or line.startswith(start_of_document))):
                tokens.append(line)
                numbers.append(k)
            elif len(tokens) != breaks[-1]:
                breaks.append(len(tokens))
        if len(tokens) != breaks[-1]:
            breaks.append(len(tokens))
        if not tokens:
            return Columns(([],), np.zeros(1, dtype=np.int64), self.name, np.zeros(0, dtype=np.int64))
        width, width_line = self.width, self.width_line
        if not width:
            width, width_line = tokens[0].count(separator) + 1, numbers[0]
        counts = np.fromiter(map(str.count, tokens, repeat(separator)), dtype=np.int64, count=len(tokens)) + 1
        wrong = np.flatnonzero(counts != width)
        if len(wrong):
            k = int(wrong[0])
            columns = "1 column" if counts[k] == 1 else f"{counts[k]} columns"
            raise TextError(
                f"{self.name}:{numbers[k]}: {columns}, but line {width_line} has {width}: {_shown(tokens[k])}; all "
                f"tokens must have the same columns.{self._comment_hint(tokens[0], tokens[k])}"
            )
        flat = separator.join(tokens).split(separator)
        if "" in flat:
            k = flat.index("")
            raise TextError(
                f"{self.name}:{numbers[k // width]}: column {k % width} is empty: {_shown(tokens[k // width])}; write "
                f"_ or another placeholder for a missing value."
            )
        cells = tuple(flat[k::width] for k in range(width))
        return Columns(cells, np.array(breaks, dtype=np.int64), self.name, np.array(numbers, dtype=np.int64))

    def _comment_hint(self, *lines: str) -> str:
        """Return a hint if one of the lines looks like a comment."""
        if self.comment is not None or not any(line.startswith("# ") for line in lines):
            return ""
        return " If lines that begin with '# ' are comments, skip them with --comment '# ' (comment='# ')."


def _parse_by_kernel(text: str, name: str, separator: str, docstart: bool, first_line: int) -> Columns | None:
    """Parse text by a kernel, or return None if the text is not well-formed."""
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:  # lines that do not come from a file may contain a lone surrogate
        return None
    parsed = _kernels.read_cells(content, separator, docstart)
    if parsed is None:
        return None
    columns, offsets, lines = parsed
    coded = []
    for codes, starts, sizes in columns:
        ends = (starts + sizes).tolist()
        coded.append(Coded(codes, [content[a:b].decode("utf-8") for a, b in zip(starts.tolist(), ends)]))
    # equal cells share one string
    cells = tuple(np.array(values, dtype=object)[codes].tolist() for codes, values in coded)
    return Columns(cells, offsets, name, lines + (first_line - 1), tuple(coded))


def _detect_separator(text: str, docstart: bool) -> str:
    """Return a tab if the line of the first token contains one, else a space."""
    for match in LINE.finditer(text):
        line = match[0].strip(" \t")
        if line and line != COMMENT and not (docstart and line.startswith(DOCSTART)):
            return "\t" if "\t" in line else " "
    return " "


def _shown(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "...")


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_columns(target: Any, *columns: Any, separator: str = "\t") -> None:
    """Write a column file, atomically.

    Parameters
    ----------
    target : path or open text file
        ``"-"`` is the standard output. A path that ends in ``.gz`` is compressed.
    *columns : Columns, or lists with a list of cells for each sentence
        Columns in the order of the file.
    separator : str, default="\\t"

    Raises
    ------
    TextError
        If a cell could not be read back, because it is empty or contains a line end or the separator.

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
    """Return the text that `write_columns` writes."""
    _check_within_line("separator", separator)
    parts = [Columns.of(part) for part in columns]
    if not parts:
        raise TextError("no columns to write; pass at least one.")
    for k, part in enumerate(parts[1:], 1):
        if not np.array_equal(part.offsets, parts[0].offsets):
            raise TextError(
                f"argument 0 has {parts[0]!r}, but argument {k} has {part!r}; all columns must contain the same "
                f"sentences."
            )
    cells = [column for part in parts for column in part.cells]
    for k, column in enumerate(cells):
        for cell in dict.fromkeys(column):
            if not cell or separator in cell or _unwritable(cell) or (k == 0 and cell == DOCSTART):
                raise TextError(
                    f"column {k} of token {column.index(cell)} is {cell!r}, which could not be read back; cells must "
                    f"not be empty or contain the separator, tabs, line ends or {DOCSTART}."
                )
    lines = list(map(separator.join, zip(*cells)))
    sentences = ["\n".join(lines[first:last]) for first, last in pairwise(parts[0].offsets.tolist()) if last > first]
    return "\n\n".join(sentences) + ("\n" if sentences else "")


def _unwritable(cell: str) -> bool:
    """Whether a non-empty cell cannot be read back with any separator."""
    return any(sign in cell for sign in "\n\r\0\t") or cell != cell.strip(" ") or cell[0] == BYTE_ORDER_MARK

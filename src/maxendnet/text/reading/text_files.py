"""Text of files, pipes and lines, as a whole or in blocks as it arrives."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from maxendnet.text.reading.errors import TextError
from maxendnet.utils.memory import available_memory, shown

BYTE_ORDER_MARK = "\ufeff"
WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Encodings by their byte order marks."""
BLOCK_BYTES = 1 << 19
"""Maximum number of bytes to read at a time."""
ALWAYS_READ = 1 << 24
"""Bytes of text that are read without a look at the available memory."""
MEMORY_PER_BYTE = 6
"""Bytes of memory per byte of text during parsing (measured with three columns)."""


def blank_line(comment: str | None = None) -> re.Pattern[bytes]:
    """Return the pattern of a blank line with the line end before it, where blocks of sentences can be cut.

    A line that begins with the prefix ``comment`` is not blank.
    """
    unless_comment = b"" if comment is None else b"(?!" + re.escape(comment).encode() + b")"
    return re.compile(rb"\n" + unless_comment + rb"[ \t]*\r?(?=\n)")


def name_of(source: Any) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, (str, os.PathLike)):
        path = str(os.fspath(source))
        return "<stdin>" if path == "-" else path
    return str(getattr(source, "name", "<file>")) if hasattr(source, "read") else "<lines>"


def text_of(source: Any, name: str | None = None) -> tuple[str, str]:
    """Return the text of a source with ``\\n`` at line ends, and its name."""
    name = name_of(source) if name is None else name
    if _has_bytes(source):
        return _decode(b"".join(_limited(_chunks(source, name), name)), name), name
    return _checked(source.read() if hasattr(source, "read") else "".join(_lines(source, name)), name), name


def text_blocks(
    source: Any, name: str, end: re.Pattern[bytes] | None = None, block_bytes: int | None = None
) -> Iterator[str]:
    """Yield the text of a source in blocks of whole lines.

    Parameters
    ----------
    source : path, open file, or iterable of lines
    name : str
        Name of the source for messages.
    end : pattern, optional
        Line after which a block can end, with the line end before it, such as `blank_line`. None is any line.
    block_bytes : int, optional
        Number of bytes to wait for. None yields the lines of a pipe as soon as they arrive.
    """
    chunks = (
        _chunks(source, name, block_bytes)
        if _has_bytes(source)
        else (line.encode("utf-8", "surrogatepass") for line in _lines(source, name))
    )
    line = 1
    for content in _cut(chunks, end, name):
        text = _decode(content, name, line)
        line += text.count("\n")
        yield text


def _cut(chunks: Iterable[bytes], end: re.Pattern[bytes] | None, name: str) -> Iterator[bytes]:
    """Cut the concatenation of all chunks after lines that match ``end``."""
    pending: list[bytes] = []  # complete lines since the last cut
    partial: list[bytes] = []  # an incomplete last line
    n_bytes = 0
    for chunk in chunks:
        lines, newline, rest = chunk.rpartition(b"\n")
        n_bytes += len(chunk)
        if newline:
            text, partial = b"".join([*partial, lines, newline]), []
            cut = len(text) if end is None else _end_of_last(end, text)
            if cut:
                yield b"".join([*pending, text[:cut]])
                pending, n_bytes = [], len(text) - cut + len(rest)
            pending.append(text[cut:])
        partial.append(rest)
        _check_size(n_bytes, name, "there is no blank line that ends the sentence")
    content = b"".join([*pending, *partial])
    if content:
        yield content


def _end_of_last(end: re.Pattern[bytes], text: bytes) -> int:
    """Return the position after the last line of the text that matches ``end``, or 0 if there is none."""
    position = 0
    for match in end.finditer(b"\n" + text):
        position = match.end()
    return position


def _limited(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield all chunks, or raise `TextError` if the columns of a file would not fit in memory."""
    n_bytes = 0
    for chunk in chunks:
        n_bytes += len(chunk)
        _check_size(n_bytes, name, "split the file")
        yield chunk


def _check_size(n_bytes: int, name: str, advice: str) -> None:
    if n_bytes > ALWAYS_READ and n_bytes * MEMORY_PER_BYTE > available_memory():
        raise TextError(
            f"{name}:1: more than {shown(n_bytes)} of text, but only {shown(available_memory())} of memory are "
            f"available; {advice}."
        )


def _has_bytes(source: Any) -> bool:
    """Whether a source is a path or a binary file."""
    return isinstance(source, (str, os.PathLike)) or (hasattr(source, "read") and isinstance(source.read(0), bytes))


def _chunks(source: Any, name: str, n_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the content of a path or binary file, ``n_bytes`` at a time, or None for all that has arrived."""
    with _opened(source, name) as file:
        if n_bytes is None and hasattr(file, "read1"):
            read, n_bytes = file.read1, BLOCK_BYTES  # read1 does not wait for more than a pipe contains
        else:
            read, n_bytes = file.read, BLOCK_BYTES if n_bytes is None else n_bytes
        while chunk := read(n_bytes):
            yield chunk


@contextmanager
def _opened(source: Any, name: str) -> Iterator[Any]:
    """Open a path, or return an open file."""
    if hasattr(source, "read"):
        yield source
    elif os.fspath(source) == "-":
        yield sys.stdin.buffer
    elif not str(source).endswith(".gz"):
        with open(source, "rb") as file:
            yield file
    else:
        try:
            with gzip.open(source) as file:
                yield file
        except (EOFError, gzip.BadGzipFile, gzip.zlib.error) as error:  # type: ignore[attr-defined]
            raise TextError(
                f"{name}:1: the name ends in .gz, but the file is not a complete gzip file ({error})."
            ) from None


def _lines(source: Any, name: str) -> Iterator[str]:
    """Yield the lines of a text file or an iterable, each with its line end."""
    if isinstance(source, (bytes, bytearray)) or not isinstance(source, Iterable):
        raise TextError(f"{name}:1: expected a path, an open file or lines, got a {type(source).__name__}.")
    for k, line in enumerate(source):
        if not isinstance(line, str) or "\n" in line.removesuffix("\n"):
            raise TextError(f"{name}:{k + 1}: expected a line of text, got {line!r}.")
        yield line.removesuffix("\n") + "\n"


def _decode(content: bytes, name: str, first_line: int = 1) -> str:
    mark = next((mark for mark in WIDE_MARKS if content.startswith(mark)), None)
    if mark is not None:
        encoding = WIDE_MARKS[mark]
        raise TextError(
            f"{name}:{first_line}: the file is encoded in {encoding}; convert it to UTF-8, for instance with iconv -f "
            f"{encoding} -t UTF-8."
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + content.count(b"\n", 0, error.start)
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise TextError(
            f"{name}:{line}: byte {column} of the line, 0x{content[error.start]:02x}, is not UTF-8 ({error.reason}); "
            f"convert the file, for instance with iconv -f latin1 -t utf8."
        ) from None
    return _checked(text, name, first_line)


def _checked(text: str, name: str, first_line: int = 1) -> str:
    """Return the text with normalised line ends, or raise `TextError` for NUL and lone carriage returns."""
    if first_line == 1:
        text = text.removeprefix(BYTE_ORDER_MARK)
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    for character, problem in (
        ("\0", "NUL character (a binary file, or UTF-16 without a byte order mark, which iconv -f UTF-16LE converts)"),
        ("\r", "lone carriage return"),
    ):
        at = text.find(character)
        if at >= 0:
            line = first_line + text.count("\n", 0, at)
            raise TextError(f"{name}:{line}: {problem}; expected a text file in UTF-8.")
    return text

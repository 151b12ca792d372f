"""Feature templates, in the language of CRF++.

::

    U00:%x[-1,0]              first column (word) of the previous token
    U01:%x[0,0]/%x[1,0]       this word and the next
    U02:%x[0,1]               second column (part of speech)
    U03:%x[0,lower]           word in lower case; `maxendnet.text.features.word_forms` lists all word forms
    B                         weights for pairs of neighbouring labels
    B01:%x[0,1]               weights for pairs of neighbouring labels and a cell
    # a comment

Each line ``U...`` defines one feature of every token. Its name is the line, with each macro ``%x[row,column]`` replaced
by a cell. Rows are relative to the token. Cells before the sentence are ``_B-1``, ``_B-2``, ..., and cells after it are
``_B+1``, ``_B+2``, ... Lines with the same resulting name produce the same feature. A line produces no
feature if a word form has no value, such as a word without a cluster.

A line ``B...`` with macros defines one feature of every pair of neighbouring tokens. Rows are relative to the second
token. These features add to the weights of the line ``B``, which is implied.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.text_files import text_of

MACRO = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*([^\]\s]+)\s*\]")
MAX_REACH = 100
"""Maximum distance of a macro from the token; 4 in CRF++."""


class Macro(NamedTuple):
    """A cell near a token."""

    row: int
    """Row of the cell, relative to the token."""
    column: str
    """A column number, or the name of a word form."""


class Pattern(NamedTuple):
    """A template line: literal texts with macros between them."""

    texts: tuple[str, ...]
    """Literal texts before, between and after the macros (one more than the macros)."""
    macros: tuple[Macro, ...]


@dataclass(frozen=True)
class Template:
    """A parsed template.

    Attributes
    ----------
    patterns : tuple of Pattern
    bigram : bool
        Whether pairs of neighbouring labels have weights.
    pair_text : str
        Template of the features of pairs: the lines ``B...`` with macros, each with a U before it.
    text : str
        Source text.

    Examples
    --------
    >>> template = Template.parse("U00:%x[-1,0]\\nB")
    >>> template.patterns[0].macros, template.bigram, template.reach
    ((Macro(row=-1, column='0'),), True, 1)
    """

    patterns: tuple[Pattern, ...]
    bigram: bool
    text: str
    pair_text: str = ""

    @cached_property
    def reach(self) -> int:
        """Maximum distance of a macro from the token."""
        return max((abs(macro.row) for pattern in self.patterns for macro in pattern.macros), default=0)

    @property
    def columns(self) -> list[str]:
        """Distinct columns of the macros, in order of first use."""
        return list(dict.fromkeys(macro.column for pattern in self.patterns for macro in pattern.macros))

    @classmethod
    def parse(cls, text: str, name: str = "template") -> Template:
        """Parse a template.

        Raises
        ------
        TextError
            If the template is invalid. The message begins with ``name:line:``.
        """
        if not isinstance(text, str):
            raise TextError(f"{name}:1: a template must be a string, got a {type(text).__name__}.")
        patterns: list[Pattern] = []
        bigram = False
        pairs = []
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if line[0] == "U":
                patterns.append(_pattern(line, f"{name}:{number}"))
            elif line[0] == "B":
                bigram = True  # an identifier after B has no effect without a cell, because it is always the same
                if _pattern(line, f"{name}:{number}").macros:
                    pairs.append(f"U{line}\n")
            else:
                raise TextError(f"{name}:{number}: {line!r} does not begin with U, B or #.")
        if not patterns:
            raise TextError(f"{name}:1: no line begins with U; write at least one feature, such as U00:%x[0,0].")
        return cls(tuple(patterns), bigram, text, "".join(pairs))


def _pattern(line: str, place: str) -> Pattern:
    texts: list[str] = []
    macros: list[Macro] = []
    end = 0
    for match in MACRO.finditer(line):
        texts.append(line[end : match.start()])
        row = int(match[1]) if len(match[1]) < 6 else MAX_REACH + 1
        if abs(row) > MAX_REACH:
            raise TextError(f"{place}: {match[0]} is more than {MAX_REACH} tokens away.")
        macros.append(Macro(row, match[2]))
        end = match.end()
    texts.append(line[end:])
    if any("%x" in part for part in texts):
        raise TextError(f"{place}: {line!r} has an invalid macro; write %x[row,column], such as %x[-1,0].")
    return Pattern(tuple(texts), tuple(macros))


def read_template(path: str | os.PathLike[str]) -> str:
    """Read a template file, and return its text.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    str

    Raises
    ------
    TextError
        If the template is invalid. The message begins with ``file:line:``.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "template")
    >>> with open(path, "w") as file:
    ...     _ = file.write("U00:%x[0,0]\\nB\\n")
    >>> read_template(path)
    'U00:%x[0,0]\\nB\\n'
    """
    text, name = text_of(path)
    Template.parse(text, name)
    return text


def _window(label: str, column: str, rows: range) -> list[str]:
    return [f"U{label}[{row:+d}]=%x[{row},{column}]" if row else f"U{label}=%x[0,{column}]" for row in rows]


CHUNKS = """\
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
B
"""
"""Template of CRF++ for CoNLL-2000: words and parts of speech in a window of five."""

WORDS = "\n".join(
    [
        "Ubias",
        *_window("word", "lower", range(-2, 3)),
        "Uexact=%x[0,0]",
        *_window("shape", "short_shape", range(-1, 2)),
        "Ufull_shape=%x[0,shape]",
        *_window("case", "case", range(-1, 2)),
        "Ucases=%x[-1,case]/%x[0,case]/%x[1,case]",
        *(f"Uprefix{n}=%x[0,prefix{n}]" for n in range(1, 5)),
        *(f"Usuffix{n}=%x[0,suffix{n}]" for n in range(1, 5)),
        "Uprevious_suffix=%x[-1,suffix3]",
        "Unext_suffix=%x[1,suffix3]",
        "Udigits=%x[0,digits]",
        "Upair[-1]=%x[-1,lower]/%x[0,lower]",
        "Upair[+1]=%x[0,lower]/%x[1,lower]",
        "B",
        "",
    ]
)
"""Words: exact and in lower case, shape, case, affixes, and a window of five."""

TAGGED_WORDS = WORDS.replace(
    "\nB\n",
    "\n" + "\n".join([*_window("pos", "1", range(-2, 3)), "Upos_pair[-1]=%x[-1,1]/%x[0,1]",
                      "Upos_pair[+1]=%x[0,1]/%x[1,1]", "Upos_triple=%x[-1,1]/%x[0,1]/%x[1,1]"]) + "\nB\n",
)  # fmt: skip
"""`WORDS` and features of the parts of speech in the second column."""

CHARACTERS = "\n".join(
    [
        "Ubias",
        *_window("char", "0", range(-2, 3)),
        *(f"Upair[{a:+d}]=%x[{a},0]%x[{a + 1},0]" for a in range(-2, 2)),
        "Uaround=%x[-1,0]%x[1,0]",
        *(f"Utriple[{a:+d}]=%x[{a},0]%x[{a + 1},0]%x[{a + 2},0]" for a in (-1,)),
        *_window("kind", "kind", range(-1, 2)),
        "Ukinds=%x[-1,kind]%x[0,kind]%x[1,kind]",
        "B",
        "",
    ]
)
"""Window of characters, for word segmentation."""

READY = {"words": WORDS, "tagged_words": TAGGED_WORDS, "chunks": CHUNKS, "characters": CHARACTERS}
"""Built-in templates by name."""

"""Templates of features, in the language of CRF++.

::

    U00:%x[-1,0]              the first column (word) of the token before
    U01:%x[0,0]/%x[1,0]       two words in a row
    U02:%x[0,1]               the second column (part of speech)
    U03:%x[0,lower]           the word in small letters; see `maxendnet.text.features.word_forms` for all such forms
    B                         pairs of neighbouring labels have weights
    # a comment

A line ``U...`` makes a feature of every token: its text, with every ``%x[row,column]`` replaced by a cell, counted from
the token. Beyond the ends of a sentence the cell is ``_B-1``, ``_B-2``, ... before and ``_B+1``, ... behind. Two lines
that give the same text give the same feature. Where a form has no value (a word that is in no cluster), the line gives
no feature.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from maxendnet.text.reading.columns import text_of
from maxendnet.text.reading.errors import TextError

MACRO = re.compile(r"%x\[\s*([+-]?\d+)\s*,\s*([^\]\s]+)\s*\]")
FARTHEST = 100
"""Tokens that a macro may look ahead or back; CRF++ has 4."""


class Macro(NamedTuple):
    """A cell near a token."""

    row: int
    """Counted from the token."""
    column: str
    """A number, or the name of a form."""


class Pattern(NamedTuple):
    """A line of a template: texts, and macros between them."""

    texts: tuple[str, ...]
    """One more than macros."""
    macros: tuple[Macro, ...]


@dataclass(frozen=True)
class Template:
    """A template that was read.

    Attributes
    ----------
    patterns : tuple of Pattern
    bigram : bool
        Whether pairs of neighbouring labels have weights.
    text : str
        As it was written.

    Examples
    --------
    >>> template = Template.parse("U00:%x[-1,0]\\nB")
    >>> template.patterns[0].macros, template.bigram, template.reach
    ((Macro(row=-1, column='0'),), True, 1)
    """

    patterns: tuple[Pattern, ...]
    bigram: bool
    text: str

    @cached_property
    def reach(self) -> int:
        """The largest number of tokens that a macro looks ahead or back."""
        return max((abs(macro.row) for pattern in self.patterns for macro in pattern.macros), default=0)

    @property
    def columns(self) -> list[str]:
        """Every column that is used, once."""
        return list(dict.fromkeys(macro.column for pattern in self.patterns for macro in pattern.macros))

    @classmethod
    def parse(cls, text: str, name: str = "template") -> Template:
        """Read a template.

        Raises
        ------
        TextError
            With the name and the line.
        """
        if not isinstance(text, str):
            raise TextError(f"{name}:1: a template is text, got a {type(text).__name__}.")
        patterns: list[Pattern] = []
        bigram = False
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            if line[0] == "U":
                patterns.append(_pattern(line, f"{name}:{number}"))
            elif line == "B":
                bigram = True
            elif line[0] == "B" and "%x" not in line:
                bigram = True  # B with an identifier is the same for every token
            elif line[0] == "B":
                raise TextError(
                    f"{name}:{number}: {line!r} asks for weights of a pair of labels together with a cell, which "
                    f"templates here do not have; write B, and the cell in a line U."
                )
            else:
                raise TextError(f"{name}:{number}: {line!r} begins with neither U, B nor #.")
        if not patterns:
            raise TextError(f"{name}:1: no line U...; a template has at least one feature, such as U00:%x[0,0].")
        return cls(tuple(patterns), bigram, text)


def _pattern(line: str, place: str) -> Pattern:
    texts: list[str] = []
    macros: list[Macro] = []
    end = 0
    for found in MACRO.finditer(line):
        texts.append(line[end : found.start()])
        row = int(found[1]) if len(found[1]) < 6 else FARTHEST + 1
        if abs(row) > FARTHEST:
            raise TextError(f"{place}: {found[0]} looks farther than {FARTHEST} tokens.")
        macros.append(Macro(row, found[2]))
        end = found.end()
    texts.append(line[end:])
    if any("%x" in part for part in texts):
        raise TextError(f"{place}: {line!r} has a macro that is not %x[row,column], such as %x[-1,0].")
    return Pattern(tuple(texts), tuple(macros))


def read_template(path: str | os.PathLike[str]) -> str:
    """The text of a template file, after it was found to be one.

    Raises
    ------
    TextError
        With file and line.
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
"""The template that CRF++ ships for CoNLL-2000: words and parts of speech in a window of five."""

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
"""Words alone: exact and in small letters, shape, case, affixes, and a window of five."""

TAGGED_WORDS = WORDS.replace(
    "\nB\n",
    "\n" + "\n".join([*_window("pos", "1", range(-2, 3)), "Upos_pair[-1]=%x[-1,1]/%x[0,1]",
                      "Upos_pair[+1]=%x[0,1]/%x[1,1]", "Upos_triple=%x[-1,1]/%x[0,1]/%x[1,1]"]) + "\nB\n",
)  # fmt: skip
"""The same, and parts of speech in the second column."""

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
"""Characters: the window that word segmentation uses."""

READY = {"words": WORDS, "tagged_words": TAGGED_WORDS, "chunks": CHUNKS, "characters": CHARACTERS}
"""Templates for common tasks by name."""

"""Tokens of raw text with character offsets."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from maxendnet.text.reading.errors import TextError

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Scripts that are written without spaces, as ranges of a character class."""
INVISIBLE = "\u200b\u2060\ufeff"
"""Zero-width characters that are treated as white space."""
JOINERS = "\u00ad\u200c\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff"
"""Characters that belong to the previous one: soft hyphen, joiners, variation selectors and skin tones."""
ABBREVIATIONS = "Mr Mrs Ms Dr Prof St Jr Sr Inc Ltd Co Corp Gen Sen Rep Gov Jan Feb Aug Sept Oct Nov Dec vs etc Ph.D"
"""Words that keep their period."""
CLITIC = re.compile(r"(?<=\w)(?:n['’]t|['’](?:s|re|ve|ll|d|m))$", re.IGNORECASE)
"""Endings that are tokens in the Penn Treebank, and most English data sets."""
FIRST_MARK = 0x300
"""The first combining character."""


class Token(NamedTuple):
    """A token of a text: ``text[start:end]``.

    Examples
    --------
    >>> Token("met", 4, 7)
    Token(text='met', start=4, end=7)
    """

    text: str
    start: int
    end: int
    """One past the last character."""


def tokenize(text: str, by: str = "words") -> list[Token]:
    """Split raw text into tokens with character offsets.

    The text is not changed: every token is ``text[start:end]``, and every character that is not white space belongs to
    one token.

    Parameters
    ----------
    text : str
    by : {"words", "characters", "spaces"}, default="words"
        "words" separates words, numbers and punctuation, as in the Penn Treebank. Scripts without spaces, such as
        Chinese, are split into characters. "characters" makes every character a token, and "spaces" splits only at
        white space.

    Returns
    -------
    list of Token

    Examples
    --------
    >>> tokenize("Ada,met")
    [Token(text='Ada', start=0, end=3), Token(text=',', start=3, end=4), Token(text='met', start=4, end=7)]
    >>> [token.text for token in tokenize("Dr. Ng didn't pay $3.14 in the U.S. (see https://b.org).")]
    ['Dr.', 'Ng', 'did', "n't", 'pay', '$', '3.14', 'in', 'the', 'U.S.', '(', 'see', 'https://b.org', ')', '.']
    >>> [token.text for token in tokenize("東京2024", "characters")]
    ['東', '京', '2', '0', '2', '4']
    """
    if not isinstance(text, str):
        raise TextError(f"text must be a string, got a {type(text).__name__}.")
    if by not in ("words", "characters", "spaces"):
        raise TextError(f"by must be 'words', 'characters' or 'spaces', got {by!r}.")
    pattern = words() if by == "words" else re.compile(rf"[^\s{INVISIBLE}]" + ("+" if by == "spaces" else ""))
    tokens = []
    for match in pattern.finditer(text):
        start, end = match.span()
        clitic = CLITIC.search(match[0]) if match.lastgroup == "word" else None
        if clitic is not None:
            cut = start + clitic.start()
            tokens.append(Token(text[start:cut], start, cut))
            start = cut
        tokens.append(Token(text[start:end], start, end))
    return tokens


@lru_cache
def words() -> re.Pattern[str]:
    """Return the pattern of the tokens of ``tokenize(text, "words")``."""
    mark = f"[{marks()}{JOINERS}]*"
    letter, unit = rf"(?:[^\W\d_{UNSPACED}]{mark})", rf"(?:[^\W{UNSPACED}]{mark})"
    space = rf"\s{INVISIBLE}"
    rest = rf"""[^{space}<>"“”]"""
    symbol = r"[\u2190-\u2bff\U0001f000-\U0001faff]"
    return re.compile(
        rf"""
          (?:https?://|ftp://|www\.){rest}*[^{space}<>"“”.,;:!?'’)\]}}]
        | [\w.+-]+@[\w-]+(?:\.[\w-]+)+
        | [@\#]{unit}+
        | {letter}\.(?:{letter}\.)*{letter}\.?(?!\w)            # U.S., e.g.
        | {letter}\.(?={letter}\.|[{space}]+[^\W\d_a-z])        # an initial before another name
        | (?:{"|".join(map(re.escape, ABBREVIATIONS.split()))})\.(?!\w)
        | \d+(?:[.,:/-]\d+)+(?:{unit})*                          # 3.14, 1,000, 12:30, 2024-05-01
        | (?P<word>{unit}+(?:[-‐‑'’·&]{unit}+)*)
        | ['’](?:s|re|ve|ll|d|m)(?!\w)
        | [\U0001f1e6-\U0001f1ff]{{2}}                           # flags
        | {symbol}{mark}(?:(?<=\u200d){symbol}{mark})*
        | \.{{2,}} | -{{2,}} | [!?]{{2,}} | ={{2,}} | \*{{2,}} | ~{{2,}} | `` | ''
        | [^{space}]{mark}
        """,
        re.VERBOSE,
    )


@lru_cache
def marks() -> str:
    """Return all combining characters as ranges of a character class."""
    codes = [code for code in range(FIRST_MARK, sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M"]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)

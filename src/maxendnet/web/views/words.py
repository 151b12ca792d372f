"""Words of texts, for comparison of values that differ in punctuation only."""

from __future__ import annotations

import re
import unicodedata

WORD = re.compile(r"[^\W_]+")
FRACTION = re.compile(r"(?<=\d)(?=[¼½¾⅐-⅞])")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, with fractions as numbers.

    Examples
    --------
    >>> words_of("1½ cups Butter (soft)") == words_of("1 1/2 cups butter, soft")
    True
    """
    return WORD.findall(unicodedata.normalize("NFKC", FRACTION.sub(" ", text)).casefold())

"""Bytes of a page to text: byte order marks, declared charsets, and what to do when they are wrong."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

# a declaration is looked for in the first kilobytes, as browsers do; saved pages put comments before it
PREFIX = 4096
DECLARED = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([a-zA-Z0-9_:.-]{1,40})""", re.IGNORECASE)
XML_DECLARED = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([a-zA-Z0-9_:.-]{1,40})["']""")
# the encodings that browsers know; others that Python has (idna, punycode, undefined) are no encodings of pages
KNOWN = re.compile(
    r"utf-8|ascii|iso8859-\d+|koi8-[ru]|mac-(?:roman|cyrillic)|cp(?:866|874|932|949|125\d)|gb(?:k|2312|18030)|"
    r"big5(?:hkscs)?|euc_(?:jp|kr)|iso2022_jp|shift_jis|tis-620"
)
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# on the web these names mean the Windows code pages that contain them
MEANT = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "latin-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030",
    "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "tis-620": "cp874", "iso8859-11": "cp874",
}  # fmt: skip


class Decoded(NamedTuple):
    """Text, the encoding it was read with, and how many characters stand for bytes that could not be read."""

    text: str
    encoding: str
    n_replaced: int


def decode(data: bytes, told: str = "") -> Decoded:
    """The text of a page; ``told`` is an encoding that was given with it.

    A byte order mark wins, then the declaration in the page, if the bytes agree with it; then UTF-8, if they are that;
    otherwise Windows-1252, which reads every byte. What cannot be read becomes U+FFFD and is counted.

    Examples
    --------
    >>> decode("<p>5 €".encode("cp1252"))
    Decoded(text='<p>5 €', encoding='cp1252', n_replaced=0)
    >>> decode(b'<meta charset=utf-8><p>caf\\xe9').text
    '<meta charset=utf-8><p>café'
    """
    for mark, name in MARKS:
        if data.startswith(mark):
            return _replaced(data[len(mark) :], name)
    declared = _known(told) or _declared(data)
    for name in filter(None, (declared, "utf-8")):
        try:
            return Decoded(data.decode(name), name, 0)
        except (UnicodeDecodeError, LookupError):
            continue
    if data[:PREFIX].count(0) * 5 > 2 * len(data[:PREFIX]):  # two bytes a character, and no mark
        return _replaced(data, "utf-16-le" if data[1:PREFIX:2].count(0) > data[0:PREFIX:2].count(0) else "utf-16-be")
    for name in filter(None, (declared, "utf-8")):
        # a page cut in the middle of a character, or with a few stray bytes, is still what it says it is
        decoded = _replaced(data, name)
        if name != "cp1252" and decoded.n_replaced * 1000 <= len(data) and _has_multibyte(decoded.text):
            return decoded
    # cp1252 leaves five bytes undefined; browsers read them as control characters
    return Decoded(data.decode("cp1252", "surrogateescape").translate(CONTROLS), "cp1252", 0)


CONTROLS = {0xDC00 + byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}


def _has_multibyte(text: str) -> bool:
    """Whether some character beyond ASCII reads well, which wrong guesses rarely do."""
    return any(ord(c) > 127 and c != "\ufffd" for c in text)


def _replaced(data: bytes, name: str) -> Decoded:
    text = data.decode(name, "replace")
    return Decoded(text, name, text.count("\ufffd"))


def _declared(data: bytes) -> str | None:
    found = DECLARED.search(data[:PREFIX]) or XML_DECLARED.search(data[:PREFIX])
    if not found:
        return None
    return _known(found[1].decode("ascii"))


def _known(label: str) -> str | None:
    """The codec that browsers take for a name; None if they know no such encoding."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    # a page whose declaration can be read as ASCII is not UTF-16, whatever it says
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"
    return MEANT.get(name, name) if KNOWN.fullmatch(name) else None

"""Decode the bytes of a page: byte order marks, declared charsets, and fallbacks for wrong declarations."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

# like browsers, search the first kilobytes for a declaration; in saved pages comments may precede it
PREFIX_BYTES = 4096
META_CHARSET = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([a-zA-Z0-9_:.-]{1,40})""", re.IGNORECASE)
XML_ENCODING = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([a-zA-Z0-9_:.-]{1,40})["']""")
# only encodings that browsers support: some codecs of Python (idna, punycode, undefined) are not for pages
SUPPORTED = re.compile(
    r"utf-8|ascii|iso8859-\d+|koi8-[ru]|mac-(?:roman|cyrillic)|cp(?:866|874|932|949|125\d)|gb(?:k|2312|18030)|"
    r"big5(?:hkscs)?|euc_(?:jp|kr)|iso2022_jp|shift_jis|tis-620"
)
MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# on the web these names denote the Windows code pages that extend them
WEB_CODECS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "latin-1": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030",
    "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949", "tis-620": "cp874", "iso8859-11": "cp874",
}  # fmt: skip
MAX_REPLACED = 0.001  # maximum share of undecodable bytes in an accepted encoding


class Decoded(NamedTuple):
    """Text of a page, its encoding, and the number of characters that replace undecodable bytes."""

    text: str
    encoding: str
    n_replaced: int


def decode(data: bytes, charset: str = "") -> Decoded:
    """Decode the bytes of a page.

    A byte order mark determines the encoding. Otherwise ``charset`` (if empty, the declaration in the page) and UTF-8
    are tried, and the first that decodes all bytes is used. If neither does, an encoding with few undecodable bytes is
    accepted; the last resort is Windows-1252, which decodes every byte. Undecodable bytes become U+FFFD and are
    counted.

    Parameters
    ----------
    data : bytes
    charset : str
        Encoding given with the page, for example in the header of an MHTML file.

    Examples
    --------
    >>> decode("<p>5 €".encode("cp1252"))
    Decoded(text='<p>5 €', encoding='cp1252', n_replaced=0)
    >>> decode(b'<meta charset=utf-8><p>caf\\xe9').text
    '<meta charset=utf-8><p>café'
    """
    for mark, name in MARKS:
        if data.startswith(mark):
            return _replace(data[len(mark) :], name)
    declared = _codec(charset) or _declared(data)
    candidates = [name for name in (declared, "utf-8") if name is not None]
    for name in candidates:
        try:
            return Decoded(data.decode(name), name, 0)
        except (UnicodeDecodeError, LookupError):
            continue
    prefix = data[:PREFIX_BYTES]
    if prefix.count(0) * 5 > 2 * len(prefix):  # UTF-16 without a byte order mark
        return _replace(data, "utf-16-le" if prefix[1::2].count(0) > prefix[::2].count(0) else "utf-16-be")
    for name in candidates:
        # the page is truncated within a character, or contains a few stray bytes: the declaration still holds
        decoded = _replace(data, name)
        if name != "cp1252" and decoded.n_replaced <= MAX_REPLACED * len(data) and _has_non_ascii(decoded.text):
            return decoded
    # cp1252 leaves five bytes undefined; browsers read them as control characters
    return Decoded(data.decode("cp1252", "surrogateescape").translate(CONTROLS), "cp1252", 0)


CONTROLS = {0xDC00 + byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}


def _has_non_ascii(text: str) -> bool:
    """Whether a non-ASCII character was decoded, which rarely happens with a wrong encoding."""
    return any(ord(c) > 127 and c != "\ufffd" for c in text)


def _replace(data: bytes, name: str) -> Decoded:
    text = data.decode(name, "replace")
    return Decoded(text, name, text.count("\ufffd"))


def _declared(data: bytes) -> str | None:
    match = META_CHARSET.search(data[:PREFIX_BYTES]) or XML_ENCODING.search(data[:PREFIX_BYTES])
    return _codec(match[1].decode("ascii")) if match else None


def _codec(label: str) -> str | None:
    """Return the codec that browsers use for an encoding label, or None if they do not support it."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    # a page whose declaration is readable as ASCII is not UTF-16, even if declared so
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"
    return WEB_CODECS.get(name, name) if SUPPORTED.fullmatch(name) else None

"""Unpack saved pages: HTML, gzip-compressed HTML and MHTML; refuse files that are not HTML."""

from __future__ import annotations

import re
import zlib
from email import policy
from email.parser import BytesParser
from typing import NamedTuple

from maxendnet.web.pages.parser_process import PageError

SIGNATURES = (
    (b"%PDF-", "a PDF"), (b"PK\x03\x04", "a ZIP archive"), (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"), (b"GIF87a", "a GIF image"), (b"GIF89a", "a GIF image"),
    (b"RIFF", "a RIFF file (WebP, WAV)"), (b"BM", "a bitmap"), (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"BZh", "a bzip2 archive"), (b"\xfd7zXZ\0", "an xz archive"), (b"(\xb5/\xfd", "a Zstandard archive"),
    (b"\x7fELF", "a program"), (b"MZ\x90\0", "a program"), (b"wOF2", "a font"), (b"wOFF", "a font"),
    (b"SQLite format 3\0", "a database"), (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Office document"),
    (b"bplist00", "a Safari web archive or property list"), (b"{\\rtf", "an RTF document"),
)  # fmt: skip
"""First bytes of files that are not HTML, and their type."""
MHTML = re.compile(
    rb"^(?:[A-Za-z-]+:[^\n]*\n(?:[ \t][^\n]*\n)*){1,40}?Content-Type:\s*multipart/related", re.IGNORECASE
)
SAVED_FROM = re.compile(r"<!--\s*saved from url=\(\d+\)(\S+)\s*-->", re.IGNORECASE)  # written by browsers


class SavedPage(NamedTuple):
    """Bytes of a page, and its address and encoding, which are empty if the file does not contain them."""

    data: bytes
    url: str = ""
    charset: str = ""


def unpack(data: bytes, name: str, max_bytes: int) -> SavedPage:
    """Return the page in a file.

    Raises
    ------
    PageError
        The file is damaged, or not HTML; the message names its type.

    Examples
    --------
    >>> import gzip
    >>> unpack(gzip.compress(b"<p>x"), "a.html.gz", 100).data
    b'<p>x'
    """
    if data.startswith(b"\x1f\x8b"):
        data = _gunzip(data, name, max_bytes)
    for signature, file_type in SIGNATURES:
        if data.startswith(signature) and (len(signature) > 2 or b"\0" in data[:100]):
            raise PageError(f"{name or 'the page'} is {file_type}, not HTML; exclude it")
    if MHTML.match(data[:20_000].replace(b"\r\n", b"\n")):
        return _from_mhtml(data, name)
    return SavedPage(data)


def _gunzip(data: bytes, name: str, max_bytes: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        html = reader.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise PageError(f"{name or 'the page'} is damaged: it cannot be decompressed ({error})") from error
    if len(html) > max_bytes:
        raise PageError(f"{name or 'the page'} has more than {max_bytes:,} bytes when decompressed; exclude it")
    if not reader.eof:
        raise PageError(f"{name or 'the page'} is damaged: the compressed file is truncated")
    return html


def _from_mhtml(data: bytes, name: str) -> SavedPage:
    message = BytesParser(policy=policy.compat32).parsebytes(data)
    url = str(message.get("Snapshot-Content-Location") or "").strip()
    for attachment in message.walk():
        if attachment.get_content_type() in ("text/html", "application/xhtml+xml"):
            body = attachment.get_payload(decode=True)
            if isinstance(body, bytes):
                url = url or str(attachment.get("Content-Location") or "").strip()
                return SavedPage(body, url, str(attachment.get_content_charset() or ""))
    raise PageError(f"{name or 'the page'} is an MHTML file without HTML; exclude it")

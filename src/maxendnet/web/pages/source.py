"""Pages in the forms that users give them: HTML, bytes, paths, or pages already read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from maxendnet.web.pages.folder import site_of
from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page

Source = Page | UnreadPage | str | bytes | os.PathLike[str]


def read_source(source: Source, known: Sequence[str] = ()) -> Page | UnreadPage:
    """Read a page; one that is not readable (too large, no HTML) becomes an `UnreadPage` with the reason.

    Parameters
    ----------
    source : Page, UnreadPage, str, bytes or path
        Text with a "<" is HTML, other text a path.
    known : sequence of str
        Known sites: a page in a folder of this name belongs to the site.

    Raises
    ------
    OSError
        A file cannot be opened.
    TypeError
        It is no page.

    Examples
    --------
    >>> read_source("<p>hello").texts[2]
    'hello'
    """
    if isinstance(source, (Page, UnreadPage)):
        return source
    name = ""
    try:
        if isinstance(source, str) and "<" in source:
            return Page.from_html(source)
        if isinstance(source, bytes):
            return read_page(source)
        if not isinstance(source, (str, os.PathLike)) or not str(source).strip():
            raise TypeError(f"a page is HTML as text or bytes, a path or a Page; this is {source!r}.")
        path = Path(source)
        name = path.name
        page = read_page(path)
        page.site = site_of(page, path.resolve().parent.name, known)
        return page
    except PageError as error:
        return UnreadPage(name, str(error))


def has_layout(pages: Sequence[Page]) -> bool:
    """Whether the pages have boxes of a browser; an error if only part of them do."""
    having = [page.layout is not None for page in pages]
    if any(having) and not all(having):
        without = next(page for page, has in zip(pages, having) if not has)
        raise ValueError(
            f"{sum(having)} of {len(pages)} pages have boxes and {without.name!r} has none; render all, or none."
        )
    return all(having) and bool(having)

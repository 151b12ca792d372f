"""Read pages from the inputs that users pass: HTML, bytes, paths, or `Page` objects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from maxendnet.web.pages.folder import site_of
from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page

Source = Page | UnreadPage | str | bytes | os.PathLike[str]


def read_source(source: Source, known: Sequence[str] = ()) -> Page | UnreadPage:
    """Return the page of a source, or an `UnreadPage` with the reason if it cannot be read (too large, not HTML).

    Parameters
    ----------
    source : Page, UnreadPage, str, bytes or path
        A str that contains "<" is HTML, any other str is a path.
    known : sequence of str
        Known sites: a page in a folder with the name of a known site belongs to that site.

    Raises
    ------
    OSError
        A file cannot be opened.
    TypeError
        ``source`` has another type, or is empty.

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
            raise TypeError(f"expected HTML as text or bytes, a path or a Page, got {source!r}.")
        path = Path(source)
        name = path.name
        page = read_page(path)
        page.site = site_of(page, path.resolve().parent.name, known)
        return page
    except PageError as error:
        return UnreadPage(name, str(error))


def read_sources(sources: Source | Iterable[Source], known: Sequence[str] = ()) -> list[Page | UnreadPage]:
    """Return the pages of a source or of several sources, see `read_source`.

    Examples
    --------
    >>> len(read_sources("<p>hello")), len(read_sources(["<p>a", "<p>b"]))
    (1, 2)
    """
    single = (Page, UnreadPage, str, bytes)
    items = sources if isinstance(sources, Iterable) and not isinstance(sources, single) else [sources]
    return [read_source(source, known) for source in items]


def has_layout(pages: Sequence[Page]) -> bool:
    """Whether the pages were rendered, so that they have a layout.

    Raises
    ------
    ValueError
        Some pages have a layout and others do not.
    """
    missing = [page for page in pages if page.layout is None]
    if missing and len(missing) < len(pages):
        raise ValueError(
            f"{len(pages) - len(missing)} of {len(pages)} pages have a layout, but {missing[0].name!r} has none; "
            "render all pages or none."
        )
    return bool(pages) and not missing

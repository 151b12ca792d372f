"""Folders of saved pages, and the site of a page."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from maxendnet.web.fields.labels import LabelError, PageLabels, check_field
from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page
from maxendnet.web.pages.saved_files import NO_PAGES
from maxendnet.web.progress import Progress, quiet

ENDINGS = (".html", ".htm", ".xhtml", ".mhtml", ".mht", ".html.gz", ".htm.gz", ".xhtml.gz")
# where browsers put what belongs to a page that is saved "complete"
BESIDE = ("_files", ".files", "-files", "-Dateien", "_fichiers", "_archivos", "_bestanden", "_file", "_pliki")
HTML = re.compile(rb"<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>]", re.IGNORECASE)
LOOKED_AT = 1_000  # bytes of a file whose name does not say what it is
MOST_NAMED = 5


def page_files(folder: str | Path) -> list[Path]:
    """All pages in a folder and below it, sorted; without what a browser saved beside a page (``cup_files/``).

    Pages are known by the ends of their names, and files of other names by their beginning (``item.php``).

    Raises
    ------
    PageError
        It is no folder, or has no page.
    """
    found, _ = sort_files(folder)
    if not found:
        raise PageError(
            f"{folder} has no page; pages are files that end in {', '.join(ENDINGS)}, or begin as HTML does."
        )
    return found


def sort_files(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """The pages in a folder and below it, and the other files.

    Raises
    ------
    PageError
        It is no folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PageError(f"{folder} is not a folder; give the folder of your saved pages.")
    found: list[Path] = []
    others: list[Path] = []
    for top, folders, names in os.walk(folder):
        stems = {Path(name).stem for name in names if name.lower().endswith(ENDINGS)}
        folders[:] = [
            name for name in folders
            if not any(name.endswith(end) and name.removesuffix(end) in stems for end in BESIDE)
        ]  # fmt: skip
        for path in (Path(top, name) for name in names):
            if path.is_file():
                is_page = path.name.lower().endswith(ENDINGS) or HTML.search(_start(path) or b"")
                (found if is_page else others).append(path)
    return sorted(found), sorted(others)


def _start(path: Path) -> bytes | None:
    """First bytes of a file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LOOKED_AT)
    except OSError:
        return None


def is_text_alone(path: Path) -> bool:
    """Whether a file that was named by a user, and is not called a page, has no element at its beginning.

    Other files that are no HTML are refused by what they are when they are read.
    """
    if path.name.lower().endswith(ENDINGS):
        return False
    start = _start(path)
    if start is None or b"<" in start or b"\0" in start:
        return False
    return not any(start.startswith(first) for first, _ in NO_PAGES)


def others_named(folder: str | Path) -> list[str]:
    """A sentence about the files of a folder that are no pages; none, if all are."""
    _, others = sort_files(folder)
    if not others:
        return []
    names = ", ".join(path.relative_to(folder).as_posix() for path in others[:MOST_NAMED])
    more = f" and {len(others) - MOST_NAMED:,} others" if len(others) > MOST_NAMED else ""
    return [f"{folder}: {'a file is' if len(others) == 1 else 'files are'} no HTML and left out: {names}{more}"]


def site_of(page: Page, folder: str, known: Sequence[str] = ()) -> str:
    """The site of a page that was not told: a known site's folder, its canonical link, or its folder.

    Examples
    --------
    >>> page = Page.from_html("<link rel=canonical href='https://x.com/1'><p>a")
    >>> site_of(page, "saved"), site_of(page, "saved", known=["saved"])
    ('x.com', 'saved')
    """
    return folder if folder in known or not page.site else page.site


def read_pages(
    files: Sequence[tuple[Path, str, str]], known: Sequence[str] = (), *, progress: Progress = quiet
) -> tuple[list[Page], list[UnreadPage], list[str]]:
    """Read pages.

    Parameters
    ----------
    files : sequence of (path, name, site)
        Name to give to the page, and its site, or empty.
    known : sequence of str
        Known sites, for `site_of`.

    Returns
    -------
    pages : list of Page
    unread : list of UnreadPage
        Pages that cannot be read.
    warnings : list of str
        What was lost or changed in the others.
    """
    pages, unread, warnings = [], [], []
    for path, name, site in progress(files, "pages"):
        try:
            page = read_page(path, name=name)
        except (PageError, OSError) as error:
            unread.append(UnreadPage(name, str(error) if isinstance(error, PageError) else f"{path}: {error.strerror}"))
            continue
        page.site = site or site_of(page, path.resolve().parent.name, known)
        warnings += [f"{name}: {warning}" for warning in page.warnings]
        pages.append(page)
    return pages, unread, warnings


def labelled_folder(
    folder: str | Path, given: Sequence[PageLabels], *, most: int | None = None,
    progress: Progress = quiet,
) -> tuple[list[Page], list[PageLabels | None], list[str]]:  # fmt: skip
    """All pages of a folder with their labels; pages without labels help to know their sites.

    Parameters
    ----------
    folder : path
    given : sequence of PageLabels
    most : int, optional
        Read no more pages than this (but all that are labelled), about as many from every folder.
    progress : callable, optional

    Returns
    -------
    pages, labels, problems

    Raises
    ------
    LabelError
        A labelled page is not in the folder.
    """
    root = Path(folder).resolve()
    of_page = {labels.page: labels for labels in given}
    names = {}
    for path in page_files(folder):
        names[path.resolve().relative_to(root).as_posix() if path.resolve().is_relative_to(root) else path.name] = path
    for labels in given:
        path = (root / labels.page).resolve()
        if not path.is_relative_to(root):
            raise LabelError(f"line {labels.line}: {labels.page!r} lies outside of {folder}; give a path within it.")
        if labels.page not in names:
            if not path.is_file():
                raise LabelError(f"line {labels.line}: there is no page {labels.page!r} in {folder}.")
            names[labels.page] = path
    if most is not None and len(names) > most:
        names = _some(names, of_page, most)
    # a site given for pages of a folder is that of the whole folder, unless they differ
    sites: dict[Path, set[str]] = {}
    for labels in given:
        if labels.site:
            sites.setdefault(names[labels.page].parent, set()).add(labels.site)
    files = []
    for name, path in names.items():
        site = of_page[name].site if name in of_page else ""
        if not site and len(sites.get(path.parent, ())) == 1:
            (site,) = sites[path.parent]
        if not site and path.resolve().parent != root:
            site = path.resolve().parent.name
        files.append((path, name, site))
    pages, unread, warnings = read_pages(files, progress=progress)
    return pages, [of_page.get(page.name) for page in pages], [page.error for page in unread] + warnings


def project_fields(folder: Path) -> list[str]:
    """The fields of the project in a folder; none, if there is no project.

    Raises
    ------
    LabelError
        Its ``project.json`` cannot be read.
    """
    path = folder / "project.json"
    if not path.is_file():
        return []
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))["fields"]
        return [check_field(name, str(path)) for name in fields]
    except (ValueError, KeyError, TypeError) as error:
        raise LabelError(f"{path} is not a project file ({error}); make it anew with maxendnet web init.") from error


def _some(names: dict[str, Path], labelled: Collection[str], most: int) -> dict[str, Path]:
    """The labelled pages, then the first of every folder, the second, and so on."""
    n_before: Counter[Path] = Counter()
    turn = {}
    for name, path in names.items():
        turn[name] = -1 if name in labelled else n_before[path.parent]
        n_before[path.parent] += name not in labelled
    chosen = set(sorted(names, key=lambda name: turn[name])[: max(most, len(labelled))])
    return {name: path for name, path in names.items() if name in chosen}

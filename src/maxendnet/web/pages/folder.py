"""Read folders of saved pages, and derive the site of a page."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from maxendnet.web.fields.labels import LabelError, PageLabels, check_field
from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page
from maxendnet.web.pages.saved_files import SIGNATURES
from maxendnet.web.progress import Progress, quiet

ENDINGS = (".html", ".htm", ".xhtml", ".mhtml", ".mht", ".html.gz", ".htm.gz", ".xhtml.gz")
# folders in which browsers save the resources of a page ("Save complete page")
RESOURCE_FOLDERS = ("_files", ".files", "-files", "-Dateien", "_fichiers", "_archivos", "_bestanden", "_file", "_pliki")
HTML = re.compile(rb"<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>]", re.IGNORECASE)
PREFIX_BYTES = 1_000  # number of bytes read to recognise HTML in files without an HTML extension
MAX_NAMED = 5


def page_files(folder: str | Path) -> list[Path]:
    """Return all pages in a folder and its subfolders, sorted.

    A file with an HTML extension is a page. Other files, such as ``item.php``, are pages if their first bytes are HTML.
    Resources that a browser saved with a page (``cup_files/``) are not pages.

    Raises
    ------
    PageError
        The folder does not exist or contains no pages.
    """
    pages, _ = sort_files(folder)
    if not pages:
        raise PageError(
            f"{folder} has no page; pages are files that end in {', '.join(ENDINGS)}, or begin with an HTML tag."
        )
    return pages


def sort_files(folder: str | Path) -> tuple[list[Path], list[Path]]:
    """Return the pages in a folder and its subfolders, and the files that are not pages.

    Raises
    ------
    PageError
        The folder does not exist.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PageError(f"{folder} is not a folder; pass the folder of your saved pages.")
    pages: list[Path] = []
    ignored: list[Path] = []
    for top, folders, names in os.walk(folder):
        stems = {Path(name).stem for name in names if name.lower().endswith(ENDINGS)}
        folders[:] = [
            name for name in folders
            if not any(name.endswith(end) and name.removesuffix(end) in stems for end in RESOURCE_FOLDERS)
        ]  # fmt: skip
        for path in (Path(top, name) for name in names):
            if path.is_file():
                is_page = path.name.lower().endswith(ENDINGS) or HTML.search(_prefix(path) or b"")
                (pages if is_page else ignored).append(path)
    return sorted(pages), sorted(ignored)


def _prefix(path: Path) -> bytes | None:
    """Return the first bytes of a file, or None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(PREFIX_BYTES)
    except OSError:
        return None


def is_plain_text(path: Path) -> bool:
    """Whether a file has no HTML extension and does not begin with a tag.

    The result is False for binary files, because reading them raises an error that names their type.
    """
    if path.name.lower().endswith(ENDINGS):
        return False
    prefix = _prefix(path)
    if prefix is None or b"<" in prefix or b"\0" in prefix:
        return False
    return not any(prefix.startswith(signature) for signature, _ in SIGNATURES)


def ignored_files_note(folder: str | Path) -> list[str]:
    """Return a list with a note about the files of a folder that are not pages; empty if there are none."""
    _, ignored = sort_files(folder)
    if not ignored:
        return []
    names = ", ".join(path.relative_to(folder).as_posix() for path in ignored[:MAX_NAMED])
    more = f" and {len(ignored) - MAX_NAMED:,} more" if len(ignored) > MAX_NAMED else ""
    n_files = "1 file is" if len(ignored) == 1 else f"{len(ignored):,} files are"
    return [f"{folder}: {n_files} not HTML and ignored: {names}{more}"]


def site_of(page: Page, folder: str, known: Sequence[str] = ()) -> str:
    """Return the site of a page for which the user has not specified it.

    If the name of the page's folder is a known site, return it. Otherwise return the host of the page's canonical link,
    or the name of the folder if there is no such link.

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
    """Read pages from files.

    Parameters
    ----------
    files : sequence of (path, name, site)
        File, name and site of each page; an empty site is derived by `site_of`.
    known : sequence of str
        Known sites, for `site_of`.

    Returns
    -------
    pages : list of Page
    unread : list of UnreadPage
        Pages that cannot be read.
    warnings : list of str
        Warnings about the pages that were read.
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
    """Read all pages of a folder and match them with their labels.

    Unlabelled pages are read too, because features compare a page with the other pages of its site.

    Parameters
    ----------
    folder : path
    given : sequence of PageLabels
    most : int, optional
        Maximum number of pages to read, spread evenly over the folders. Labelled pages are always read.
    progress : callable, optional

    Returns
    -------
    pages : list of Page
    labels : list of PageLabels or None
        Labels of every page, or None if it is unlabelled.
    problems : list of str
        Pages that cannot be read, and warnings.

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
            raise LabelError(f"line {labels.line}: {labels.page!r} is outside {folder}; use a path within it.")
        if labels.page not in names:
            if not path.is_file():
                raise LabelError(f"line {labels.line}: there is no page {labels.page!r} in {folder}.")
            names[labels.page] = path
    if most is not None and len(names) > most:
        names = _spread(names, of_page, most)
    # a site specified for one page applies to its whole folder, unless several sites are specified there
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
    """Return the fields of the project in a folder; an empty list if the folder is not a project.

    Raises
    ------
    LabelError
        ``project.json`` is not a project file.
    """
    path = folder / "project.json"
    if not path.is_file():
        return []
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))["fields"]
        return [check_field(name, str(path)) for name in fields]
    except (ValueError, KeyError, TypeError) as error:
        raise LabelError(f"{path} is not a project file ({error}); create it again with maxendnet web init.") from error


def _spread(names: dict[str, Path], labelled: Collection[str], most: int) -> dict[str, Path]:
    """Return at most ``most`` pages: the labelled ones, then the first of every folder, the second, and so on."""
    n_before: Counter[Path] = Counter()
    turn = {}
    for name, path in names.items():
        turn[name] = -1 if name in labelled else n_before[path.parent]
        n_before[path.parent] += name not in labelled
    chosen = set(sorted(names, key=lambda name: turn[name])[: max(most, len(labelled))])
    return {name: path for name, path in names.items() if name in chosen}

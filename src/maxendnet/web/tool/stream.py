"""Extraction from many pages: some at a time, in one process or several, each row written as soon as it is done.

Pages are taken in batches of one folder, so that pages of a site vote together and memory does not grow with their
number. Beside the output lies a file that says how far it is; a run that was stopped goes on from there, if model,
options and pages are the same, and ends with the same output.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import add
from pathlib import Path
from typing import IO, Any, NamedTuple

from maxendnet.utils.atomic_write import write_whole
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import as_csv, as_lines
from maxendnet.web.pages.folder import read_pages
from maxendnet.web.pages.page import Page, UnreadPage
from maxendnet.web.pages.source import Source
from maxendnet.web.progress import Progress, quiet
from maxendnet.web.rendering.render import render_pages

BATCH = 50
"""Pages at a time: enough to vote, and some 100 MB."""
BOM = "\ufeff"


class Options(NamedTuple):
    """What is asked of an extraction.

    Attributes
    ----------
    site : str
        Of all pages; empty, if pages and folders say it.
    records : {"one", "auto"}, optional
        As `Extractor.extract` has it.
    min_confidence : float
    csv : bool
        Else lines of JSON.
    excel : bool
        A byte order mark before the table, by which Excel knows UTF-8.
    batch : int
        Pages at a time.
    """

    site: str = ""
    records: str | None = None
    min_confidence: float = 0.2
    csv: bool = False
    excel: bool = False
    batch: int = BATCH


class Outcome(NamedTuple):
    """Counts of a batch, or of all pages.

    Attributes
    ----------
    n_records, n_pages, n_cells, n_empty, n_unread : int
        Of the records written in this run and, if it resumed an earlier one, in that one too.
    problems : list of str
        Pages that could not be read well, in this run.
    resumed : int
        Files done by an earlier run.
    """

    n_records: int
    n_pages: int
    n_cells: int
    n_empty: int
    n_unread: int
    problems: list[str]
    resumed: int = 0


NOTHING = Outcome(0, 0, 0, 0, 0, [])


def batches(files: Sequence[Path], size: int = BATCH) -> list[list[Path]]:
    """Files of the same folder together, as many as ``size`` at a time, in their order.

    Examples
    --------
    >>> [len(some) for some in batches([Path("a/1"), Path("a/2"), Path("a/3"), Path("b/1")], 2)]
    [2, 1, 1]
    """
    folders = [list(of_folder) for _, of_folder in groupby(files, key=lambda path: path.parent)]
    return [of_folder[k : k + size] for of_folder in folders for k in range(0, len(of_folder), size)]


def read_files(
    files: Sequence[Path], site: str, extractor: Extractor, progress: Progress = quiet
) -> tuple[list[Page], list[UnreadPage], list[str]]:
    """Pages as the model needs them, unreadable ones, and warnings."""
    named = [(path, str(path), site) for path in files]
    pages, unread, warnings = read_pages(named, extractor.sites_, progress=progress)
    if extractor.layout_:
        pages, undrawn = render_pages([(page, Path(page.name)) for page in pages], progress=progress)
        unread += undrawn
    return pages, unread, warnings


def extract_batch(extractor: Extractor, files: Sequence[Path], options: Options) -> tuple[str, Outcome]:
    """Rows of a batch of pages, readable or not."""
    pages, unread, warnings = read_files(files, options.site, extractor)
    of_file: dict[str, Source] = {page.name: page for page in pages}
    of_file |= {page.name: page for page in unread}
    rows = extractor.extract(
        [of_file[str(path)] for path in files], records=options.records, min_confidence=options.min_confidence
    )
    cells = [cell for row in rows if not row.error for cell in row.fields.values()]
    text = as_csv(rows, extractor.fields_, head=False, kinds=extractor.kinds_) if options.csv else as_lines(rows)
    n_records, n_empty = sum(not row.error for row in rows), sum(cell is None for cell in cells)
    problems = [page.error for page in unread] + warnings
    return text, Outcome(n_records, len(pages), len(cells), n_empty, len(unread), problems)


def extract_stream(
    model: Path, files: Sequence[Path], out: Path | IO[str], options: Options, jobs: int = 1,
    progress: Progress = quiet,
) -> Outcome:  # fmt: skip
    """Extract from many pages to a file.

    Parameters
    ----------
    model : Path
    files : sequence of Path
    out : Path, or an open file
        A file that is there is replaced, unless an earlier run of the same was stopped: then it goes on.
    options : Options
    jobs : int
        Processes; the output does not depend on it.
    progress : callable, optional
        Wraps the batches as they are done.
    """
    parts = batches(files, options.batch)
    extractor = Extractor.load(model)
    head = (BOM if options.excel else "") + as_csv([], extractor.fields_, kinds=extractor.kinds_) if options.csv else ""
    if not isinstance(out, Path):
        out.write(head)
        total = NOTHING
        for text, batch in progress(_results(model, extractor, parts, options, jobs), "batches"):
            out.write(text)
            total = _add(total, batch)
        return total
    note = out.with_name(out.name + ".progress")
    mark = _fingerprint(model, files, options)
    done, total = _earlier(note, mark, out)
    if not done:
        note.unlink(missing_ok=True)
        write_whole(out, lambda file: file.write(head.encode()))
    with open(out, "r+b") as file:
        file.seek(0, os.SEEK_END)
        rest = _results(model, extractor, parts[done:], options, jobs)
        for k, (text, batch) in enumerate(progress(rest, "batches"), done + 1):
            file.write(text.encode())
            file.flush()
            total = _add(total, batch)
            state = {"mark": mark, "batches": k, "bytes": file.tell(), "counts": list(total[:5])}
            write_whole(note, lambda side, state=state: side.write(json.dumps(state).encode()))  # type: ignore[misc]
    note.unlink(missing_ok=True)
    return total._replace(resumed=sum(map(len, parts[:done])))


def _results(
    model: Path, extractor: Extractor, parts: Sequence[Sequence[Path]], options: Options, jobs: int
) -> Iterator[tuple[str, Outcome]]:
    """Batches in their order, by one process or several."""
    if jobs <= 1 or len(parts) < 2:
        yield from (extract_batch(extractor, files, options) for files in parts)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(parts)), _begin, (model, options)) as pool:
        yield from pool.imap(_work, parts)


_own: dict[str, Any] = {}


def _begin(model: Path, options: Options) -> None:
    _own["extractor"], _own["options"] = Extractor.load(model), options


def _work(files: Sequence[Path]) -> tuple[str, Outcome]:
    return extract_batch(_own["extractor"], files, _own["options"])


def _add(total: Outcome, batch: Outcome) -> Outcome:
    return Outcome(*map(add, total, batch))


def _fingerprint(model: Path, files: Sequence[Path], options: Options) -> str:
    """Of all that the output depends on."""
    found = hashlib.sha256(model.read_bytes())
    found.update(json.dumps(options).encode())
    for path in files:
        try:
            about = path.stat()
            found.update(f"{path}\0{about.st_size}\0{about.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        except OSError:
            found.update(f"{path}\0\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _earlier(note: Path, mark: str, out: Path) -> tuple[int, Outcome]:
    """How many batches an earlier run has done, and its counts; what it wrote beyond them is cut off."""
    try:
        state = json.loads(note.read_bytes())
        done, size = int(state["batches"]), int(state["bytes"])
        n_records, n_pages, n_cells, n_empty, n_unread = (int(n) for n in state["counts"])
        if state["mark"] != mark or out.stat().st_size < size:
            return 0, NOTHING
    except (OSError, ValueError, KeyError, TypeError):
        return 0, NOTHING
    os.truncate(out, size)
    return done, Outcome(n_records, n_pages, n_cells, n_empty, n_unread, [])

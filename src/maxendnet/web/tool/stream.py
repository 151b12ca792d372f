"""Extraction from many pages, in batches and optionally in several processes.

A batch contains pages of one folder, so that the pages of a site vote together. Memory is bounded by the batch size.
A progress file next to the output records the finished batches. An interrupted run resumes from it if model, options
and pages are unchanged, and produces identical output.
"""

from __future__ import annotations

import hashlib
import io
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
from maxendnet.web.model.schema import SchemaExtractor
from maxendnet.web.pages.folder import read_pages
from maxendnet.web.pages.page import Page, PageError, UnreadPage
from maxendnet.web.pages.source import Source
from maxendnet.web.progress import Progress, quiet
from maxendnet.web.rendering.render import render_pages

BATCH = 50
"""Pages per batch: enough for voting, and about 100 MB of memory."""
BOM = "\ufeff"


class Options(NamedTuple):
    """Options of an extraction.

    Attributes
    ----------
    site : str
        Site of all pages; empty to infer it from each page or its folder.
    records : {"one", "auto"}, optional
        See `Extractor.extract`.
    min_confidence : float
        Cells with a lower confidence are empty.
    csv : bool
        Write CSV instead of JSON lines.
    excel : bool
        Begin the CSV file with a byte order mark, so that Excel reads it as UTF-8.
    batch : int
        Pages per batch.
    """

    site: str = ""
    records: str | None = None
    min_confidence: float = 0.2
    csv: bool = False
    excel: bool = False
    batch: int = BATCH
    schema: bool = False
    fields: Sequence[tuple[str, str]] = ()
    several: Sequence[str] = ()
    strict: bool = False

    def load(self, model: Path | None) -> Extractor | SchemaExtractor:
        """Return the extractor for a model file, or for schema.org data alone."""
        extractor = Extractor.load(model) if model is not None else None
        if extractor is None or self.schema:
            return SchemaExtractor(dict(self.fields), self.several, extractor)
        return extractor


class Outcome(NamedTuple):
    """Counts of a batch or of a whole extraction.

    Attributes
    ----------
    n_records, n_pages, n_cells, n_empty, n_unread : int
        Totals, including those of an earlier run that was resumed.
    problems : list of str
        Problems with pages of this run.
    resumed : int
        Number of files finished by an earlier run.
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
    """Split files into batches of at most ``size`` files from the same folder.

    Examples
    --------
    >>> [len(batch) for batch in batches([Path("a/1"), Path("a/2"), Path("a/3"), Path("b/1")], 2)]
    [2, 1, 1]
    """
    folders = [list(of_folder) for _, of_folder in groupby(files, key=lambda path: path.parent)]
    return [of_folder[k : k + size] for of_folder in folders for k in range(0, len(of_folder), size)]


def read_files(
    files: Sequence[Path], site: str, extractor: Extractor | SchemaExtractor, progress: Progress = quiet
) -> tuple[list[Page], list[UnreadPage], list[str]]:
    """Read pages, and render them if the model was trained on rendered pages."""
    named = [(path, str(path), site) for path in files]
    pages, unread, warnings = read_pages(named, extractor.sites_, progress=progress)
    if extractor.layout_:
        pages, not_rendered = render_pages([(page, Path(page.name)) for page in pages], progress=progress)
        unread += not_rendered
    return pages, unread, warnings


def extract_batch(
    extractor: Extractor | SchemaExtractor, files: Sequence[Path], options: Options
) -> tuple[str, Outcome]:
    """Extract records from a batch; return the rows as text, and their counts."""
    pages, unread, warnings = read_files(files, options.site, extractor)
    problems = [page.error for page in unread] + warnings
    if options.strict and problems:
        raise PageError(f"{problems[0]}; nothing was written, because of --strict.")
    sources: dict[str, Source] = {page.name: page for page in pages}
    sources |= {page.name: page for page in unread}
    rows = extractor.extract(
        [sources[str(path)] for path in files], records=options.records, min_confidence=options.min_confidence
    )
    cells = [cell for row in rows if not row.error for cell in row.fields.values()]
    text = as_csv(rows, extractor.fields_, False, extractor.kinds_, options.schema) if options.csv else as_lines(rows)
    n_records, n_empty = sum(not row.error for row in rows), sum(cell is None for cell in cells)
    return text, Outcome(n_records, len(pages), len(cells), n_empty, len(unread), problems)


def extract_stream(
    model: Path | None, files: Sequence[Path], out: Path | IO[str], options: Options, jobs: int = 1,
    progress: Progress = quiet,
) -> Outcome:  # fmt: skip
    """Extract records from many pages and write them to a file.

    Parameters
    ----------
    model : Path or None
        Model file; None with ``options.schema`` to use schema.org data alone.
    files : sequence of Path
        Pages.
    out : Path or open file
        Output. An existing file is replaced, or completed if an earlier run with the same arguments was interrupted.
    options : Options
    jobs : int
        Number of processes. It does not change the output.
    progress : callable, optional
        Wraps the iterator over finished batches.

    Returns
    -------
    Outcome

    Raises
    ------
    PageError
        With ``options.strict``: a page could not be read without a warning.
    """
    if not options.strict:
        return _extract(model, files, out, options, jobs, progress)
    if not isinstance(out, Path):
        text = io.StringIO()
        total = _extract(model, files, text, options, jobs, progress)
        out.write(text.getvalue())
        return total
    partial = out.with_name(out.name + ".part")
    try:
        total = _extract(model, files, partial, options, jobs, progress)
    except PageError:
        for path in (partial, _progress_file(partial)):
            path.unlink(missing_ok=True)
        raise
    os.replace(partial, out)
    return total


def _extract(
    model: Path | None, files: Sequence[Path], out: Path | IO[str], options: Options, jobs: int, progress: Progress
) -> Outcome:
    file_batches = batches(files, options.batch)
    extractor = options.load(model)
    head = as_csv([], extractor.fields_, kinds=extractor.kinds_, sources=options.schema) if options.csv else ""
    head = BOM * options.excel + head
    if not isinstance(out, Path):
        out.write(head)
        total = NOTHING
        for text, batch in progress(_results(model, extractor, file_batches, options, jobs), "batches"):
            out.write(text)
            out.flush()
            total = _add(total, batch)
        return total
    progress_file = _progress_file(out)
    fingerprint = _fingerprint(model, files, options)
    n_done, total = _resume(progress_file, fingerprint, out)
    if not n_done:
        progress_file.unlink(missing_ok=True)
        write_whole(out, lambda file: file.write(head.encode()))
    with open(out, "r+b") as file:
        file.seek(0, os.SEEK_END)
        rest = _results(model, extractor, file_batches[n_done:], options, jobs)
        for k, (text, batch) in enumerate(progress(rest, "batches"), n_done + 1):
            file.write(text.encode())
            file.flush()
            total = _add(total, batch)
            state = {"mark": fingerprint, "batches": k, "bytes": file.tell(), "counts": list(total[:5])}
            data = json.dumps(state).encode()
            write_whole(progress_file, lambda side, data=data: side.write(data))  # type: ignore[misc]
    progress_file.unlink(missing_ok=True)
    return total._replace(resumed=sum(map(len, file_batches[:n_done])))


def _results(
    model: Path | None, extractor: Extractor | SchemaExtractor, file_batches: Sequence[Sequence[Path]],
    options: Options, jobs: int,
) -> Iterator[tuple[str, Outcome]]:  # fmt: skip
    """Yield the rows and counts of each batch, in the order of the batches."""
    if jobs <= 1 or len(file_batches) < 2:
        yield from (extract_batch(extractor, files, options) for files in file_batches)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(file_batches)), _start_worker, (model, options)) as pool:
        yield from pool.imap(_extract_in_worker, file_batches)


def _progress_file(out: Path) -> Path:
    return out.with_name(out.name + ".progress")


_worker: dict[str, Any] = {}
"""Extractor and options of a worker process."""


def _start_worker(model: Path | None, options: Options) -> None:
    _worker["extractor"], _worker["options"] = options.load(model), options


def _extract_in_worker(files: Sequence[Path]) -> tuple[str, Outcome]:
    return extract_batch(_worker["extractor"], files, _worker["options"])


def _add(total: Outcome, batch: Outcome) -> Outcome:
    return Outcome(*map(add, total, batch))


def _fingerprint(model: Path | None, files: Sequence[Path], options: Options) -> str:
    """Return a hash of the model, the options, and the names, sizes and modification times of the files."""
    fingerprint = hashlib.sha256(model.read_bytes() if model is not None else b"")
    fingerprint.update(json.dumps(options).encode())
    for path in files:
        try:
            status = path.stat()
            line = f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n"
        except OSError:
            line = f"{path}\0\n"
        fingerprint.update(line.encode("utf-8", "surrogateescape"))
    return fingerprint.hexdigest()


def _resume(progress_file: Path, fingerprint: str, out: Path) -> tuple[int, Outcome]:
    """Return the number of batches that an earlier run has finished, and its counts."""
    try:
        state = json.loads(progress_file.read_bytes())
        n_done, size = int(state["batches"]), int(state["bytes"])
        n_records, n_pages, n_cells, n_empty, n_unread = (int(n) for n in state["counts"])
        if state["mark"] != fingerprint or out.stat().st_size < size:
            return 0, NOTHING
    except (OSError, ValueError, KeyError, TypeError):
        return 0, NOTHING
    os.truncate(out, size)
    return n_done, Outcome(n_records, n_pages, n_cells, n_empty, n_unread, [])

"""``maxendnet web label``: from what is on the command line to a running server."""

from __future__ import annotations

import errno
import shutil
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from maxendnet.web.fields.labels import LabelError, check_field
from maxendnet.web.labelling.label_file import LabelFile
from maxendnet.web.labelling.server import LabelServer
from maxendnet.web.labelling.work import Work
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.folder import labelled_folder, project_fields
from maxendnet.web.pages.page import PageError
from maxendnet.web.progress import Progress, quiet

MODEL = ".medn"
PORTS = 20  # that are tried, beginning with the one that was asked for


def prepare(
    name: Path, folder: Path, *, fields: Sequence[str] = (), labels: Path | None = None, records: str = "one",
    new_sites: bool = False, most: int | None = None, progress: Progress = quiet,
) -> tuple[Work, list[str]]:  # fmt: skip
    """Read pages, labels and model; the rest as for the command.

    Returns
    -------
    work, notes : Work, list of str

    Raises
    ------
    LabelError, PageError, ModelFileError, OSError
    """
    project = name if name.is_dir() else None
    if project is not None:
        model = project / f"{project.resolve().name}{MODEL}"
    else:
        model = name if name.suffix == MODEL else name.with_name(name.name + MODEL)
    settings = Extractor.load(model) if model.exists() else None
    file = LabelFile(labels or (project or model.parent) / "labels.jsonl")
    if not file.path.parent.is_dir():
        raise LabelError(f"there is no folder {file.path.parent} for the labels; make it first, or give another name.")
    given = file.read()
    wanted = list(dict.fromkeys(check_field(field, "--fields") for field in fields))
    wanted = wanted or project_fields(file.path.parent) or (settings.fields_ if settings is not None else [])
    if not wanted and not any(x.fields for x in given):
        raise LabelError("which fields? Give them, for instance with --fields name,price.")
    notes = []
    if settings is not None and (settings.layout_ or not any(x.done for x in given)):
        # what is learned here is learned from these labels alone, and must not take the place of a model that knew more
        old = model.with_name(model.name + ".old")
        shutil.copy2(model, old)
        notes.append(f"{file.path} has not made {model}, which is kept as {old.name}")
    if settings is not None and settings.layout_:
        settings = None  # it saw pages drawn by a browser, and here they are not
    if new_sites:
        settings = Extractor(features="new")
    root = folder.resolve()
    there = [x for x in given if _is_inside(root, x.page)]
    pages, _, problems = labelled_folder(folder, there, most=most, progress=progress)
    notes += problems
    notes += [f"{file.path}: {x.page} is not in {folder}; its line is kept" for x in given if x not in there]
    inside = [page for page in pages if _is_inside(root, page.name)]
    if len(inside) < len(pages):
        notes.append(f"{len(pages) - len(inside)} pages are links that lead out of {folder}, and are left out")
    if not inside:
        raise PageError(f"none of the pages in {folder} could be read: {'; '.join(notes[:3])}")
    return Work(root, inside, wanted, file, model, settings, records), notes


def _is_inside(root: Path, name: str) -> bool:
    return (root / name).resolve().is_relative_to(root) and (root / name).is_file()


def serve(
    work: Work, port: int = 0, open_browser: bool = False, echo: Callable[[str], object] = print,
    ready: Callable[[LabelServer], object] = lambda server: None,
) -> None:  # fmt: skip
    """Serve until Ctrl-C."""
    with _server(work, port, echo) as server:
        echo(f"{len(work.pages)} pages, {len(work.done)} of them done. Labels go to {work.file.path}.")
        echo(f"Open {server.address} (Ctrl-C ends; nothing is lost).")
        work.start()
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        ready(server)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            echo("")
        finally:
            work.stop()
    n = len(work.done)
    if work.model is not None and work.model.exists() and n:
        echo(f"{n} pages are done. Now: maxendnet web extract {work.model} {work.root} -o records.csv")


def _server(work: Work, port: int, echo: Callable[[str], object]) -> LabelServer:
    """A server at a port, or, if somebody else has it, at the next free one."""
    for other in range(port, min(port + PORTS, 65536)) if port else (0,):
        try:
            server = LabelServer(work, other)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        if other != port:
            echo(f"Port {port} is in use; port {other} is taken instead.")
        return server
    raise OSError(errno.EADDRINUSE, f"ports {port} to {port + PORTS - 1} are in use; give another with --port")

"""``maxendnet web label``: read pages, labels and model, and run the server."""

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
from maxendnet.web.labelling.session import LabellingSession
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.pages.folder import labelled_folder, project_fields
from maxendnet.web.pages.page import PageError
from maxendnet.web.progress import Progress, quiet

MODEL = ".medn"
LABELS = "labels.jsonl"
MAX_PORTS = 20  # number of ports to try, beginning with the requested one


def prepare(
    name: Path, folder: Path, *, fields: Sequence[str] = (), labels: Path | None = None, records: str = "one",
    new_sites: bool = False, most: int | None = None, progress: Progress = quiet,
) -> tuple[LabellingSession, list[str]]:  # fmt: skip
    """Read pages, labels and model, and return a labelling session.

    Parameters
    ----------
    name : Path
        Project folder, model file, or name of a new model.
    folder : Path
        Folder of pages.
    fields : sequence of str
        Fields; by default those of the project or model.
    labels : Path, optional
        Label file; by default ``labels.jsonl`` in the project, or ``NAME.labels.jsonl`` next to the model.
    records : {"one", "many", "auto"}
    new_sites : bool
        Whether to use the features for unlabelled sites.
    most : int, optional
        Maximum number of pages to read.
    progress : callable, optional

    Returns
    -------
    session : LabellingSession
    notes : list of str
        Messages for the user.

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
    file = LabelFile(labels or (project / LABELS if project is not None else model.with_suffix(f".{LABELS}")))
    if not file.path.parent.is_dir():
        raise LabelError(
            f"the folder {file.path.parent} of the labels does not exist; create it, or choose another name."
        )
    given = file.read()
    field_names = list(dict.fromkeys(check_field(field, "--fields") for field in fields))
    field_names = field_names or project_fields(file.path.parent) or (settings.fields_ if settings is not None else [])
    if not field_names and not any(x.fields for x in given):
        raise LabelError("there are no fields; name them, for example with --fields name,price.")
    notes = []
    shared = model.parent / LABELS
    if labels is None and project is None and shared.exists() and not file.path.exists():
        notes.append(f"labels are saved in {file.path}; to continue with {shared}, use --labels {shared}")
    if settings is not None and (settings.layout_ or not any(x.done for x in given)):
        # training uses only the labels in this file, and must not overwrite a model trained on other labels
        backup = model.with_name(model.name + ".old")
        shutil.copy2(model, backup)
        notes.append(f"{model} was not trained on {file.path}; it is saved as {backup.name}")
    if settings is not None and settings.layout_:
        settings = None  # it was trained on rendered pages, but the labelling tool does not render pages
    if new_sites:
        settings = Extractor(features="new")
    root = folder.resolve()
    present = [x for x in given if _is_inside(root, x.page)]
    pages, _, problems = labelled_folder(folder, present, most=most, progress=progress)
    notes += problems
    notes += [f"{file.path}: {x.page} is not in {folder}; its labels are preserved" for x in given if x not in present]
    inside = [page for page in pages if _is_inside(root, page.name)]
    if len(inside) < len(pages):
        notes.append(f"{len(pages) - len(inside)} pages are links to files outside {folder} and are skipped")
    if not inside:
        raise PageError(f"none of the pages in {folder} could be read: {'; '.join(notes[:3])}")
    return LabellingSession(root, inside, field_names, file, model, settings, records), notes


def _is_inside(root: Path, name: str) -> bool:
    return (root / name).resolve().is_relative_to(root) and (root / name).is_file()


def serve(
    session: LabellingSession, port: int = 0, open_browser: bool = False, echo: Callable[[str], object] = print,
    ready: Callable[[LabelServer], object] = lambda server: None,
) -> None:  # fmt: skip
    """Serve the labelling page until Ctrl-C.

    Parameters
    ----------
    session : LabellingSession
    port : int
        Port of the server; 0 for a free port.
    open_browser : bool
        Whether to open the address in the default browser.
    echo : callable
        Prints a line.
    ready : callable
        Called with the server before it begins to serve.
    """
    with _server(session, port, echo) as server:
        try:
            n_done = len(session.done)
            echo(f"{len(session.pages)} pages, {n_done} of them done. Labels are saved in {session.file.path}.")
            echo(f"Open {server.address} in a browser. Stop with Ctrl-C; all labels are already saved.")
            session.start()
            if open_browser:
                threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
            ready(server)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            echo("")
        finally:
            session.stop()
    n = len(session.done)
    if session.model is not None and session.model.exists() and n:
        echo(f"{n} pages are done. Next: maxendnet web extract {session.model} {session.root} -o records.csv")


def _server(session: LabellingSession, port: int, echo: Callable[[str], object]) -> LabelServer:
    """Return a server at the requested port, or at the next free port."""
    for candidate in range(port, min(port + MAX_PORTS, 65536)) if port else (0,):
        try:
            server = LabelServer(session, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            continue
        if candidate != port:
            echo(f"Port {port} is in use; using port {candidate} instead.")
        return server
    raise OSError(errno.EADDRINUSE, f"ports {port} to {port + MAX_PORTS - 1} are in use; choose another with --port")

"""Labelling session: the pages, their labels on the disk, and the predictions of the current model."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.web.fields.labels import LabelError, PageLabels, field_order, labels_on_page
from maxendnet.web.fields.spans import Span, is_part, span_text, whole
from maxendnet.web.labelling.frame import make_frame
from maxendnet.web.labelling.label_file import LabelFile
from maxendnet.web.labelling.learner import Answers, Kinds, Learner
from maxendnet.web.labelling.order import is_certain, next_page
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import Record
from maxendnet.web.pages.page import Page
from maxendnet.web.progress import Progress
from maxendnet.web.views.view import View, value_of

MIN_CONFIDENCE = 0.2  # minimum confidence of suggestions, the default of `maxendnet web extract`
MAX_LABELS = 5_000  # maximum number of labels on a page
MAX_TEXT = 20_000  # characters of a text sent to the browser
MAX_VIEWS = 50  # maximum number of cached views
START_DELAY = 3.0  # seconds until training begins if no page was opened
STOP_TIMEOUT = 5.0  # seconds to wait for the training thread to end
PICTURE_WORDS = ("image", "picture", "photo")


class Refused(ValueError):
    """Raised for a change that cannot be made; the message is shown to the user."""


class Stale(Refused):
    """Raised if the labels of a page have changed since the user opened it."""


class Interrupted(Exception):
    """Raised to stop training because the labels have changed or the session ends."""


class LabellingSession:
    """Labelling session with training in a background thread.

    All methods are thread-safe.

    Parameters
    ----------
    root : Path
        Folder of pages. The names of pages are paths relative to it.
    pages : sequence of Page
    fields : sequence of str
    labels : LabelFile
    model : Path, optional
        File to which each new model is written.
    settings : Extractor, optional
        Extractor with the parameters of the model. If it is fitted, it makes the first suggestions.
    records : {"one", "many", "auto"}

    Attributes
    ----------
    labels : dict of int to PageLabels
        Labels of pages, done or in progress.
    fields : list of str
    answers : Answers or None
        Predictions of the current model.
    version : int
        Counter that increases when labels or the model change.
    doing : str
        Current activity of the background thread; empty when idle.
    problem : str
        Error or warning of the last training; empty if there was none.

    Examples
    --------
    >>> import tempfile
    >>> from maxendnet.web.tool.toy import toy_pages
    >>> toy = toy_pages(n_sites=2, n_pages=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     toy.write(folder)
    ...     labels = LabelFile(Path(folder, "labels.jsonl"))
    ...     session = LabellingSession(Path(folder), toy.pages, ["name", "price"], labels)
    ...     first = session.next()
    ...     session.save(first, toy.pages[first].sha, [], done=True, none=True)
    ...     second = session.next()
    ...     toy.pages[first].site != toy.pages[second].site
    True
    """

    version: int
    doing: str
    problem: str

    def __init__(
        self, root: Path, pages: Sequence[Page], fields: Sequence[str], labels: LabelFile, model: Path | None = None,
        settings: Extractor | None = None, records: str = "one",
    ) -> None:  # fmt: skip
        self.root: Path = root.resolve()
        self.pages: list[Page] = list(pages)
        self.file = labels
        self.model = model
        self.number: dict[str, int] = {page.name: i for i, page in enumerate(self.pages)}
        self.shuffled: list[int] = np.random.default_rng(0).permutation(len(self.pages)).tolist()
        self.learner: Learner = Learner(self.pages, settings or Extractor(), records)
        self._sha = [page.sha for page in self.pages]
        self._leaves: dict[int, View] = {}
        self._lock = threading.Condition()
        self._first_fields = list(fields)
        self.answers: Answers | None = None
        self.version = 0
        self.doing = ""
        self.problem = ""
        self._changed = True  # whether labels have changed since the last training
        self._opening = 0  # number of pages that are being opened
        self._opened = False  # whether a page has been opened
        self._stop = False
        self._thread: threading.Thread | None = None
        self._set_labels(self.file.read())

    # ---- labels -------------------------------------------------------------------------------------------------

    def _set_labels(self, lines: Sequence[PageLabels]) -> None:
        self.labels: dict[int, PageLabels] = {self.number[x.page]: x for x in lines if x.page in self.number}
        self.fields: list[str] = field_order(lines, self._first_fields)

    @property
    def done(self) -> set[int]:
        """Pages that are completely labelled."""
        return {i for i, labels in self.labels.items() if labels.done}

    def stamp(self, i: int) -> str:
        """Return a hash of the labels of a page, used to detect changes by other programs or tabs."""
        given = self.labels.get(i)
        if given is None:
            return ""
        content = repr((sorted(map(str, given.labels)), sorted(given.values.items()), given.done))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def forget(self, i: int, stamp: str | None = None) -> None:
        """Remove all labels of a page.

        Parameters
        ----------
        i : int
            Page.
        stamp : str, optional
            Expected hash of the labels, see `stamp`.

        Raises
        ------
        Stale
            The labels have another hash.
        LabelError, OSError
        """
        self._change(i, stamp, lambda: self.file.remove(self.pages[i].name))

    def save(
        self, i: int, sha: str, labels: Sequence[tuple[int | Span, str]], done: bool, stamp: str | None = None,
        none: bool = False,
    ) -> None:  # fmt: skip
        """Save the labels of a page. Pages that are done are used for training.

        Parameters
        ----------
        i : int
            Page.
        sha : str
            Checksum of the page.
        labels : sequence of (int or Span, str)
            Labelled nodes or spans, and their fields.
        done : bool
            Whether the page is completely labelled.
        stamp : str, optional
            Expected hash of the labels on the disk, see `stamp`.
        none : bool
            Confirms that the page contains none of the fields. Required to save a page without labels as done.

        Raises
        ------
        Stale
            The labels on the disk have another hash.
        Refused
            The checksum differs, a text or field does not exist, or there are no labels and ``none`` is False.
        LabelError, OSError
            The file cannot be read or written; nothing is changed.
        """
        if sha != self._sha[i]:
            raise Refused("This page differs from the one that the server has read; reload it.")
        view = self.view(i)
        page = self.pages[i]
        pairs: dict[tuple[Span, str], None] = {}
        for place, name in labels:
            span = place if isinstance(place, Span) else _whole(view, place)
            if span is None or not span_text(view, span):
                node = place if isinstance(place, int) else list(place)
                raise Refused(f"Node {node} of {page.name} is not a visible text or image.")
            if name not in self.fields:
                raise Refused(f"There is no field {name!r}; the fields are {', '.join(self.fields)}.")
            pairs[span, name] = None
        if done and not pairs and not none:
            raise Refused(f"{page.name} has no labels; label a field, or confirm that the page has none of the fields.")
        written = [[_place(view, span), name] for span, name in sorted(pairs)]
        row: dict[str, Any] = {"page": page.name, "site": page.site, "labels": written, "sha": sha}
        ranges = self._ranges(i, self.labels.get(i), self.answers)
        if len(ranges) > 1:
            row["records"] = [list(nodes) for nodes in ranges]
        self._change(i, stamp, lambda: self.file.put({**row, "done": done}))

    def _change(self, i: int, stamp: str | None, write: Callable[[], None]) -> None:
        """Change the label file with ``write``, and train again if the page was done before or is done now."""
        with self._lock:
            self._set_labels(self.file.read())
            if stamp is not None and stamp != self.stamp(i):
                raise Stale("This page was changed elsewhere, perhaps in another tab. Nothing was overwritten.")
            was_done = i in self.done
            write()
            self._set_labels(self.file.read())
            self.version += 1
            if was_done or i in self.done:
                self._changed = True
                self._lock.notify_all()

    def view(self, i: int) -> View:
        """Return the view of a page with texts, images and structured data."""
        with self._lock:
            if i not in self._leaves:
                if len(self._leaves) > MAX_VIEWS:
                    self._leaves.clear()
                self._leaves[i] = View(self.pages[i], images=True, data=True)
            return self._leaves[i]

    # ---- pages --------------------------------------------------------------------------------------------------

    def next(self, but: int | None = None) -> int | None:
        """Return the next page to label, preferably not ``but``, or None if all pages are done."""
        with self._lock:
            sites = [page.site for page in self.pages]
            certainty = self.answers.certainty if self.answers is not None else [0.0] * len(sites)
            done = self.done
            other_page = None if but is None else next_page(sites, done | {but}, certainty, self.shuffled)
            return next_page(sites, done, certainty, self.shuffled) if other_page is None else other_page

    def state(self) -> dict[str, Any]:
        """Return the progress and the list of pages as JSON values."""
        with self._lock:
            done = self.done
            waiting = [i for i in range(len(self.pages)) if i not in done]
            answers = self.answers
            # confidences mean nothing before they are calibrated on held-out pages
            calibrated = answers is not None and answers.is_calibrated
            records = answers.records if answers is not None and calibrated else []
            certain = sum(is_certain(_confidences(records[i])) for i in waiting) if calibrated else 0
            return {
                "version": self.version,
                "fields": self.fields,
                "doing": self.doing,
                "problem": self.problem,
                "done": len(done),
                "total": len(self.pages),
                "certain": certain / len(waiting) if waiting else 1.0,
                "has_model": answers is not None,
                "calibrated": calibrated,
                "pages": [
                    {
                        "name": page.name, "site": page.site, "confidence": _confidence(answers, i),
                        "state": "done" if i in done else "begun" if i in self.labels else "waiting",
                    }
                    for i, page in enumerate(self.pages)
                ],
            }  # fmt: skip

    def brief(self) -> dict[str, Any]:
        """Return the values that change during training: version, activity and problem."""
        with self._lock:
            return {"version": self.version, "doing": self.doing, "problem": self.problem}

    def show(self, i: int, drawn: bool = True) -> dict[str, Any]:
        """Return a page as JSON; with ``drawn``, include its frame and leaves."""
        with self._training_paused(), ThreadPoolExecutor(1) as executor:
            # another process parses the page while this thread computes its leaves
            path = (self.root / self.pages[i].name).resolve()
            frame = executor.submit(make_frame, self.pages[i], path, self.root) if drawn else None
            content = self._show(i)
            if frame is not None:
                view = self.view(i)
                content["frame"] = frame.result()._asdict()
                content["leaves"] = [
                    [t, value_of(view, k)[:MAX_TEXT], view.runs.before[k]] for k, t in enumerate(view.leaves)
                ]
            return content

    @contextmanager
    def _training_paused(self) -> Iterator[None]:
        """Pause training while the user waits for a page."""
        with self._lock:
            self._opening += 1
        try:
            yield
        finally:
            with self._lock:
                self._opening -= 1
                self._opened = True
                self._lock.notify_all()

    def _show(self, i: int) -> dict[str, Any]:
        """Return the content of a page without frame and leaves."""
        view = self.view(i)
        with self._lock:
            given, answers, version, stamp = self.labels.get(i), self.answers, self.version, self.stamp(i)
        problems: list[str] = []
        confidence: dict[str, float] = {}
        pairs: list[tuple[Span, str]] = []
        source = "nothing"
        if answers is not None:
            for name, cell in (item for record in answers.records[i] for item in record.fields.items()):
                span = None if cell is None else Span(*cell.span) if cell.span is not None else _whole(view, cell.node)
                if cell is not None and span is not None:
                    pairs.append((span, name))
                    place = json.dumps(_place(view, span), separators=(",", ":"))
                    confidence[f"{place} {name}"] = round(cell.confidence, 3)
            source = "model" if pairs else "nothing"
        if given is not None:
            try:
                pairs, unmatched = labels_on_page(view, given)
                problems = [str(label) for label in unmatched]
                source = "done" if given.done else "begun"
            except LabelError as error:
                problems = [str(error)]
        return {
            "n": i,
            "name": self.pages[i].name,
            "site": self.pages[i].site,
            "title": self.pages[i].title,
            "sha": self._sha[i],
            "version": version,
            "stamp": stamp,
            "source": source,
            "labels": [[_place(view, span), name] for span, name in pairs],
            "confidence": confidence,
            "records": self._ranges(i, given, answers),
            "problems": [*self.pages[i].warnings, *problems],
        }

    def _ranges(self, i: int, given: PageLabels | None, answers: Answers | None) -> list[tuple[int, ...]]:
        if given is not None and given.records:
            return given.records
        return answers.ranges[i] if answers is not None else []

    # ---- training -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start training in the background."""
        thread = threading.Thread(target=self._run, name="training", daemon=True)
        thread.start()  # Ctrl-C may arrive here, and `stop` can only wait for a thread that runs
        self._thread = thread

    def stop(self) -> None:
        """Stop training, and wait at most `STOP_TIMEOUT` seconds for the thread to end."""
        with self._lock:
            self._stop = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT)

    def _run(self) -> None:
        settings = self.learner.settings
        with self._lock:  # let the server send the first page before training begins
            self._lock.wait_for(lambda: self._opened or self._stop, timeout=START_DELAY)
        try:
            self._report("reading pages")
            is_fitted = hasattr(settings, "estimator_")
            # guess from field names whether images are needed, so that features need not change with the first image
            self.learner.pictures = any(word in name.lower() for name in self.fields for word in PICTURE_WORDS)
            kinds = Kinds.of(settings) if is_fitted else Kinds(self.learner.pictures)
            progress = self._interruptible(stop_only=True)
            self.learner.prepare(kinds, progress)
            if is_fitted:
                self._publish(self.learner.answer(settings, MIN_CONFIDENCE, progress), save=False)
        except Interrupted:
            return
        while True:
            with self._lock:
                self.doing = ""
                while not (self._changed or self._stop):
                    self._lock.wait()
                if self._stop:
                    return
                self._changed, self.doing = False, "training"
                labels = [x if x is not None and x.done else None for x in map(self.labels.get, range(len(self.pages)))]
                fields = list(self.fields)
            try:
                if any(labels):
                    # train a quick model without confidences first, then one with confidences
                    for calibrate in (False, True):
                        self._train(labels, fields, calibrate)
            except Interrupted:
                continue
            except Exception as error:  # the thread must survive, and the user must see the message
                message = str(error) if isinstance(error, LabelError) else f"{type(error).__name__}: {error}"
                self._report("", message)

    def _train(self, labels: Sequence[PageLabels | None], fields: Sequence[str], calibrate: bool) -> None:
        self._report("training" if not calibrate else "calibrating confidences")
        progress = self._interruptible(
            stop_only=not calibrate
        )  # do not interrupt the first model, which is quick and for which the user waits
        extractor = self.learner.fit(labels, fields, calibrate, progress)
        self._report(self.doing, "".join(extractor.problems_[:1]))
        if calibrate and not any(curve.n_answers for curve in extractor.calibrations_.values()):
            return  # there are too few pages for calibration
        self._publish(self.learner.answer(extractor, MIN_CONFIDENCE, progress), save=True)

    def _publish(self, answers: Answers, save: bool) -> None:
        with self._lock:
            self.answers = answers
            self.version += 1
        if save and self.model is not None:
            answers.extractor.save(self.model)

    def _report(self, doing: str, problem: str = "") -> None:
        with self._lock:
            self.doing, self.problem = doing, problem

    def _interruptible(self, stop_only: bool) -> Progress:
        """Return a progress function that raises `Interrupted` if labels change or the session ends.

        With ``stop_only``, it ignores changed labels.
        """

        def progress(items: Iterable[Any], _: str) -> Iterator[Any]:
            for item in items:
                with self._lock:
                    self._lock.wait_for(lambda: self._stop or not self._opening)
                if self._stop or (self._changed and not stop_only):
                    raise Interrupted
                yield item

        return progress


def _whole(view: View, node: int) -> Span | None:
    """Return the span of a whole node, or None if the node is not a leaf."""
    return whole(view, view.leaf_of[node]) if node in view.leaf_of else None


def _place(view: View, span: Span) -> int | list[int | str]:
    """Return a span as a JSON value: a node number if it is a whole leaf, otherwise a list of four numbers."""
    return span.to_json() if is_part(view, span) else span.first


def _confidences(records: Sequence[Record]) -> list[list[float]]:
    """Return the confidence of each cell of each record; 0 for empty cells."""
    return [[0.0 if cell is None else cell.confidence for cell in record.fields.values()] for record in records]


def _confidence(answers: Answers | None, i: int) -> float:
    """Return the mean confidence of the non-empty cells of a page; in a listing, that of its least certain record."""
    records = _confidences(answers.records[i]) if answers is not None else []
    means = [sum(record) / max(1, sum(c > 0 for c in record)) for record in records]
    return round(min(means, default=0.0), 3)

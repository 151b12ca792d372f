"""The work of labelling: pages, their labels on the disk, what the model says, and which page is next."""

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
from maxendnet.web.views.view import View, value_of

LEAST = 0.2  # confidence below which nothing is suggested; the default of `maxendnet web extract`
MOST_LABELS = 5_000
LONGEST_SHOWN = 20_000  # letters of a text
PATIENCE = 3.0  # seconds until learning begins before a page was opened
PICTURE_WORDS = ("image", "picture", "photo")


class Refused(ValueError):
    """A change that cannot be made; the message is for the person who labels."""


class Stale(Refused):
    """The labels of a page are others than those that were seen."""


class Newer(Exception):
    """There are newer labels than those that a model is being made of."""


class Work:
    """Everything behind the page to work on; safe to use from several threads.

    Parameters
    ----------
    root : Path
        Folder of the pages; their names are paths in it.
    pages : sequence of Page
    fields : sequence of str
    labels : LabelFile
    model : Path, optional
        Where every new model is written.
    settings : Extractor, optional
        How to learn; a fitted one is asked until there is a newer.
    records : {"one", "many", "auto"}
    random_state : int
        Of the order of pages.

    Examples
    --------
    >>> import tempfile
    >>> from maxendnet.web.tool.toy import toy_pages
    >>> toy = toy_pages(n_sites=2, n_pages=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     toy.write(folder)
    ...     work = Work(Path(folder), toy.pages, ["name", "price"], LabelFile(Path(folder, "labels.jsonl")))
    ...     first = work.next()
    ...     work.save(first, toy.pages[first].sha, [], done=True, none=True)
    ...     second = work.next()
    ...     toy.pages[first].site != toy.pages[second].site
    True
    """

    def __init__(
        self, root: Path, pages: Sequence[Page], fields: Sequence[str], labels: LabelFile, model: Path | None = None,
        settings: Extractor | None = None, records: str = "one", random_state: int = 0,
    ) -> None:  # fmt: skip
        self.root = root.resolve()
        self.pages = list(pages)
        self.file = labels
        self.model = model
        self.number = {page.name: i for i, page in enumerate(self.pages)}
        self.shuffled: list[int] = np.random.default_rng(random_state).permutation(len(self.pages)).tolist()
        self.learner = Learner(self.pages, settings or Extractor(), records)
        self._sha = [page.sha for page in self.pages]
        self._leaves: dict[int, View] = {}
        self._lock = threading.Condition()
        self._wanted_fields = list(fields)
        self.answers: Answers | None = None
        self.version = 0  # of the labels and the model: another number, another state
        self.doing = ""  # what is done in the background, in a word
        self.problem = ""
        self._changed = True  # labels that no model knows
        self._opening = 0  # pages that somebody waits for
        self._opened = False  # whether one has been sent
        self._stop = False
        self._thread: threading.Thread | None = None
        self._take(self.file.read())

    # ---- labels -------------------------------------------------------------------------------------------------

    def _take(self, read: Sequence[PageLabels]) -> None:
        self.labels = {self.number[x.page]: x for x in read if x.page in self.number}
        self.fields = field_order(read, self._wanted_fields)

    @property
    def done(self) -> set[int]:
        return {i for i, labels in self.labels.items() if labels.done}

    def stamp(self, i: int) -> str:
        """Tells whether the labels of a page are still those that somebody has seen."""
        given = self.labels.get(i)
        if given is None:
            return ""
        seen = repr((sorted(map(str, given.labels)), sorted(given.values.items()), given.done))
        return hashlib.sha256(seen.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def forget(self, i: int, stamp: str | None = None) -> None:
        """Take back all labels of a page: its line is removed.

        Raises
        ------
        Stale
            They are not those of the stamp.
        LabelError, OSError
        """
        self._change(i, stamp, lambda: self.file.remove(self.pages[i].name))

    def save(
        self, i: int, sha: str, labels: Sequence[tuple[int | Span, str]], done: bool, stamp: str | None = None,
        none: bool = False,
    ) -> None:  # fmt: skip
        """Write the labels of a page, nodes or stretches of text; when it is done, the model learns from it.

        With ``stamp``, only if the labels on the disk are those that it was made of. A page without labels can only be
        done with ``none``: the person has said that it has none of the fields.

        Raises
        ------
        Stale
            The labels were changed in the meantime.
        Refused
            Another page, no such text, no such field, or no label and not ``none``.
        LabelError, OSError
            The file cannot be read or written; nothing was changed.
        """
        if sha != self._sha[i]:
            raise Refused("This is not the page that the server has read; load it again.")
        view = self.view(i)
        page = self.pages[i]
        pairs: dict[tuple[Span, str], None] = {}
        for place, name in labels:
            span = place if isinstance(place, Span) else _whole(view, place)
            if span is None or not span_text(view, span):
                node = place if isinstance(place, int) else list(place)
                raise Refused(f"Node {node} of {page.name} is no visible text or image.")
            if name not in self.fields:
                raise Refused(f"There is no field {name!r}; there are {', '.join(self.fields)}.")
            pairs[span, name] = None
        if done and not pairs and not none:
            raise Refused(f"Nothing is labelled on {page.name}: label a field, or say that it has none of them.")
        written = [[_spot(view, span), name] for span, name in sorted(pairs)]
        row: dict[str, Any] = {"page": page.name, "site": page.site, "labels": written, "sha": sha}
        ranges = self._ranges(i, self.labels.get(i), self.answers)
        if len(ranges) > 1:
            row["records"] = [list(one) for one in ranges]
        self._change(i, stamp, lambda: self.file.put({**row, "done": done}))

    def _change(self, i: int, stamp: str | None, write: Callable[[], None]) -> None:
        """Change the labels of a page on the disk, and learn again if the page was or is done."""
        with self._lock:
            self._take(self.file.read())
            if stamp is not None and stamp != self.stamp(i):
                raise Stale("This page was changed elsewhere, in another tab perhaps. Nothing was overwritten.")
            was_done = i in self.done
            write()
            self._take(self.file.read())
            self.version += 1
            if was_done or i in self.done:
                self._changed = True
                self._lock.notify_all()

    def view(self, i: int) -> View:
        """Leaves of a page, images and values for programs too."""
        with self._lock:
            if i not in self._leaves:
                if len(self._leaves) > 50:
                    self._leaves.clear()
                self._leaves[i] = View(self.pages[i], images=True, data=True)
            return self._leaves[i]

    # ---- what is shown ------------------------------------------------------------------------------------------

    def next(self, but: int | None = None) -> int | None:
        """The page to ask for, another than ``but`` if there is one."""
        with self._lock:
            sites = [page.site for page in self.pages]
            certainty = self.answers.certainty if self.answers is not None else [0.0] * len(sites)
            done = self.done
            found = None if but is None else next_page(sites, done | {but}, certainty, self.shuffled)
            return next_page(sites, done, certainty, self.shuffled) if found is None else found

    def state(self) -> dict[str, Any]:
        """Progress and the list of pages."""
        with self._lock:
            done = self.done
            waiting = [i for i in range(len(self.pages)) if i not in done]
            answers = self.answers
            certain = sum(is_certain(_confidences(answers.records[i])) for i in waiting) if answers is not None else 0
            return {
                "version": self.version,
                "fields": self.fields,
                "doing": self.doing,
                "problem": self.problem,
                "done": len(done),
                "total": len(self.pages),
                "certain": certain / len(waiting) if waiting else 1.0,
                "has_model": answers is not None,
                "pages": [
                    {
                        "name": page.name, "site": page.site, "confidence": _mean(answers, i),
                        "state": "done" if i in done else "begun" if i in self.labels else "waiting",
                    }
                    for i, page in enumerate(self.pages)
                ],
            }  # fmt: skip

    def brief(self) -> dict[str, Any]:
        """The part of the state that changes while a model is made."""
        with self._lock:
            return {"version": self.version, "doing": self.doing, "problem": self.problem}

    def show(self, i: int, drawn: bool = True) -> dict[str, Any]:
        """A page: its labels or what the model suggests, its leaves, and (if wanted) what is to be drawn."""
        with self._learning_waits(), ThreadPoolExecutor(1) as beside:
            # the page is parsed in a process of its own: leaves are made in the meantime
            path = (self.root / self.pages[i].name).resolve()
            frame = beside.submit(make_frame, self.pages[i], path, self.root) if drawn else None
            shown = self._show(i)
            if frame is not None:
                view = self.view(i)
                shown["frame"] = frame.result()._asdict()
                shown["leaves"] = [
                    [t, value_of(view, k)[:LONGEST_SHOWN], view.runs.before[k]] for k, t in enumerate(view.leaves)
                ]
            return shown

    @contextmanager
    def _learning_waits(self) -> Iterator[None]:
        """Both would take twice as long at the same time, and only this one is waited for."""
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
        """All but what is drawn."""
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
                    spot = json.dumps(_spot(view, span), separators=(",", ":"))
                    confidence[f"{spot} {name}"] = round(cell.confidence, 3)
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
            "labels": [[_spot(view, span), name] for span, name in pairs],
            "confidence": confidence,
            "records": self._ranges(i, given, answers),
            "problems": [*self.pages[i].warnings, *problems],
        }

    def _ranges(self, i: int, given: PageLabels | None, answers: Answers | None) -> list[tuple[int, ...]]:
        if given is not None and given.records:
            return given.records
        return answers.ranges[i] if answers is not None else []

    # ---- learning -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to learn in the background."""
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Stop learning; what is on the disk stays."""
        with self._lock:
            self._stop = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        settings = self.learner.settings
        with self._lock:  # the first page is sent before anything is learned, if somebody opens it
            self._lock.wait_for(lambda: self._opened or self._stop, timeout=PATIENCE)
        try:
            self._say("reading pages")
            fitted = hasattr(settings, "estimator_")
            # by a guess, so that nobody waits when the first picture is labelled
            self.learner.pictures = any(word in name.lower() for name in self.fields for word in PICTURE_WORDS)
            kinds = Kinds(settings.images_, settings.data_) if fitted else Kinds(self.learner.pictures)
            self.learner.prepare(kinds, self._watch(stop_only=True))
            if fitted:
                self._publish(self.learner.answer(settings, LEAST, self._watch(stop_only=True)), save=False)
        except Newer:
            return
        while True:
            with self._lock:
                self.doing = ""
                while not (self._changed or self._stop):
                    self._lock.wait()
                if self._stop:
                    return
                self._changed, self.doing = False, "learning"
                labels = [x if x is not None and x.done else None for x in map(self.labels.get, range(len(self.pages)))]
                fields = list(self.fields)
            try:
                if any(labels):
                    # first a model without confidences, at once; then one with them, while the person looks
                    for calibrate in (False, True):
                        self._learn(labels, fields, calibrate)
            except Newer:
                continue
            except Exception as error:  # a thread that ends unheard would be worse
                self._say("", f"{type(error).__name__}: {error}" if not isinstance(error, LabelError) else str(error))

    def _learn(self, labels: Sequence[PageLabels | None], fields: Sequence[str], calibrate: bool) -> None:
        self._say("learning" if not calibrate else "learning how sure to be")
        watch = self._watch(stop_only=not calibrate)  # the first is quick, and somebody waits for it
        extractor = self.learner.fit(labels, fields, calibrate, watch)
        self._say(self.doing, "".join(extractor.problems_[:1]))
        if calibrate and not any(curve.n_answers for curve in extractor.calibrations_.values()):
            return  # too few pages to learn confidences from
        self._publish(self.learner.answer(extractor, LEAST, watch), save=True)

    def _publish(self, answers: Answers, save: bool) -> None:
        with self._lock:
            self.answers = answers
            self.version += 1
        if save and self.model is not None:
            answers.extractor.save(self.model)

    def _say(self, doing: str, problem: str = "") -> None:
        with self._lock:
            self.doing, self.problem = doing, problem

    def _watch(self, stop_only: bool = False) -> Any:
        """A progress function that gives up when there is something newer to learn, or nothing more to do."""

        def watched(items: Iterable[Any], _: str) -> Iterator[Any]:
            for item in items:
                with self._lock:
                    self._lock.wait_for(lambda: self._stop or not self._opening)
                if self._stop or (self._changed and not stop_only):
                    raise Newer
                yield item

        return watched


def _whole(view: View, node: int) -> Span | None:
    """All of a node; None if it is no leaf."""
    return whole(view, view.leaf_of[node]) if node in view.leaf_of else None


def _spot(view: View, span: Span) -> int | list[int]:
    """A place as the page to work on has it: a node, or where a text begins and ends."""
    return list(span) if is_part(view, span) else span.first


def _confidences(records: Sequence[Record]) -> list[float]:
    """Of every cell; 0 where nothing was found."""
    return [0.0 if cell is None else cell.confidence for record in records for cell in record.fields.values()]


def _mean(answers: Answers | None, i: int) -> float:
    """Mean confidence of what was found on a page."""
    found = [c for c in _confidences(answers.records[i]) if c] if answers is not None else []
    return round(sum(found) / len(found), 3) if found else 0.0

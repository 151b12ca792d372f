"""``labels.jsonl`` while it is worked on: one line is replaced at a time, and the file is always whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maxendnet.utils.atomic_write import write_whole
from maxendnet.web.fields.labels import PageLabels, parse_line, read_lines


class LabelFile:
    """The file is the truth: it is read before every change, so that lines written by others stay as they are.

    Parameters
    ----------
    path : Path
        Need not exist yet; its folder does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = LabelFile(Path(folder, "labels.jsonl"))
    ...     file.put({"page": "a.html", "labels": [[4, "price"]], "done": False})
    ...     file.put({"page": "a.html", "labels": [[6, "price"]], "done": True})
    ...     [(labels.labels, labels.done) for labels in file.read()]
    [([(6, 'price')], True)]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def read(self) -> list[PageLabels]:
        """All lines, also of pages in work.

        Raises
        ------
        LabelError
            A line cannot be used; it says which, and why.
        """
        return [labels for labels, _ in self._lines()]

    def put(self, row: dict[str, Any]) -> None:
        """Replace the line of a page, or add one. On return it is on the disk, whatever happens then.

        Raises
        ------
        LabelError
            The file was damaged in the meantime; it is left as it is.
        OSError
        """
        parse_line(row, "the new line")
        with self._lock:
            lines = {labels.page: text for labels, text in self._lines()}
            old = json.loads(lines[row["page"]]) if row["page"] in lines else {}
            # what others have noted about the page is kept; nodes take the place of values
            kept = {name: value for name, value in old.items() if name != "values"}
            lines[row["page"]] = json.dumps({**kept, **row}, ensure_ascii=False)
            self._write(lines.values())

    def remove(self, page: str) -> None:
        """Take out the line of a page, if there is one.

        Raises
        ------
        LabelError, OSError
        """
        with self._lock:
            lines = [text for labels, text in self._lines() if labels.page != page]
            if self.path.exists():
                self._write(lines)

    def _write(self, lines: Iterable[str]) -> None:
        text = "".join(line + "\n" for line in lines)
        write_whole(self.path, lambda file: file.write(text.encode()))

    def _lines(self) -> list[tuple[PageLabels, str]]:
        try:
            return read_lines(self.path)
        except FileNotFoundError:
            return []

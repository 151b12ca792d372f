"""Atomic updates of single lines of ``labels.jsonl``."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from maxendnet.utils.atomic_write import write_whole
from maxendnet.web.fields.labels import PageLabels, parse_line, read_lines


class LabelFile:
    """Label file that several programs may edit.

    The file is read again before each change, so that lines written by others are preserved.

    Parameters
    ----------
    path : Path
        The file need not exist yet, but its folder must.

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
        """Return the labels of all lines, including those of pages in progress.

        Raises
        ------
        LabelError
            A line cannot be used.
        """
        return [labels for labels, _ in self._lines()]

    def put(self, row: dict[str, Any]) -> None:
        """Replace the line of a page, or add it. The line is on the disk when the method returns.

        Parameters
        ----------
        row : dict
            JSON values of the line.

        Raises
        ------
        LabelError
            The file has been damaged; it is not changed.
        OSError
        """
        parse_line(row, "the new line")
        with self._lock:
            lines = {labels.page: text for labels, text in self._lines()}
            previous = json.loads(lines[row["page"]]) if row["page"] in lines else {}
            previous.pop("values", None)  # labels by node replace those by value; other entries are preserved
            lines[row["page"]] = json.dumps({**previous, **row}, ensure_ascii=False)
            self._write(lines.values())

    def remove(self, page: str) -> None:
        """Remove the line of a page, if there is one.

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

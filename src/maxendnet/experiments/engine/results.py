"""Raw results of an experiment: a table with one row per cell, in a text file."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from maxendnet.experiments.engine.experiment import Row, Settings
from maxendnet.utils.atomic_write import write_whole

DIGITS = 6
"""Significant digits of stored numbers."""
ABOUT = ("version", "code", "seed", "seconds")
"""First columns: version of the library, hash of the code of the experiment, seed, CPU time."""
SETTING = "settings."
"""Prefix of the columns of settings; all further columns are results."""


class Done(NamedTuple):
    """A finished cell; ``version`` and ``code`` say by what it was computed."""

    settings: Settings
    numbers: Row
    seconds: float
    version: str = ""
    code: str = ""
    seed: int = 0


def identity(settings: Settings, seed: int) -> str:
    """Return a text that identifies a cell within its experiment."""
    return json.dumps([seed, settings], sort_keys=True, allow_nan=False)


class ResultsTable:
    """Table of cells: tab-separated text, a header line, and JSON values.

    A row is appended as soon as its cell is finished. `arrange` sorts the rows and lists the cells without results:
    their version is empty. Truncated rows (a killed process, a full disk) are ignored, so their cells are computed
    again. Only one run may write to a table at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Done]:
        """Return the finished cells by identity; of rows of the same cell, the last one counts."""
        return {name: done for name, done in self._rows().items() if done.version}

    def add(self, done: Done) -> None:
        """Append a row; new columns rewrite the file."""
        header, fields = self._header(), _fields(done)
        if not set(fields) <= set(header):
            self._write([*self._rows().values(), done])
            return
        line = "\t".join(fields.get(name, "") for name in header)
        with open(self.path, "ab+") as file:
            file.seek(-1, os.SEEK_END)
            end_of_cut_row = "" if file.read(1) == b"\n" else "\t\n"  # a surplus field marks it as damaged
            file.write((end_of_cut_row + line + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def arrange(self, cells: Iterable[Settings], listed: Iterable[Settings], seed: int) -> None:
        """Sort the rows in the order of ``cells`` and drop others; list cells of ``listed`` without results."""
        rows = self._rows()
        for settings in listed:
            rows.setdefault(identity(settings, seed), Done(settings, {}, math.nan, seed=seed))
        order: dict[str, int] = {}
        for settings in cells:
            order.setdefault(identity(settings, 0), len(order))
        places = [(row.seed, order.get(identity(row.settings, 0)), row) for row in rows.values()]
        self._write(row for *_, row in sorted((p for p in places if p[1] is not None), key=lambda p: p[:2]))

    def _header(self) -> list[str]:
        if not self.path.exists():
            return []
        with open(self.path, encoding="utf-8") as file:
            return file.readline().rstrip("\n").split("\t")

    def _rows(self) -> dict[str, Done]:
        """Return all rows by identity, also those of cells without results."""
        rows: dict[str, Done] = {}
        if self.path.exists():
            # what follows the last line end is a row that was cut off
            header, *lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
            names = header.split("\t")
            for row in (_parsed(names, line) for line in lines):
                if row is not None:
                    rows[identity(row.settings, row.seed)] = row
        return rows

    def _write(self, rows: Iterable[Done]) -> None:
        table = [_fields(row) for row in rows]
        names = dict.fromkeys(name for fields in table for name in fields)
        header = [*ABOUT, *sorted((n for n in names if n not in ABOUT), key=lambda n: not n.startswith(SETTING))]
        lines = ["\t".join(header), *("\t".join(fields.get(name, "") for name in header) for fields in table)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, lambda file: file.write(("\n".join(lines) + "\n").encode()))


def _fields(done: Done) -> dict[str, str]:
    """Return the text of each column of a row."""
    seconds = "" if math.isnan(done.seconds) else f"{done.seconds:.3g}"
    fields = dict(zip(ABOUT, (done.version, done.code, str(done.seed), seconds)))
    fields |= {SETTING + name: json.dumps(value, allow_nan=False) for name, value in done.settings.items()}
    compact: Any = {"allow_nan": False, "separators": (",", ":")}
    return fields | {name: json.dumps(plain(value), **compact) for name, value in done.numbers.items()}


def _parsed(names: list[str], line: str) -> Done | None:
    """Return the cell of a row, or None if the row is damaged."""
    texts = line.split("\t")
    if len(texts) != len(names) or tuple(names[: len(ABOUT)]) != ABOUT:
        return None
    row = dict(zip(names, texts))
    version, code, seed, seconds = (row.pop(name) for name in ABOUT)
    try:
        values = {name: json.loads(text) for name, text in row.items() if text}
        settings = {n.removeprefix(SETTING): value for n, value in values.items() if n.startswith(SETTING)}
        numbers = {n: restored(value) for n, value in values.items() if not n.startswith(SETTING)}
        return Done(settings, numbers, float(seconds or "nan"), version, code, int(seed))
    except ValueError:
        return None


def plain(value: Any) -> Any:
    """Convert a value for JSON: floats with 6 digits, NumPy numbers as Python numbers, NaN as None, infinities as text.

    >>> plain({"a": [0.123456789, float("nan")], "b": float("inf")})
    {'a': [0.123457, None], 'b': 'inf'}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and bool(getattr(value, "ndim", False))):
        return [plain(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
        return float(f"{value:.{DIGITS}g}")
    return value


def restored(value: Any) -> Any:
    """Invert `plain`."""
    if isinstance(value, dict):
        return {k: restored(v) for k, v in value.items()}
    if isinstance(value, list):
        return [restored(v) for v in value]
    return {None: math.nan, "inf": math.inf, "-inf": -math.inf}.get(value, value)

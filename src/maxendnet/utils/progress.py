"""Progress bars for terminals, notebooks and log files."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

SECONDS_BETWEEN_LINES = 60.0
"""Time between lines in a log file."""


def progress_bar(items: Any = None, *, show: bool | int = True, **options: Any) -> Any:
    """Return a progress bar on the error stream.

    If the stream is not a terminal, it prints one line per minute and one at the end.

    Parameters
    ----------
    items : iterable, optional
        Items to iterate over. If there are none, call ``update`` of the progress bar.
    show : bool, default=True
    **options
        Further options of ``tqdm``.
    """
    from tqdm.auto import tqdm  # slow to import

    if "ipykernel" in sys.modules or sys.stderr.isatty():
        return tqdm(items, disable=not show, file=sys.stderr, **options)
    return tqdm(items, disable=not show, file=SpacedLines(sys.stderr), position=0, **options)


class SpacedLines:
    """Stream that writes a progress bar to a log file.

    It writes the latest text as a line every ``seconds`` and at a newline.

    Examples
    --------
    >>> lines = SpacedLines(sys.stdout)
    >>> for text in ("\\r 10%|#   ", "\\r 100%|####", "\\n"):
    ...     lines.write(text)
    100%|####
    """

    seconds: float
    stream: TextIO
    text: str
    time: float

    def __init__(self, stream: TextIO, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self.stream, self.seconds = stream, seconds
        self.text, self.time = "", time.monotonic()

    def write(self, text: str) -> None:
        self.text = text.strip() or self.text
        now = time.monotonic()
        if self.text and (text == "\n" or now - self.time >= self.seconds):
            self.stream.write(f"{self.text}\n")
            self.text, self.time = "", now

    def flush(self) -> None:
        self.stream.flush()

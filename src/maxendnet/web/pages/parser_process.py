"""A parser in a process of its own, so that a page made to be slow or to crash a parser costs seconds, not the run."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from maxendnet.web.pages.parser import HEADER, RawTree


class PageError(ValueError):
    """A page cannot be read: too large, too slow, or not a page."""


class ParserProcess:
    """Parses pages one after the other; started by the first page, and again after a page that had to be stopped.

    Parameters
    ----------
    seconds : float
        Time for one page.

    Examples
    --------
    >>> with ParserProcess() as parser:
    ...     parser.parse("<p>hello").tags
    ['html', 'head', 'body', 'p', '#text']
    """

    def __init__(self, seconds: float = 4.0) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ParserProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next page starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was still to be written is for nobody
                        pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            script = Path(__file__).with_name("parser.py")
            if importlib.util.find_spec("selectolax") is None:
                raise ModuleNotFoundError(
                    "reading pages needs the package selectolax; install it with: pip install 'maxendnet[web]'",
                    name="selectolax",
                )
            # -P: nothing from the script's own folder is imported in the place of a module of the same name
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            for pipe in (self._process.stdin, self._process.stdout):
                os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
        return self._process

    def parse(self, html: str) -> RawTree:
        """The tree of a page.

        Raises
        ------
        PageError
            The time is over, or the parser failed.
        """
        with self._lock:
            try:
                body = html.encode("utf-8", "surrogatepass")
                answer = json.loads(self._exchange(HEADER.pack(len(body)) + body))
            except BaseException:  # Ctrl-C too: what is still in the pipes belongs to this page
                self.close()
                raise
        if "refused" in answer:
            raise PageError(answer["refused"])
        if "error" in answer:
            raise PageError(f"the HTML parser failed on this page ({answer['error']})")
        return RawTree(*answer["tree"])

    def _exchange(self, frame: bytes) -> bytes:
        """Send a frame and wait for the answer; both ends move at once, since either pipe may be full."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        rest, answer, wanted = memoryview(frame), bytearray(), None
        stop = time.monotonic() + self.seconds
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdin, selectors.EVENT_WRITE)
            ready.register(process.stdout, selectors.EVENT_READ)
            while wanted is None or len(answer) < wanted:
                left = stop - time.monotonic()
                if left <= 0:
                    raise PageError(
                        f"the HTML parser was stopped after {self.seconds:g} s; the page is built so that parsing "
                        "takes very long (many thousand attributes in one tag, or levels): leave it out"
                    )
                for key, _ in ready.select(left):
                    if key.fileobj is process.stdin:
                        with contextlib.suppress(BrokenPipeError, BlockingIOError):
                            rest = rest[os.write(process.stdin.fileno(), rest[: 1 << 20]) :]
                        if not rest:
                            ready.unregister(process.stdin)
                    else:
                        part = os.read(process.stdout.fileno(), 1 << 20)
                        if not part:
                            code = process.wait()
                            raise PageError(f"the HTML parser broke down on this page (exit code {code}): leave it out")
                        answer += part
                        if wanted is None and len(answer) >= HEADER.size:
                            wanted = HEADER.size + HEADER.unpack_from(answer)[0]
        return bytes(answer[HEADER.size :])


shared = ParserProcess()
atexit.register(shared.close)

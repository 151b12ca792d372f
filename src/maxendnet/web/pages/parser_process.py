"""Run the HTML parser in its own process, so that a malicious page cannot block or crash the program.

The limit for a page is processor time, which the parser process counts itself: a busy machine does not refuse pages.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from maxendnet.web.pages.parser import HEADER, OUT_OF_TIME, RawTree


class PageError(ValueError):
    """A page cannot be read: it is too large, too slow to parse, or not HTML."""


WAIT_FACTOR = 30
"""Elapsed time until a parser that does not answer is killed, relative to its limit of processor time. Windows cannot
limit processor time, so only this limit applies there."""


class ParserProcess:
    """Parser of pages in its own process, started by the first page and restarted after a failure.

    Parameters
    ----------
    seconds : float
        Limit of processor time for one page.

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
        """Kill the process; the next page starts a new one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # unsent data is lost
                        pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            script = Path(__file__).with_name("parser.py")
            if importlib.util.find_spec("selectolax") is None:
                raise ModuleNotFoundError(
                    "reading pages needs the package selectolax; install it with: pip install 'maxendnet[web]'",
                    name="selectolax",
                )
            # -P: modules in the script's folder must not shadow others of the same name
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(script), str(self.seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def parse(self, html: str) -> RawTree:
        """Return the tree of a page.

        Raises
        ------
        PageError
            The parser failed or exceeded a limit.
        """
        with self._lock:
            try:
                body = html.encode("utf-8", "surrogatepass")
                answer = json.loads(self._exchange(HEADER.pack(len(body)) + body))
            except BaseException:  # including Ctrl-C: the pipes may still contain data of this page
                self.close()
                raise
        if "refused" in answer:
            raise PageError(answer["refused"])
        if "error" in answer:
            raise PageError(f"the HTML parser failed on this page ({answer['error']})")
        return RawTree(*answer["tree"])

    def _exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the answer; a timer kills a parser that does not answer."""
        process = self._start()
        assert process.stdin is not None and process.stdout is not None
        timed_out = threading.Event()

        def stop() -> None:
            timed_out.set()
            process.kill()

        timer = threading.Timer(WAIT_FACTOR * self.seconds, stop)
        timer.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(frame)
                process.stdin.flush()
            header = process.stdout.read(HEADER.size)
            size = HEADER.unpack(header)[0] if len(header) == HEADER.size else 0
            answer = process.stdout.read(size)
        finally:
            timer.cancel()
            timer.join()
        if timed_out.is_set():
            raise PageError(
                f"the HTML parser did not answer within {WAIT_FACTOR * self.seconds:g} s; the machine may be "
                "overloaded: try again, and exclude the page if it fails again"
            )
        if not size or len(answer) < size:
            code = process.wait()
            if code == -OUT_OF_TIME:
                raise PageError(
                    f"the HTML parser was stopped after {self.seconds:g} s of processor time; the page has thousands "
                    "of attributes in one tag, or of nested elements: exclude it"
                )
            raise PageError(f"the HTML parser crashed on this page (exit code {code}); exclude it")
        return answer


shared: ParserProcess = ParserProcess()
atexit.register(shared.close)

"""Client of headless Chromium over its debugging pipe: JSON messages that end with a zero byte."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--no-default-browser-check",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--mute-audio", "--hide-scrollbars", "--disable-dev-shm-usage", "--window-size=1000,1000",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--disable-features=Translate",
)  # fmt: skip


class RenderError(RuntimeError):
    """Raised if a page could not be rendered."""


class Chromium:
    """Chromium without scripts and network access, for one page at a time.

    Parameters
    ----------
    seconds : float
        Time limit for one answer of the browser. If a page exceeds it, the browser is stopped, and the next page starts
        a new one.
    """

    options = OPTIONS

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds = seconds
        self.program: str = next(filter(None, map(shutil.which, PROGRAMS)), "")
        if not self.program:
            raise RenderError(
                "Chromium was not found; install it (on Debian: apt install chromium), or work without layout."
            )
        self._pid = 0

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the browser and open an empty page."""
        if self._pid:
            return
        self._folder = tempfile.mkdtemp(prefix="maxendnet-chromium-")
        ours, theirs = [], []
        for end in (0, 1):
            pipe = os.pipe()
            theirs.append(
                fcntl.fcntl(pipe[end], fcntl.F_DUPFD_CLOEXEC, 10)
            )  # descriptors from 10, because the browser uses 3 and 4
            os.close(pipe[end])
            ours.append(pipe[1 - end])
        arguments = [self.program, *self.options, f"--user-data-dir={self._folder}", "about:blank"]
        if os.geteuid() == 0:
            arguments.insert(1, "--no-sandbox")  # Chromium does not start for root otherwise
        silent = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        self._pid = os.posix_spawn(
            self.program, arguments, os.environ,
            file_actions=[*silent, (os.POSIX_SPAWN_DUP2, theirs[0], 3), (os.POSIX_SPAWN_DUP2, theirs[1], 4)],
            setpgroup=0,
        )  # fmt: skip
        for fd in theirs:
            os.close(fd)
        self._in, self._out = ours
        os.set_blocking(self._in, False)
        self._buffer, self._number, self._session, self._expected = b"", 0, "", ""
        self._events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Fetch.enable", patterns=[{"urlPattern": "*"}])
        self.call("Emulation.setScriptExecutionDisabled", value=True)

    def close(self) -> None:
        """Kill the browser and all its processes."""
        pid, self._pid = self._pid, 0
        if pid:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            os.close(self._in)
            os.close(self._out)
            shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        stop = time.monotonic() + self.seconds
        number = self._number
        self._send(json.dumps(message).encode() + b"\0", stop)
        while True:
            answer = self._receive(stop, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RenderError(f"Chromium rejected {method}: {answer['error'].get('message')}")
                result: dict[str, Any] = answer["result"]
                return result
            self._handle(answer, stop)

    def _handle(self, answer: dict[str, Any], stop: float) -> None:
        """Store an event. Allow requests only for the page itself, once, and for local files that are not pages."""
        if answer.get("method") == "Fetch.requestPaused":
            request = answer["params"]
            address, kind = request["request"]["url"], request["resourceType"]
            is_allowed = address.startswith("file:") and kind != "Document"
            if kind == "Document" and address == self._expected:
                is_allowed, self._expected = True, ""
            self._number += 1
            method = "Fetch.continueRequest" if is_allowed else "Fetch.failRequest"
            # abort the request instead of blocking it, so that a page with a redirect stays open
            parameters = {"requestId": request["requestId"]} | ({} if is_allowed else {"errorReason": "Aborted"})
            message = {"id": self._number, "method": method, "params": parameters, "sessionId": self._session}
            self._send(json.dumps(message).encode() + b"\0", stop)
        elif "method" in answer:
            self._events.append(answer)

    def load(self, address: str) -> None:
        """Open a local file and wait until it is loaded. Its resources are loaded only from local files."""
        self._events.clear()
        self._expected = address
        stop = time.monotonic() + self.seconds
        answer = self.call("Page.navigate", url=address)
        if answer.get("errorText"):
            raise RenderError(f"Chromium cannot open the page: {answer['errorText']}")
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._handle(self._receive(stop, "loading"), stop)

    def _send(self, data: bytes, stop: float) -> None:
        rest = memoryview(data)
        while rest:
            _, ready, _ = select.select([], [self._in], [], max(0.0, stop - time.monotonic()))
            if not ready:
                self._give_up("a message")
            try:
                rest = rest[os.write(self._in, rest[: 1 << 16]) :]
            except BrokenPipeError:
                self.close()
                raise RenderError("Chromium ended unexpectedly.") from None

    def _receive(self, stop: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, stop - time.monotonic()))
            if not ready:
                self._give_up(what)
            data = os.read(self._out, 1 << 20)
            if not data:
                self.close()
                raise RenderError("Chromium ended unexpectedly.")
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _give_up(self, what: str) -> None:
        self.close()
        raise RenderError(f"Chromium was stopped: {what} took more than {self.seconds:g} s.")

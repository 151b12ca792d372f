"""The local server: the page to work on, the saved pages made harmless, and one way to change something.

Who may do what. It listens on 127.0.0.1 alone, and answers only requests whose Host is exactly its own address, so that
no foreign name that points here is served. Every address begins with a secret made at the start, so that other users of
the machine, and other web pages, read nothing. A change needs the secret a second time, in a header that a form cannot
send, the server's own Origin, and JSON of limited size. There is no CORS. Files come from the folder of pages alone,
and of these only pictures; what is sent tells the browser (Content-Security-Policy) to run nothing but our scripts,
and in the frame nothing at all.
"""

from __future__ import annotations

import json
import secrets
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from maxendnet.web.fields.labels import LabelError, parse_place
from maxendnet.web.labelling.frame import PICTURES, file_inside
from maxendnet.web.labelling.work import MOST_LABELS, Refused, Stale, Work
from maxendnet.web.pages.page import PageError

MOST_BODY = 1_000_000
LARGEST_PICTURE = 20_000_000
TOKEN = "X-Maxendnet-Token"
SCRIPTS = ("page.js", "panel.js", "app.js")
APP = {"": ("app.html", "text/html"), "app.css": ("app.css", "text/css")}
APP |= {name: (name, "text/javascript") for name in SCRIPTS}
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-DNS-Prefetch-Control": "off",
}
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"


class Answer(Exception):  # an answer of few words, from anywhere
    """End a request with a status and a message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class LabelServer(ThreadingHTTPServer):
    """Serves one piece of `Work` on 127.0.0.1.

    Parameters
    ----------
    work : Work
    port : int
        0 takes a free one.

    Attributes
    ----------
    address : str
        What to open in a browser; it has the secret, so it is not for others.
    """

    daemon_threads = True

    def __init__(self, work: Work, port: int = 0) -> None:
        self.work = work
        self.key = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), Handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.origin = f"http://{self.host}"
        self.address = f"{self.origin}/{self.key}/"
        scripts = " ".join(self.address + name for name in SCRIPTS)
        self.app_policy = (
            f"default-src 'none'; script-src {scripts}; style-src {self.address}app.css; "
            f"connect-src {self.address}api/; frame-src {self.address}pages/; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.frame_policy = (
            f"default-src 'none'; style-src 'unsafe-inline'; img-src {self.address}pages/ data:; "
            f"base-uri 'none'; form-action 'none'; frame-ancestors {self.origin}; sandbox allow-same-origin"
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is nothing to report."""


class Handler(BaseHTTPRequestHandler):
    """One request, one answer, one connection."""

    server: LabelServer
    server_version, sys_version = "maxendnet", ""
    timeout = 20  # seconds of silence

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal belongs to the person who labels."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def _answer(self, method: Any) -> None:
        try:
            if self.headers.get_all("Host") != [self.server.host]:
                raise Answer(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {self.server.host} and nothing else")
            method()
        except Answer as answer:
            self._json({"error": str(answer)}, answer.status)
        except (Refused, LabelError, PageError) as error:
            self._json({"error": str(error), "stale": isinstance(error, Stale)}, HTTPStatus.CONFLICT)
        except OSError as error:
            if isinstance(error, (BrokenPipeError, ConnectionError, TimeoutError)):
                return
            said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            self._json({"error": said}, HTTPStatus.INTERNAL_SERVER_ERROR)
        except Exception as error:  # say it to the person who waits for an answer
            self._json({"error": f"{type(error).__name__}: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Requests that are none, and methods that are not offered."""
        self._json({"error": message or "bad request"}, HTTPStatus(code))

    # ---- reading ------------------------------------------------------------------------------------------------

    def _path(self) -> str:
        """What follows the secret."""
        parts = urlsplit(self.path)
        key, slash, rest = parts.path.removeprefix("/").partition("/")
        if not parts.path.startswith("/") or not slash or not self._is_key(key):
            raise Answer(HTTPStatus.NOT_FOUND, "open the address that maxendnet web label has printed")
        return rest

    def _is_key(self, given: str) -> bool:
        return compare_digest(given.encode("utf-8", "replace"), self.server.key.encode())

    def _get(self) -> None:
        path = self._path()
        if path in APP:
            name, kind = APP[path]
            self._send(
                (Path(__file__).parent / "app" / name).read_bytes(), f"{kind}; charset=utf-8", self.server.app_policy
            )
        elif path == "api/state":
            same = self._argument("version") == str(self.server.work.version)
            self._json(self.server.work.brief() if same else self.server.work.state())
        elif path == "api/page":
            self._json(self.server.work.show(self._page_number(), drawn=self._argument("drawn") != "0"))
        elif path == "api/next":
            but = self._argument("but")
            self._json({"next": self.server.work.next(self._page_number("but") if but else None)})
        elif path.startswith("pages/"):
            self._file(unquote(path.removeprefix("pages/")))
        else:
            raise Answer(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _argument(self, name: str) -> str:
        try:
            return parse_qs(urlsplit(self.path).query, max_num_fields=10).get(name, [""])[0]
        except ValueError:
            return ""

    def _page_number(self, name: str = "n") -> int:
        given = self._argument(name)
        if not (given.isascii() and given.isdecimal() and len(given) < 10 and int(given) < len(self.server.work.pages)):
            raise Answer(HTTPStatus.NOT_FOUND, f"there is no page {given[:20]!r}")
        return int(given)

    def _file(self, name: str) -> None:
        """The empty document that a page is drawn in, or a picture of the folder; nothing else."""
        if name in self.server.work.number:
            mode = "" if self._argument("quirks") == "1" else "<!doctype html>"
            text = f'{mode}<html><head><meta charset="utf-8"><title>page</title></head><body></body></html>'
            self._send(text.encode(), "text/html; charset=utf-8", self.server.frame_policy)
            return
        path = file_inside(self.server.work.root, name)
        if path is None or path.suffix.lower() not in PICTURES or path.stat().st_size > LARGEST_PICTURE:
            raise Answer(HTTPStatus.NOT_FOUND, "there is no such picture in the folder of pages")
        self._send(path.read_bytes(), PICTURES[path.suffix.lower()])

    # ---- changing -----------------------------------------------------------------------------------------------

    def _post(self) -> None:
        body = self._checked_body()
        if self._path() != "api/save":
            raise Answer(HTTPStatus.NOT_FOUND, "there is nothing to change here")
        self._save(body)

    def _checked_body(self) -> Any:
        same_origin = self.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        if self.headers.get_all("Origin") != [self.server.origin] or not same_origin:
            raise Answer(HTTPStatus.FORBIDDEN, "a change must come from the page of this server")
        if not self._is_key(self.headers.get(TOKEN, "")):
            raise Answer(HTTPStatus.FORBIDDEN, f"a change needs the header {TOKEN}")
        if self.headers.get("Content-Type", "") != "application/json":
            raise Answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change is sent as application/json")
        length = self.headers.get_all("Content-Length") or []
        if (
            "Transfer-Encoding" in self.headers
            or len(length) != 1
            or not (length[0].isascii() and length[0].isdecimal())
        ):
            raise Answer(HTTPStatus.LENGTH_REQUIRED, "a change says its length")
        if len(length[0]) > 9 or int(length[0]) > MOST_BODY:
            raise Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a change has up to {MOST_BODY:,} bytes")
        try:
            return json.loads(self.rfile.read(int(length[0])))
        except (ValueError, RecursionError) as error:
            raise Answer(HTTPStatus.BAD_REQUEST, "a change is a JSON object") from error

    def _save(self, body: Any) -> None:
        work = self.server.work
        n, sha, labels, done, stamp, forget, none = (
            (body.get(k) for k in ("n", "sha", "labels", "done", "stamp", "forget", "none"))
            if isinstance(body, dict)
            else [None] * 7
        )
        if type(n) is not int or not 0 <= n < len(work.pages):
            raise Answer(HTTPStatus.BAD_REQUEST, '"n" must be the number of a page')
        if not isinstance(sha, str) or type(done) is not bool:
            raise Answer(HTTPStatus.BAD_REQUEST, '"sha" must be text, and "done" true or false')
        if not isinstance(labels, list) or len(labels) > MOST_LABELS or not all(map(_is_label, labels)):
            raise Answer(HTTPStatus.BAD_REQUEST, f'"labels" must be up to {MOST_LABELS:,} pairs [node, "field"]')
        if stamp is not None and not isinstance(stamp, str):
            raise Answer(HTTPStatus.BAD_REQUEST, '"stamp" must be text')
        if forget is True:
            work.forget(n, stamp)
        else:
            places = [(parse_place(place), name) for place, name in labels]
            labelled = [(place, name) for place, name in places if place is not None]
            work.save(n, sha, labelled, done, stamp, none is True)
        following = work.next(n) if done else None
        self._json({"saved": True, "version": work.version, "stamp": work.stamp(n), "next": following})

    # ---- answering ----------------------------------------------------------------------------------------------

    def _json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(value).encode(), "application/json", status=status)

    def _send(self, data: bytes, kind: str, policy: str = NOTHING, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {**ALWAYS, "Content-Type": kind, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _is_label(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and parse_place(item[0]) is not None and isinstance(item[1], str)

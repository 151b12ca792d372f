"""Local HTTP server of the labelling page.

Security. The server listens on 127.0.0.1 only, and answers only requests whose Host header is its own address. This
prevents DNS rebinding. Every path begins with a random secret, so that other users of the machine and other web pages
cannot read anything. A change also requires the secret in a header, which forms cannot send, the server's own Origin,
and JSON of limited size. There is no CORS. Only pictures within the folder of pages are served as files. The content
security policy allows only the scripts of the labelling page, and no scripts at all in the frame of the saved page.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from maxendnet.web.fields.labels import LabelError, parse_place
from maxendnet.web.labelling.frame import PICTURES, file_inside
from maxendnet.web.labelling.session import MAX_LABELS, LabellingSession, Refused, Stale
from maxendnet.web.pages.page import PageError

MAX_BODY = 1_000_000  # bytes
MAX_PICTURE = 20_000_000  # bytes
TOKEN = "X-Maxendnet-Token"
SCRIPTS = ("page.js", "panel.js", "app.js")
APP = {"": ("app.html", "text/html"), "app.css": ("app.css", "text/css")}
APP |= {name: (name, "text/javascript") for name in SCRIPTS}
COMMON_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-DNS-Prefetch-Control": "off",
}
DENY_ALL = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"


class RequestError(Exception):
    """Error that ends a request with an HTTP status and a message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class LabelServer(ThreadingHTTPServer):
    """HTTP server of a labelling session on 127.0.0.1.

    Parameters
    ----------
    session : LabellingSession
    port : int
        Port to listen on; 0 for a free port.

    Attributes
    ----------
    address : str
        Address to open in a browser. It contains the secret and must not be shared.
    """

    daemon_threads = True

    def __init__(self, session: LabellingSession, port: int = 0) -> None:
        self.session = session
        self.key: str = secrets.token_urlsafe(24)
        super().__init__(("127.0.0.1", port), Handler)
        self.host: str = f"127.0.0.1:{self.server_port}"
        self.origin: str = f"http://{self.host}"
        self.address: str = f"{self.origin}/{self.key}/"
        scripts = " ".join(self.address + name for name in SCRIPTS)
        self.app_policy: str = (
            f"default-src 'none'; script-src {scripts}; style-src {self.address}app.css; "
            f"connect-src {self.address}api/; frame-src {self.address}pages/; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.frame_policy: str = (
            f"default-src 'none'; style-src 'unsafe-inline'; img-src {self.address}pages/ data:; "
            f"base-uri 'none'; form-action 'none'; frame-ancestors {self.origin}; sandbox allow-same-origin"
        )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser closed."""


class Handler(BaseHTTPRequestHandler):
    """Handles one request per connection."""

    server: LabelServer
    server_version: str = "maxendnet"
    sys_version: str = ""
    timeout: ClassVar[float | None] = 20  # seconds without data until the connection is closed

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing, because the terminal shows only messages for the user."""

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _respond(self, method: Callable[[], None]) -> None:
        try:
            if self.headers.get_all("Host") != [self.server.host]:
                raise RequestError(HTTPStatus.MISDIRECTED_REQUEST, f"this server only answers as {self.server.host}")
            method()
        except RequestError as error:
            self._json({"error": str(error)}, error.status)
        except (Refused, LabelError, PageError) as error:
            self._json({"error": str(error), "stale": isinstance(error, Stale)}, HTTPStatus.CONFLICT)
        except (ConnectionError, TimeoutError):
            pass  # the browser has closed the connection
        except OSError as error:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            self._json({"error": message}, HTTPStatus.INTERNAL_SERVER_ERROR)
        except Exception as error:  # show it to the user in the labelling page
            self._json({"error": f"{type(error).__name__}: {error}"}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Report malformed requests and unsupported methods as JSON."""
        self._json({"error": message or "bad request"}, HTTPStatus(code))

    # ---- GET ----------------------------------------------------------------------------------------------------

    def _path(self) -> str:
        """Return the path after the secret."""
        parts = urlsplit(self.path)
        key, slash, rest = parts.path.removeprefix("/").partition("/")
        if not parts.path.startswith("/") or not slash or not self._is_key(key):
            raise RequestError(HTTPStatus.NOT_FOUND, "open the address that maxendnet web label printed")
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
            is_current = self._argument("version") == str(self.server.session.version)
            self._json(self.server.session.brief() if is_current else self.server.session.state())
        elif path == "api/page":
            self._json(self.server.session.show(self._page_number(), drawn=self._argument("drawn") != "0"))
        elif path == "api/next":
            but = self._argument("but")
            self._json({"next": self.server.session.next(self._page_number("but") if but else None)})
        elif path.startswith("pages/"):
            self._file(unquote(path.removeprefix("pages/")))
        else:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such address")

    def _argument(self, name: str) -> str:
        try:
            return parse_qs(urlsplit(self.path).query, max_num_fields=10).get(name, [""])[0]
        except ValueError:
            return ""

    def _page_number(self, name: str = "n") -> int:
        given = self._argument(name)
        if not (
            given.isascii() and given.isdecimal() and len(given) < 10 and int(given) < len(self.server.session.pages)
        ):
            raise RequestError(HTTPStatus.NOT_FOUND, f"there is no page {given[:20]!r}")
        return int(given)

    def _file(self, name: str) -> None:
        """Send the empty document of the frame, or a picture from the folder of pages."""
        if name in self.server.session.number:
            mode = "" if self._argument("quirks") == "1" else "<!doctype html>"
            text = f'{mode}<html><head><meta charset="utf-8"><title>page</title></head><body></body></html>'
            self._send(text.encode(), "text/html; charset=utf-8", self.server.frame_policy)
            return
        path = file_inside(self.server.session.root, name)
        if path is None or path.suffix.lower() not in PICTURES or path.stat().st_size > MAX_PICTURE:
            raise RequestError(HTTPStatus.NOT_FOUND, "there is no such picture in the folder of pages")
        self._send(path.read_bytes(), PICTURES[path.suffix.lower()])

    # ---- POST ---------------------------------------------------------------------------------------------------

    def _post(self) -> None:
        body = self._checked_body()
        if self._path() != "api/save":
            raise RequestError(HTTPStatus.NOT_FOUND, "changes are sent to api/save")
        self._save(body)

    def _checked_body(self) -> Any:
        same_origin = self.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        if self.headers.get_all("Origin") != [self.server.origin] or not same_origin:
            raise RequestError(HTTPStatus.FORBIDDEN, "changes must come from the labelling page")
        if not self._is_key(self.headers.get(TOKEN, "")):
            raise RequestError(HTTPStatus.FORBIDDEN, f"changes require the header {TOKEN}")
        if self.headers.get("Content-Type", "") != "application/json":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "changes must be sent as application/json")
        length = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(length) != 1 or not length[0].isdecimal():
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "changes require a Content-Length")
        if len(length[0]) > 9 or int(length[0]) > MAX_BODY:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"changes are limited to {MAX_BODY:,} bytes")
        try:
            return json.loads(self.rfile.read(int(length[0])))
        except (ValueError, RecursionError) as error:
            raise RequestError(HTTPStatus.BAD_REQUEST, "changes must be a JSON object") from error

    def _save(self, body: Any) -> None:
        session = self.server.session
        change = body if isinstance(body, dict) else {}
        n, sha, labels, done, stamp = map(change.get, ("n", "sha", "labels", "done", "stamp"))
        if type(n) is not int or not 0 <= n < len(session.pages):
            raise RequestError(HTTPStatus.BAD_REQUEST, '"n" must be the number of a page')
        if not isinstance(sha, str) or type(done) is not bool:
            raise RequestError(HTTPStatus.BAD_REQUEST, '"sha" must be text, and "done" true or false')
        if not isinstance(labels, list) or len(labels) > MAX_LABELS or not all(map(_is_label, labels)):
            raise RequestError(HTTPStatus.BAD_REQUEST, f'"labels" must be at most {MAX_LABELS:,} pairs [node, "field"]')
        if stamp is not None and not isinstance(stamp, str):
            raise RequestError(HTTPStatus.BAD_REQUEST, '"stamp" must be text')
        if change.get("forget") is True:
            session.forget(n, stamp)
        else:
            places = [(parse_place(place), name) for place, name in labels]
            labelled = [(place, name) for place, name in places if place is not None]
            session.save(n, sha, labelled, done, stamp, change.get("none") is True)
        following = session.next(n) if done else None
        self._json({"saved": True, "version": session.version, "stamp": session.stamp(n), "next": following})

    # ---- responses ----------------------------------------------------------------------------------------------

    def _json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(value).encode(), "application/json", status=status)

    def _send(self, data: bytes, kind: str, policy: str = DENY_ALL, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {**COMMON_HEADERS, "Content-Type": kind, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _is_label(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and parse_place(item[0]) is not None and isinstance(item[1], str)

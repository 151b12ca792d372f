"""Server of the labelling page, and attacks on it."""

import errno
import http.client
import json
import socket
import threading

import pytest

from maxendnet.web.labelling.command import prepare
from maxendnet.web.labelling.server import MAX_BODY, TOKEN, LabelServer
from maxendnet.web.tool.toy import toy_pages

PNG = b"\x89PNG\r\n\x1a\nnot really"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("label")
    toy = toy_pages(n_sites=2, n_pages=2)
    toy.write(folder / "pages")
    (folder / "pages" / "shop0.example" / "a b.png").write_bytes(PNG)
    (folder / "pages" / "notes.txt").write_text("private")
    (folder / "pages" / "script.js").write_text("evil()")
    (folder / "secret.png").write_bytes(b"secret")
    (folder / "pages" / "link.png").symlink_to(folder / "secret.png")
    (folder / "pages" / "way").symlink_to(folder)
    session, _ = prepare(folder / "shop", folder / "pages", fields=["name", "price"])
    with LabelServer(session) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server, folder
        server.shutdown()
        thread.join()


def ask(server, method, path, body=None, headers=None, host=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=300)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": host if host is not None else server.host, **(headers or {})}.items():
        connection.putheader(name, value)
    if body is not None and "Content-Length" not in (headers or {}):
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer, data


def get(server, path, **more):
    return ask(server, "GET", f"/{server.key}/{path}", **more)


def row(server, n=0, labels=(), done=True):
    return {"n": n, "sha": server.session.pages[n].sha, "labels": list(labels), "done": done, "none": not labels}


def post(server, body, path="api/save", without=(), **changes):
    headers = {"Origin": server.origin, TOKEN: server.key, "Content-Type": "application/json", **changes}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(server, "POST", f"/{server.key}/{path}", data, {k: v for k, v in headers.items() if k not in without})


def untouched(server):
    return not server.session.file.path.exists()


def test_files_of_the_labelling_page_and_their_headers(site):
    server, _ = site
    for path, kind in [("", "text/html"), ("app.js", "text/javascript"), ("app.css", "text/css"),
                       ("api/state", "application/json"), ("pages/shop0.example/0.html", "text/html"),
                       ("pages/shop0.example/a%20b.png", "image/png"), ("nothing", "application/json")]:  # fmt: skip
        answer, _ = get(server, path)
        assert answer.status == (404 if path == "nothing" else 200), path
        assert answer.headers["Content-Type"].startswith(kind)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "form-action 'none'" in answer.headers["Content-Security-Policy"]
        assert not any(name.lower().startswith("access-control") for name in answer.headers)
    policy = get(server, "")[0].headers["Content-Security-Policy"]
    assert f"script-src {server.address}page.js " in policy and "unsafe" not in policy
    policy = get(server, "pages/shop0.example/0.html")[0].headers["Content-Security-Policy"]
    assert "script-src" not in policy and "sandbox allow-same-origin" in policy and "allow-scripts" not in policy
    assert b'sandbox="allow-same-origin"' in get(server, "")[1]
    assert get(server, "pages/shop0.example/a%20b.png")[1] == PNG


def test_a_page_is_sent_without_its_html(site):
    server, _ = site
    _, data = get(server, "pages/shop0.example/0.html")
    assert b"Cup" not in data and len(data) < 200
    shown = json.loads(get(server, "api/page?n=0")[1])
    assert shown["name"] == "shop0.example/0.html" and shown["frame"]["nodes"][0][0] == "body"


def test_a_change_is_saved_and_answers_with_the_next_page(site):
    server, folder = site
    path = folder / "shop.labels.jsonl"
    try:
        leaf = next(node for node, text, _ in json.loads(get(server, "api/page?n=0")[1])["leaves"] if "$" in text)
        answer, data = post(server, row(server, 0, [[leaf, "price"]]))
        answer_data = json.loads(data)
        assert answer.status == 200 and answer_data["saved"] and answer_data["next"] in (2, 3)  # of the other site
        assert json.loads(path.read_text())["labels"] == [[leaf, "price"]]
    finally:
        path.unlink(missing_ok=True)
        server.session._set_labels(server.session.file.read())


@pytest.mark.parametrize("none", [False, None, 1, "true"])
def test_a_page_without_labels_is_done_only_with_confirmation(site, none):
    server, folder = site
    answer, data = post(server, {**row(server), "none": none})
    assert answer.status == 409 and "has no labels" in json.loads(data)["error"] and untouched(server)
    try:
        assert post(server, row(server, done=False))[0].status == 200 and not server.session.done
        assert post(server, row(server))[0].status == 200 and server.session.done == {0}
    finally:
        (folder / "shop.labels.jsonl").unlink(missing_ok=True)
        server.session._set_labels(server.session.file.read())


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "[::1]", "", "127.0.0.1.evil.example"]
)
def test_another_host_is_refused(site, host):
    server, _ = site
    for given in (host, f"{host}:{server.server_port}" if ":" not in host and host != "127.0.0.1" else host):
        answer, data = ask(server, "GET", f"/{server.key}/", host=given)
        assert answer.status == 421 and b"<html" not in data
        answer, _ = ask(server, "POST", f"/{server.key}/api/save", b"{}", {"Origin": f"http://{given}"}, host=given)
        assert answer.status == 421


def test_two_hosts_or_none_are_refused(site):
    server, _ = site
    for hosts in ("", f"Host: {server.host}\r\nHost: evil.example\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=300) as raw:
            raw.sendall(f"GET /{server.key}/ HTTP/1.1\r\n{hosts}\r\n".encode())
            assert b" 421 " in raw.recv(100)


@pytest.mark.parametrize(
    "path", ["/", "/app.js", "/api/state", "/wrong/api/state", "//", "/%2e%2e/", "/pages/notes.txt"]
)
def test_nothing_is_served_without_the_secret(site, path):
    server, _ = site
    answer, data = ask(server, "GET", path)
    assert answer.status == 404 and b"open the address" in data


@pytest.mark.parametrize(
    "given", [{"without": [TOKEN]}, {TOKEN: "wrong"}, {TOKEN: ""}, {TOKEN: "é"}, {"without": ["Origin"]},
              {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "https://127.0.0.1"},
              {"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
    ids=str,
)  # fmt: skip
def test_a_change_without_token_or_from_another_origin_is_refused(site, given):
    server, _ = site
    given = {key: value.encode("latin-1").decode("latin-1") if key == TOKEN else value for key, value in given.items()}
    answer, _ = post(server, row(server), **given)
    assert answer.status == 403 and untouched(server)


def test_a_token_in_the_address_is_not_enough(site):
    server, _ = site
    answer, _ = post(server, row(server), path=f"api/save?token={server.key}", without=[TOKEN])
    assert answer.status == 403 and untouched(server)
    answer, _ = get(server, "api/save?n=0&done=true")
    assert answer.status == 404 and untouched(server)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"])
def test_a_form_of_another_site_is_refused(site, kind):
    server, _ = site
    body = json.dumps(row(server)).encode()
    # as a browser sends it
    headers = {"Origin": "http://evil.example", "Content-Type": kind, "Sec-Fetch-Site": "cross-site"}
    assert ask(server, "POST", f"/{server.key}/api/save", body, headers)[0].status == 403
    # also refused with all other headers correct
    assert post(server, body, **{"Content-Type": kind})[0].status == 415 and untouched(server)


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "HEAD", "CONNECT", "FOO"])
def test_other_methods_are_not_offered(site, method):
    server, _ = site
    answer, _ = ask(server, method, f"/{server.key}/api/save", headers={"Origin": "http://evil.example"})
    assert answer.status == 501 and not any(name.lower().startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "path",
    ["../secret.png", "..%2fsecret.png", "%2e%2e/secret.png", "%2e%2e%2fsecret.png", "..%5csecret.png",
     "..\\secret.png", "%252e%252e/secret.png",
     "shop0.example/../../secret.png", "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd", "link.png", "way/secret.png",
     "notes.txt", "script.js", "shop0.example", "shop0.example/", "", ".", "a%00.png", "%ff%fe.png",
     "file:///etc/passwd", "shop0.example/0.html/..", "~/secret.png"],
)  # fmt: skip
def test_only_pages_and_pictures_of_the_folder_are_served(site, path):
    server, _ = site
    answer, data = get(server, f"pages/{path}")
    assert answer.status == 404 and b"secret" not in data and b"root:" not in data and b"private" not in data


def test_sizes_are_limited(site):
    server, _ = site
    for length in (MAX_BODY + 1, 10**12, 10**30):
        headers = {"Origin": server.origin, TOKEN: server.key, "Content-Type": "application/json",
                   "Content-Length": str(length)}  # fmt: skip
        answer, _ = ask(server, "POST", f"/{server.key}/api/save", headers=headers)
        assert answer.status == 413
    for more in ({"Content-Length": "-1"}, {"Content-Length": "1e3"}, {"Content-Length": "٣"},
                 {"Transfer-Encoding": "chunked"}):  # fmt: skip
        encoded = {k: v.encode().decode("latin-1") for k, v in more.items()}
        assert post(server, b"{}", **encoded)[0].status == 411
    labels = [[3, "price"]] * 5_001
    assert post(server, row(server, 0, labels))[0].status == 400
    assert get(server, "x" * 70_000)[0].status == 414 and untouched(server)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000, b"null", b"[]", b'"x"', b"NaN", b'{"n": 0}'], ids=str
)
def test_bad_json_is_refused(site, body):
    server, _ = site
    answer, data = post(server, body)
    assert answer.status == 400 and "error" in json.loads(data) and untouched(server)


@pytest.mark.parametrize(
    ("change", "status"),
    [({"n": -1}, 400), ({"n": 4}, 400), ({"n": True}, 400), ({"n": "0"}, 400), ({"n": 0.0}, 400), ({"sha": None}, 400),
     ({"done": 1}, 400), ({"labels": {}}, 400), ({"labels": [[1]]}, 400), ({"labels": [[1.5, "price"]]}, 400),
     ({"labels": [[True, "price"]]}, 400), ({"labels": [["1", "price"]]}, 400), ({"labels": [[1, None]]}, 400),
     ({"labels": [[10**9, "price"]]}, 409), ({"labels": [[-1, "price"]]}, 400),
     ({"labels": [[[9, 3, 9, 3], "price"]]}, 400),
     ({"labels": [[[9, 0, 10**9, 3], "price"]]}, 409), ({"labels": [[0, "price"]]}, 409),
     ({"labels": [[10**400, "price"]]}, 409), ({"labels": [[9, "none"]]}, 409), ({"sha": "0" * 16}, 409)],
    ids=str,
)  # fmt: skip
def test_unknown_pages_nodes_and_fields_are_refused(site, change, status):
    server, _ = site
    answer, data = post(server, {**row(server), **change})
    assert answer.status == status and "error" in json.loads(data) and untouched(server)


@pytest.mark.parametrize(
    "query", ["", "n=", "n=4", "n=-1", "n=1e0", "n=%D9%A1", "n=" + "9" * 500, "&".join(["n=0"] * 50)]
)
def test_unknown_pages_are_not_shown(site, query):
    server, _ = site
    assert get(server, f"api/page?{query}")[0].status == 404


def test_malformed_requests(site):
    server, _ = site
    for data in (
        b"\0" * 100 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\xff\xfe /\r\n\r\n",
        b"\x16\x03\x01\x02\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=300) as raw:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(1000):
                pass
    assert get(server, "api/state")[0].status == 200


def test_the_server_listens_on_localhost_only(site):
    server, _ = site
    assert server.server_address[0] == "127.0.0.1" and len(server.key) >= 32


def test_a_full_disk_is_reported_and_the_file_stays_complete(site, monkeypatch):
    server, _ = site

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "labels.jsonl")

    monkeypatch.setattr("maxendnet.web.labelling.label_file.write_whole", full)
    answer, data = post(server, row(server))
    assert answer.status == 500 and json.loads(data)["error"] == "labels.jsonl: No space left on device"
    assert untouched(server) and not server.session.done

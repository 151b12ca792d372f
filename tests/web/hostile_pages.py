"""Malformed and malicious pages of a given size. Also used by benchmarks/web_speed.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# fmt: off
TAGS = (
    "div", "p", "b", "a", "table", "tr", "td", "ul", "li", "span", "form", "select", "option", "svg", "math", "font",
    "script", "style", "template", "iframe", "noscript", "title", "textarea", "button", "h1", "x-y", "body", "html",
)
# fmt: on


def hostile_pages(n: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of malformed pages; n is the approximate number of tags of each."""
    names = [f"a{i}" for i in range(n)]
    texts = {
        "attributes": "<p " + " ".join(f"{a}={a}" for a in names) + ">x",
        "classes": "<p class='" + " ".join(names) + "'>x",
        "levels": "<div>" * n + "x",
        "levels closed": "<div>" * n + "x" + "</div>" * n,
        "inline levels": "<span>" * n + "x",
        "tables in tables": "<table><tr><td>" * n + "x",
        "fonts": "".join(f"<font color={i}>" for i in range(n)) + "<p>x" * 20,
        "links around blocks": "<a><div>" * n + "x",
        "unclosed rows": "<table>" + "<tr><td>x" * n,
        "text in tables": "<table>" + "x<b>" * n,
        "unclosed attribute": "<p>before</p><p title='" + "x" * n,
        "unclosed comment": "<p>before</p><!-- " + "x" * n,
        "unclosed script": "<p>before</p><script>" + "x<p>" * n,
        "unclosed title": "<title>" + "x" * n,
        "only closing tags": "</div></p></table></body></html>" * n + "x",
        "options": "<select>" + "<option>x" * min(n, 2000),
        "many siblings": "<p>x</p>" * n,
        "many rules": "<p>x</p><hr>" * n,
        "one long text": "word " * n,
        "one long word": "x" * n * 5,
        "touching": "<p> a " + "<b>x</b>" * n,
        "entities": "&lt;&amp;&#0;&#xD800;&#1114112;&nosuch;" * n,
        "javascript": "<a href='javascript:alert(1)' onclick=alert(1)>x</a><img src=x onerror=alert(1)>" * n,
        "style tricks": "<p style='display:none;display:block;background:url(javascript:1)'>x</p>" * n,
        "meta": "<meta http-equiv=refresh content='0;url=http://example.com'><base href=file:///etc/><p>x" * n,
        "svg script": "<svg><script>alert(1)</script><foreignObject><p>x</p></foreignObject></svg>" * n,
        "odd names": "<a:b c:d=e><1x><\u00e9><p/=x>text</p>" * n,
        "control characters": "<p>" + "".join(map(chr, range(1, 32))) * 10 + "</p>",
        "frames": "<frameset><frame src=a></frameset>" * n,
        "digits": "<p>" + "9" * n + "</p><p>$" + "1," * n,
        "nothing": "",
        "space": " \n\t" * n,
        "canonical": "<body>" + "<p>x</p>" * n + "</body>",
        "nearly canonical": "<body>" + "<p>x</p>" * n + "</bod",
        "canonical levels": "<body>" + "<div>" * n + "x" + "</div>" * n + "</body>",
        "entity bomb": '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><body>&b;</body>',
    }
    for name, text in texts.items():
        yield name, text.encode("utf-8", "surrogatepass")
    page = "<p>prix: 5 €</p>" * 20
    yield "null bytes", page.encode().replace(b"p", b"p\0")
    yield "only null bytes", b"\0" * n
    yield "not a page", bytes(range(256)) * (n // 256 + 1)
    for declared in ("utf-8", "utf-16", "shift_jis", "koi8-r", "x-nonsense", "base64"):
        for real in ("utf-8", "utf-16", "utf-16-le", "cp1252", "utf-32"):
            head = f"<meta charset={declared}>"
            yield f"says {declared}, is {real}", (head + page).encode(real)
    rng = np.random.default_rng(seed)
    for i in range(20):
        pieces = [
            f"<{'/' * int(rng.integers(2))}{rng.choice(TAGS)}{' class=a' * int(rng.integers(2))}>" for _ in range(n)
        ]
        pieces = [piece + ("x " if rng.random() < 0.3 else "") for piece in pieces]
        text = "".join(pieces)
        yield f"random tags {i}", text[: int(rng.integers(1, len(text)))].encode()

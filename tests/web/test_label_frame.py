import json

import pytest

from maxendnet.web.labelling.frame import ATTRIBUTES, TAGS, file_inside, make_frame
from maxendnet.web.pages.page import Page, read_page
from maxendnet.web.tool.toy import toy_pages

HOSTILE = """<!doctype html><html><head><title>Bad</title>
<script>evil()</script><base href="http://evil.example/"><meta http-equiv="refresh" content="0;url=http://evil.example/r">
<link rel="stylesheet" href="http://evil.example/a.css"><link rel="prefetch" href="http://evil.example/p">
<style>@import url(http://evil.example/b.css); h1 { background: url(http://evil.example/c.png) }
@font-face { font-family: x; src: url(http://evil.example/f.woff) } h1 { font-family: x }
h1 { cursor: url(http://evil.example/1.cur), auto; filter: url(http://evil.example/2.svg#f) }
h1 { mask: url(//evil.example/3.svg) }
h1::after { content: url(http://evil.example/4.png) } li { list-style-image: url(http://evil.example/5.png) }
body { background: image-set("http://evil.example/6.png" 1x); border-image: url(http://evil.example/7.png) 1 }
</style></head>
<body onload="evil()" background="http://evil.example/d.png">
<h1 onclick="evil()" style="background-image: url('http://evil.example/e.png')">Hostile Cup</h1>
<img src="x.png" onerror="evil()" srcset="http://evil.example/g.png 2x"><img src="http://evil.example/h.png">
<img src="javascript:evil()"><a href="javascript:evil()" ping="http://evil.example/i">link</a>
<iframe src="http://evil.example/j" srcdoc="<script>evil()</script>"></iframe>
<object data="http://evil.example/k"></object><embed src="http://evil.example/l">
<form action="http://evil.example/m" method="post"><input name="querySelectorAll" value="1"><button>Go</button>
<input type="image" src="http://evil.example/n.png"></form>
<svg onload="evil()"><script>evil()</script><image href="http://evil.example/o.png"></image><use href="#x"></use></svg>
<math><mtext><style><img src=x onerror="evil()"></style></mtext></math>
<video src="http://evil.example/q" autoplay poster="http://evil.example/s.png"></video>
<img name="documentElement" src="data:text/html,<script>evil()</script>"><form name="body"></form>
<template><script>evil()</script></template><noscript><img src="http://evil.example/t.png"></noscript>
<x-widget onfocus="evil()" autofocus tabindex="0">$12.00</x-widget><details ontoggle="evil()" open>d</details>
<marquee onstart="evil()">m</marquee><textarea autofocus onfocus="evil()"></textarea>
</body></html>"""


def frame_of(tmp_path, text, name="a.html"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    page = read_page(path)
    return page, make_frame(page, path.resolve(), tmp_path.resolve())


def test_a_hostile_page_is_inert(tmp_path):
    _, frame = frame_of(tmp_path, HOSTILE)
    as_text = json.dumps(frame.nodes)
    assert "evil()" not in as_text and "javascript" not in as_text and "data:text" not in as_text
    for tag, _, content, _ in frame.nodes:
        if tag == "#":
            continue
        assert tag in TAGS or tag == "x-widget"
        for name, value in content.items():
            assert name in ATTRIBUTES | {"src", "href", "type", "open"} and not name.startswith("on")
            assert name != "src" or value == ""
            assert name != "href" or value == "#"
    # addresses remain only in styles, where the policy of the frame blocks them
    elsewhere = [node for node in frame.nodes if node[0] != "#" and "evil" in json.dumps({**node[2], "style": ""})]
    assert not elsewhere and "Hostile Cup" in as_text and "$12.00" in as_text


def test_node_numbers_are_those_of_the_page(tmp_path):
    toy = toy_pages(n_sites=5, n_pages=1)
    for page in toy.pages:
        again, frame = frame_of(tmp_path, toy.html[page.name], page.name)
        assert not frame.notes and not frame.quirks and len(frame.styles) == 1
        texts: dict[int, str] = {}
        for tag, parent, content, number in frame.nodes:
            if tag == "#":
                texts[number] = texts.get(number, "") + content
            elif number:
                assert again.tags[number] == tag and again.parents[number] == frame.nodes[parent][3]
        for number, text in enumerate(again.texts):
            if text:
                assert "".join(texts[number].split()) == "".join(text.split())


def test_a_text_with_a_comment_in_it_is_one_node(tmp_path):
    page, frame = frame_of(tmp_path, "<p>12<!-- x -->.99<script>1</script>€ <b>x</b></p>")
    numbers = [number for tag, _, content, number in frame.nodes if tag == "#" and content.strip()]
    assert numbers == [2, 2, 2, 4] and page.text(2) == "12.99€"


def test_a_canonical_page(tmp_path):
    text = Page.from_html("<p>a<table><tr><td>b</table>").canonical()
    page, frame = frame_of(tmp_path, text)
    assert [node[3] for node in frame.nodes] == list(range(len(page))) and frame.quirks


def test_only_pictures_and_styles_of_the_folder(tmp_path):
    folder = tmp_path / "pages"
    (folder / "shop" / "a_files").mkdir(parents=True)
    (folder / "shop" / "a_files" / "b c.png").write_bytes(b"x")
    (folder / "shop" / "own.css").write_text("p { color: red }")
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "secret.css").write_text("p { color: blue }")
    (folder / "out.png").symlink_to(tmp_path / "secret.png")
    addresses = [
        "a_files/b%20c.png", "../out.png", "../../secret.png", "/etc/passwd", "//evil.example/a.png", "a_files",
        "/a_files/b c.png", "/secret.png", "/../secret.png",
    ]  # fmt: skip
    links = "".join(f"<link rel=stylesheet href='{x}'>" for x in ("own.css", "../../secret.css", "file:///etc/passwd"))
    _, frame = frame_of(folder, links + "".join(f"<img src='{x}'>" for x in addresses), "shop/a.html")
    sources = [content["src"] for tag, _, content, _ in frame.nodes if tag == "img"]
    assert sources == ["../shop/a_files/b%20c.png", "", "", "", "", "", "../shop/a_files/b%20c.png", "", ""]
    assert frame.styles == ["p { color: red }"]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "a\\b", "a\0b", "out", "dir"]
)
def test_no_file_outside(tmp_path, name):
    (tmp_path / "x").write_text("secret")
    folder = tmp_path / "pages"
    (folder / "dir").mkdir(parents=True)
    (folder / "good").write_text("x")
    (folder / "out").symlink_to(tmp_path / "x")
    (folder / "loop").symlink_to(folder / "loop")
    assert file_inside(folder.resolve(), name) is None
    assert file_inside(folder.resolve(), "loop") is None
    assert file_inside(folder.resolve(), "good") is not None


def test_a_changed_file_is_detected(tmp_path):
    page, _ = frame_of(tmp_path, "<p>old")
    (tmp_path / "a.html").write_text("<p>new")
    assert "has changed" in make_frame(page, tmp_path / "a.html", tmp_path).notes[0]


def test_too_deep_nodes_become_siblings(tmp_path):
    _, frame = frame_of(tmp_path, "<div>" * 3000 + "inside")
    depth = []
    for _, parent, _, _ in frame.nodes:
        depth.append(depth[parent] + 1 if parent >= 0 else 0)
    assert len(depth) == 3002 and max(depth) == 400 and frame.nodes[-1][2:] == ["inside", 3001]

import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxendnet.web.pages import parser_process
from maxendnet.web.pages.encoding import decode
from maxendnet.web.pages.page import Page, PageError, read_page
from maxendnet.web.pages.parser_process import ParserProcess

PIECES = [
    "<p>",
    "</p>",
    "<div class='a b'>",
    "</div>",
    "<table><tr><td>",
    "</table>",
    "<b>",
    "</b>",
    "text",
    " ",
    "&amp;",
    "<br>",
    "<img src=a.png>",
    "<script>x<y</script>",
    "<!-- c -->",
    "<",
    ">",
    "\0",
    "é",
    "<x:y z>",
    "<a href='javascript:1'>",
    "\x0b",
    "<svg><text>s</text></svg>",
    "<style>p{}</style>",
    "<ul><li>1<li>2",
    "<template><p>t</template>",
]


def same(a: Page, b: Page) -> bool:
    return (
        a.tags == b.tags
        and a.texts == b.texts
        and a.attributes == b.attributes
        and a.parents.tolist() == b.parents.tolist()
    )


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@settings(max_examples=150)
def test_node_numbers_are_the_same_each_time_a_page_is_read(html):
    page = Page.from_html(html)
    assert same(page, Page.from_html(html))
    assert same(page, Page.from_canonical(page.canonical()))
    assert same(page, read_page(page.canonical().encode()))
    assert page.parents[0] == -1 and all(p < t for t, p in enumerate(page.parents))
    assert all(text.strip() for text, tag in zip(page.texts, page.tags) if tag == "#text")


@pytest.mark.parametrize("depth", [250, 260, 2050, 10_000])
def test_nothing_is_lost_at_any_depth(depth):
    page = Page.from_html("<div>" * depth + "at the bottom" + "</div>" * depth + "after")
    assert page.texts.count("at the bottom") == 1 and page.texts.count("after") == 1
    assert page.tags.count("div") == depth
    assert same(page, Page.from_canonical(page.canonical()))


def test_broken_markup_is_read_as_browsers_do():
    page = Page.from_html("<table><tr><td>1<td>2</table><p>a<p>b</i></b><li>c")
    assert [page.text(t) for t, tag in enumerate(page.tags) if tag == "#text"] == ["1", "2", "a", "b", "c"]
    assert page.tags.count("td") == 2 and page.tags.count("tbody") == 1


def test_scripts_styles_and_comments_are_dropped():
    html = "<p>a</p><script>alert('b')</script><style>c</style><iframe>d</iframe><!--e--><svg><text>f</text></svg>"
    page = Page.from_html(html)
    assert [text for text in page.texts if text] == ["a"]


def test_a_text_with_a_comment_inside_is_one_text():
    page = Page.from_html("<p>12<!-- here -->.99</p>")
    assert page.texts[2] == "12.99" and len(page) == 3


def test_a_well_formed_body_is_read_without_changes():
    # a browser would insert a tbody; labels of such a page refer to the nodes as written
    page = read_page(b"<body><table><tr><td>1</td></tr></table><a/>x</body>")
    assert page.tags == ["body", "table", "tr", "td", "#text", "a", "#text"]


def test_an_entity_bomb_is_refused():
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><body>&b;</body>'
    with pytest.raises(PageError):
        Page.from_canonical(bomb)


def test_text_and_ends():
    page = Page.from_html("<div><p>a <b>b</b></p></div><img src=x.png><p>c")
    assert page.text(0) == "a b c" and page.text(1) == "a b"
    assert page.text(page.tags.index("img")) == "x.png"
    assert [page.end(t) for t in range(len(page))] == [len(page), 6, 6, 4, 6, 6, 7, 9, 9]


def test_the_site_is_that_of_the_canonical_link():
    assert Page.from_html("<link rel=canonical href='https://www.shop.de/x'><p>a").site == "shop.de"
    assert Page.from_html("<meta property='og:url' content='http://shop.fr/x'><p>a").site == "shop.fr"
    assert Page.from_html("<link rel=canonical href='http://[bad'><p>a").site == ""
    assert Page.from_html("<link rel=canonical href='https://a.de/'>", site="mine").site == "mine"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<p>naïve €".encode(), "naïve €"),
        ("<p>naïve €".encode("utf-8-sig"), "naïve €"),
        ("<p>naïve €".encode("cp1252"), "naïve €"),
        ("<p>naïve €".encode("utf-16"), "naïve €"),
        ("<p>naïve €".encode("utf-16-le"), "naïve €"),
        (b"<meta charset=iso-8859-1><p>\x80 5", "€ 5"),
        (b"<meta charset='utf-8'><p>caf\xe9", "café"),
        ("<meta charset=shift_jis><p>価格".encode("shift_jis"), "価格"),
        ("<meta charset=windows-1251><p>цена".encode("cp1251"), "цена"),
        ("<meta http-equiv=x content='text/html; charset=koi8-r'><p>цена".encode("koi8-r"), "цена"),
        (b"<meta charset=no-such-thing><p>caf\xc3\xa9", "café"),
        (b"<meta charset=utf-16><p>caf\xc3\xa9", "café"),
        (b"<meta charset=base64><p>x", "x"),
        *(
            (f"<meta charset={name}><p>caf\u00e9".encode(), "caf\u00e9")
            for name in ("idna", "punycode", "undefined", "unicode_escape", "utf_7", "mbcs", "hz")
        ),
    ],
)
def test_encodings(data, text):
    page = read_page(data)
    assert page.text(2) == text and not page.warnings


def test_undecodable_bytes_are_counted():
    page = read_page(b"<meta charset=utf-8><p>" + "prix élevé ".encode() * 200 + b"\xff")
    assert "\ufffd" in page.text(2) and "é" in page.text(2)
    assert "1 characters" in page.warnings[0]


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    assert isinstance(decode(data).text, str)
    try:
        assert isinstance(read_page(data), Page)
    except PageError as error:  # recognised by its first bytes
        assert ", not HTML" in str(error) or "is damaged" in str(error)


def test_a_page_with_too_many_bytes_is_refused():
    with pytest.raises(PageError, match=r"shop.html has 11 bytes; the maximum is most_bytes=10"):
        read_page(b"hello world", name="shop.html", most_bytes=10)


def test_a_slow_page_is_stopped_and_the_next_one_is_read():
    slow = "<select>" + "<option>a" * 60_000
    with ParserProcess(seconds=0.3) as parser:
        with pytest.raises(PageError, match=r"stopped after 0.3 s of processor time"):
            parser.parse(slow)
        assert parser.parse("<p>next").tags[-1] == "#text"


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs signals (POSIX)")
def test_a_parser_that_has_to_wait_is_not_stopped():
    """The limit is processor time: a suspended parser stands for one on a busy machine."""
    with ParserProcess(seconds=0.2) as parser:
        parser.parse("<p>")
        parser._process.send_signal(signal.SIGSTOP)
        timer = threading.Timer(1.0, parser._process.send_signal, [signal.SIGCONT])
        timer.start()
        assert parser.parse("<p>late").texts[-1] == "late"
        timer.join()


def test_a_parser_that_never_answers_is_stopped(monkeypatch):
    monkeypatch.setattr(parser_process, "WAIT_FACTOR", 1)
    with ParserProcess(seconds=0.2) as parser:
        parser._start().send_signal(getattr(signal, "SIGSTOP", signal.SIGTERM))
        with pytest.raises(PageError, match=r"did not answer within 0.2 s; the machine may be overloaded|crashed"):
            parser.parse("<p>")


def test_a_killed_parser_is_restarted():
    with ParserProcess() as parser:
        parser.parse("<p>")
        parser._process.kill()
        parser._process.wait()
        assert parser.parse("<p>b").texts[-1] == "b"


def test_a_page_of_a_million_elements_is_refused_by_name():
    for data in (b"<p>" * 1_000_000, b"<body>" + b"<p></p>" * 300_000 + b"</body>"):
        with pytest.raises(PageError, match=r"many.html: the page has more than 200,000 elements and texts"):
            read_page(data, name="many.html")
    assert len(read_page(b"<p>" * 50_000)) == 50_001


def test_large_pages():
    page = Page.from_html("<div><p class=a>hello <b>x</b></p></div>" * 12_500)
    assert len(page) == 1 + 12_500 * 5
    assert np.all(page.ends > np.arange(len(page)))

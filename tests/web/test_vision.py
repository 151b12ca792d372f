import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maxendnet.web.hierarchy.vision_tree import vision_tree
from maxendnet.web.pages.page import Page
from maxendnet.web.pages.runs import find_runs
from maxendnet.web.views.leaves import find_leaves, visible


def texts(page, leaves):
    return [page.texts[t].strip() for t in leaves]


def shape(page):
    """Return the tree as nested lists of texts."""
    tree = vision_tree(page)
    nested = [[] if not leaf else texts(page, s)[0] for s, leaf in zip(tree.sources, tree.leaf)]
    for k in range(1, len(tree)):
        nested[tree.parents[k]].append(nested[k])
    return nested[0] if nested else None


def test_leaves_are_texts():
    page = Page.from_html(
        "<p>only <b>$</b>12<sup>.99</sup> <i>new</i></p><p>a<br>b</p><p><b>Name:</b><span>Cup</span></p>"
    )
    assert texts(page, find_leaves(page)) == ["only", "$", "12", ".99", "new", "a", "b", "Name:", "Cup"]
    runs = find_runs(page, find_leaves(page))
    assert runs.word == [0, 1, 1, 1, 2, 3, 4, 5, 6]  # leaves that touch
    assert runs.run == [0, 0, 0, 0, 0, 1, 1, 2, 2]  # leaves of one paragraph
    assert "".join(runs.before) == " " * 5


def test_texts_of_pages_without_spaces_are_separate_words():
    page = Page.from_canonical("<body><p><b>$</b>12</p></body>")
    assert find_leaves(page) == [3, 4] and find_runs(page, [3, 4]).word == [0, 1]


def test_hidden_texts_are_not_leaves():
    html = "<p>a</p><p style='color:red; DISPLAY : none'>b<i>c</i></p><div hidden><p>d</p></div><p>e</p>"
    page = Page.from_html(html)
    assert texts(page, find_leaves(page)) == ["a", "e"]
    layout = np.ones((len(page), 11))
    layout[2, :4] = -1
    assert not visible(page.with_layout(layout))[2]


def test_images_are_leaves_on_request():
    page = Page.from_html("<img src=a.png><img src=dot.gif width=1 height=1><img><p>x")
    assert [page.tags[t] for t in find_leaves(page, images=True)] == ["img", "#text"]
    assert len(find_leaves(page)) == 1


def test_single_children_are_merged():
    page = Page.from_html("<div><div class=a><p>a</p><p>b</p></div></div>")
    tree = vision_tree(page)
    assert [[page.tags[t] for t in s] for s in tree.sources] == [["body", "div", "div"], ["#text"], ["#text"]]


def test_headings_and_rules_begin_groups():
    assert shape(Page.from_html("<h2>A</h2><p>1</p><p>2</p><h2>B</h2><p>3</p>")) == [["A", "1", "2"], ["B", "3"]]
    assert shape(Page.from_html("<p>1</p><p>2</p><hr><p>3</p><p>4</p>")) == [["1", "2"], ["3", "4"]]


def test_a_change_of_class_begins_a_group():
    html = "<p class=a>1</p><p class=a>2</p><p class=b>3</p><p class=b>4</p>"
    assert shape(Page.from_html(html)) == [["1", "2"], ["3", "4"]]
    assert shape(Page.from_html("<p class=a>1</p><p class=b>2</p><p class=c>3</p>")) == ["1", "2", "3"]


def test_boxes_separate_by_gap_background_and_font():
    page = Page.from_html("<p>1</p><p>2</p><p>3</p><p>4</p>")
    box = np.zeros((len(page), 11))
    box[:, 2:5] = 100, 16, 16
    for k, y in enumerate([0, 20, 100, 120]):
        box[1 + 2 * k : 3 + 2 * k, 1] = y
    assert shape(page.with_layout(box)) == [["1", "2"], ["3", "4"]]
    for column, value in ((9, 255), (4, 40)):
        changed = box.copy()
        changed[:, 1] = np.repeat([0, 0, 16, 32, 48], [1, 2, 2, 2, 2])
        changed[5:, column] = value
        assert shape(page.with_layout(changed)) == [["1", "2"], ["3", "4"]]


def test_an_empty_page_has_no_block():
    assert len(vision_tree(Page.from_html(""))) == 0


@given(
    st.lists(
        st.sampled_from(["<div>", "</div>", "<p class=a>", "<h3>", "</h3>", "x ", "<b>y</b>", "<hr>", "<br>"]),
        max_size=40,
    )
)
@settings(max_examples=150)
def test_every_leaf_is_in_the_tree_once_and_in_order(pieces):
    page = Page.from_html("".join(pieces))
    tree, leaves = vision_tree(page), find_leaves(page)
    assert [s for s, leaf in zip(tree.sources, tree.leaf) if leaf] == [(t,) for t in leaves]
    for k, parent in enumerate(tree.parents):
        assert parent < k and (parent < 0) == (k == 0)
        assert parent < 0 or not tree.leaf[parent]
    n_children = np.bincount(tree.parents[1:], minlength=len(tree)) if len(tree) else np.zeros(0)
    assert all(n >= 2 for n, leaf in zip(n_children, tree.leaf) if not leaf)


def test_deep_and_wide_pages_take_linear_time():
    deep = Page.from_html("<div>" * 5_000 + "".join("x</div>" for _ in range(5_000)))
    assert len(find_leaves(deep)) == 5_000 and len(vision_tree(deep)) == 9_999
    wide = Page.from_html("<p>x</p><hr>" * 10_000)
    assert vision_tree(wide).leaf.sum() == 10_000

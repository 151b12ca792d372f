import pytest

from maxendnet.web.features.groups import GROUPS, KNOWN_SITES, NEW_SITES, leaf_features
from maxendnet.web.features.place import class_tokens
from maxendnet.web.pages.page import Page
from maxendnet.web.tool.toy import toy_pages
from maxendnet.web.views.view import View, gather_facts, make_views


@pytest.fixture(scope="module")
def views():
    return make_views(toy_pages(n_sites=3, n_pages=4).pages, images=True)


def of_leaf(view, text, groups):
    return leaf_features(view, groups)[view.texts.index(text)]


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_names_features_for_every_leaf(views, group):
    for view in views:
        features = leaf_features(view, [group])
        assert len(features) == len(view)
        assert all(name.startswith(f"{group}:") for names in features for name in names)
        assert features == leaf_features(view, [group])
    if group not in ("layout", "data"):  # toy pages have neither
        assert any(features)


def test_groups_are_chosen_by_name(views):
    both = leaf_features(views[0], ["tags", "text"])
    assert both == [a + b for a, b in zip(leaf_features(views[0], ["tags"]), leaf_features(views[0], ["text"]))]
    assert set(NEW_SITES) < set(KNOWN_SITES) and "neighbours" not in NEW_SITES
    with pytest.raises(ValueError, match="unknown feature group 'colour'"):
        leaf_features(views[0], ["colour"])


@pytest.mark.parametrize(
    ("classes", "tokens"),
    [
        ("css-1x2y3z", ["css"]),
        ("sc-bdVaJa", ["sc-bdvaja", "sc", "bd", "va", "ja"]),
        ("product_price2", ["product_price0", "product", "price"]),
        ("h1", ["h0"]),
        ("0f3e9a1b77", []),
    ],
)
def test_generated_class_names_are_dropped(classes, tokens):
    assert class_tokens({"class": classes}) == tokens


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("$12.99", "only_price"), ("EUR 5", "price"), ("ISBN 9781573222303", "isbn"), ("(206) 555-1234", "phone"),
     ("June 2009", "month"), ("Price:", "colon_end"), ("18 mpg", "unit"), ("by Ann", "by")],
)  # fmt: skip
def test_patterns(text, pattern):
    view = View(Page.from_html(f"<p>{text}</p>"))
    assert f"text:is={pattern}" in of_leaf(view, text, ["text"])


def test_the_title_is_compared():
    view = View(Page.from_html("<title>Red Cup | Shop</title><h1>Red Cup</h1><p>Blue Vase</p>"))
    assert "title:starts_title" in of_leaf(view, "Red Cup", ["title"])
    assert of_leaf(view, "Blue Vase", ["title"]) == ["title:times=1", "title:after_heading=1"]
    assert "title:heading" in of_leaf(view, "Red Cup", ["title"])


def test_variation_over_the_pages_of_a_site():
    pages = [Page.from_html(f"<p>Price:</p><p>{x}</p>", site="s") for x in (5, 6, 7)]
    view = make_views(pages)[0]
    assert {"site:text_on=all", "site:varies=none", "site:fixed"} <= set(of_leaf(view, "Price:", ["site"]))
    assert {"site:text_on=one", "site:place_on=all", "site:varies=each"} <= set(of_leaf(view, "5", ["site"]))
    single = make_views(pages[:1])[0]
    assert of_leaf(single, "5", ["site"]) == ["site:alone"]


def test_captions_and_row_heads_are_features_of_values():
    html = "<table><tr><th>Maker</th><td>Acme</td></tr><tr><td>Code</td><td>7</td></tr></table><p>Size:</p><p>9</p>"
    view = View(Page.from_html(html))
    assert "label:row=maker" in of_leaf(view, "Acme", ["label"])
    assert "label:row=code" in of_leaf(view, "7", ["label"])
    assert {"label:any=maker", "label:any=code"} <= {n for t in ("Acme", "7") for n in of_leaf(view, t, ["label"])}
    assert {"label:announced=size", "label:caption=size"} <= set(of_leaf(view, "9", ["label"]))


def test_places_are_distinct_within_a_page(views):
    facts = gather_facts(views[:4])
    assert facts.n_pages == 4
    for view in views:
        assert len(set(view.places)) == len(view)


def test_deep_and_wide_pages():
    deep = View(Page.from_html("<span>" * 3000 + "a " + "<b>b</b> " * 2000))
    assert len(leaf_features(deep, KNOWN_SITES)) == len(deep)

"""Sites without labels: constant texts win no field, and boundaries of a single site do not transfer."""

import numpy as np
import pytest

from maxendnet.web import Extractor, Page, PageLabels
from maxendnet.web.fields.boundaries import Boundaries
from maxendnet.web.views.view import make_views

MAKERS = ("Acme", "Bellini", "Castor", "Dorado", "Elbe", "Fuji", "Garda", "Hugo")


def pages_of(site, html, n=6):
    return [Page.from_html(html.format(k=k + 3, maker=MAKERS[k]), name=f"{site}/{k}.html", site=site) for k in range(n)]


@pytest.fixture(scope="module")
def shops():
    shops = {
        "a": "<h1>Cup {k}</h1><p>Maker: <b>{maker}</b><p>Rated <i>good</i>",
        "b": "<ul><li>All</ul><h1>Pot {k}</h1><div>Maker: <b>{maker}</b></div><p>new <i>{k} left</i>",
        "c": "<h2>Shop</h2><h1>Jug {k}</h1><p>by</p><p>Maker: <b>{maker}</b><p>Rated <i>bad</i>",
    }
    pages = [page for site, html in shops.items() for page in pages_of(site, html)]
    return pages


def labelled(pages):
    return [PageLabels(p.name, p.site, values={"maker": [MAKERS[k % 6]]}) for k, p in enumerate(pages)]


@pytest.mark.parametrize("features", ["new", "known"])
def test_a_constant_text_wins_no_field_on_a_new_site(shops, features, tmp_path):
    pages = shops
    extractor = Extractor(features=features, calibrate=False).fit(pages, labelled(pages))
    assert extractor.varying_ == ["maker"]
    new = pages_of("new", "<h1>Mug {k}</h1><p>Maker: <b>Information</b><p>from <b>{maker}</b> and others</p>")
    records = extractor.extract(new)
    assert [record.fields["maker"].value for record in records] == list(MAKERS[:6])
    assert {extractor.extract(page)[0].fields["maker"].value for page in new} == {"Information"}  # one page alone
    extractor.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").extract(new) == records


def test_a_field_with_constant_values_may_be_constant(shops):
    pages = shops
    labels = [PageLabels(p.name, p.site, values={"shop": ["Shop"]}) if p.site == "c" else None for p in pages]
    assert Extractor(calibrate=False).fit(pages, labels).varying_ == []


def test_a_text_is_constant_only_at_a_place_where_it_never_changes():
    pages = pages_of("s", "<p>Help</p><b>{maker}</b><i>x</i>")
    pages[0] = Page.from_html("<p>Help</p><b>x</b><i>x</i>", name="s/0", site="s")
    view = make_views(pages)[0]
    assert [view.is_constant(k) for k in range(3)] == [True, False, True]
    assert not any(make_views(pages[:4])[0].is_constant(k) for k in range(3))


def test_boundaries_of_one_site_do_not_transfer(shops):
    pages = shops
    labels = labelled(pages)
    for k, given in enumerate(labels):
        number = k % 6 + 3
        given.values = {"name": [str(number) if k < 6 else f"Pot {number}" if k < 12 else f"Jug {number}"]}
    boundaries = Extractor(calibrate=False).fit(pages, labels).boundaries_
    assert "name" in boundaries.weights and not boundaries.shared
    (view, *_) = make_views(pages_of("new", "<h1>Mug {k}</h1>"))
    assert boundaries.find(view, "name", 0).span[1:] == (0, 2, 5, "")
    everywhere = Boundaries(boundaries.names, boundaries.weights, boundaries.reach)
    assert everywhere.shared == {"name"} and np.isfinite(everywhere.find(view, "name", 0).lead)
    again = Boundaries.from_plain(boundaries.to_plain())
    assert again.shared == boundaries.shared

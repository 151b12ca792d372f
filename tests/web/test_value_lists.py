"""Fields with several values: complete lists, their confidence, and values that differ from the page in punctuation."""

import json

import pytest

from maxendnet.web import Extractor, Page, PageLabels
from maxendnet.web.fields.spans import find_value, span_text
from maxendnet.web.listings.value_lists import Selector, ValueList
from maxendnet.web.views.view import View
from maxendnet.web.views.words import words_of

FOODS = ("leek", "water", "salt", "flour", "red wine", "butter", "cream", "onion", "sugar", "oil", "rice", "milk",
         "egg", "pepper")  # fmt: skip


def foods(k, n):
    return [f"{i + k + 1} cups {FOODS[(i * 3 + k) % len(FOODS)]}, fresh" for i in range(n)]


def recipe(k, n=12, site="soup.example", element="<li class='item'>▢ <b>{}</b> {} <i>({})</i></li>", menu="li"):
    """Return a page with a menu, n ingredients in pieces and steps, and its labels."""
    items = foods(k, n)
    pieces = [(*item.removesuffix(", fresh").split(" ", 1), "fresh") for item in items]
    half = len(pieces) // 2
    lists = "".join(f"<ul>{''.join(element.format(*piece) for piece in part)}</ul>"
                    for part in (pieces[:half], pieces[half:]))  # fmt: skip
    steps = "".join(f"<li>Stir {k + i} cups and wait, then serve.</li>" for i in range(6))
    html = (f"<ul><{menu}>Home</{menu}><{menu}>All soups</{menu}></ul><h1>Soup number {k}</h1>"
            f"<div class='food'><h2>You need</h2>{lists}</div><ol>{steps}</ol>")  # fmt: skip
    page = Page.from_html(html, name=f"{k}.html", site=site)
    return page, PageLabels(page.name, site, values={"name": [f"Soup number {k}"], "food": items})


def fitted(pages, labels):
    return Extractor(calibrate=False, several=["food"]).fit(pages, labels)


def expected(k, n):
    return tuple(item.replace(", fresh", " (fresh)") for item in foods(k, n))


def test_one_labelled_page_yields_complete_lists(tmp_path):
    pairs = [recipe(k, 4 + 3 * k) for k in range(4)]
    pages, labels = [page for page, _ in pairs], [pairs[0][1], None, None, None]
    extractor = fitted(pages, labels)
    records = extractor.extract(pages)
    for k, record in enumerate(records):
        assert record.fields["food"].values == expected(k, 4 + 3 * k)
        assert record.fields["name"].value == f"Soup number {k}"
    # the labelled list has four elements, so five of six would be right by the rule of succession
    assert records[3].fields["food"].confidence == pytest.approx(5 / 6)
    extractor.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").extract(pages) == records
    assert json.loads(json.dumps(records[1].to_json()))["fields"]["food"]["values"] == list(expected(1, 7))


def test_an_incompletely_labelled_list_has_a_low_confidence():
    page, labels = recipe(1)
    complete = fitted([page], [labels]).extract(page)[0].fields["food"].confidence
    labels.values["food"] = labels.values["food"][:7]
    cell = fitted([page], [labels]).extract(page)[0].fields["food"]
    assert cell.values == expected(1, 12) and cell.confidence < 0.6 < complete


def test_values_with_other_punctuation_are_on_the_page():
    page, labels = recipe(2)
    view = View(page)
    value = labels.values["food"][0]
    (span,) = find_value(view, value)
    assert span_text(view, span) == f"▢ {expected(2, 1)[0]}"
    assert find_value(view, "3 cups") and not find_value(view, "4 cups salt, stale")
    assert words_of("1½ cups") == words_of("1 1/2 cups") and words_of("12.00") != words_of("1200")


def test_a_missing_value_does_not_make_the_whole_list_unknown():
    page, labels = recipe(3)
    labels.values["food"].append("9 cups of stardust")
    extractor = Extractor(calibrate=False, several=["food"]).fit([page], [labels], skip_unmatched=True)
    assert extractor.extract(page)[0].fields["food"].values == expected(3, 12)
    assert extractor.problems_ == ["3.html: food '9 cups of stardust' is not on the page"]


def test_a_list_with_other_markup_is_one_decision():
    pages, labels = zip(*(recipe(k) for k in range(4)))
    other, _ = recipe(5, 9, element="<p class='line'>{} {} ({})</p>", menu="span")
    extractor = fitted([*pages, other], [*labels, None])
    cell = extractor.extract([*pages, other])[-1].fields["food"]
    assert cell.values == expected(5, 9) and cell.confidence < 0.5


def test_hidden_lists_are_read_if_labels_refer_to_them(tmp_path):
    pages, labels = [], []
    for k in range(3):
        page, given = recipe(k)
        html = page.canonical().replace('class="food"', 'class="food" style="display: none"')
        pages.append(Page.from_html(html, name=page.name, site=page.site))
        labels.append(given)
    extractor = fitted(pages, [labels[0], None, None])
    assert extractor.hidden_ and extractor.extract(pages)[2].fields["food"].values == expected(2, 12)
    extractor.save(tmp_path / "m.medn")
    assert Extractor.load(tmp_path / "m.medn").hidden_
    shown = recipe(0)
    assert not fitted([shown[0]], [shown[1]]).hidden_


@pytest.mark.parametrize("part", [{"selectors": [[[], 0, ""]]}, {"selectors": [[["li"], 99, "a"]]},
                                  {"selectors": [[["li"], 0, 7]]}, {"n_correct": -1}])  # fmt: skip
def test_damaged_lists_are_refused(part):
    plain = ValueList([Selector(("ul", "li"), 1, "food")], 3, 1, False).to_plain()
    assert ValueList.from_plain(plain).to_plain() == plain
    with pytest.raises((ValueError, TypeError)):
        ValueList.from_plain({**plain, **part})

import numpy as np
import pytest
from toy_list import toy_list

from maxendnet import M3N, LapMEDN
from maxendnet.estimators.file import ModelFileError, load, read, save
from maxendnet.web.fields.labels import LabelError, PageLabels
from maxendnet.web.listings.regions import choose_records, find_regions
from maxendnet.web.model.calibration import Calibration, fit_calibration
from maxendnet.web.model.check import check
from maxendnet.web.model.decode import BestLeaf, best_leaves, field_margins
from maxendnet.web.model.extractor import Extractor
from maxendnet.web.model.record import Cell, Record
from maxendnet.web.model.site_votes import vote_by_site
from maxendnet.web.model.systems import CONSTANTS, estimator
from maxendnet.web.pages.page import Page
from maxendnet.web.tool.evaluation import evaluate
from maxendnet.web.tool.toy import FIELDS, toy_pages
from maxendnet.web.views.view import View, make_views


@pytest.fixture(scope="module")
def toy():
    return toy_pages(n_sites=4, n_pages=6, random_state=3)


@pytest.fixture(scope="module")
def fitted(toy):
    labels = [x if i % 6 < 3 else None for i, x in enumerate(toy.labels)]
    return Extractor().fit(toy.pages, labels)


def rest(toy):
    rows = [i for i in range(len(toy.pages)) if i % 6 >= 3]
    return [toy.pages[i] for i in rows], [toy.labels[i] for i in rows]


def test_three_labelled_pages_per_site_are_enough(toy, fitted):
    pages, labels = rest(toy)
    scores = evaluate(pages, labels, fitted.extract(pages), fitted.fields_, fitted.images_)
    assert fitted.fields_ == list(FIELDS) and fitted.images_ and not fitted.problems_
    assert scores.average_f1 > 0.97 and scores.all_right == 1.0


def test_features_for_new_sites_work_on_an_unlabelled_site(toy):
    known = [x if i < 18 else None for i, x in enumerate(toy.labels)]
    extractor = Extractor(features="new").fit(toy.pages[:18], known[:18])
    scores = evaluate(toy.pages[18:], toy.labels[18:], extractor.extract(toy.pages[18:]), ["name", "price"], True)
    assert scores.average_f1 >= 0.9
    assert all(
        name.split(":")[0] not in ("neighbours", "exact_position") for name in extractor.estimator_.feature_names_
    )


def test_a_missing_field_is_empty_with_a_minimum_confidence(toy, fitted):
    pages, _ = rest(toy)
    least = 0.5
    for record, every in zip(fitted.extract(pages, min_confidence=least), fitted.extract(pages)):
        for name, cell in every.fields.items():
            expected = None if cell is None or cell.confidence < least else cell
            assert record.fields[name] == expected
    assert fitted.extract(pages, min_confidence=1.0)[0].fields == dict.fromkeys(FIELDS)
    assert fitted.extract([Page.from_html("", name="empty")])[0].fields == dict.fromkeys(FIELDS)


def test_a_saved_model_extracts_the_same(toy, fitted, tmp_path):
    fitted.save(tmp_path / "m.medn")
    again = Extractor.load(tmp_path / "m.medn")
    assert again.extract(toy.pages[:4]) == fitted.extract(toy.pages[:4])
    assert type(load(tmp_path / "m.medn")) is LapMEDN  # also an ordinary model file
    load(tmp_path / "m.medn").save(tmp_path / "plain.medn")
    with pytest.raises(ModelFileError, match="not a model of web pages"):
        Extractor.load(tmp_path / "plain.medn")


def forged(application):
    """Yield variants of the saved state with an entry removed or replaced."""
    for name in application:
        if name not in ("kind", "version"):
            yield name, {key: value for key, value in application.items() if key != name}
            for value in (None, 7, "text", [], [None], {"a": 1}, [[0, 99]], 10**400):
                yield name, application | {name: value}
    for part in ("settings", "calibrations"):
        for key in application[part]:
            for value in ({"odd": "value"}, None, "hierarchical", 3):
                yield f"{part} {key}", application | {part: application[part] | {key: value}}


def test_a_forged_file_is_rejected_or_harmless(toy, fitted, tmp_path):
    fitted.save(tmp_path / "m.medn")
    header, refused = read(tmp_path / "m.medn").header, 0
    for what, application in forged(header["application"]):
        save(fitted.estimator_, tmp_path / "f.medn", application)
        try:
            records = Extractor.load(tmp_path / "f.medn").extract(toy.pages[:2])
        except ModelFileError as error:
            assert "f.medn" in str(error) and "maxendnet web train" in str(error), what
            refused += 1
        except ValueError as error:  # a valid setting that does not fit these pages
            assert "rendered" in str(error), what
        else:
            assert len(records) == 2, what
    assert refused > 50


def test_the_chosen_leaf_has_the_largest_margin_in_its_record(toy, fitted):
    views, margins = fitted.margins(toy.pages[:3])
    for view, m, record in zip(views, margins, fitted.extract(toy.pages[:3])):
        for f, cell in enumerate(record.fields.values()):
            leaf = view.leaf_of[cell.node]
            taken = [x.node for x in record.fields.values() if x is not cell]
            free = [k for k, t in enumerate(view.leaves) if t not in taken]
            assert m[leaf, f] == m[free, f].max()


def test_margins_are_over_none_and_share_labels_with_two_fields():
    values = np.array([[1.0, 4.0, 2.0, 0.0]])
    assert field_margins(values, ["a", "a+b", "c", "none"], ["a", "b", "c", "d"]).tolist() == [[4.0, 4.0, 2.0, -np.inf]]
    assert best_leaves(np.full((2, 1), -np.inf), ["x", "y"]) == [None]
    assert best_leaves(np.array([[1.0], [3.0], [2.0]]), ["x", "y", "z"], [0, 2])[0].leaf == 2


def test_a_node_with_two_fields():
    pages = [Page.from_html(f"<h1>Book {n}</h1><p>Penguin, {n}</p>", name=str(n), site="s") for n in range(2001, 2007)]
    labels = [PageLabels(p.name, labels=[(2, "title"), (4, "publisher"), (4, "year")]) for p in pages]
    extractor = Extractor(calibrate=False).fit(pages[:4], labels[:4])
    fields = extractor.extract(pages[4:])[0].fields
    assert fields["publisher"].node == fields["year"].node == 4 and fields["title"].node == 2


def test_errors_say_what_to_do(toy):
    with pytest.raises(ValueError, match="2 pages but 1 labels"):
        Extractor().fit(toy.pages[:2], toy.labels[:1])
    with pytest.raises(LabelError, match="no page is labelled"):
        Extractor().fit(toy.pages[:2], [None, None])
    with pytest.raises(LabelError, match="none of the labels occurs on its page"):
        Extractor().fit(toy.pages[:1], [PageLabels("a", values={"price": ["not there"]})], skip_unmatched=True)
    with pytest.raises(ValueError, match="model is 'graph'; choose one of 'choice'"):
        Extractor(model="graph").fit(toy.pages[:2], toy.labels[:2])
    with pytest.raises(ValueError, match="features is 'all'; choose one of 'known', 'new'"):
        Extractor(features="all").fit(toy.pages[:2], toy.labels[:2])
    layout = np.zeros((len(toy.pages[0]), 11))
    with pytest.raises(ValueError, match="1 of 2 pages have a layout"):
        Extractor().fit([toy.pages[0].with_layout(layout), toy.pages[1]], toy.labels[:2])


# ---- unmatched labels ------------------------------------------------------------------------------------------------


def misspelt(toy, n_right=1):
    """Labels of the first three pages of every site; the brand is right only on the first ``n_right``."""
    labels = [
        PageLabels(x.page, x.site, values=dict(x.values)) if i % 6 < 3 else None for i, x in enumerate(toy.labels)
    ]
    for i, given in enumerate(labels):
        if given is not None and i % 6 >= n_right and given.values.get("brand"):
            given.values["brand"] = [given.values["brand"][0][:-1] + "q"]
    return labels


def test_an_unmatched_label_is_an_error_with_the_nearest_texts(toy):
    labels = misspelt(toy)
    wrong = [x for i, x in enumerate(labels) if x is not None and i % 6 and x.values.get("brand")]
    with pytest.raises(LabelError, match=f"{len(wrong)} labels are not on their pages") as error:
        Extractor(calibrate=False).fit(toy.pages, labels)
    truth = {x.page: x.values["brand"][0] for x in toy.labels if x.values.get("brand")}
    for given in wrong[:10]:
        line = next(line for line in str(error.value).splitlines() if line.strip().startswith(f"{given.page}: "))
        assert f"brand {given.values['brand'][0]!r} is not on the page; nearest texts: {truth[given.page]!r}" in line
    assert "--skip-unmatched" in str(error.value) and "skip_unmatched=True" in str(error.value)


def test_an_unmatched_label_by_node_is_an_error():
    pages = [Page.from_html(f"<h1>Cup {n}</h1><p hidden>$5</p>", name=str(n)) for n in range(2)]
    labels = [PageLabels(page.name, labels=[(2, "name"), (4, "price")]) for page in pages]
    with pytest.raises(LabelError, match="0: price at node 4 is not shown: label a visible text"):
        Extractor(calibrate=False).fit(pages, labels)


@pytest.mark.parametrize("model", ["choice", "chain"])
def test_a_skipped_label_is_unknown_and_not_negative(toy, model):
    """Two of three labelled brands per site are misspelt. The model must not learn that these pages lack a brand."""
    extractor = Extractor(model=model).fit(toy.pages, misspelt(toy), skip_unmatched=True)
    pages, labels = rest(toy)
    scores = evaluate(pages, labels, extractor.extract(pages, min_confidence=0.2), extractor.fields_, extractor.images_)
    assert {field.name: field.recall for field in scores.fields}["brand"] == 1.0
    assert all("brand" in problem and "is not on the page" in problem for problem in extractor.problems_)
    assert len(extractor.problems_) == len(set(extractor.problems_)) > 0
    # share of the pages with a known brand
    known = [x for i, x in enumerate(toy.labels) if i % 6 == 0]
    assert [past["brand"].share for past in extractor.memory_.values() if "brand" in past] == [
        1.0 for x in known if x.values.get("brand")
    ]


def test_a_field_without_usable_labels_is_always_empty(toy):
    extractor = Extractor(calibrate=False).fit(toy.pages, misspelt(toy, n_right=0), skip_unmatched=True)
    records = extractor.extract(toy.pages[3:6])
    assert all(record.fields["brand"] is None and record.fields["price"] is not None for record in records)


# ---- other models ---------------------------------------------------------------------------------------------------


def test_a_model_remembers_whether_it_had_layout(toy, fitted):
    with pytest.raises(ValueError, match="trained on pages that were not rendered"):
        fitted.extract([toy.pages[0].with_layout(np.zeros((len(toy.pages[0]), 11)))])


@pytest.mark.parametrize("model", ["chain", "hierarchical"])
def test_other_page_models_and_margin_estimators(toy, model):
    system = M3N(C=0.1, tol=0.1, max_passes=200, random_state=0)
    known = [0, 1, 2, 6, 7, 8]
    extractor = Extractor(system, model, calibrate=False).fit(
        [toy.pages[i] for i in known], [toy.labels[i] for i in known]
    )
    assert extractor.estimator_.cost.max() == 5.0
    pages, labels = [toy.pages[i] for i in (4, 10)], [toy.labels[i] for i in (4, 10)]
    assert evaluate(pages, labels, extractor.extract(pages), extractor.fields_, True).average_f1 > 0.8


def test_siblings_and_constraints_belong_to_the_hierarchical_model_and_are_saved(toy, tmp_path):
    known = [0, 1, 2, 6, 7, 8]
    extractor = Extractor(model="hierarchical", calibrate=False, siblings=True, constraints=True)
    extractor.fit([toy.pages[i] for i in known], [toy.labels[i] for i in known])
    structure = extractor.estimator_.model_.structure
    assert structure.siblings and len(structure.forbidden) > 20
    pages, labels = [toy.pages[i] for i in (4, 10)], [toy.labels[i] for i in (4, 10)]
    assert evaluate(pages, labels, extractor.extract(pages), extractor.fields_, True).average_f1 > 0.8
    extractor.save(tmp_path / "m.medn")
    again = Extractor.load(tmp_path / "m.medn")
    assert again.siblings and again.constraints and again.extract(pages) == extractor.extract(pages)
    with pytest.raises(ValueError, match="siblings and constraints require model='hierarchical'; model is 'chain'"):
        Extractor(model="chain", siblings=True).fit(toy.pages[:3], toy.labels[:3])


# ---- confidence, agreement ------------------------------------------------------------------------------------------


def test_a_better_score_never_lowers_the_confidence():
    rng = np.random.default_rng(0)
    score, lead = rng.normal(size=200) * 3, rng.exponential(size=200)
    right = rng.random(200) < 1 / (1 + np.exp(-score - lead + 1))
    curve = fit_calibration([BestLeaf(0, s, l) for s, l in zip(score, lead)], right)
    assert curve.score >= 0 and curve.lead >= 0 and curve.n_answers == 200
    confidence = np.array([curve(BestLeaf(0, s, l)) for s, l in zip(score, lead)])
    assert abs(confidence.mean() - right.mean()) < 0.03
    assert np.mean((confidence - right) ** 2) < np.mean((right.mean() - right) ** 2)


def test_few_correct_answers_do_not_give_certainty():
    curve = fit_calibration([BestLeaf(0, 5.0, 1.0)] * 20, [True] * 20)
    assert 0.85 < curve(BestLeaf(0, 5.0, 1.0)) < 0.99
    assert fit_calibration([BestLeaf(0, 1.0, 0.0)], [True]) == Calibration()


def test_correlated_answers_count_less():
    answers, right = [BestLeaf(0, 5.0, 1.0)] * 200, [True] * 200
    alone = fit_calibration(answers, right)
    of_four_sites = fit_calibration(answers, right, [k % 4 for k in range(200)])
    assert alone.n_answers == 200 and of_four_sites.n_answers == pytest.approx(8)
    assert alone(answers[0]) > 0.98 > 0.91 > of_four_sites(answers[0])
    assert of_four_sites(BestLeaf(0, 20.0, 10.0)) <= 0.9  # 8 of 8 correct support a confidence of at most 0.9


def test_pages_of_a_site_vote():
    pages = [Page.from_html(f"<p class=a>{n}</p><p class=b>{n}</p>", site="s") for n in range(3)]
    views = make_views(pages)
    margins = [np.array([[2.0], [0.0]]), np.array([[2.0], [0.0]]), np.array([[0.0], [0.5]])]
    voted = vote_by_site(views, margins)
    assert voted[2][:, 0].argmax() == 0
    assert vote_by_site(views, margins, weight=0.0)[2].tolist() == margins[2].tolist()
    assert vote_by_site(views[2:], margins[2:])[0].tolist() == margins[2].tolist()  # a single page has no votes


# ---- records --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 7, 30])
def test_runs_of_similar_siblings_are_records(n):
    html, items = toy_list(n)
    page = Page.from_html(html)
    sizes = [len(region) for region in find_regions(page)]
    assert n in sizes
    region = max(find_regions(page), key=lambda region: sum(b - a for a, b in region))
    assert [item["name"] in page.text(first) for item, (first, _) in zip(items, region)] == [True] * n


def test_records_of_two_rows():
    rows = "".join(f"<dt>name {i}</dt><dd><b>{i}</b><i>x</i></dd>" for i in range(4))
    regions = find_regions(Page.from_html(f"<dl>{rows}</dl>"))
    assert [len(region) for region in regions] == [4]


def test_detected_records_do_not_mix_cells():
    pages, labels = [], []
    for seed in range(3):
        html, items = toy_list(6, seed)
        pages.append(Page.from_html(html, name=f"{seed}.html", site="list"))
        values = {f: [x[f] for x in items] for f in ("name", "price", "brand")}
        labels.append(PageLabels(f"{seed}.html", "list", values=values))
    extractor = Extractor(calibrate=False).fit(pages[:2], labels[:2])
    html, items = toy_list(6, 2)
    page = Page.from_html(html.replace(items[3]["price"], ""), name="2.html", site="list")
    records = extractor.extract([page], records="auto", min_confidence=0.5)
    assert [r.record for r in records] == list(range(6))
    for k, (record, item) in enumerate(zip(records, items)):
        for name in ("name", "brand", "price"):
            if (k, name) == (3, "price"):
                assert record.fields[name] is None  # a missing cell stays empty
            else:
                assert record.fields[name].value == item[name]
    first = records[0].fields["name"].node
    given = extractor.extract([page], records=[[(first - 2, first + 6)]])
    assert len(given) == 1 and given[0].fields["name"].value == items[0]["name"]


def test_a_page_without_runs_is_one_record(toy, fitted):
    views, margins = fitted.margins(toy.pages[:1])
    assert choose_records(views[0], margins[0]) == [list(range(len(views[0])))]
    assert choose_records(View(Page.from_html("")), np.zeros((0, 2))) == [[]]
    with pytest.raises(ValueError, match="records is 'many'"):
        fitted.extract(toy.pages[:1], records="many")


# ---- check ----------------------------------------------------------------------------------------------------------


def test_check_detects_a_changed_site(toy, fitted):
    assert [report.changed for report in check(fitted, toy.pages)] == [False] * 4
    changed_pages = toy_pages(n_sites=5, n_pages=3, random_state=9).pages[12:]
    for page in changed_pages:
        page.site = "shop0.example"
    (report,) = check(fitted, changed_pages)
    assert report.changed and report.known and "price" in report.gone and report.n_pages == 3
    assert any(word.startswith("price: it was at body > ") for word in report.words)
    for page in changed_pages:
        page.site = "never.labelled"
    (report,) = check(fitted, changed_pages)
    assert not report.changed and not report.known  # an unlabelled site cannot have changed


@pytest.mark.parametrize("missing", [0.1, 0.5])
@pytest.mark.parametrize("calibrate", [False, True])
def test_check_reports_no_change_of_the_training_pages(missing, calibrate):
    toy = toy_pages(n_sites=5, n_pages=6, random_state=5, missing=missing)
    for n in (1, 3, 6):
        labels = [x if i % 6 < n else None for i, x in enumerate(toy.labels)]
        extractor = Extractor(calibrate=calibrate).fit(toy.pages, labels)
        for pages in (toy.pages, [p for p, x in zip(toy.pages, labels) if x is not None]):
            assert [r.words for r in check(extractor, pages) if r.changed] == []


def test_constants_for_new_sites_depend_on_the_number_of_labelled_sites():
    toy = toy_pages(n_sites=6, n_pages=1, random_state=0)
    for n, where in ((2, "new"), (6, "many")):
        model = Extractor(features="new", calibrate=False).fit(toy.pages[:n], toy.labels[:n]).estimator_
        assert {"lam": model.lam, "C": model.C} == CONSTANTS["choice"][where]["lapmedn"]
    known = Extractor(calibrate=False).fit(toy.pages, toy.labels).estimator_
    assert CONSTANTS["choice"]["known"]["lapmedn"]["C"] == known.C
    assert estimator("l2crf", 7.0, "many", "chain").lam == 7.0
    assert estimator("l2crf", None, "many", "chain").lam == CONSTANTS["other models"]["new"]["l2crf"]["lam"]


def test_pages_with_one_or_two_texts_can_be_labelled():
    """The label ``none`` is known even if it is rare."""
    small = [Page.from_html(f"<p>${n}</p>", name=f"{n}", site="s") for n in range(1, 5)]
    page = Page.from_html("<h1>Shop</h1><p>$9</p><p>Help</p><i>x</i>", name="9", site="s")
    labels = [PageLabels(p.name, values={"price": [f"${p.name}"]}) for p in [*small, page]]
    extractor = Extractor(calibrate=False).fit([*small, page], labels)
    assert extractor.extract([page])[0].fields["price"].value == "$9"
    pairs = [Page.from_html(f"<p>${n}</p><h1>Cup {n}</h1>", name=f"{n}", site="s") for n in range(1, 5)]
    names = [PageLabels(p.name, values={"name": [f"Cup {p.name}"]}) for p in pairs]
    extractor = Extractor(calibrate=False).fit(pairs, names)
    assert [r.fields["name"].value for r in extractor.extract(pairs)] == [f"Cup {n}" for n in range(1, 5)]


def test_constraints_that_forbid_a_field_at_a_leaf():
    """Forbidden labels have a score of -inf and are ignored by scales and levels."""
    html = "<p class=name>Cup {0}</p><p class=price>${0}.99</p><div><p>Home</p><p>Help {0}</p></div>"
    pages = [Page.from_html(html.format(n), name=str(n), site="s") for n in range(1, 7)]
    labels = [PageLabels(p.name, values={"name": [f"Cup {p.name}"], "price": [f"${p.name}.99"]}) for p in pages]
    extractor = Extractor(model="hierarchical", constraints=True, calibrate=False).fit(pages[:4], labels[:4])
    assert extractor.scale_ > 0 and np.isfinite(extractor.levels_).all()
    for record in extractor.extract(pages[4:]):
        assert all(cell is None or 0 <= cell.confidence <= 1 for cell in record.fields.values())


def test_a_loaded_model_uses_the_constants_for_its_number_of_sites(tmp_path):
    toy = toy_pages(n_sites=6, n_pages=1, random_state=0)
    Extractor(features="new", calibrate=False).fit(toy.pages[:2], toy.labels[:2]).save(tmp_path / "m.medn")
    again = Extractor.load(tmp_path / "m.medn")
    assert again.estimator is None and again.fit(toy.pages, toy.labels).estimator_.lam == 100.0
    Extractor(M3N(C=0.3), calibrate=False).fit(toy.pages[:2], toy.labels[:2]).save(tmp_path / "m.medn")
    again = Extractor.load(tmp_path / "m.medn").fit(toy.pages, toy.labels).estimator_
    assert type(again) is M3N and again.C == 0.3


def test_unknown_names_are_rejected():
    for given, message in (
        ({"where": "knwon"}, "no situation 'knwon'; choose one of known, new, many"),
        ({"model": "choise"}, "no model 'choise'"),
        ({"system": "svm"}, "no system 'svm'"),
        ({"system": "crf", "strength": 2.0}, "strength is 2.0, but crf has no regularisation"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator(**{"system": "lapmedn"} | given)


def test_several_values_labelled_by_place_in_a_listing_are_all_true():
    page = Page.from_html("<ul><li><b>Book 1</b><i>Ann</i><i>Bob</i><li><b>Book 2</b><i>Cid</i><i>Dan</i>", name="a")
    authors = [page.texts.index(name) for name in ("Ann", "Bob ", "Cid", "Dan")]
    labels = PageLabels("a", labels=[(node, "author") for node in authors], records=[(2, 8), (9, 15)])
    cells = [Cell("Ann; Bob", 0.9, 6, values=("Ann", "Bob")), Cell("Cid; Dan", 0.9, 13, values=("Cid", "Dan"))]
    records = [Record("a", "", i, {"author": cell}) for i, cell in enumerate(cells)]
    assert evaluate([page], [labels], records, ["author"]).all_right == 1.0

"""The web experiment: its pages, its systems against the core, its scores, its conclusions."""

import numpy as np
import pytest

from maxendnet.experiments.claims import web
from maxendnet.experiments.engine.experiment import BETTER, DIFFERENT, FAILS, NOT_BETTER, OPEN
from maxendnet.experiments.engine.systems import SYSTEMS
from maxendnet.experiments.engine.web_cards import by_draw, cards
from maxendnet.experiments.engine.web_data import WebPages, convert_swde, generated_pages, web_pages
from maxendnet.experiments.engine.web_systems import (
    CHOSEN,
    GRIDS,
    KNOWN,
    NEW,
    _distinct_columns,
    chosen,
    fit,
    margins,
    measure,
    score,
)
from maxendnet.web import Extractor
from maxendnet.web.fields.leaf_labels import fields_of
from maxendnet.web.model.dataset import examples_of
from maxendnet.web.model.decode import field_margins
from maxendnet.web.tool.toy import toy_pages


@pytest.fixture(scope="module")
def pages():
    shop = toy_pages(n_sites=3, n_pages=5)
    return WebPages([
        {"page": page.name, "site": page.site, "html": shop.html[page.name], "values": given.values,
         "split": ("train", "train", "dev", "test", "test")[i % 5]}
        for i, (page, given) in enumerate(zip(shop.pages, shop.labels))
    ])  # fmt: skip


def test_pages_are_cut_by_split_and_site(pages):
    assert pages.fields == ["brand", "name", "price"] and len(pages.sites) == 3
    assert len(pages.rows("train")) == 6 and len(pages.rows("test", pages.sites[:1])) == 2
    assert set(pages.site[pages.rows("dev", pages.sites[1:])]) == set(pages.sites[1:])


def test_columns_are_those_of_the_groups_on_enough_sites(pages):
    rows = pages.rows("train")
    names = np.array(pages.featurised("independent")[0].numbering.names())
    known, new = (set(names[pages.columns(rows, p.groups, p.min_sites, "independent")]) for p in (KNOWN, NEW))
    assert new < known and not any(name.startswith("neighbours:") for name in new)
    one = pages.columns(pages.rows("train", pages.sites[:1]), NEW.groups, 2, "independent")
    assert len(one)  # one site cannot be two: there, one is enough
    both = [set(names[pages.columns(pages.rows("train", [s]), NEW.groups, 1, "independent")]) for s in pages.sites]
    assert new == {name for name in set().union(*both) if sum(name in some for some in both) >= 2}


def test_margins_of_leaves_by_a_product_are_max_marginals(pages):
    train, test = pages.rows("train"), pages.rows("test")
    fitted = fit(pages, train, "L2-CRF", {"lam": 1.0}, "independent", KNOWN)
    made, matrices = pages.featurised("independent"), pages.matrices("independent")
    examples = examples_of([made[i] for i in test], [matrices[i][:, fitted.columns] for i in test], "independent")
    values = fitted.estimator.predict_max_marginals(examples)
    expected = field_margins(values, fitted.estimator.classes_.tolist(), pages.fields)
    np.testing.assert_allclose(np.concatenate(margins(pages, test, fitted, "independent")), expected, atol=1e-9)


def test_distinct_columns_are_fitted_as_one_without_a_change(pages):
    """Merging identical columns does not change the optimal objective of an L1-CRF."""
    from maxendnet import L1CRF

    train = pages.rows("train")
    fitted = fit(pages, train, "L1-CRF", {"lam": 0.3}, "independent", KNOWN)
    made, matrices = pages.featurised("independent"), pages.matrices("independent")
    examples = examples_of([made[i] for i in train], [matrices[i][:, fitted.columns] for i in train], "independent",
                           [pages.labels[i] for i in train])  # fmt: skip
    whole = L1CRF(lam=0.3, structure="independent", tol=1e-4).fit(examples)
    assert fitted.estimator.coef_.shape[0] < len(fitted.columns)
    assert whole.objective_ * (1 - 1e-4) <= fitted.estimator.objective_ <= whole.objective_ * 1.06
    penalty = 0.3 * np.abs(fitted.weights).sum()
    np.testing.assert_allclose(penalty, 0.3 * np.abs(fitted.estimator.coef_).sum(), rtol=1e-9)


def test_columns_that_all_differ_keep_their_places(pages, monkeypatch):
    """Weights of an L1 system are assigned to their columns, also if all columns differ."""
    train, model = pages.rows("train"), "independent"
    made, matrices = pages.featurised(model), pages.matrices(model)
    columns = pages.columns(train, KNOWN.groups, KNOWN.min_sites, model)
    columns = columns[np.sort(_distinct_columns([matrices[i][:, columns] for i in train])[0])]
    monkeypatch.setattr(pages, "columns", lambda *_: columns)
    fitted = fit(pages, train, "L1-CRF", {"lam": 0.3}, model, KNOWN)
    labels = [pages.labels[i] for i in train]
    examples = examples_of([made[i] for i in train], [matrices[i][:, columns] for i in train], model, labels)
    right = np.mean(fitted.estimator.classes_[(examples.X @ fitted.weights[columns]).argmax(axis=1)] == examples.y)
    assert right == fitted.estimator.score(examples_of(
        [made[i] for i in train],
        [matrices[i][:, columns[_distinct_columns([matrices[j][:, columns] for j in train])[0]]] for i in train],
        model, labels,
    ))  # fmt: skip
    assert right > 0.9


def test_the_default_extractor_gives_the_same_answers(pages):
    """The experiment's short cuts lead to the cells that a user gets."""
    shop = toy_pages(n_sites=3, n_pages=5)
    known = set(pages.rows("train").tolist())
    for given in shop.labels:
        given.values.pop("image", None)
    extractor = Extractor(calibrate=False, agreement=0.0)
    extractor.fit(shop.pages, [x if i in known else None for i, x in enumerate(shop.labels)], fields=pages.fields)
    fitted = fit(pages, pages.rows("train"), "LapMEDN", chosen("LapMEDN", "choice", KNOWN), "choice", KNOWN)
    found = margins(pages, np.arange(len(shop.pages)), fitted, "choice")
    for record, m, view in zip(extractor.extract(shop.pages), found, pages.views):
        for f, name in enumerate(pages.fields):
            if record.fields[name] is not None and name != "brand":
                assert view.texts[int(m[:, f].argmax())] in record.fields[name].value


def test_scores_count_hits_answers_and_pages(pages):
    rows = pages.rows("test")

    def margins_for(right):
        out = []
        for i, ok in zip(rows, right):
            m = np.full((len(pages.views[i]), 3), -1.0)
            for f, name in enumerate(pages.fields):
                m[[name in label.split("+") for label in pages.labels[i]], f] = 1.0 if ok else -2.0
            out.append(m)
        return out

    perfect = score(pages, rows, margins_for([True] * len(rows)))
    assert perfect["all_right"] == 1.0 and perfect["site_right"] == [1.0] * 3
    assert all(x == 1.0 for x in perfect["site_f1"]) or perfect["f1"] > 0.9  # a page may lack a brand
    wrong = score(pages, rows, margins_for([False] + [True] * (len(rows) - 1)))
    assert wrong["all_right"] == (len(rows) - 1) / len(rows) and wrong["f1"] < perfect["f1"]
    assert wrong["site_f1"][1:] == perfect["site_f1"][1:]


@pytest.mark.parametrize("model", ["choice", "independent", "chain", "hierarchical"])
def test_every_system_is_measured_on_every_model(pages, model):
    for system in ("LapMEDN", "L2-CRF") if model == "hierarchical" else SYSTEMS:
        row = measure(pages, pages.rows("train"), pages.rows("test"), system, chosen(system, model, KNOWN), model)
        assert 0.5 < row["f1"] <= 1 and 0 <= row["all_right"] <= 1 and 0 < row["n_large"] <= row["n_weights"]
        assert row["test_sites"] == pages.sites and len(row["site_f1"]) == 3


def test_constants_are_of_the_grids():
    for model, of_model in CHOSEN.items():
        for constants in of_model.values():
            assert list(constants) == list(GRIDS[model]) and all(constants[s] in GRIDS[model][s] for s in SYSTEMS)


def made_rows(better="LapMEDN"):
    """Finished cells in which one system is ahead by ten points."""
    rng = np.random.default_rng(0)
    return [
        {"part": "few pages", "set": "swde", "vertical": v, "draw": d, "pages": n, "model": "independent", "system": s,
         "f1": 0.8, "all_right": 0.5, "f1_agreed": 0.8, "test_sites": ["a", "b", "c"], "n_large": 10, "gap": 0.01,
         "site_f1": [0.7 + 0.1 * (s == better) - 0.1 * (s == "CRF") + x for x in rng.normal(0, 0.01, 3)],
         "site_right": [0.5] * 3, "n_weights": 100, "converged": True}
        for v in ("camera", "book") for d in range(3) for n in (2, 18) for s in SYSTEMS
    ]  # fmt: skip


def test_conclusions_follow_the_numbers():
    verdicts = {card.key: card.verdict for card in cards(made_rows())}
    assert verdicts["lap_best_few"] == BETTER and verdicts["regularised"] == BETTER
    assert verdicts["lap_like_l1m3n"] == DIFFERENT and verdicts["lap_sparse"] == FAILS
    assert {card.key: card.verdict for card in cards(made_rows("M3N"))}["lap_best_few"] == NOT_BETTER
    assert cards([]) == []
    one = [row for row in made_rows() if row["vertical"] == "camera"]
    for row in one:
        row["test_sites"], row["site_f1"], row["site_right"] = ["a"], row["site_f1"][:1], [0.5]
    assert {card.key: card.verdict for card in cards(one)}["lap_best_few"] == OPEN  # one site allows no test


def test_a_vertical_with_more_draws_weighs_no_more_in_the_figure():
    rows = [{"vertical": "a", "draw": d, "f1": 0.4 + 0.1 * d} for d in range(3)] + [
        {"vertical": "b", "draw": 0, "f1": 0.9}
    ]
    np.testing.assert_allclose(by_draw(rows, "f1"), [0.7 - 0.05, 0.7, 0.8])


def test_full_cells_are_those_of_the_paper_and_more():
    cells = web.cells("full")
    few = [c for c in cells if c["part"] == "few pages"]
    sizes = [(c["vertical"], c["draw"], percent) for c in few for percent in c["percents"]]
    assert len(sizes) == len(set(sizes)) == 8 * 10 * 7 and {p for _, _, p in sizes} == {5, 10, 15, 20, 30, 40, 50}
    assert sum(c["part"] == "new sites" for c in cells) == 8 * 7 and sum(c["part"] == "models" for c in cells) == 8 * 5
    assert len(cells) == len({str(sorted(c.items())) for c in cells})
    assert web.run(few[0] | {"vertical": "nothing"}, 0, None) == {}


def test_without_swde_the_experiment_runs_on_generated_pages(tmp_path):
    cells = web.cells("tiny")
    numbers = [web.run(cell, 0, tmp_path) for cell in cells]
    assert [bool(n) for n in numbers] == [cell["set"] == "generated" for cell in cells] and any(numbers)
    rows = [row for cell, n in zip(cells, numbers) for row in web.rows_of(cell, n)]
    assert {row["system"] for row in rows} == set(SYSTEMS)
    assert [card.key for card in cards(rows)] == ["generated"]
    pages = generated_pages(3)
    assert [len(pages.rows(split)) for split in ("train", "dev", "test")] == [15, 15, 30]


def test_block_accuracy_counts_name_image_and_price_where_pages_have_them(pages):
    rows = pages.rows("test")

    def accuracy(wrong_field):
        columns = [pages.fields.index(wrong_field)]
        page_margins = []
        for i in rows:
            margins_of_page = np.array([[1.0 if name in fields_of(label) else -1.0 for name in pages.fields]
                                        for label in pages.labels[i]])  # fmt: skip
            margins_of_page[:, columns] = -margins_of_page[:, columns]
            page_margins.append(margins_of_page)
        return score(pages, rows, page_margins)["all_right"]

    assert accuracy("brand") == 1.0 and accuracy("price") == 0.0


def test_the_archive_of_swde_becomes_our_files(tmp_path):
    shop = toy_pages(n_sites=2, n_pages=9)
    truth: dict[tuple[str, str], list[str]] = {}
    for page, given in zip(shop.pages, shop.labels):
        site, number = page.site.split(".")[0], f"{int(page.name.split('/')[1].split('.')[0]):04d}"
        path = tmp_path / "raw" / "camera" / f"camera-{site}(9)" / f"{number}.htm"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shop.html[page.name])
        for field in ("name", "brand"):
            values = given.values.get(field, []) or ["<NULL>"]
            shown = "\t".join(value.replace("&", "&amp;") for value in values)
            truth.setdefault((site, field), []).append(f"{number}\t{len(values)}\t{shown}")
    for (site, field), lines in truth.items():
        path = tmp_path / "raw" / "groundtruth" / "camera" / f"camera-{site}-{field}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([f"camera\t{site}\t{field}", "9\t9\t9\t9", *lines]))
    convert_swde(tmp_path / "raw", tmp_path, ["camera"], n_pages=8)
    pages = web_pages(tmp_path, "swde", ("camera",))
    assert pages.fields == ["brand", "name"] and [len(pages.rows(x)) for x in ("train", "dev", "test")] == [4, 4, 8]
    expected = {value for given in shop.labels for value in given.values["name"]}
    found = {view.texts[k] for view, some in zip(pages.views, pages.labels) for k, x in enumerate(some) if x == "name"}
    assert found and found <= expected
    with pytest.raises(FileNotFoundError, match="groundtruth"):
        convert_swde(tmp_path / "raw", tmp_path, ["book"])

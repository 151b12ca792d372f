"""The tagger: fits, predictions, files and errors."""

from __future__ import annotations

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from forge import forged
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import maxendnet as mx
from maxendnet.estimators.file import KIND
from maxendnet.models.container import read_sealed, write_sealed
from maxendnet.text import Columns, Tagger, TextError, TokenFeatures, read_columns, span_scores

PEOPLE, VERBS = ["Ada", "Bob", "Cleo", "Dan Brown", "Eve Smith"], ["met", "saw", "called", "the", "a"]


def corpus(n, seed=0):
    """Return sentences with names of one or two words."""
    rng = np.random.default_rng(seed)
    sentences, tags = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(rng.integers(1, 4)):
            name = str(rng.choice(PEOPLE)).split()
            words += [*name, str(rng.choice(VERBS))]
            labels += ["B-PER", *["I-PER"] * (len(name) - 1), "O"]
        sentences.append(words)
        tags.append(labels)
    return sentences, tags


@pytest.fixture(scope="module")
def tagger():
    return Tagger().fit(*corpus(60))


def test_it_learns(tagger):
    X, y = corpus(20, seed=1)
    assert tagger.predict(X) == y and tagger.score(X, y) == 1.0
    assert tagger.scheme_ == "IOB2" and tagger.estimator_.margin > 0 and tagger.estimator_.converged_


def test_spans_confidence_and_the_best(tagger):
    X, _ = corpus(5, seed=1)
    spans, confidence, best = tagger.predict_spans(X), tagger.predict_confidence(X), tagger.predict_top(X, 2)
    for x, sentence_spans, prediction, ranked in zip(X, spans, confidence, best):
        assert prediction.labels == ranked[0].labels and len(ranked) == 2
        assert_allclose(prediction.sequence, ranked[0].probability)
        assert all(prediction.sequence - 1e-12 <= span.probability <= 1 for span in sentence_spans)
        assert all(x[span.start] in {name.split()[0] for name in PEOPLE} for span in sentence_spans)


def misspelt(y):
    """Return the tags with two spelling mistakes."""
    rows = [list(tags) for tags in y]
    rows[3][0], rows[5][-1] = "b-PER", "0"
    return rows


def test_misspelt_tags_are_an_error_or_repaired():
    X, y = corpus(60)
    wrong = misspelt(y)
    with pytest.raises(TextError, match=r"^sentence 3 token 0: 'b-PER' is not a tag of IOB2"):
        Tagger().fit(X, wrong)
    with pytest.raises(TextError, match=r"^sentence 3 token 0: 'b-PER' is not a tag of IOB2"):
        Tagger().fit(X, y, validation=(X, wrong))
    expected = Tagger().fit(X, y)
    with pytest.raises(TextError, match="'b-PER' is not a tag of IOB2"):
        expected.score(X, wrong)
    with pytest.raises(TextError, match="'b-PER' is not a tag of IOB2"):
        expected.partial_fit(X, wrong)
    repaired = Tagger(repair=True).fit(X, wrong, validation=(X, wrong))
    assert repaired.scheme_ == "IOB2" and repaired.classes_.tolist() == expected.classes_.tolist()
    assert_allclose(repaired.estimator_.model_.weights, expected.estimator_.model_.weights)
    assert repaired.score(X, wrong) == expected.score(X, y) == repaired.validation_[-1].score == 1.0
    assert repaired.partial_fit(X, wrong).score(X, wrong) == 1.0


def test_the_scheme_labels_accepts_any_labels():
    X, y = corpus(60)
    tagger = Tagger(scheme="LABELS", search=True, model=mx.L2CRF()).fit(X, misspelt(y))
    assert tagger.scheme_ == "LABELS" and {"b-PER", "0"} <= set(tagger.classes_)
    assert tagger.score(X, misspelt(y)) > 0.95


def test_misplaced_tags_do_not_change_the_scheme_and_are_a_warning():
    X, y = corpus(60)
    rows = [list(tags) for tags in y]
    rows[3][0] = "I-PER"
    with pytest.warns(UserWarning, match="^sentence 3 token 0: I-PER starts a span, .*; such tags: 1") as caught:
        assert Tagger().fit(X, rows).scheme_ == "IOB2"
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Tagger(repair=True).fit(X, rows).predict(X) == y


@pytest.mark.parametrize("features", ["auto", TokenFeatures(), TokenFeatures(n_hashed=64)], ids=repr)
def test_parts_of_speech_in_a_second_column_are_used(features, tmp_path):
    X = [[("w", "NNP" if k % 3 else "VB") for k in range(n)] for n in (4, 5, 6, 7)]
    y = [["B-PER" if tag == "NNP" else "O" for _, tag in x] for x in X]
    tagger = Tagger(features, calibrate=False).fit(X, y)
    assert tagger.predict(X) == y
    tagger.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.features_.template == again.features_.template_name_ == "tagged_words" and again.predict(X) == y
    assert pickle.loads(pickle.dumps(tagger)).predict(X) == y


@pytest.mark.parametrize("hashed", [None, 64])
@pytest.mark.parametrize("model", [mx.M3N(C=0.5, random_state=0), mx.L2CRF(structure=mx.Chain(pairs="seen"))], ids=repr)
def test_files(hashed, model, tmp_path):
    features = TokenFeatures("words", n_hashed=hashed, gazetteers={"people": PEOPLE}, clusters={"c": {"met": "01"}})
    tagger = Tagger(features, model).fit(*corpus(30))
    tagger.save(tmp_path / "t.medn")
    again = Tagger.load(tmp_path / "t.medn")
    X, _ = corpus(20, seed=1)
    assert again.predict(X) == tagger.predict(X) and again.scheme_ == "IOB2"
    assert again.predict_spans(X) == tagger.predict_spans(X)
    assert again.temperature_ == tagger.temperature_ and (again.temperature_ != 1.0) == isinstance(model, mx.M3N)
    assert again.predict([X[0]])[0] == tagger.predict(X)[0]
    assert isinstance(mx.load(tmp_path / "t.medn"), type(model))
    assert pickle.loads(pickle.dumps(tagger)).predict(X) == tagger.predict(X)


def test_files_that_are_not_taggers_are_an_error(tmp_path, tagger):
    mx.M3N().fit([[["a"]]], [["X"]]).save(tmp_path / "m")
    with pytest.raises(mx.ModelFileError, match="is a model, but not a tagger"):
        Tagger.load(tmp_path / "m")
    (tmp_path / "x").write_text("x")
    with pytest.raises(mx.ModelFileError, match="not a maxendnet model file"):
        Tagger.load(tmp_path / "x")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("temperature", 0, "the temperature is 0.0"),
        ("temperature", "x", "could not convert"),
        pytest.param("temperature", 10**400, "too large", id="huge"),
        ("scheme", "x", "scheme must be one of"),
        ("features", {}, "'gazetteers' is missing"),
        ("features", None, "NoneType"),
    ],
)
def test_a_file_with_invalid_content_is_an_error(part, value, message, tmp_path, tagger):
    from maxendnet.estimators.file import save

    application = {"kind": "text", "version": 1, "features": tagger.features_.to_plain(), "scheme": "IOB2",
                   "temperature": 1.0, part: value}  # fmt: skip
    save(tagger.estimator_, tmp_path / "m", application)
    with pytest.raises(mx.ModelFileError, match=f"the description of the tagger is damaged .*{message}"):
        Tagger.load(tmp_path / "m")


def test_forged_descriptions_are_refused_or_can_be_used(tmp_path, tagger):
    path, (X, _) = tmp_path / "m", corpus(3, seed=1)
    tagger.save(path)
    header, arrays = read_sealed(path, KIND)
    n_refused = 0
    for seed in range(60):
        changed, new, _ = forged(header, arrays, seed, ["application"])
        write_sealed(path, KIND, changed, {name: np.ascontiguousarray(array) for name, array in new.items()})
        try:
            Tagger.load(path).predict(X)
        except (mx.ModelFileError, TextError):
            n_refused += 1
    assert n_refused >= 30


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("n_columns_in", 0, "n_columns_in is 0"),
        ("n_columns_in", "1", "n_columns_in is '1'"),
        ("template", "U%x[0,9]", "the sentences have 1 columns"),
        ("template", 3, "template must be a name"),
        ("n_hashed", 7, "must be either hashed or named"),
        ("gazetteers", {"g": [1]}, "gazetteer 'g' has the phrase 1"),
        ("clusters", {"c": {"a": 1}}, "clusters 'c' map 'a' to 1"),
        ("min_count", "x", "min_count must be"),
    ],
)
def test_a_file_with_invalid_features_is_an_error(key, value, message, tmp_path, tagger):
    from maxendnet.estimators.file import save

    features = {**tagger.features_.to_plain(), key: value}
    save(tagger.estimator_, tmp_path / "m",
         {"kind": "text", "version": 1, "features": features, "scheme": "IOB2", "temperature": 1.0})  # fmt: skip
    with pytest.raises(mx.ModelFileError, match=message):
        Tagger.load(tmp_path / "m")


def test_constants_by_cross_validation():
    tagger = Tagger(model=mx.M3N(random_state=0), search=True, calibrate=False).fit(*corpus(30))
    assert set(tagger.search_.best_params_) == {"C"} and tagger.search_.best_params_["C"] == tagger.estimator_.C
    assert tagger.model.C == mx.M3N().C


def test_scikit_learn_tools():
    X, y = corpus(30)
    assert cross_val_score(Tagger(), Columns.of(X), y, cv=2).mean() > 0.9
    search = GridSearchCV(Tagger(model=mx.L2CRF()), {"model__lam": [0.1, 1000.0], "features": ["words"]}, cv=2)
    assert search.fit(X, y).best_params_["model__lam"] == 0.1
    assert clone(Tagger(TokenFeatures(min_count=2))).features.min_count == 2


def test_validation_sentences_are_scored_and_stop_the_fit(capsys):
    X, y = corpus(40)
    noisy = [[("O" if k % 3 == 0 else "B-PER") for k, _ in enumerate(row)] for row in y[:20]]
    model = mx.L2CRF(lam=0.1, tol=1e-8, max_passes=400)
    whole = Tagger(model=model).fit(X, y, validation=corpus(10, 1))
    evaluations = whole.validation_
    assert len(evaluations) == len(whole.estimator_.trace_) and evaluations[-1].score == 1.0
    assert [evaluation.objective for evaluation in evaluations] == [row.primal for row in whole.estimator_.trace_]
    assert capsys.readouterr().err == ""
    short = Tagger(model=model, patience=2, verbose=1).fit(X, y, validation=(X[:20], noisy))
    scores = [evaluation.score for evaluation in short.validation_]
    assert len(scores) < len(evaluations) and len(scores) - 1 - int(np.argmax(scores)) == 2
    assert "validation F1" in capsys.readouterr().err and short.estimator_.callback is None
    assert not short.estimator_.converged_


def test_patience_needs_validation_sentences():
    with pytest.raises(TextError, match="patience needs validation sentences"):
        Tagger(patience=1).fit(*corpus(3))
    with pytest.raises(TextError, match="patience must be a whole number"):
        Tagger(patience=0).fit(*corpus(3), validation=corpus(2))


def test_a_template_without_b_has_no_transitions():
    tagger = Tagger("U0=%x[0,0]").fit(*corpus(10))
    assert isinstance(tagger.estimator_.structure, mx.Independent)
    assert isinstance(Tagger("U0=%x[0,0]\nB").fit(*corpus(10)).estimator_.structure, mx.Chain)


def test_small_models_have_weights_for_all_pairs(monkeypatch):
    X, y = corpus(20)
    chosen = []  # the fitted tagger has fewer pairs, because weights are rounded
    new_model = Tagger._new_model
    monkeypatch.setattr(Tagger, "_new_model", lambda *args: chosen.append(new_model(*args)) or chosen[-1])
    pairs = lambda **options: Tagger(calibrate=False, **options).fit(X, y) and chosen[-1].structure.pairs  # noqa: E731
    n_pairs = TokenFeatures("words").fit_transform(X).n_features * len({tag for tags in y for tag in tags})
    assert pairs() == "all" and pairs(max_weights=50) == pairs(pairs="seen") == "seen"
    monkeypatch.setattr("maxendnet.text.tagger.MAX_ALL_PAIRS", n_pairs)
    assert pairs() == "all"
    monkeypatch.setattr("maxendnet.text.tagger.MAX_ALL_PAIRS", n_pairs - 1)
    assert pairs() == pairs(model=mx.L2CRF(), pairs="auto") == "seen" and pairs(pairs="all") == "all"
    monkeypatch.setattr("maxendnet.text.tagger.MAX_ALL_PAIRS", n_pairs)
    monkeypatch.setattr("maxendnet.text.tagger.MAX_LABELS", 2)
    assert pairs() == "seen"
    given = mx.L2CRF()
    tagger = Tagger(model=given, calibrate=False).fit(X, y)
    assert chosen[-1].structure == "chain" == given.structure and tagger.estimator_.structure.pairs == "seen"


def test_a_failed_fit_keeps_the_previous_one(tagger):
    model = clone(tagger).fit(*corpus(10))
    X, y = corpus(3)
    with pytest.raises(ValueError, match=r"y\[0\] has 1 labels"):
        model.fit(X, [["O"]] * 3)
    assert model.predict(X) == y


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibrate": "yes"}, "calibrate must be True, False or 'auto'"),
        ({"model": "crf"}, "model must be None, a dict of settings or an estimator of maxendnet"),
        ({"model": {"C": 2.0}}, r"L2CRF has no setting 'C'; C is 1 / lam: L2CRF\(lam=0.5\)"),
        ({"scheme": "x"}, "scheme must be one of"),
        ({"pairs": "some"}, "pairs must be 'all', 'seen', 'auto' or None"),
        ({"features": "x"}, "template is 'x'"),
    ],
)
def test_messages(options, message):
    with pytest.raises(ValueError, match=message):
        Tagger(**options).fit(*corpus(3))


def test_an_unfitted_tagger_is_an_error():
    for call in (
        lambda t: t.predict([["a"]]),
        lambda t: t.predict_spans([["a"]]),
        lambda t: t.explain(),
        lambda t: t.save("x"),
    ):
        with pytest.raises(ValueError, match="is not fitted yet"):
            call(Tagger())


def data(name):
    folder = os.environ.get("MAXENDNET_DATA")
    path = Path(folder or "none") / name
    if not path.exists():
        pytest.skip("needs the data sets (set MAXENDNET_DATA to their folder)")
    return path


@pytest.mark.long
def test_addresses():
    X, y = read_columns(data("usaddress") / "train.tsv.gz").split()
    new_X, new_y = read_columns(data("usaddress") / "test.tsv.gz").split()
    tagger = Tagger().fit(X, y)
    assert tagger.scheme_ == "LABELS"
    assert span_scores(new_y, tagger.predict(new_X)).accuracy > 0.7


def nonzero_weights(tagger):
    """Return the names of the features and labels with non-zero weights."""
    estimator = tagger.estimator_
    rows, columns = estimator.coef_.nonzero()
    return {(tagger.features_.feature_names_[f], str(estimator.classes_[k])) for f, k in zip(rows, columns)}


@pytest.mark.parametrize(
    "model",
    [None, mx.LapMEDN(C=0.5, lam=1, structure=mx.Chain(pairs="seen", bias=True), tol=1e-2, random_state=0)],
    ids=repr,
)
def test_a_small_model_keeps_the_weights_with_the_largest_effect(model, tmp_path):
    X, y = corpus(60)
    full, small = (Tagger(model=model, pairs="seen", max_weights=n).fit(X, y) for n in (None, 30))
    pairs = full.estimator_.model_.layout.seen
    examples = full.examples(X)
    n = np.asarray(examples.X.sum(axis=0)).ravel()
    columns = np.append(n, examples.X.shape[0])  # the bias is a column of ones
    counts = np.abs(full.estimator_.model_.weights[: len(pairs.labels)]) * np.sqrt(columns[pairs.features])
    least = np.sort(counts)[-30]
    names = [*full.features_.feature_names_, "bias"]
    expected = {
        (names[f], str(full.classes_[k]))
        for f, k, count in zip(pairs.features.tolist(), pairs.labels.tolist(), counts)
        if count >= least and names[f] != "bias"
    }
    assert nonzero_weights(small) == expected
    assert small.estimator_.model_.layout.seen.labels.size == 30
    assert_allclose(small.estimator_.transitions_, full.estimator_.transitions_)
    assert len(small.features_.feature_names_) == small.estimator_.n_features_in_ == len({name for name, _ in expected})
    assert np.isnan(small.estimator_.gap_) and small.score(*corpus(20, seed=1)) > 0.9
    full.save(tmp_path / "full")
    small.save(tmp_path / "small")
    assert (tmp_path / "small").stat().st_size < (tmp_path / "full").stat().st_size
    again = Tagger.load(tmp_path / "small")
    assert again.predict(X) == small.predict(X)
    assert_allclose(again.estimator_.posterior_.mean, small.estimator_.posterior_.mean)


def test_a_small_model_of_hashed_features():
    X, y = corpus(60)
    small = Tagger(TokenFeatures("words", n_hashed=256), max_weights=50).fit(X, y)
    assert small.estimator_.n_features_in_ == 256 and small.estimator_.coef_.nnz == 50
    assert small.score(X, y) > 0.9


@pytest.mark.parametrize("most", [0, -1, 2.5, True, "all"])
def test_invalid_max_weights_is_an_error(most):
    with pytest.raises(TextError, match="max_weights must be a whole number"):
        Tagger(max_weights=most).fit(*corpus(3))


@pytest.mark.parametrize("model", [mx.L2CRF(), mx.M3N(tol=1e-2)], ids=repr)
def test_max_weights_of_models_with_all_pairs(model):
    small = Tagger(model=model, max_weights=50).fit(*corpus(60))
    assert small.estimator_.coef_.nnz == 50 and small.score(*corpus(20, seed=1)) > 0.9


@pytest.mark.parametrize("tol", [1e-2, 1e-5])
@pytest.mark.parametrize("structure", [mx.Chain(), mx.Chain(pairs="seen", bias=True, ends=True)], ids=repr)
def test_weights_are_rounded_within_the_tolerance_of_the_fit(structure, tol, tmp_path):
    X, y = corpus(60)
    tagger = Tagger(model=mx.L2CRF(lam=0.1, structure=structure, tol=tol, max_passes=500), calibrate=False).fit(X, y)
    fitted = clone(tagger.model).fit(TokenFeatures("words").fit_transform(X, y))
    small = tagger.estimator_
    assert np.unique(np.abs(small.coef_.data)).size < np.unique(np.abs(np.asarray(fitted.model_.weights))).size
    assert_allclose(small.transitions_, fitted.transitions_)
    # the certificate is that of the rounded weights
    problem = fitted.pose(TokenFeatures("words").fit_transform(X, y), fitted.classes_)
    column = {name: k for k, name in enumerate(fitted.feature_names_)}
    columns = [column[name] for name in small.feature_names_]
    columns += range(fitted.n_features_in_, fitted.model_.layout.n_features)  # bias and ends
    node = np.zeros((fitted.model_.layout.n_features, len(small.classes_)))
    node[columns] = small.model_.layout.node_rows(small.model_.weights).toarray()
    layout = fitted.model_.layout
    w = np.concatenate([np.ravel(layout.node_segment(node)), fitted.model_.weights[layout.n_node_weights :]])
    assert_allclose(small.objective_, problem.primal(w))
    assert small.gap_ <= tol
    assert_allclose(small.gap_, problem.relative(small.objective_ - fitted.dual_, small.objective_))
    # a loaded tagger has the same weights, and its file has the same size
    tagger.save(tmp_path / "t")
    again = Tagger.load(tmp_path / "t")
    again.save(tmp_path / "again")
    assert np.array_equal(again.estimator_.model_.weights, small.model_.weights) and again.estimator_.gap_ == small.gap_
    assert (tmp_path / "again").stat().st_size == (tmp_path / "t").stat().st_size


def test_rounding_depends_on_the_scale_of_each_feature():
    from maxendnet.estimators.pruned import rounded

    X, y = [[{"small": 1e-3}, {"large": 1e3}, {"none": 1}, {"none": -1}]], [["x", "x", "y", "x"]]
    model = mx.L2CRF(lam=1e-6, tol=1e-2, structure=mx.Independent()).fit(X, y)
    small = rounded(model.model_, model.pose(mx.Examples.build(X, y), model.classes_), 1e-2)
    exact, result = model.coef_, np.asarray(small.layout.node_rows(small.weights).todense())
    assert_allclose(result, exact, rtol=0.05)
    assert np.abs(exact[small.feature_names.index("small")]).min() > 1e3 * np.abs(exact[0]).max()


def test_models_with_a_posterior_are_not_rounded():
    X, y = corpus(30)
    model = mx.M3N(C=0.5, random_state=0)
    expected = clone(model).fit(TokenFeatures("words").fit_transform(X, y)).model_.weights
    assert_allclose(Tagger(model=model).fit(X, y).estimator_.model_.weights, expected)


@pytest.mark.parametrize("hashed", [None, 512])
def test_partial_fit_with_new_words(hashed, tmp_path):
    features = TokenFeatures("words", n_hashed=hashed)
    tagger = Tagger(features).fit(*corpus(40))
    X, y = corpus(20, seed=1)
    new = [["Zoe" if word == "Ada" else word for word in sentence] for sentence in X]
    tagger.partial_fit(new, y)
    assert tagger.score(new, y) == 1.0 and tagger.score(X, y) == 1.0
    if hashed is None:
        assert any(name.endswith("Zoe") for name in tagger.features_.feature_names_)
    tagger.save(tmp_path / "model")
    again = Tagger.load(tmp_path / "model")
    assert again.predict(new) == y
    assert again.partial_fit(X, y).predict(X) == y
    assert Tagger().partial_fit(X, y).predict(X) == Tagger().fit(X, y).predict(X)

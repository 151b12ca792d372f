"""What is added to the score of O: in the search of labels, in the fit, and in files."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import maxendnet as mx
from maxendnet.text import Tagger, TextError, span_scores
from maxendnet.text.calibration import held_out, temperature_of
from maxendnet.text.outside import LOWERED, fit_outside, nearest_to_best, truth_of

WORDS = [f"w{k}" for k in range(40)]


def rare(n, seed):
    """Sentences in which a word is a name with a probability of its own, at most 0.45: the best labelling has none."""
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.0, 0.45, len(WORDS))
    at = [rng.integers(len(WORDS), size=8) for _ in range(n)]
    y = [np.where(rng.random(8) < chance[k], "B-PER", "O").tolist() for k in at]
    return [[WORDS[j] for j in k] for k in at], y


@pytest.fixture(scope="module")
def tagger():
    return Tagger("U0=%x[0,0]\nB").fit(*rare(1500, 0))


def test_spans_with_some_doubt_are_found(tagger):
    """With believable probabilities the best threshold is half of the F1 (Lipton et al. 2014)."""
    X, y = rare(1500, 1)
    found = tagger.predict(X)
    f1 = span_scores(y, found).f1
    assert f1 > span_scores(y, tagger.estimator_.predict(tagger.examples(X))).f1 + 0.3
    threshold = 1 / (1 + np.exp(-tagger.outside_ / tagger.temperature_))
    assert abs(threshold - f1 / 2) < 0.1
    sure = tagger.predict_confidence(X)
    assert [one.labels for one in sure] == found
    taken = [p for one in sure for label, p in zip(one.labels, one.tokens) if label != "O"]
    assert threshold - 0.1 < min(taken) < 0.5  # probabilities are those of the model: they do not rise
    spans = tagger.predict_spans(X)
    assert [[span.start for span in some] for some in spans] == [
        [t for t, a in enumerate(row) if a != "O"] for row in found
    ]


def test_the_labelling_is_the_best_of_all_by_enumeration(tagger):
    X = rare(20, 2)[0]
    X = [x[:4] for x in X]
    _, bound = tagger.estimator_._prepare(tagger.examples(X))
    classes = tagger.classes_.tolist()
    best = [(-np.inf, None)] * len(X)
    for labels in product(range(len(classes)), repeat=4):
        scores = bound.score(tagger.estimator_.model_.weights, np.tile(np.array(labels, dtype=np.int32), len(X)))
        scores = scores + tagger.outside_ * labels.count(classes.index("O"))
        named = [classes[k] for k in labels]
        best = [max(old, (float(score), named)) for old, score in zip(best, scores)]
    assert tagger.predict(X) == [labels for _, labels in best]


def test_it_is_about_the_best_on_the_sentences_held_out():
    X, y = rare(300, 0)
    tagger = Tagger("U0=%x[0,0]\nB", calibrate=False).fit(X, y)
    assert tagger.outside_ == 0.0
    folds = held_out(mx.L2CRF(lam=0.1, margin=3.0, tol=1e-2), tagger.examples(X, y))
    temperature = temperature_of(folds)
    chosen, f1 = fit_outside(folds, temperature, "IOB2")
    truth, scores = [labels for fold in folds for labels in truth_of(fold)], {}
    for lowered in LOWERED:
        found = []
        for fold in folds:
            shifted = Tagger("U0=%x[0,0]\nB", outside=-temperature * lowered)
            shifted.estimator_, shifted.classes_ = fold.model, fold.model.classes_
            shifted.features_, shifted.outside_, shifted.inner_ = tagger.features_, -temperature * lowered, None
            words = [tagger.features_.feature_names_[k][3:] for k in fold.examples.X.indices]
            cuts = fold.examples.offsets.tolist()
            found += shifted.predict([words[a:b] for a, b in pairwise(cuts)])
        scores[-temperature * lowered] = span_scores(truth, found).f1
    best = max(scores, key=scores.get)
    assert scores[0.0] + 0.1 < scores[chosen] and scores[best] - 0.03 < scores[chosen] and best <= chosen < 0
    assert f1 == pytest.approx(scores[chosen])
    assert fit_outside(folds, temperature, "LABELS").added == 0.0


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_a_standard_error_is_that_of_the_jackknife(seed):
    rng = np.random.default_rng(seed)
    there, found = rng.poisson(2.0, 300), rng.poisson(2.0, (6, 300))
    right = rng.binomial(np.minimum(there, found), rng.uniform(0.5, 0.6, (6, 1)))
    counts = np.stack([2 * right, there + found], axis=2).astype(float)
    f1 = lambda some: some[..., 0].sum(axis=1) / some[..., 1].sum(axis=1)  # noqa: E731
    whole = f1(counts)
    best = int(np.argmax(whole))
    without = np.array([f1(np.delete(counts, i, axis=1)) for i in range(300)])
    lead = without[:, [best]] - without
    error = np.sqrt(299 / 300 * ((lead - lead.mean(axis=0)) ** 2).sum(axis=0))
    behind = (whole[best] - whole) / np.where(error > 0, error, 1.0)
    assert (abs(behind - 1) > 0.03).all()  # none is so near that the two could differ
    assert nearest_to_best(counts) == np.flatnonzero(behind <= 1)[0]


def test_explanations_have_it(tagger):
    x = next(x for x, labels in zip(*rare(200, 1)) if "B-PER" in tagger.predict([x])[0])
    for one in tagger.explain(x).tokens:
        reasons = {reason.name: reason.contribution for reason in one.reasons}
        assert reasons["added to O"] == pytest.approx(tagger.outside_ * (1 if one.label == "O" else -1))
        assert sum(reasons.values()) == pytest.approx(one.lead) and one.lead >= 0


def test_files_have_it(tagger, tmp_path):
    X, _ = rare(50, 1)
    tagger.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.outside_ == tagger.outside_ < 0 and again.predict(X) == tagger.predict(X)
    mx.models.file.save(
        tagger.estimator_, tmp_path / "old",
        {"kind": "text", "version": 1, "features": tagger.features_.to_plain(), "scheme": "IOB2", "temperature": 1.0},
    )  # fmt: skip
    assert Tagger.load(tmp_path / "old").outside_ == 0.0


@pytest.mark.parametrize("outside", ["yes", None, np.nan, np.inf, [1.0]])
def test_it_must_be_a_number(outside):
    with pytest.raises(TextError, match="outside must be a number or 'auto'"):
        Tagger(outside=outside).fit([["a"]], [["O"]])

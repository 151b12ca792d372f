"""Outside bias: in predictions, in the fit, and in files."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import maxendnet as mx
from maxendnet.text import Tagger, TextError, span_scores
from maxendnet.text.fitting.calibration import held_out, temperature_of
from maxendnet.text.fitting.outside_bias import STEPS, fit_outside, nearest_to_best, true_labels

WORDS = [f"w{k}" for k in range(40)]


def rare(n, seed):
    """Return sentences where each word is a name with a probability of at most 0.45: the best labelling has none."""
    rng = np.random.default_rng(seed)
    chance = np.linspace(0.0, 0.45, len(WORDS))
    at = [rng.integers(len(WORDS), size=8) for _ in range(n)]
    y = [np.where(rng.random(8) < chance[k], "B-PER", "O").tolist() for k in at]
    return [[WORDS[j] for j in k] for k in at], y


@pytest.fixture(scope="module")
def tagger():
    return Tagger("U0=%x[0,0]\nB").fit(*rare(1500, 0))


def test_less_probable_spans_are_predicted(tagger):
    """With calibrated probabilities the best threshold is half of the F1 (Lipton et al. 2014)."""
    X, y = rare(1500, 1)
    predicted = tagger.predict(X)
    f1 = span_scores(y, predicted).f1
    assert f1 > span_scores(y, tagger.estimator_.predict(tagger.examples(X))).f1 + 0.3
    threshold = 1 / (1 + np.exp(-tagger.outside_ / tagger.temperature_))
    assert abs(threshold - f1 / 2) < 0.1
    confidences = tagger.predict_confidence(X)
    assert [confidence.labels for confidence in confidences] == predicted
    taken = [p for c in confidences for label, p in zip(c.labels, c.tokens) if label != "O"]
    assert threshold - 0.1 < min(taken) < 0.5  # the bias does not change probabilities
    spans = tagger.predict_spans(X)
    assert [[span.start for span in sentence_spans] for sentence_spans in spans] == [
        [t for t, a in enumerate(row) if a != "O"] for row in predicted
    ]


def enumerated(tagger, x):
    """Return all labellings of a sentence: labels, scores with the outside bias, probabilities."""
    _, bound = tagger.estimator_._prepare(tagger.examples([x]))
    classes, w = tagger.classes_.tolist(), tagger.estimator_.model_.weights
    every = list(product(range(len(classes)), repeat=len(x)))
    scores = np.array([bound.score(w, np.array(labels, dtype=np.int32))[0] for labels in every])
    p = np.exp(scores / tagger.temperature_)
    added = [tagger.outside_ * labels.count(classes.index("O")) for labels in every]
    return [tuple(classes[k] for k in labels) for labels in every], scores + added, p / p.sum()


STRUCTURES = {
    "chain": None, "independent": mx.L2CRF(structure="independent"), "order 2": mx.L2CRF(structure=mx.Chain(order=2)),
    "bias": mx.M3N(structure=mx.Chain(bias=True, ends=True, pairs="seen")),
}  # fmt: skip


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("outside", [-1.0, 0.0, 0.7])
def test_the_ranking_is_that_of_enumeration(structure, outside):
    tagger = Tagger("U0=%x[0,0]\nB", STRUCTURES[structure], outside=outside).fit(*rare(100, 0))
    for first in range(0, 36, 2):
        x = WORDS[first : first + 4]
        every, totals, p = enumerated(tagger, x)
        (ranked,) = tagger.predict_top([x], 5)
        assert ranked[0].labels == tagger.predict([x])[0] == list(every[int(np.argmax(totals))])
        places = [every.index(tuple(labelling.labels)) for labelling in ranked]
        assert len(set(places)) == 5
        assert_allclose(totals[places], np.sort(totals)[::-1][:5], atol=1e-9)
        assert_allclose([labelling.probability for labelling in ranked], p[places], rtol=1e-9)


@pytest.mark.parametrize("inner", [None, "BIOES"])
def test_the_first_labelling_is_the_prediction(inner):
    tagger = Tagger("U0=%x[0,0]\nU1=%x[-1,0]\nB", inner=inner, outside=-1.5).fit(*rare(300, 0))
    X, _ = rare(200, 1)
    predicted, first = tagger.predict(X), [row[0] for row in tagger.predict_top(X, 1)]
    assert [labelling.labels for labelling in first] == predicted
    assert predicted == [tagger.predict_top([x], 3)[0][0].labels for x in X]
    confidences = tagger.predict_confidence(X)
    assert [confidence.labels for confidence in confidences] == predicted
    assert_allclose([confidence.sequence for confidence in confidences], [labelling.probability for labelling in first])
    tagger.outside_ = 0.0
    assert tagger.predict(X) != predicted  # the bias matters here


@pytest.mark.parametrize("inner", [None, "BIOES"])
def test_validation_scores_include_the_bias(inner):
    new = rare(200, 1)
    tagger = Tagger("U0=%x[0,0]\nB", inner=inner, outside=-1.5).fit(*rare(200, 0), validation=new)
    assert tagger.validation_[-1].score == pytest.approx(tagger.score(*new))
    assert tagger.score(*new) > 0.1


def test_hidden_states_cannot_be_ranked_with_a_bias():
    model = mx.L2CRF(structure=mx.Chain(hidden=2), random_state=0, max_passes=5, tol=10.0)
    tagger = Tagger("U0=%x[0,0]\nB", model, outside=-1.0).fit(*rare(20, 0))
    with pytest.raises(TextError, match="with hidden states can rank labellings only with outside=0"):
        tagger.predict_top([["w1"]])


def test_the_bias_is_nearly_the_best_on_held_out_sentences():
    X, y = rare(300, 0)
    tagger = Tagger("U0=%x[0,0]\nB", calibrate=False).fit(X, y)
    assert tagger.outside_ == 0.0
    folds = held_out(mx.L2CRF(lam=0.1, margin=3.0, tol=1e-2), tagger.examples(X, y))
    temperature = temperature_of(folds)
    chosen, f1 = fit_outside(folds, temperature, "IOB2")
    truth, scores = [labels for fold in folds for labels in true_labels(fold)], {}
    for step in STEPS:
        predicted = []
        for fold in folds:
            shifted = Tagger("U0=%x[0,0]\nB", outside=-temperature * step)
            shifted.estimator_, shifted.classes_ = fold.model, fold.model.classes_
            shifted.features_, shifted.outside_, shifted.inner_ = tagger.features_, -temperature * step, None
            words = [tagger.features_.feature_names_[k][3:] for k in fold.examples.X.indices]
            cuts = fold.examples.offsets.tolist()
            predicted += shifted.predict([words[a:b] for a, b in pairwise(cuts)])
        scores[-temperature * step] = span_scores(truth, predicted).f1
    best = max(scores, key=scores.get)
    assert scores[0.0] + 0.1 < scores[chosen] and scores[best] - 0.03 < scores[chosen] and best <= chosen < 0
    assert f1 == pytest.approx(scores[chosen])
    assert fit_outside(folds, temperature, "LABELS")[0] == 0.0


@pytest.mark.parametrize("seed", [0, 2, 3, 4])
def test_the_standard_error_is_that_of_the_jackknife(seed):
    rng = np.random.default_rng(seed)
    n_true, n_predicted = rng.poisson(2.0, 300), rng.poisson(2.0, (6, 300))
    right = rng.binomial(np.minimum(n_true, n_predicted), rng.uniform(0.5, 0.6, (6, 1)))
    counts = np.stack([2 * right, n_true + n_predicted], axis=2).astype(float)
    f1 = lambda counts: counts[..., 0].sum(axis=1) / counts[..., 1].sum(axis=1)  # noqa: E731
    whole = f1(counts)
    best = int(np.argmax(whole))
    without = np.array([f1(np.delete(counts, i, axis=1)) for i in range(300)])
    lead = without[:, [best]] - without
    error = np.sqrt(299 / 300 * ((lead - lead.mean(axis=0)) ** 2).sum(axis=0))
    behind = (whole[best] - whole) / np.where(error > 0, error, 1.0)
    assert (abs(behind - 1) > 0.03).all()  # no case is so close that rounding matters
    assert nearest_to_best(counts) == np.flatnonzero(behind <= 1)[0]


def test_explanations_include_the_bias(tagger):
    x = next(x for x, labels in zip(*rare(200, 1)) if "B-PER" in tagger.predict([x])[0])
    for token in tagger.explain(x).tokens:
        reasons = {reason.name: reason.contribution for reason in token.reasons}
        assert reasons["added to O"] == pytest.approx(tagger.outside_ * (1 if token.label == "O" else -1))
        assert sum(reasons.values()) == pytest.approx(token.lead) and token.lead >= 0


def test_files_hold_the_bias(tagger, tmp_path):
    X, _ = rare(50, 1)
    tagger.save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.outside_ == tagger.outside_ < 0 and again.predict(X) == tagger.predict(X)
    mx.save(
        tagger.estimator_, tmp_path / "old",
        {"kind": "text", "version": 1, "features": tagger.features_.to_plain(), "scheme": "IOB2", "temperature": 1.0},
    )  # fmt: skip
    assert Tagger.load(tmp_path / "old").outside_ == 0.0


@pytest.mark.parametrize("outside", ["yes", None, np.nan, np.inf, [1.0]])
def test_an_invalid_bias_is_an_error(outside):
    with pytest.raises(TextError, match="outside must be a number or 'auto'"):
        Tagger(outside=outside).fit([["a"]], [["O"]])

"""Temperature of margin models, and reliability tables."""

from __future__ import annotations

import numpy as np
import pytest

from maxendnet import L2CRF, M3N
from maxendnet.text import TextError, fit_temperature, predict_confidence, reliability
from maxendnet.text.fitting import calibration


def noisy(n_sentences, seed, scale=1.0):
    """Sentences whose labels follow a logistic model."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 8), 2)) * scale for _ in range(n_sentences)]
    y = [(rng.random(len(x)) < 1 / (1 + np.exp(-2 * x[:, 0] / scale))).astype(int).tolist() for x in X]
    return X, y


def log_loss(model, X, y, temperature):
    predictions = predict_confidence(model, X, temperature)
    total = 0.0
    for confidence, truth in zip(predictions, y):
        right = np.array(confidence.labels) == np.array(truth)
        total -= np.log(np.where(right, confidence.tokens, 1 - confidence.tokens)).sum()  # two labels
    return total


@pytest.mark.parametrize("C", [0.003, 10.0])
def test_the_temperature_is_the_best_on_new_examples(C):
    X, y = noisy(400, 0)
    model = M3N(C=C, tol=1e-2, random_state=0)
    temperature = fit_temperature(model, X, y)
    model.fit(X, y)
    new_X, new_y = noisy(400, 1)
    loss = {factor: log_loss(model, new_X, new_y, temperature * factor) for factor in (0.4, 1.0, 2.5)}
    assert loss[1.0] < loss[0.4] and loss[1.0] < loss[2.5]
    predictions = predict_confidence(model, new_X, temperature)
    right = [a == b for prediction, truth in zip(predictions, new_y) for a, b in zip(prediction.labels, truth)]
    table = reliability(np.concatenate([prediction.tokens for prediction in predictions]), right)
    sharp = predict_confidence(model, new_X, temperature / 10)
    sharp_table = reliability(np.concatenate([prediction.tokens for prediction in sharp]), right)
    assert table.error < 0.05 < sharp_table.error


def test_a_likelihood_model_has_a_temperature_near_1():
    X, y = noisy(400, 0)
    assert 0.8 < fit_temperature(L2CRF(lam=0.1), X, y) < 1.25


@pytest.mark.parametrize(("enough", "n_fits"), [(1, 1), (200, 2), (10_000, 3)])
def test_folds_are_held_out_until_there_are_enough_tokens(monkeypatch, enough, n_fits):
    X, y = noisy(100, 0)  # about 130 tokens a fold
    fits, fit = [], M3N.fit
    monkeypatch.setattr(calibration, "ENOUGH_TOKENS", enough)
    monkeypatch.setattr(M3N, "fit", lambda self, *data: fits.append(self) or fit(self, *data))
    fit_temperature(M3N(tol=1e-2, random_state=0), X, y)
    assert len(fits) == n_fits


def test_a_few_correct_examples_do_not_make_a_model_certain():
    X, y = [[["the"], ["dog"]], [["dog"], ["the"]]] * 3, [["D", "N"], ["N", "D"]] * 3
    model = L2CRF(lam=0.1, margin=3.0)
    temperature = fit_temperature(model, X, y)
    assert temperature > 0.2
    (prediction,) = predict_confidence(model.fit(X, y), [[["the"], ["cat"]]], temperature)
    assert prediction.tokens[1] < 0.999


def test_labels_unknown_to_a_fold_are_ignored():
    X, y = noisy(30, 0)
    y[0] = ["rare"] * len(y[0])
    y[1:] = [[str(label) for label in row] for row in y[1:]]
    assert np.isfinite(fit_temperature(M3N(random_state=0), X, y))


def test_it_needs_at_least_one_example_per_fold():
    with pytest.raises(TextError, match="at least 3 examples for 3 folds, got 2"):
        fit_temperature(M3N(), *noisy(2, 0))


def test_reliability():
    p = np.array([0.05, 0.15, 0.12, 0.95, 1.0])
    table = reliability(p, [False, True, False, True, True])
    assert table.count.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert table.accuracy[[0, 1, 9]].tolist() == [0.0, 0.5, 1.0] and np.isnan(table.accuracy[5])
    assert table.error == pytest.approx((0.05 + 2 * (0.5 - 0.135) + 2 * 0.025) / 5)
    assert str(table).splitlines()[2] == "     0.135   0.500        2"
    assert reliability([], []).error == 0.0
    ax = table.plot()
    assert "calibration error" in ax.get_title() and table.plot(ax) is ax


@pytest.mark.parametrize(
    ("p", "right", "message"),
    [
        ([0.5], [True, False], "1 probabilities and 2 truth"),
        ([1.5], [True], "between 0 and 1"),
        ([np.nan], [True], "between"),
    ],
)
def test_messages(p, right, message):
    with pytest.raises(TextError, match=message):
        reliability(p, right)

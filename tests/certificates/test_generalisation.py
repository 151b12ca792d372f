"""Bounds on the error on new examples: failure rates on a known population, and reports."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom
from systems import labelled_chains, roughly

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Chain,
    Examples,
    Gaussian,
    LapMEDN,
    Log,
    MaxEnDNet,
    SpikeSlab,
    Uniform,
)
from maxendnet.certificates import generalisation, held_out_bound, pac_bayes
from maxendnet.certificates.generalisation import (
    Candidate,
    _aligned_weights,
    _Losses,
    _scaled_posteriors,
    _split_posteriors,
)
from maxendnet.posterior import NoPosteriorError, Posterior

NAMES = ["theorem 8", "PAC-Bayes-kl", "PAC-Bayes-kl, split prior", "held out"]


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


def population(n=400, seed=1):
    """Return a finite population of chains, with exactly known risks."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        x = rng.normal(size=(3, 2))
        X.append(x)
        y.append((x[:, 0] + 0.8 * rng.normal(size=3) > 0).astype(int))
    return Examples.build(X, y)


def violations(n_trials, n_examples, delta):
    """Count how often each certified bound is below the risk of its predictor on the population."""
    everyone, failed = population(), {}
    for trial in range(n_trials):
        rng = np.random.default_rng(trial)
        sample = everyone[rng.integers(len(everyone), size=n_examples)]  # with replacement: independent draws
        model = M3N(C=0.3, tol=0.05, random_state=0).fit(sample)
        for row in pac_bayes(model, sample, delta=delta, n_draws=30, random_state=rng):
            k = ("share", "0/1").index(row.loss)
            if row.name.startswith("PAC-Bayes"):
                risk = _Losses(model, everyone).gibbs(row.predictor, 50, rng)[:, k].mean()
            else:
                risk = _Losses(row.predictor, everyone)(row.predictor.model_.weights)[k].mean()
            failed[row.name, row.loss] = failed.get((row.name, row.loss), 0) + int(risk > row.bound)
    return failed


def test_bounds_hold_as_often_as_promised(monkeypatch):
    """Samples of a known population; the whole simulation is benchmarks/bounds.py."""
    monkeypatch.setattr(generalisation, "PILOT_DRAWS", 4)
    n_trials, delta = 15, 0.2
    failed = violations(n_trials, 50, delta)
    assert {name for name, _ in failed} == set(NAMES)
    # were the chance of failure delta, more than this would be seen once in a thousand runs
    assert max(failed.values()) <= binom.ppf(0.999, n_trials, delta)
    # the exact binomial bound is not far from delta: this test can see failures
    assert failed["held out", "0/1"] >= 1


# ---- what goes into the bounds ---------------------------------------------------------------------------------------


def test_losses_are_those_of_predict(data):
    X, y = data
    model = roughly(M3N()).fit(X, y)
    share, wrong = _Losses(model, X, y)(model.model_.weights)
    for i, labels in enumerate(model.predict(X)):
        errors = np.array(labels) != np.array(y[i])
        assert share[i] == pytest.approx(errors.mean()) and wrong[i] == errors.any()
    # a label the model does not know is wrong; an example without nodes is right
    unknown = _Losses(model, [X[0], np.zeros((0, 4))], [["q"] * len(X[0]), []])(model.model_.weights)
    assert unknown.tolist() == [[1.0, 0.0], [1.0, 0.0]]


def test_gaussian_candidates_have_the_kl_of_two_gaussians():
    """KL of N(t mu, r S) and N(0, S) in closed form, with the best r for each ratio."""
    rng = np.random.default_rng(0)
    eta, v = rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    posterior = Posterior(Gaussian(v), eta)
    for candidate in _scaled_posteriors(posterior):

        def kl(r, ratio=candidate.scale):
            t = ratio * np.sqrt(r)
            return 0.5 * np.sum(t**2 * posterior.mean**2 / v + r - 1 - np.log(r))

        best = min(kl(r) for r in np.geomspace(1e-6, 1.0, 3001))
        assert candidate.kl == pytest.approx(best, rel=1e-4) and candidate.kl <= best * (1 + 1e-9)
        np.testing.assert_allclose(candidate.posterior.mean, candidate.scale * posterior.mean)
        assert candidate.kl <= candidate.posterior.kl * (1 + 1e-12)


@pytest.mark.parametrize(
    "model",
    [LapMEDN(), LapMEDN(method="variational", iterations=3), MaxEnDNet(SpikeSlab()), MaxEnDNet(Uniform(2.0)),
     MaxEnDNet(Gaussian(mean=0.3))],
    ids=["Laplace", "variational", "SpikeSlab", "Uniform", "mean"],
)  # fmt: skip
def test_candidates_of_other_priors(model, data):
    posterior = roughly(model).fit(*data).posterior_
    candidates = {c.scale: c for c in _scaled_posteriors(posterior)}
    assert candidates[1.0].kl == pytest.approx(posterior.kl)
    for candidate in candidates.values():
        if hasattr(posterior, "prior"):
            assert candidate.kl == pytest.approx(posterior.prior.penalty(candidate.posterior.mean), rel=1e-6)
    assert len(candidates) == (1 if model.get_params().get("method") == "variational" else len(candidates))


def test_candidates_of_a_split_prior_pay_for_the_choice_of_a_prior():
    start, end = np.array([1.0, -1.0]), np.array([2.0, 1.0])
    for candidate in _split_posteriors(start, end):
        v = candidate.posterior.variance
        assert candidate.kl == pytest.approx(0.5 * np.sum((candidate.scale * (end - start)) ** 2 / v))
        assert candidate.n_priors == len({c.posterior.variance[0] for c in _split_posteriors(start, end)})
    assert Candidate(1.0, 0.0, None).n_priors == 1


def test_weights_of_a_part_that_lacks_labels():
    X = [np.eye(3), np.eye(3)[:2]]
    full = M3N(structure=Chain(bias=True), tol=0.1).fit(X, [["a", "b", "c"], ["b", "c"]])
    part = M3N(structure=Chain(bias=True), tol=0.1).fit(X, [["a", "c", "c"], ["c", "a"]])
    w = full.model_.layout.segments(_aligned_weights(full, part))
    np.testing.assert_array_equal(w.node[:, [0, 2]], part.model_.layout.segments(part.model_.weights).node)
    np.testing.assert_array_equal(w.transitions[0][np.ix_([0, 2], [0, 2])], part.transitions_)
    assert not w.node[:, 1].any() and not w.transitions[0, 1].any()


# ---- the report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [M3N(C=0.1), LapMEDN()], ids=["M3N", "LapMEDN"])
def test_report(model, data):
    X, y = data
    fitted = roughly(model).fit(X, y)
    report = pac_bayes(fitted, X, y, n_draws=20, random_state=0)
    assert list(dict.fromkeys(row.name for row in report)) == NAMES
    assert {(row.name, row.loss) for row in report} >= {(name, loss) for name in NAMES[1:] for loss in ("share", "0/1")}
    for row in report:
        assert row.bound >= row.empirical
        assert row.n_examples == (len(X) if row.name in NAMES[:2] else len(X) // 2)
        assert row.certified == (row.name != "theorem 8")
        assert row.statement and row.name in str(report)
    assert "illustration" in str(report) and "0.95" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["rows"][1]["bound"] == report.rows[1].bound
    again = pac_bayes(fitted, X, y, n_draws=20, random_state=0)
    assert str(again) == str(report)
    with pytest.raises(KeyError, match="no row"):
        report.row("nothing", "share")
    assert len(pac_bayes(fitted, X, y, n_draws=5, prior_share=None).rows) == 3


def test_more_confidence_is_a_larger_bound(data):
    X, y = data
    model = roughly(M3N()).fit(X, y)
    for name, loss in (("PAC-Bayes-kl", "share"), ("held out", "0/1")):
        bounds = [
            pac_bayes(model, X, y, delta=d, n_draws=20, random_state=0).row(name, loss).bound for d in (0.5, 0.01)
        ]
        assert bounds[0] < bounds[1]


@pytest.mark.parametrize(
    "model", [CRF(), L1CRF(), L2CRF(), L1M3N(C=0.5), MaxEnDNet(loss=Log())], ids=lambda m: type(m).__name__
)
def test_point_estimates_are_refused_and_can_be_held_out(model, data):
    X, y = data
    fitted = roughly(model).fit(X[:20], y[:20])
    with pytest.raises(NoPosteriorError, match=r"M3N, LapMEDN and MaxEnDNet .*held_out_bound"):
        pac_bayes(fitted, X, y)
    share, wrong = held_out_bound(fitted, X[20:], y[20:])
    assert share.loss == "share" and share.empirical < share.bound <= 1
    assert wrong.loss == "0/1" and wrong.empirical < wrong.bound <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta must be between 0 and 1"),
        ({"delta": "low"}, "delta must be between 0 and 1"),
        ({"n_draws": 0}, "n_draws must be a whole number"),
        ({"prior_share": 1.0}, "prior_share must be between 0 and 1 or None"),
    ],
)
def test_bad_settings(options, message, data):
    model = roughly(M3N()).fit(*data)
    with pytest.raises(ValueError, match=message):
        pac_bayes(model, *data, **options)


def test_bad_data(data):
    X, y = data
    model = roughly(M3N()).fit(X, y)
    with pytest.raises(ValueError, match="y is None"):
        held_out_bound(model, X)
    with pytest.raises(ValueError, match="features"):
        held_out_bound(model, [x[:, :2] for x in X], y)
    with pytest.raises(ValueError, match="not fitted"):
        pac_bayes(M3N(), X, y)
    report = pac_bayes(model, X[:1], y[:1], n_draws=5)  # nothing to split
    assert [row.name for row in report] == ["theorem 8", "PAC-Bayes-kl", "PAC-Bayes-kl"]

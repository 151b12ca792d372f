"""Fits: input of every kind, learned attributes, the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from systems import every_system, labelled_chains, roughly, weights_of

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Chain,
    Examples,
    Independent,
    Laplace,
    LapMEDN,
    Log,
    MaxEnDNet,
    SpikeSlab,
    Tree,
)
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.solvers import TraceRow, Variational


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


# ---- data ------------------------------------------------------------------------------------------------------------


@every_system
def test_bias_and_ends(model, data):
    X, y = data
    fitted = roughly(model, structure=Chain(bias=True, ends=True)).fit(X, y)
    n_labels = len(fitted.classes_)
    assert fitted.coef_.shape == (4, n_labels)
    assert fitted.intercept_.shape == fitted.start_.shape == fitted.end_.shape == (n_labels,)
    # the score by hand: what a bias and the two ends add
    x, labels = X[0], np.searchsorted(fitted.classes_, fitted.predict(X[:1])[0])
    score = (x @ fitted.coef_ + fitted.intercept_)[np.arange(len(x)), labels].sum()
    score += fitted.start_[labels[0]] + fitted.end_[labels[-1]] + fitted.transitions_[labels[:-1], labels[1:]].sum()
    assert fitted.decision_function(X[:1])[0] == pytest.approx(score)
    plain = roughly(model).fit(X, y)
    assert not plain.intercept_.any() and not plain.start_.any() and not plain.end_.any()


def test_a_bias_learns_the_frequencies():
    y = [["a"], ["a"], ["a"], ["b"]]
    model = CRF(structure=Chain(bias=True), tol=1e-8).fit([[[0.0]]] * 4, y)
    assert_allclose(model.predict_marginals([[[0.0]]])[0], [[0.75, 0.25]], atol=1e-6)


def test_ends_learn_the_first_and_the_last_label():
    y = [["start", "end"]] * 3
    model = L2CRF(lam=0.1, structure=Chain(ends=True)).fit([[[0.0], [0.0]]] * 3, y)
    # two nodes without features are told apart by their ends alone
    independent = L2CRF(lam=0.1, structure=Independent(ends=True)).fit([[[0.0], [0.0]]] * 3, y)
    for fitted in (model, independent):
        assert fitted.predict([[[0.0], [0.0]]]) == [["start", "end"]]
        assert fitted.start_[1] > fitted.start_[0] and fitted.end_[0] > fitted.end_[1]


@pytest.mark.parametrize(
    "classes",
    [
        ["x", "y"],
        [3, 7],
        [("a", 1), ("b", 2)],
        [True, False],
        [1, "one"],
    ],
    ids=str,
)
def test_labels_are_any_hashables(classes):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    codes = [(x[:, 0] > 0).astype(int) for x in X]
    y = [[classes[k] for k in row] for row in codes]
    model = M3N(C=10.0, random_state=0).fit(X, y)
    assert set(model.classes_) == set(classes)
    assert model.predict(X) == y
    assert model.score(X, y) == 1.0
    assert model.sample(X, 2, random_state=0)[1][0][0] in classes
    assert model.predict_top(X, 1)[0][0][1] == y[0]


def test_unseen_features_are_ignored():
    X = [[{"word": "the"}, {"word": "dog", "cap": True}], [{"word": "dogs"}]]
    model = LapMEDN(C=10.0, random_state=0).fit(X, [["D", "N"], ["N"]])
    assert model.feature_names_ == ("cap", "word=dog", "word=dogs", "word=the")
    assert model.n_features_in_ == 4
    known = model.decision_function([[{"word": "the"}, {}]])
    assert_allclose(model.decision_function([[{"word": "the", "new": 3.0}, {"word": "never seen"}]]), known)
    assert len(model.predict([[{"unknown": 1.0}]])[0]) == 1
    assert model.score([[{"word": "the", "new": 3.0}]], [["D"]]) == 1.0


@pytest.mark.parametrize("structure", ["tree", Tree()])
def test_trees_come_as_pairs(structure):
    """A star whose leaves copy the middle, which alone has a feature."""
    rng = np.random.default_rng(0)
    edges = [(0, 1), (0, 2), (0, 3)]
    signs = rng.choice([-1.0, 1.0], size=20)
    X = [(np.array([[sign], [0.0], [0.0], [0.0]]), edges) for sign in signs]
    y = [["plus" if sign > 0 else "minus"] * 4 for sign in signs]
    model = M3N(C=10.0, structure=structure, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.transitions_[0, 0] > model.transitions_[0, 1]
    # without the edges the leaves cannot know
    alone = M3N(C=10.0, structure="independent", random_state=0).fit(X, y)
    assert alone.score(X, y) < 1.0
    assert alone.transitions_.size == 0


def test_a_transition_is_read_from_the_first_node_of_its_edge():
    X = [(np.zeros((2, 1)), [(1, 0)])] * 5  # node 1 is the parent
    y = [["child", "parent"]] * 5
    transitions = L2CRF(lam=0.1, structure="tree").fit(X, y).transitions_
    assert np.argmax(transitions) == np.ravel_multi_index((1, 0), (2, 2))  # row: parent, column: child


def test_everything_an_example_can_carry():
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=3) for _ in range(10)]
    examples = Examples.build(
        [rng.normal(size=(3, 2)) for _ in y],
        y,
        edge_types=[[0, 1]] * 10,
        edge_features=[rng.normal(size=(2, 2)) for _ in y],
        node_types=[[0, 1, 1]] * 10,
        label_features=[rng.normal(size=(3, 2, 3)) for _ in y],
        labels=[0, 1],
    )
    model = LapMEDN(tol=0.1, random_state=0).fit(examples)
    assert model.transitions_.shape == (2, 2, 2)
    assert model.edge_coef_.shape == (2, 2, 2)
    assert model.label_coef_.shape == (3,)
    n_weights = 4 + 8 + 8 + 3
    assert model.posterior_.mean.shape == (n_weights,)
    assert 0.0 <= model.score(examples) <= 1.0


# ---- what a fit leaves behind ----------------------------------------------------------------------------------------


@every_system
def test_attributes(model, data):
    X, y = data
    fitted = clone(model).set_params(tol=0.05, random_state=0)
    assert fitted.fit(X, y) is fitted
    assert fitted.coef_.shape == (4, 3) and fitted.transitions_.shape == (3, 3)
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.n_features_in_ == 4 and fitted.feature_names_ is None
    assert fitted.which_ in ("last", "average")
    assert type(fitted.objective_) is type(fitted.dual_) is type(fitted.gap_) is float
    assert type(fitted.converged_) is bool
    if isinstance(model, CRF):
        assert np.isnan(fitted.dual_) and np.isnan(fitted.gap_) and fitted.converged_
    else:
        assert fitted.dual_ <= fitted.objective_
        assert fitted.converged_ == (fitted.gap_ <= 0.05)
    assert TraceRow._fields == ("n_pass", "seconds", "n_oracle", "primal", "dual", "gap", "n_nonzero")
    trace = fitted.trace_
    assert all(isinstance(row, TraceRow) for row in trace)
    for column in ("n_pass", "seconds", "n_oracle"):
        values = [getattr(row, column) for row in trace]
        assert values == sorted(values)
    last = trace[-1]
    assert last.n_pass == fitted.n_passes_
    assert last.n_nonzero == np.count_nonzero(fitted.posterior_.mean)
    assert_allclose(fitted.posterior_.mean, weights_of(fitted)[:-3], rtol=1e-12)
    if not (isinstance(model, LapMEDN) and model.iterations):  # whose variances are the algorithm's own
        assert_allclose([fitted.objective_, fitted.dual_, fitted.gap_], last[3:6], rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "kind", "exact"),
    [
        (M3N(), Posterior, "exact"),
        (LapMEDN(), Posterior, "exact"),
        (LapMEDN(solver=Variational()), Posterior, "exact"),
        (LapMEDN(method="variational"), VariationalPosterior, "variational"),
        (LapMEDN(method="variational", iterations=3), VariationalPosterior, "variational"),
        (MaxEnDNet(SpikeSlab()), Posterior, "exact"),
        (L1M3N(C=0.5), PointEstimate, "point"),
        (L1M3N(radius=3.0), PointEstimate, "point"),
        (CRF(), PointEstimate, "point"),
        (L1CRF(), PointEstimate, "point"),
        (L2CRF(), PointEstimate, "point"),
        (MaxEnDNet(Laplace(), Log()), PointEstimate, "point"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_posterior(model, kind, exact, data):
    fitted = roughly(model).fit(*data)
    posterior = fitted.posterior_
    assert type(posterior) is kind and posterior.kind == exact
    # the weights that predict are the mean, also where a solver stopped early
    assert_allclose(posterior.mean, weights_of(fitted)[:-3], rtol=1e-9, atol=1e-12)
    if kind is PointEstimate:
        for name in ("variance", "sample", "kl", "relevance"):
            with pytest.raises(ValueError, match=f"point estimate and has no {name}; M3N, LapMEDN"):
                getattr(posterior, name)
        return
    assert posterior.variance.shape == posterior.mean.shape == posterior.relevance.shape
    assert np.all(posterior.variance > 0) and np.all((posterior.relevance >= 0) & (posterior.relevance <= 1))
    draws = posterior.sample(20_000, random_state=0)
    deviation = np.sqrt(posterior.variance / len(draws))
    assert np.abs(draws.mean(axis=0) - posterior.mean).max() < 6 * deviation.max()
    assert posterior.kl >= 0
    if kind is Posterior:
        prior = posterior.prior
        assert posterior.kl == pytest.approx(prior.penalty(posterior.mean), rel=1e-6)


def test_the_kl_of_the_variational_posterior_bounds_that_of_its_gaussian(data):
    """KL(N(mu, v) || Laplace) by simulation."""
    lam = 0.7
    posterior = LapMEDN(lam=lam, method="variational", random_state=0).fit(*data).posterior_
    w = posterior.sample(50_000, random_state=0)
    log_q = -0.5 * (w - posterior.mean) ** 2 / posterior.variance - 0.5 * np.log(2 * np.pi * posterior.variance)
    log_p = 0.5 * np.log(lam) - np.log(2) - np.sqrt(lam) * np.abs(w)
    true = np.mean((log_q - log_p).sum(axis=1))
    # the bound has sqrt(<w^2>) where the divergence has <|w|>
    second = np.sqrt(posterior.mean**2 + posterior.variance)
    loose = np.sqrt(lam) * np.sum(second - np.abs(w).mean(axis=0))
    assert loose > 0
    assert posterior.kl == pytest.approx(true + loose, abs=0.1)

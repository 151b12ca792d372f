"""Weights only for pairs of a feature and a label that were seen: the same optimum by every solver, a smaller model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from maxendnet import (
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Chain,
    Choice,
    Examples,
    Gaussian,
    Independent,
    LapMEDN,
    MaxEnDNet,
    Tree,
    load,
    solvers,
)  # fmt: skip
from maxendnet.certificates import pac_bayes
from maxendnet.data.examples import distinct_labels
from maxendnet.solvers.base import missing


def words(seed=0, n=30, edges=False):
    """Nodes with a few of 12 features; many pairs of a feature and a label never occur."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, size=n)
    X = [(rng.random((size, 12)) < 0.15) * rng.uniform(0.5, 1.5, size=(size, 12)) for size in sizes]
    y = [[str(k) for k in (np.argmax(x[:, :4], axis=1) + rng.integers(0, 2, size=len(x))) % 4] for x in X]
    joined = [[(0, t) for t in range(1, size)] for size in sizes]
    return Examples.build(X, y, **({"edges": joined} if edges else {}))


STRUCTURES = {
    "chain": (Chain(bias=True, pairs="seen"), words()),
    "tree": (Tree(ends=True, pairs="seen"), words(1, edges=True)),
    "siblings": (Tree(siblings=True, pairs="seen"), words(2, n=15, edges=True)),
    "independent": (Independent(pairs="seen"), words(3)),
}
SYSTEMS = {
    "M3N": M3N(C=0.3), "LapMEDN": LapMEDN(C=0.3, lam=2.0), "L1M3N": L1M3N(C=0.4), "L1CRF": L1CRF(lam=0.5),
    "L2CRF": L2CRF(lam=0.5),
}  # fmt: skip


def combinations():
    for name, (structure, examples) in STRUCTURES.items():
        for system, model in SYSTEMS.items():
            problem = clone(model).set_params(structure=structure).pose(examples, distinct_labels(examples.y))
            for kind in solvers.ALL:
                if not missing(kind, problem):
                    yield pytest.param(name, system, kind, id=f"{name}-{system}-{kind.__name__}")


@pytest.mark.parametrize(("name", "system", "kind"), list(combinations()))
def test_every_solver_reaches_the_optimum(name, system, kind):
    structure, examples = STRUCTURES[name]
    model = clone(SYSTEMS[system]).set_params(structure=structure, random_state=0, max_passes=5000)
    tol = max(kind.accuracy, 1e-3)
    found = clone(model).set_params(solver=kind(), tol=tol).fit(examples)
    best = clone(model).set_params(tol=1e-3).fit(examples)
    slack = 1e-9 * abs(best.objective_)
    assert found.converged_ and found.dual_ <= best.objective_ + slack and best.dual_ <= found.objective_ + slack


@pytest.mark.parametrize("name", ["chain", "tree", "siblings", "independent"])
@pytest.mark.parametrize("loss", [M3N, L2CRF])
def test_it_is_the_model_of_all_pairs_with_the_others_held_at_zero(name, loss):
    structure, examples = STRUCTURES[name]
    options = {"C": 1.0} if loss is M3N else {"lam": 1.0}  # variances of 1
    seen = loss(**options, structure=structure, tol=1e-6, random_state=0, max_passes=5000).fit(examples)
    layout = seen.model_.layout
    every = structure.set_params(pairs="all").bind(examples, seen.classes_).layout
    structure.set_params(pairs="seen")
    variance = np.full(every.n_weights, 1e-12)  # of weights that the other model does not have
    variance[every.n_node_weights :] = 1.0
    variance[layout.seen.features * every.n_labels + layout.seen.labels] = 1.0
    _, kind, C = loss(**options).compose()
    held = MaxEnDNet(Gaussian(variance), kind, C, structure=clone(structure).set_params(pairs="all"), tol=1e-6,
                     random_state=0, max_passes=5000).fit(examples)  # fmt: skip
    assert_allclose(held.objective_, seen.objective_, rtol=1e-5)
    assert_allclose(np.asarray(held.coef_), seen.coef_.toarray(), atol=5e-3)
    assert layout.n_weights < every.n_weights


def test_choices():
    rng = np.random.default_rng(5)
    X = [(rng.random((n, 8)) < 0.3) * 1.0 for n in (4, 3, 5, 6, 4, 5)]
    y = [["best" if t == np.argmax(x[:, 0] + 0.1 * x[:, 1]) else "-" for t in range(len(x))] for x in X]
    for model in (M3N(C=5), L2CRF(lam=0.1)):
        fitted = model.set_params(structure=Choice(rest="-", pairs="seen"), random_state=0).fit(X, y)
        assert fitted.converged_ and sparse.issparse(fitted.coef_) and fitted.score(X, y) > 0.8


def test_weights_are_those_of_pairs_that_occur():
    model = M3N(C=10, structure=Chain(pairs="seen")).fit([[["a", "b"], ["c"]], [["c"]]], [["X", "Y"], ["Y"]])
    assert model.coef_.shape == (3, 2) and model.coef_.nnz <= 3
    assert model.model_.layout.n_node_weights == 3
    assert model.predict([[["a"], ["c", "never seen"]]]) == [["X", "Y"]]


def test_files_bounds_and_warm_starts(tmp_path):
    examples = words(7)
    model = M3N(C=0.3, structure=Chain(bias=True, pairs="seen"), random_state=0, warm_start=True).fit(examples)
    model.save(tmp_path / "seen.medn")
    again = load(tmp_path / "seen.medn")
    assert again.predict(examples) == model.predict(examples)
    assert np.array_equal(again.coef_.toarray(), model.coef_.toarray()) and again.model_.layout == model.model_.layout
    assert model.fit(examples).n_passes_ <= 10  # warm start from the last state
    other = words(8)
    assert model.fit(other).converged_  # other pairs: cold start
    report = pac_bayes(model, other, random_state=0, n_draws=5)
    assert all(np.isfinite(row.bound) for row in report.rows)


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="pairs to be 'all' or 'seen', got 'some'"):
        M3N(structure=Chain(pairs="some")).fit([[[1.0]]], [["a"]])

"""Choice of constants by cross-validation on grids that are extended."""

from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxendnet import Examples, MaxEnDNet, Uniform
from maxendnet.experiments.claims import bound
from maxendnet.experiments.engine import paper_procedure, selection
from maxendnet.experiments.engine.data import best_labels, chains
from maxendnet.experiments.engine.paper_procedure import SYNTHETIC_GRIDS, algorithm_1, measure_ocr, synthetic_model
from maxendnet.experiments.engine.selection import SELECTION_TOL, Axis, FixedGrid, Grid, choose
from maxendnet.experiments.engine.systems import GRIDS, SYSTEMS, choose_and_measure, make, measure
from maxendnet.solvers import Subgradient


@pytest.fixture(scope="module")
def drawn():
    return chains(0, 0, 60, 10, sweeps=100)


def valley(bottom):
    """Held-out errors that increase with the distance from a point."""

    def errors(make, points, inside, outside, seed):
        return [sum(abs(np.log10(point[name] / value)) for name, value in bottom.items()) for point in points], 0

    return errors


@pytest.mark.parametrize("bottom", [{"a": 200.0, "b": 0.001}, {"a": 0.05, "b": 50.0}, {"a": 1.0, "b": 1.0}])
def test_a_grid_is_extended_until_its_best_point_is_inside(drawn, monkeypatch, bottom):
    monkeypatch.setattr(selection, "held_out_errors", valley(bottom))
    grid = Grid((Axis("a", -1, 1, (-12, 12)), Axis("b", -3, 3, (-12, 12), sign=-1)))
    constants, about = choose(None, grid, drawn.examples, 0)
    assert constants == bottom and not about["at_limit"]


def test_a_choice_at_a_limit_is_recorded(drawn, monkeypatch):
    monkeypatch.setattr(selection, "held_out_errors", valley({"a": 1e6}))
    constants, about = choose(None, Grid((Axis("a", -1, 1, (-3, 3)),)), drawn.examples, 0)
    assert constants == {"a": 10.0} and about == {
        "n_candidates": 5, "n_candidates_unconverged": 0, "at_limit": True,
    }  # fmt: skip
    points = [{"a": 1.0}, {"a": 10.0}, {"a": 100.0}]
    constants, about = choose(None, FixedGrid(points), drawn.examples, 0)
    assert constants == {"a": 100.0} and about["at_limit"] and about["n_candidates"] == 3


def test_ties_go_to_more_regularisation(drawn, monkeypatch):
    monkeypatch.setattr(selection, "held_out_errors", lambda make, points, *_: ([0.5] * len(points), 0))
    for sign, value in ((1, 0.1), (-1, 10.0)):
        grid = Grid((Axis("a", -3, 3, (-9, 9), sign=sign),))
        assert choose(None, grid, drawn.examples, 0).constants == {"a": value}


@pytest.mark.parametrize("system", [s for s in SYSTEMS if s != "CRF"])
def test_candidates_are_fitted_to_their_tolerance_as_from_zero(drawn, system):
    points = [GRIDS[system].at(position) for position in GRIDS[system].start()[:3]]
    inside, outside = drawn.examples[:20], drawn.examples[20:]
    errors, n_unconverged = selection.held_out_errors(partial(make, system), points, inside, outside, 0)
    assert n_unconverged == 0
    for point, error in zip(points, errors):
        model = make(system, point, tol=SELECTION_TOL / 100, max_passes=20_000, random_state=0).fit(inside)
        assert error == pytest.approx(1 - model.score(outside), abs=0.03)


def test_the_procedure_of_the_paper_makes_three_iterations(drawn):
    train = drawn.examples[:15]
    model = synthetic_model("LapMEDN", {"lam": 36.0, "C": 1.0}, tol=1e-3).fit(train)
    assert model.get_params()["iterations"] == 3
    exact = make("LapMEDN", {"lam": 36.0, "C": 1.0}, tol=1e-4).fit(train)
    apart = np.linalg.norm(model.coef_ - exact.coef_) / np.linalg.norm(exact.coef_)
    assert 0.02 < apart < 1  # an approximation
    assert SYNTHETIC_GRIDS["LapMEDN"].points[0] == {"lam": 268.0, "C": 1.0}


def test_on_line_steps_in_algorithm_1_tend_to_the_solutions_of_its_problems(drawn, monkeypatch):
    train, test = drawn.examples[:15], drawn.examples[15:]
    exact = synthetic_model("LapMEDN", {"lam": 36.0, "C": 0.1}, tol=1e-4).fit(train)
    apart = []
    for n_passes in (1, 30):
        steps = Subgradient(online=True, average=False)
        with pytest.warns(ConvergenceWarning):
            model = algorithm_1(36.0, train, C=0.1, max_passes=n_passes, random_state=0, solver=steps, tol=1e-9)
        apart.append(np.linalg.norm(model.coef_ - exact.coef_) / np.linalg.norm(exact.coef_))
    assert apart[1] < 0.1 < apart[0]
    monkeypatch.setattr(paper_procedure, "PASSES", 1)
    for system in ("LapMEDN", "M3N", "L1-M3N"):
        with pytest.warns(ConvergenceWarning):
            row = measure_ocr(system, 100, train, test, 0)
        assert row["passes"] == 1 and 0 < row["error"] < 1


def test_constants_of_on_line_steps_are_those_with_the_lowest_held_out_error(drawn, monkeypatch):
    class Scored:
        def __init__(self, point):
            self.point = point

        def score(self, examples):
            return 1.0 - abs(self.point["beta"] - 20.0) / 100 - abs(self.point["lam"] - 16.0) / 100

    monkeypatch.setattr(paper_procedure, "fit_online", lambda system, point, train, seed: Scored(point))
    assert paper_procedure.tune_online("LapMEDN", drawn.examples, 0) == {"lam": 16.0, "beta": 20.0}
    assert paper_procedure.tune_online("M3N", drawn.examples, 0) == {"lam": 0.0, "beta": 20.0}


def test_a_fit_records_its_support_and_its_errors_by_group(drawn):
    train, test = drawn.examples[:20], drawn.examples[20:]
    groups = np.arange(len(test)) % 3
    row = measure(make("M3N", {"C": 0.1}), train, test, groups)
    assert sum(row["group_wrong"]) == round(row["error"] * test.n_nodes) and sum(row["group_labels"]) == test.n_nodes
    assert 0 < row["support_examples"] <= 1 and row["support_labellings"] >= row["support_examples"] * len(train)
    assert row["error"] <= row["chain_error"] <= 8 * row["error"]
    row = choose_and_measure("CRF", train, test, 0)
    assert len(row["stopping_errors"]) == 3 and "support_examples" not in row


def test_the_generating_model_labels_as_brute_force_does(drawn):
    examples = drawn.examples[:5]
    labels = best_labels(drawn, examples)
    every = np.array(np.meshgrid(*[[0, 1]] * 8)).reshape(8, -1).T
    for x, y in zip(examples.split(examples.X @ drawn.coef), labels):
        scores = x[np.arange(8), every].sum(axis=1) + drawn.transitions[every[:, :-1], every[:, 1:]].sum(axis=1)
        assert scores.max() == pytest.approx(x[np.arange(8), y].sum() + drawn.transitions[y[:-1], y[1:]].sum())


def test_theorem_8_is_certified_under_a_uniform_prior(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 2, size=(4, 5)).astype(float) for _ in range(30)]
    examples = Examples.build(X, [x[:, 0].astype(int) for x in X])
    model = MaxEnDNet(prior=Uniform(a=1.0), C=0.1, tol=1e-3, random_state=0).fit(examples)
    sizes = []
    monkeypatch.setattr(bound, "margin_bound", lambda m, kl, log_y, c, delta: (sizes.append((m, c)), (2.0, 0.1))[1])
    assert bound.certified_theorem_8(model, examples, 1.0) == 2.0
    ((margins, c),) = sizes
    # no weights in the box give a larger score: the sum of the features is at most c
    assert c == 4 * 5 + 3 and max(x.sum() for x in X) + 3 <= c
    assert np.sum(margins > 0) == sum(np.array_equal(p, x[:, 0]) for p, x in zip(model.predict(examples), X))

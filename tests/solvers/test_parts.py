"""Parts of the examples that are updated at the same time: the dual never falls, and the certificate holds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from systems import labelled_chains

from maxendnet import L2CRF, M3N, Hinge, LapMEDN
from maxendnet.data.examples import Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.priors import Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import SDCA, BlockFrankWolfe
from maxendnet.structures import Chain

X, Y = labelled_chains()
EXAMPLES = Examples.build(X, Y)
MODELS = {
    "M3N": (M3N, BlockFrankWolfe),
    "LapMEDN": (LapMEDN, BlockFrankWolfe),
    "L2CRF": (L2CRF, SDCA),
}


def problem_of(prior, loss, C=1.0):
    return Problem.pose(Chain().bind(EXAMPLES, distinct_labels(EXAMPLES.y)), loss, prior, C)


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize(
    ("solver", "prior", "loss"),
    [(BlockFrankWolfe, Gaussian(), Hinge()), (BlockFrankWolfe, Laplace(4.0), Hinge()), (SDCA, Gaussian(), Log())],
    ids=["gaussian", "laplace", "log"],
)
def test_the_dual_never_falls(solver, prior, loss, parts):
    problem = problem_of(prior, loss, C=3.0)
    options = {"ramp": 0, "average": False} if solver is BlockFrankWolfe else {}
    solver = solver(parts=parts, **options)
    state, before = solver.start(problem, seed=0), -np.inf
    for _ in range(8):
        state = solver.step(problem, state)
        # as it was carried along, and not as a look would compute it afresh
        carried = problem.structure.blocks.unpad(state.eta).copy()
        found = solver.evaluate(problem, state)
        assert_allclose(carried, problem.structure.blocks.unpad(state.eta), atol=1e-8)
        assert found.dual >= before - 1e-9 * abs(before)
        assert found.dual <= found.primal * (1 + 1e-12)
        before = found.dual


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_optimum(name, parts):
    model, solver = MODELS[name]
    one = model(solver=solver(), tol=0.02, random_state=0).fit(X, Y)
    several = model(solver=solver(parts=parts), tol=0.02, random_state=0).fit(X, Y)
    assert several.converged_ and several.gap_ <= 0.02
    assert several.dual_ <= one.objective_ and one.dual_ <= several.objective_


@pytest.mark.parametrize("name", MODELS)
def test_bits_do_not_depend_on_threads(name):
    model, solver = MODELS[name]
    fits = [model(solver=solver(parts=3), tol=0.2, random_state=0, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 3)]
    for other in fits[1:]:
        assert_array_equal(fits[0].model_.weights, other.model_.weights)


@pytest.mark.parametrize("solver", [BlockFrankWolfe, SDCA])
def test_one_part_is_the_solver_itself(solver):
    """The general way of one part, with its copies and factors of 1, is the direct one up to rounding."""
    problem = problem_of(Gaussian(), Hinge() if solver is BlockFrankWolfe else Log())
    direct, general = (solver(parts=1).start(problem, seed=0) for _ in range(2))
    direct = solver(parts=1).step(problem, direct)
    with pytest.MonkeyPatch.context() as patch:
        module = __import__(solver.__module__, fromlist=["owners_of"])
        patch.setattr(module, "owners_of", lambda offsets, parts: np.zeros(len(offsets) - 1, dtype=np.int64))
        general = solver(parts=2).step(problem, general)
    assert_allclose(direct.eta, general.eta, atol=1e-6)
    assert_allclose(direct.gaps, general.gaps, atol=1e-6)


def test_more_parts_than_examples():
    model = M3N(solver=BlockFrankWolfe(parts=50), tol=0.1, random_state=0).fit(X[:3], Y[:3])
    assert model.converged_


@pytest.mark.parametrize("parts", [0, 1.5, True])
@pytest.mark.parametrize(("model", "solver"), [(M3N, BlockFrankWolfe), (L2CRF, SDCA)])
def test_no_number_of_parts(model, solver, parts):
    with pytest.raises(ValueError, match="parts must be a whole number of at least 1"):
        model(solver=solver(parts=parts)).fit(X, Y)


def test_a_model_with_parts_is_saved(tmp_path):
    from maxendnet import load

    model = M3N(solver=BlockFrankWolfe(parts=2), tol=0.1, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").solver.parts == 2
    assert pickle.loads(pickle.dumps(model)).solver.parts == 2

"""Requirements of solvers: those with special kernels reject structures without them; others need the protocol only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plain_structure import BoundPlain, Plain
from test_agreement import CASES

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, ElasticNet, Gaussian, Hinge, MaxEnDNet, solvers
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.priors import L1, L1Ball, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import (
    BlockFrankWolfe,
    PotentialAscent,
    ProximalAscent,
    ProximalPoint,
    run,
)
from maxendnet.solvers.base import check_requirements, missing
from maxendnet.structures import Chain

EXAMPLES = CASES["chains"][0]

WITH_KERNELS = [
    (BlockFrankWolfe(), Hinge(), Gaussian(), "structure.blocks"),
    (ProximalPoint(), Hinge(), L1(), "structure.blocks"),
    (ProximalPoint(), Hinge(), L1Ball(), "structure.blocks"),
    (PotentialAscent(), Log(), ElasticNet(), "structure.pairwise"),
    (ProximalAscent(), Log(), L1(), "structure.pairwise"),
]


def bound():
    return Chain().bind(EXAMPLES, distinct_labels(EXAMPLES.y))


@pytest.mark.parametrize(("solver", "loss", "prior", "lacking"), WITH_KERNELS)
def test_solvers_with_kernels_refuse_a_structure_without_them(solver, loss, prior, lacking):
    structure = BoundPlain(bound())
    problem = Problem.pose(structure, loss, prior)
    with pytest.raises(ValueError, match=rf"{type(solver).__name__} needs {lacking}, .* on a structure of a test") as e:
        check_requirements(solver, problem)
    fitting = e.value.args[0].split("Solvers that fit: ")[1].rstrip(".").split(", ")
    assert fitting and all(not missing(getattr(solvers, name), problem) for name in fitting)
    check_requirements(solver, Problem.pose(bound(), loss, prior))
    assert not structure.calls and problem.n_oracle == 0


@pytest.mark.parametrize("model", [M3N(), L2CRF(), L1M3N(), L1CRF()], ids=lambda model: type(model).__name__)
def test_a_fit_is_refused_before_anything_else_happens(model, monkeypatch):
    """Nothing is placed, computed or stored."""
    solver = {M3N: BlockFrankWolfe, L2CRF: PotentialAscent, L1M3N: ProximalPoint, L1CRF: ProximalAscent}[type(model)]()
    calls, looks = [], []
    monkeypatch.setattr(
        Plain, "bind", lambda self, examples, classes, layout=None: BoundPlain(Chain().bind(examples, classes), calls)
    )
    monkeypatch.setattr(type(solver), "start", lambda *args, **kwargs: pytest.fail("the solver was started"))
    model.set_params(structure=Plain(), solver=solver, callback=looks.append)
    with pytest.raises(ValueError, match=rf"{type(solver).__name__} needs structure\."):
        model.fit(EXAMPLES)
    assert not calls and not looks and not hasattr(model, "model_")


PROBLEMS = {
    "hinge": (Hinge(), Gaussian()),
    "hinge, L1": (Hinge(), L1()),
    "hinge, L1 ball": (Hinge(), L1Ball(2.0)),
    "hinge, Laplace": (Hinge(), Laplace(2.0)),
    "squared slack": (Hinge(slack="squared"), Gaussian()),
    "log": (Log(), Gaussian()),
    "log, L1": (Log(), L1()),
}


def combinations():
    for name, (loss, prior) in PROBLEMS.items():
        for kind in solvers.ALL:
            if not missing(kind, Problem.pose(BoundPlain(bound()), loss, prior)):
                yield pytest.param(loss, prior, kind, id=f"{name}-{kind.__name__}".replace(" ", "_"))


@pytest.mark.parametrize(("loss", "prior", "kind"), list(combinations()))
def test_the_other_solvers_need_the_protocol_alone(loss, prior, kind):
    """The same optimum as with all that a forest offers."""
    tol = max(1e-3, kind.accuracy)
    plain, full = (Problem.pose(structure, loss, prior, 0.7) for structure in (BoundPlain(bound()), bound()))
    found, expected = (run(kind(), problem, tol=tol, max_passes=5000, seed=0) for problem in (plain, full))
    assert found.converged and expected.converged
    assert found.dual <= expected.primal * (1 + 1e-9) and expected.dual <= found.primal * (1 + 1e-9)
    assert plain.primal(found.w) == pytest.approx(full.primal(found.w), rel=1e-9)
    assert plain.structure.calls


@pytest.mark.parametrize("slacks", ["one", "n"])
def test_cutting_planes_of_both_kinds(slacks):
    solver = solvers.CuttingPlane(slacks)
    for slack in ("linear", "squared", "kl"):
        problems = [Problem.pose(s, Hinge(slack=slack), Gaussian(), 2.0) for s in (BoundPlain(bound()), bound())]
        found, expected = (run(solver, problem, tol=1e-6) for problem in problems)
        assert found.primal == pytest.approx(expected.primal, rel=1e-5)


def test_estimators_fit_and_predict_with_a_structure_of_the_user():
    likelihood, margin = (L2CRF(), L1CRF(lam=0.3)), (M3N(C=0.7), L1M3N(C=0.7), MaxEnDNet(Laplace(2.0)))
    ball = L1M3N(C=0.7, radius=2.0)
    for model in (*likelihood, *margin, ball):
        tol = 1e-3 if model is ball else 1e-4
        mine = model.set_params(structure=Plain(), tol=tol, random_state=0).fit(EXAMPLES)
        assert mine.converged_
        fitted, predicted = mine.model_, mine.predict(EXAMPLES)
        scores, score = mine.decision_function(EXAMPLES), mine.score(EXAMPLES)
        chain = model.set_params(structure=Chain()).fit(EXAMPLES)
        assert fitted.report.objective == pytest.approx(chain.objective_, rel=2 * tol)
        chain.set_model(replace(fitted, structure=Chain()))
        assert predicted == chain.predict(EXAMPLES) and score == chain.score(EXAMPLES)
        np.testing.assert_allclose(scores, chain.decision_function(EXAMPLES))


def test_a_requirement_that_no_structure_can_declare_is_refused_when_the_class_is_made():
    with pytest.raises(TypeError, match=r"Mistaken requires 'not structure.blockz', and Capabilities has no field"):

        class Mistaken(solvers.Solver):
            requires = ("loss.smooth", "prior.gradient or not structure.blockz")

"""Projected subgradient steps: inside the ball, certified, and what the linear programme finds."""

import numpy as np
import pytest
from test_agreement import CASES

from maxendnet import L1M3N
from maxendnet.solvers import ConstraintGeneration, ProjectedSubgradient

CHAINS = CASES["chains"][0]


@pytest.mark.parametrize("radius", [0.1, 1.0, 10.0])
def test_agrees_with_the_linear_programme(radius):
    exact = L1M3N(C=0.7, radius=radius, solver=ConstraintGeneration(), tol=1e-9, random_state=0).fit(CHAINS)
    model = L1M3N(C=0.7, radius=radius, solver=ProjectedSubgradient(), tol=0.01, max_passes=20000).fit(CHAINS)
    assert np.abs(model.model_.weights).sum() <= radius * (1 + 1e-12)
    assert exact.dual_ * (1 - 1e-9) <= model.objective_ <= exact.objective_ * 1.01
    assert model.dual_ <= exact.objective_ * (1 + 1e-9)
    assert model.which_ in ("average", "best")


def test_a_ball_that_holds_the_unconstrained_minimum():
    """Separable data and a large ball: the loss vanishes, and the certificate says so."""
    X, y = [[[1.0, 0.0]], [[0.0, 1.0]]], [["a"], ["b"]]
    model = L1M3N(C=1.0, radius=50.0, solver=ProjectedSubgradient(), tol=1e-6).fit(X, y)
    assert model.objective_ == 0.0 and model.gap_ == 0.0


@pytest.mark.parametrize("option", [{"step_size": 0.0}, {"step_size": "long"}, {"check_every": 0}])
def test_options_that_make_no_sense(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        L1M3N(radius=1.0, solver=ProjectedSubgradient(**option)).fit(CHAINS)


def test_the_penalty_form_is_refused():
    with pytest.raises(ValueError, match=r"ProjectedSubgradient needs prior.radius"):
        L1M3N(solver=ProjectedSubgradient()).fit(CHAINS)

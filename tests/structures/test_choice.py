"""Choices: tests in addition to `test_enumeration`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime

from maxendnet.backends import Threads
from maxendnet.data.batch import encode
from maxendnet.data.examples import Examples
from maxendnet.losses import Hinge, Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Choice, Layout
from maxendnet.structures.bound.choice import BoundChoice

pytestmark = pytest.mark.usefixtures("every_level")


def large():
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 300, size=20)
    y = [np.where(np.arange(n) == rng.integers(max(n, 1)), rng.integers(1, 4), 0) for n in sizes]
    batch = encode(Examples.build([rng.normal(size=(n, 5)) for n in sizes], y), np.arange(4), "independent")
    structure = BoundChoice(Layout(5, 4), batch)
    return structure, rng.normal(size=structure.layout.n_weights)


def test_threads_give_the_same_bits():
    structure, w = large()
    for loss in (Hinge(), Log()):
        found = [
            Problem.pose(structure, loss, Gaussian(), backend=Threads(n)).loss_and_gradient(w)[:2] for n in (1, 2, 3)
        ]
        for value, slope in found[1:]:
            assert value == found[0][0]
            assert_array_equal(slope, found[0][1])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308])
def test_labels_stay_within_bounds_where_scores_are_no_numbers(value):
    structure, w = large()
    w[::3] = value
    with np.errstate(all="ignore"):
        found = [
            structure.decode(w),
            structure.sample(w, 2, np.random.default_rng(0)),
            structure.top(w, 2)[1],
        ]
        structure.logsum(w)
        for loss in (Hinge(), Log(), SoftHinge()):
            Problem.pose(structure, loss, Gaussian()).loss_and_gradient(w)[:2]
    for labels in found:
        assert labels.min() >= -1 and labels.max() < structure.n_labels


def test_curvature_is_the_diagonal_of_the_hessian_at_zero():
    """This holds if no two nodes of an example share a feature; otherwise it is an approximation."""
    X = [np.diag([1.0, 2.0, -0.5]), np.diag([3.0, 1.0])]
    X[1] = np.pad(X[1], ((0, 0), (0, 1)))
    allowed = [[[1, 1, 1], [1, 0, 1], [1, 1, 1]], [[1, 1, 0], [1, 1, 1]]]
    examples = Examples.build(
        X, [[0, 0, 2], [0, 0]], labels=[0, 1, 2], allowed=[np.array(a, bool) for a in allowed], sample_weight=[1.0, 0.5]
    )
    structure = Choice(rest=0).bind(examples, np.arange(3))
    problem = Problem.pose(structure, Log(), Gaussian())

    def slope(w):
        return problem.loss_and_gradient(w).gradient

    hessian = approx_fprime(np.zeros(structure.layout.n_weights), slope, 1e-6)
    assert_allclose(structure.curvature(), np.diag(hessian), atol=1e-5)

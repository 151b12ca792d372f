"""The projection onto the L1 ball: against cvxpy, and by what makes a point the nearest one."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from maxendnet.solvers import project_l1_ball

vectors = st.integers(1, 12).flatmap(
    lambda n: arrays(np.float64, n, elements=st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 2.0])))
)
radii = st.floats(1e-6, 1e6)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("radius", [0.01, 1.0, 5.0, 1e3])
def test_cvxpy_agrees(n, radius):
    v = np.random.default_rng(n).normal(size=n) * 3
    w = cp.Variable(n)
    cp.Problem(cp.Minimize(cp.sum_squares(w - v)), [cp.norm1(w) <= radius]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    assert np.allclose(project_l1_ball(v, radius), w.value, atol=1e-6)


@given(vectors, radii)
@settings(max_examples=150, deadline=None)
def test_nothing_in_the_ball_is_nearer(v, radius):
    """``(v - p) . (z - p) <= 0`` for all z of the ball, that is for its corners."""
    p = project_l1_ball(v, radius)
    rounding = 1e-12 * (1 + np.abs(v).max()) * radius * len(v)
    assert np.abs(p).sum() <= radius * (1 + 1e-12)
    assert radius * np.abs(v - p).max() - (v - p) @ p <= rounding
    assert np.all(p * v >= 0) and np.all(np.abs(p) <= np.abs(v) + 1e-12 * np.abs(v).max())


@given(vectors, radii)
@settings(max_examples=100, deadline=None)
def test_again_changes_nothing_and_inside_nothing_moves(v, radius):
    p = project_l1_ball(v, radius)
    assert np.allclose(project_l1_ball(p, radius), p, rtol=0, atol=1e-12 * radius)
    if np.abs(v).sum() <= radius:
        assert np.array_equal(p, v)
    else:
        assert np.abs(p).sum() == pytest.approx(radius, rel=1e-12)


@given(st.data(), vectors, radii)
@settings(max_examples=100, deadline=None)
def test_two_points_come_no_further_apart(data, v, radius):
    other = data.draw(arrays(np.float64, v.shape, elements=st.floats(-1e6, 1e6)))
    moved = np.linalg.norm(project_l1_ball(v, radius) - project_l1_ball(other, radius))
    assert moved <= np.linalg.norm(v - other) * (1 + 1e-9) + 1e-12 * radius


def test_ties_and_sizes_far_apart():
    assert np.allclose(project_l1_ball(np.ones(5), 1.0), 0.2)
    assert project_l1_ball([1e20, 1.0], 1.0).tolist() == [1.0, 0.0]
    assert np.allclose(project_l1_ball([1e12 + 0.5, -1e12], 1.0), [0.75, -0.25])
    assert project_l1_ball([], 1.0).tolist() == []


def test_the_argument_is_left_alone():
    v = np.array([3.0, -4.0])
    project_l1_ball(v, 1.0)[0] = 9.0
    project_l1_ball(v, 100.0)[0] = 9.0
    assert v.tolist() == [3.0, -4.0]


@pytest.mark.parametrize(
    ("v", "radius", "message"),
    [
        ([1.0, np.nan], 1.0, "nan among its entries"),
        ([[1.0]], 1.0, r"shape \(1, 1\)"),
        ([1.0], 0.0, "radius must be a positive finite number, got 0.0"),
        ([1.0], np.inf, "radius"),
    ],
)
def test_bad_input(v, radius, message):
    with pytest.raises(ValueError, match=message):
        project_l1_ball(v, radius)

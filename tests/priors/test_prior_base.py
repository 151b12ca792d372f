from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maxendnet.priors import L1, ExactPrior, Flat, Laplace, Prior
from maxendnet.priors.base import increasing_root, require_positive, strictly_inside, total


def test_root_where_newton_alone_diverges():
    target = np.array([1e-8, 0.3, 1.4, 1.5707])

    def newton(z):  # arctan: Newton diverges if started more than 1.39 from the root
        residual = np.arctan(z) - target
        return residual, z - residual * (1 + z * z)

    root = increasing_root(newton, np.full(4, 1e-12), np.full(4, 1e12), np.full(4, 1e6))
    assert_allclose(root, np.tan(target), rtol=1e-11)


def test_root_where_newton_creeps():
    target = np.array([1e-30, 1.0, 1e30])

    def newton(z):  # steps are a thousand times too short, so only the bisections converge
        residual = z - target
        return residual, z - 1e-3 * residual

    assert_allclose(increasing_root(newton, target / 3, target * 3, target * 3), target, rtol=1e-6)


def test_root_at_an_end_of_the_bracket():
    ends = np.array([2.0, 5.0])
    assert_allclose(increasing_root(lambda z: (z - ends, z - (z - ends)), ends, ends, ends), ends)


def test_roots_of_nothing():
    empty = np.empty(0)
    assert increasing_root(lambda z: (z, z), empty, empty, empty).shape == (0,)


def test_total():
    assert total(np.array([1.0, np.nan]), outside=np.array([False, True])) == np.inf
    assert total(np.array([1.0, 2.0]), outside=np.array([False, False])) == 3.0


def test_strictly_inside():
    assert_allclose(strictly_inside(np.array([-9.0, 0.5, 2.0]), 2.0), [-2.0, 0.5, 2.0], rtol=1e-15)
    assert np.all(np.abs(strictly_inside(np.array([-9.0, 0.5, 2.0]), 2.0)) < 2.0)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "2", None, True, np.ones(1)])
def test_require_positive(value):
    with pytest.raises(ValueError, match=r"Laplace needs lam > 0 and finite, got lam=.*; do this"):
        require_positive(Laplace(), "do this", lam=value)
    require_positive(Laplace(), "do this", lam=np.float32(2))


def test_protocols_tell_limits_from_priors():
    assert isinstance(Laplace(), ExactPrior)
    assert isinstance(L1(), Prior) and not isinstance(L1(), ExactPrior)
    assert isinstance(Flat(), Prior) and not isinstance(Flat(), ExactPrior)

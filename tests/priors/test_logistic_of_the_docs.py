"""The example of docs/extend/prior.md against its density; tests/test_prior_laws.py runs the laws on it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose


@pytest.fixture(scope="module")
def Logistic():
    page = (Path(__file__).parents[2] / "docs" / "extend" / "prior.md").read_text()
    names = {"__name__": __name__}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    return names["Logistic"]


@pytest.mark.parametrize("b", [0.2, 3.0])
@pytest.mark.parametrize("fraction", [0.0, -0.4, 0.9])
def test_density_of_the_docstring(tilted, Logistic, b, fraction):
    prior, eta = Logistic(b), np.array([fraction / b])
    expected = tilted(lambda w: 1 / (4 * b * np.cosh(w / (2 * b)) ** 2), eta[0], limit=300 * b)
    assert_allclose(prior.cumulant(eta), expected.cumulant, rtol=1e-9, atol=1e-11)
    assert_allclose(prior.mean(eta), expected.mean, rtol=1e-9, atol=1e-11)
    assert_allclose(prior.variance(eta), expected.variance, rtol=1e-9)
    assert_allclose(prior.sign(eta), expected.sign, rtol=1e-9, atol=1e-11)

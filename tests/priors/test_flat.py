from __future__ import annotations

import numpy as np
from sklearn.base import clone

from maxendnet.priors import Flat


def test_costs_nothing():
    prior = clone(Flat())
    prior.check()
    assert prior.penalty(np.array([1e100, -3.0])) == 0.0
    assert prior.gradient(np.array([1e100, -3.0])).tolist() == [0.0, 0.0]
    assert prior.get_params() == {}


def test_only_what_exists_is_offered():
    for name in ("cumulant", "mean", "variance", "prox", "sample", "sign", "kernel_args"):
        assert not hasattr(Flat(), name)

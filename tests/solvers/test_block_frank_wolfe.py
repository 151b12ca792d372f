"""Initial C of block-coordinate Frank-Wolfe."""

from __future__ import annotations

import pytest

from maxendnet import M3N, Gaussian, LapMEDN, MaxEnDNet
from maxendnet.data.examples import as_examples, distinct_labels
from maxendnet.solvers import BlockFrankWolfe


@pytest.mark.parametrize(
    ("model", "first"),
    [
        (M3N(C=0.5), 0.5),
        (M3N(C=64.0), 1.0),  # |x|^2 is 4 at every node: a C of 1 is small
        (M3N(C=1024.0), 8.0),  # halved seven times
        (MaxEnDNet(Gaussian(variance=0.25), C=64.0), 4.0),
        (LapMEDN(C=100.0), 100.0),
    ],
    ids=str,
)
def test_C_is_halved_down_to_a_small_one(model, first):
    examples = as_examples([[[2.0, 0.0], [0.0, 2.0]], [[0.0, -2.0]]], [["a", "b"], ["b"]])
    problem = model.pose(examples, distinct_labels(examples.y))
    assert first == BlockFrankWolfe().start(problem, seed=0).C
    assert BlockFrankWolfe(ramp=0).start(problem, seed=0).C == problem.C

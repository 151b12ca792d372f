"""Exact line search for the maximum of a concave dual on a segment."""

import numpy as np
import pytest

from maxendnet.solvers.subproblems.line_search import where_falling


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (lambda s: 1.0 - 4 * s, 0.25),
        (lambda s: 2.0 - s, 1.0),
        (lambda s: -s, 0.0),
        (lambda s: 1.0 - s / (0.5 - s) if s < 0.5 else -np.inf, 0.25),
        (lambda s: 1.0 if s < 0.3 else -np.inf, 0.3),
    ],
)
def test_where_falling(slope, expected):
    assert where_falling(slope) == pytest.approx(expected, abs=1e-12)

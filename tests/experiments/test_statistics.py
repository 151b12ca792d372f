import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card
from maxendnet.experiments.engine.statistics import all_of, is_at_least, is_positive, is_small, paired
from maxendnet.experiments.engine.table import differences

numbers = st.lists(st.integers(-1000, 1000).map(lambda k: k / 100), min_size=3, max_size=30)


@settings(max_examples=20)
@given(numbers)
def test_the_interval_is_that_of_scipy(d):
    if np.std(d) == 0:
        return
    ours, theirs = paired(d), stats.ttest_1samp(d, 0)
    interval = theirs.confidence_interval(0.95)
    np.testing.assert_allclose([ours.p, ours.low, ours.high], [theirs.pvalue, *interval], rtol=1e-8, atol=1e-12)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    tests = [paired(rng.normal(0.3, 1.0, size=8)) for _ in range(400)]
    assert 0.92 < np.mean([t.low < 0.3 < t.high for t in tests]) < 0.98


def test_overlapping_parts_widen_the_interval():
    d = [1.0, 2.0, 3.0, 2.5]
    plain, corrected = paired(d), paired(d, overlap=1 / 9)
    ratio = (corrected.high - corrected.low) / (plain.high - plain.low)
    assert ratio == pytest.approx(np.sqrt((1 / 4 + 1 / 9) / (1 / 4)))


@pytest.mark.parametrize(
    "d, positive, at_least, small",
    [
        ([2.0, 2.1, 1.9], HOLDS, HOLDS, FAILS),
        ([-2.0, -2.1, -1.9], FAILS, FAILS, FAILS),
        ([0.1, -0.1, 0.05], OPEN, HOLDS, HOLDS),
        ([5.0, -5.0, 1.0], OPEN, OPEN, OPEN),
        ([1.0], OPEN, OPEN, OPEN),
        ([], OPEN, OPEN, OPEN),
        ([0.0, 0.0], OPEN, HOLDS, HOLDS),
    ],
)
def test_verdicts(d, positive, at_least, small):
    test = paired(d)
    assert (is_positive(test), is_at_least(test, 1.0), is_small(test, 1.0)) == (positive, at_least, small)
    assert test.text()


def test_a_statement_of_parts():
    assert all_of(HOLDS, HOLDS) == HOLDS
    assert all_of(HOLDS, OPEN) == OPEN
    assert all_of(OPEN, FAILS) == FAILS


def test_a_card_has_one_of_three_verdicts():
    with pytest.raises(ValueError, match="not decidable"):
        Card("key", "claim", "perhaps")


def test_differences_pair_what_belongs_together():
    rows = [{"system": s, "draw": d, "train": n, "error": e}
            for s, d, n, e in [("a", 0, 30, 0.1), ("b", 0, 30, 0.3), ("a", 0, 50, 0.1), ("b", 0, 50, 0.5),
                               ("b", 1, 30, 0.4), ("a", 2, 30, 0.4), ("b", 2, 30, 0.1), ("b", 2, 50, 9.0)]]  # fmt: skip
    np.testing.assert_allclose(differences(rows, "system", "a", "b", ["draw"], ["train"]), [0.3, -0.3])
    assert len(differences(rows, "system", "a", "c", ["draw"])) == 0

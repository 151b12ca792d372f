import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from maxendnet.experiments.engine.comparison import clustered, difference
from maxendnet.experiments.engine.experiment import (
    BETTER,
    COMPARABLE,
    DIFFERENT,
    FAILS,
    HOLDS,
    NOT_BETTER,
    OPEN,
    WORSE,
)
from maxendnet.experiments.engine.statistics import (
    combined,
    equality,
    holm,
    is_positive,
    non_inferiority,
    paired,
    superiority,
)
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
    "d, positive, better, at_least, equal",
    [
        ([2.0, 2.1, 1.9], HOLDS, BETTER, BETTER, DIFFERENT),
        ([-2.0, -2.1, -1.9], FAILS, NOT_BETTER, WORSE, WORSE),
        ([-0.3, -0.31, -0.29], FAILS, NOT_BETTER, COMPARABLE, COMPARABLE),
        ([0.1, -0.1, 0.05], OPEN, OPEN, COMPARABLE, COMPARABLE),
        ([5.0, -5.0, 1.0], OPEN, OPEN, OPEN, OPEN),
        ([1.0], OPEN, OPEN, OPEN, OPEN),
        ([], OPEN, OPEN, OPEN, OPEN),
        ([0.0, 0.0], OPEN, OPEN, COMPARABLE, COMPARABLE),
    ],
)
def test_verdicts(d, positive, better, at_least, equal):
    test = paired(d)
    assert is_positive(test) == positive and superiority(test) == better
    assert non_inferiority(test, 1.0) == at_least and equality(test, 1.0) == equal
    assert test.text()


def test_a_claim_of_parts():
    assert combined(BETTER, BETTER) == BETTER and combined(BETTER, COMPARABLE) == COMPARABLE
    assert combined(BETTER, OPEN) == OPEN and combined() == OPEN
    assert combined(OPEN, WORSE) == WORSE and combined(NOT_BETTER, OPEN, BETTER) == NOT_BETTER


def test_the_correction_of_holm_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p = rng.random(6) ** 4
        adjusted = np.maximum.accumulate(np.sort(p) * np.arange(6, 0, -1))[np.argsort(np.argsort(p))]
        assert holm(p.tolist()) == (adjusted <= 0.05).tolist()
    assert holm([]) == [] and holm([float("nan"), 0.001]) == [False, True]


def test_a_test_over_words_counts_each_word_once():
    rng = np.random.default_rng(0)
    effect = rng.normal(0.05, 0.2, size=40)  # each word favours one of the systems in all folds

    def rows(system, worse):
        return [
            {"system": system, "fold": fold, "words": 100, "group_labels": [20] * 40,
             "group_wrong": rng.binomial(20, np.clip(0.4 + worse, 0, 1)).tolist()}
            for fold in range(10)
        ]  # fmt: skip

    table = rows("a", 0 * effect) + rows("b", effect)
    for row in table:
        row["error"] = sum(row["group_wrong"]) / 800
    by_word, by_fold = clustered(table, "a", "b", ["fold", "words"]), difference(table, "a", "b", ["fold"])
    assert by_word.mean == pytest.approx(by_fold.mean) and by_word.n == 40
    spread = 2 * stats.t.ppf(0.975, 39) * np.std(effect, ddof=1) / np.sqrt(40)
    assert by_word.high - by_word.low == pytest.approx(spread, rel=0.2)
    assert by_word.high - by_word.low > 3 * (by_fold.high - by_fold.low)  # folds do not show that words differ
    assert clustered(table, "a", "c", ["fold", "words"]).n == 0


def test_differences_pair_what_belongs_together():
    rows = [{"system": s, "draw": d, "train": n, "error": e}
            for s, d, n, e in [("a", 0, 30, 0.1), ("b", 0, 30, 0.3), ("a", 0, 50, 0.1), ("b", 0, 50, 0.5),
                               ("b", 1, 30, 0.4), ("a", 2, 30, 0.4), ("b", 2, 30, 0.1), ("b", 2, 50, 9.0)]]  # fmt: skip
    np.testing.assert_allclose(differences(rows, "system", "a", "b", ["draw"], ["train"]), [0.3, -0.3])
    assert len(differences(rows, "system", "a", "c", ["draw"])) == 0

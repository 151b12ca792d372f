"""Threads: identical results for any number of threads, each range once, and interrupts."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import re
import signal
import threading
import time

import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from systems import labelled_chains
from threadpoolctl import threadpool_info, threadpool_limits

from maxendnet import L2CRF
from maxendnet.backends import Threads, one_blas_thread, threads
from maxendnet.backends.partial import Partial, add_up
from maxendnet.backends.threads import cut
from maxendnet.data.examples import Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Hinge, Log
from maxendnet.losses.base import loss_oracle, table_oracle
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.solvers import Monitor
from maxendnet.structures import Chain, Layout
from maxendnet.structures.base import ExcessOptions
from maxendnet.structures.bound.choice import BoundChoice
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.hierarchy import BoundHierarchy
from maxendnet.structures.weights import padding

N_JOBS = [1, 2, 3]

# ------------------------------------------------------------------------------------------- linear algebra below numpy


def blas_threads() -> list[int]:
    """Of numpy and scipy; other packages that tests import may bring a BLAS that has one thread only."""
    ours = [x for x in threadpool_info() if x["user_api"] == "blas" and re.search("numpy|scipy", x["filepath"])]
    return [library["num_threads"] for library in ours]


def test_a_fit_holds_blas_to_one_thread_and_gives_it_back():
    """Fits that overlap too: the last to end gives back what the first one found."""
    n_threads, first_is_in, second_is_done = [], threading.Event(), threading.Event()

    def count_threads(*_):
        n_threads.append(blas_threads())

    def second():
        first_is_in.wait()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Monitor, "__call__", count_threads)
            L2CRF().fit([[[0.0], [1.0]]], [["a", "b"]])
        second_is_done.set()

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert set(before) == {2}
        other = threading.Thread(target=second)
        other.start()
        with one_blas_thread:
            first_is_in.set()
            assert second_is_done.wait(300)
            assert set(blas_threads()) == {1}  # the second has ended, the first has not
        other.join()
        assert blas_threads() == before
        with pytest.raises(RuntimeError), one_blas_thread:
            raise RuntimeError
        assert blas_threads() == before
    assert n_threads and all(set(counts) == {1} for counts in n_threads)


# ------------------------------------------------------------------------------------------------------------ cut


@given(
    st.lists(st.one_of(st.integers(0, 5), st.integers(0, 300)), max_size=60),
    st.integers(1, 20),
    st.one_of(st.integers(1, 50), st.just(1 << 60)),
)
def test_cut(lengths, n_shards, nodes_per_range):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    shards = cut(offsets, n_shards, nodes_per_range)
    # every example once and in order, no shard and no range empty
    assert [i for ranges in shards for a, b in ranges for i in range(a, b)] == list(range(len(lengths)))
    assert all(shards) and all(a < b for ranges in shards for a, b in ranges)
    assert all(isinstance(border, int) for ranges in shards for pair in ranges for border in pair)
    assert len(shards) <= n_shards
    longest = max(lengths, default=0) + 1
    share = (sum(lengths) + len(lengths)) / n_shards
    for ranges in shards:
        # an example counts one more than it has nodes, and is not divided
        nodes = int(offsets[ranges[-1][1]] - offsets[ranges[0][0]])
        assert nodes + ranges[-1][1] - ranges[0][0] <= share + longest
        n_ranges = max(1, -(-nodes // nodes_per_range))
        for a, b in ranges:
            assert offsets[b] - offsets[a] <= (nodes + ranges[-1][1] - ranges[0][0]) / n_ranges + longest


def test_cut_shares_out_examples_without_nodes():
    assert len(cut(np.zeros(9, np.int64), 4, 100)) == 4


def test_cut_makes_short_ranges():
    offsets = np.arange(0, 1001, 10)
    shards = cut(offsets, 2, 50)
    assert len(shards) == 2
    assert all(offsets[b] - offsets[a] <= 60 for ranges in shards for a, b in ranges)


# ------------------------------------------------------------------------------------------------------ same bits


def words(n_examples=300, n_labels=11, n_features=30):
    """Chains and trees with everything on, large enough for several shards, blocks and ranges."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 40, size=n_examples)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    start = np.repeat(offsets[:-1], lengths)
    parent = np.where(np.arange(n) == start, -1, rng.integers(start, np.maximum(np.arange(n), start + 1)))
    child = parent >= 0
    allowed = rng.random((n, n_labels)) < 0.9
    y = rng.integers(n_labels, size=n)
    allowed[np.arange(n), y] = True
    batch = strategies.known_batch(
        indptr=np.arange(n + 1, dtype=np.int64) * 5,
        indices=np.sort(np.argsort(rng.random((n, n_features)), axis=1)[:, :5], axis=1).astype(np.int32).ravel(),
        data=rng.normal(size=5 * n),
        y=y.astype(np.int32),
        offsets=offsets,
        order=np.arange(n, dtype=np.int32),
        parent=parent.astype(np.int32),
        edge_type=np.where(child, rng.integers(2, size=n), 0).astype(np.int32),
        flipped=(child & (rng.random(n) < 0.5)).astype(np.uint8),
        edge_features=np.zeros((n, 0)),
        allowed=allowed.view(np.uint8),
        label_features=np.zeros((0, 0, 0)),
        sample_weight=rng.uniform(0.5, 2.0, size=n_examples),
        largest=10.0,
        max_children=int(np.bincount(parent[child]).max()),
    )
    layout = Layout(n_features, n_labels, 2)
    return BoundForest(layout, batch), rng.normal(size=layout.n_weights)


def flat(values_and_marginals):
    values, marginals = values_and_marginals
    return values, marginals.node, marginals.edge


AGGREGATES = {
    "maximum": lambda forest, w, backend: forest.maximum(w, backend=backend),
    "decode": lambda forest, w, backend: [forest.decode(w, backend)],
    "max_marginals": lambda forest, w, backend: [forest.max_marginals(w, backend)],
    "logsum": lambda forest, w, backend: flat(forest.logsum(w, cliques=True, backend=backend)),
    "sample": lambda forest, w, backend: [forest.sample(w, 3, np.random.default_rng(1), backend)],
    "top": lambda forest, w, backend: forest.top(w, 2, backend),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_are_identical_for_any_number_of_threads(name):
    forest, w = words()
    assert len(forest.ranges()) > 3
    one, two, three = (AGGREGATES[name](forest, w, Threads(n_jobs)) for n_jobs in N_JOBS)
    for a, b, c in zip(one, two, three):
        assert_array_equal(a, b)
        assert_array_equal(a, c)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Log()], ids=["hinge", "log"])
def test_losses_are_identical_for_any_number_of_threads(loss, single):
    forest, w = words(n_examples=600, n_labels=27)
    results = []
    for n_jobs in N_JOBS:
        problem = Problem.pose(forest, loss, Gaussian(), backend=Threads(n_jobs))
        assert len(problem.data.shards) > 1
        results.append(problem.loss_and_gradient(w, single=single)[:2])
    for value, gradient in results[1:]:
        assert value == results[0][0]
        assert_array_equal(gradient, results[0][1])


@given(st.data())
@settings(deadline=None, max_examples=20)
def test_small_batches_are_identical_for_any_number_of_threads(data):
    case = data.draw(strategies.forest_cases(max_examples=20))
    forest = BoundForest(case.layout, case.batch._replace(largest=5.0))
    for function in AGGREGATES.values():
        one, three = (function(forest, case.w, Threads(k)) for k in (1, 3))
        for a, b in zip(one, three):
            assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------------ sums over shards


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 17])
def test_parts_are_added_up(n):
    rng = np.random.default_rng(n)
    parts = [Partial(rng.normal(), rng.normal(size=4), rng.normal(), rng.normal(size=k % 3)) for k in range(n)]
    copies = [part._replace(gradient=part.gradient.copy()) for part in parts]
    total = add_up(parts, n)
    assert total.loss == pytest.approx(math.fsum(part.loss for part in copies), abs=1e-12)
    assert total.cost == pytest.approx(math.fsum(part.cost for part in copies), abs=1e-12)
    assert_allclose(total.gradient, np.sum([part.gradient for part in copies], axis=0), atol=1e-12)
    assert_array_equal(total.values, np.concatenate([part.values for part in copies]))  # in the order of the examples
    again = add_up(iter(copies), n)
    assert (total.loss, total.cost) == (again.loss, again.cost)
    assert_array_equal(total.gradient, again.gradient)


def test_neighbours_are_added_first():
    """The order of additions depends only on the number of shards; the numbers reveal the order."""
    large = 2.0**60  # 1 + large is large
    assert add_up([Partial(x) for x in (1.0, large, -large, 1.0)], 4).loss == (1.0 + large) + (-large + 1.0)
    assert add_up([Partial(x) for x in (large, -large, 1.0, 1.0, 1.0)], 5).loss == 3.0
    assert add_up([Partial(x) for x in (1.0, 1.0, large, 1.0, -large)], 5).loss == (2.0 + large) - large


HAMMING = 1.0 - np.eye(5)
ORACLES = {
    "hinge": (loss_oracle, Hinge(), 0.7, HAMMING, ExcessOptions(values=True)),
    "squared slack": (loss_oracle, Hinge(slack="squared"), 0.7, HAMMING, ExcessOptions(values=True)),
    "log": (loss_oracle, Log(), 0.7, HAMMING, ExcessOptions(values=True)),
    "log, in float32": (loss_oracle, Log(), 0.7, HAMMING, ExcessOptions(single=True)),
    "soft hinge": (loss_oracle, SoftHinge(temperature=0.3), 0.7, HAMMING, ExcessOptions()),
    "value alone": (loss_oracle, Log(), 0.7, HAMMING, ExcessOptions(gradient=False)),
    "tables": (table_oracle, 0.5 * np.eye(5), HAMMING),
}


def bound_structures():
    """One of each kind, with labels that it allows."""
    forest, _ = words(n_examples=80, n_labels=5, n_features=10)
    batch = forest.batch._replace(allowed=np.zeros((0, 0), np.uint8), flipped=np.zeros_like(forest.batch.flipped))
    first = np.zeros_like(batch.y)
    first[batch.offsets[:-1][np.diff(batch.offsets) > 0]] = 1
    apart = batch._replace(parent=np.full_like(batch.parent, -1), edge_type=np.zeros_like(batch.edge_type), y=first)
    return {
        "forest": forest,
        "hierarchy": BoundHierarchy(
            Layout(10, 5, 2, siblings=True), batch._replace(y=first, row=first), ((1, 1), (2, 3))
        ),
        "choice": BoundChoice(Layout(10, 5), apart, 0),
    }


def assert_same_bits(left, right):
    assert (left.loss, left.cost) == (right.loss, right.cost)
    assert_array_equal(left.gradient, right.gradient)
    assert_array_equal(left.values, right.values)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("kind", bound_structures())
def test_sums_are_identical_for_any_number_of_threads_and_after_pickling(kind, name):
    """Shards, weights and arguments can be pickled, as a backend on other machines would do."""
    structure, (oracle, *arguments) = bound_structures()[kind], ORACLES[name]
    w = np.random.default_rng(2).normal(size=structure.layout.n_weights)
    shards = [structure.take(a, b) for a, b in ((0, 11), (11, 12), (12, 50), (50, 50), (50, 80))]
    whole = oracle(structure, w, *arguments)
    results = [Threads(n).sum(oracle, shards, w, *arguments) for n in N_JOBS]
    for other in results[1:]:
        assert_same_bits(results[0], other)
    assert results[0].loss == pytest.approx(whole.loss, rel=1e-5 if "32" in name else 1e-12)
    # after the oracle was asked: what kernels hold stays behind
    for shard in (structure, *shards):
        there = pickle.loads(pickle.dumps(shard))
        sent = pickle.loads(pickle.dumps((w, *arguments)))
        assert_same_bits(oracle(there, *sent), oracle(shard, w, *arguments))
    sent = pickle.loads(pickle.dumps((shards, w, *arguments)))
    assert_same_bits(Threads(2).sum(oracle, *sent), results[0])


def test_shards_do_not_depend_on_the_number_of_threads():
    forest, _ = words(n_examples=600, n_labels=27)
    places = [Threads(n).place(forest) for n in N_JOBS]
    assert len(places[0]) > 1
    for other in places[1:]:
        assert [len(shard.sample_weight) for shard in other] == [len(shard.sample_weight) for shard in places[0]]
    assert_array_equal(np.concatenate([shard.y for shard in places[0]]), forest.y)


# -------------------------------------------------------------------------------------------------------- running

SHARDS = [[(0, 1), (1, 2)], [(2, 5)], [(5, 6), (6, 7), (7, 8)], [(8, 9)]]


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 50, -1, None])
def test_every_range_once_and_a_shard_in_order(n_jobs):
    ranges = [[] for _ in SHARDS]
    Threads(n_jobs).run(lambda first, last, shard: ranges[shard].append((first, last)), SHARDS)
    assert ranges == SHARDS


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_nothing_to_do(n_jobs):
    Threads(n_jobs).run(lambda *_: pytest.fail("there is no range"), [])


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_no_examples(n_jobs):
    forest, w = words(n_examples=1)
    assert forest.take(0, 0).decode(w, Threads(n_jobs)).shape == (0,)


def test_threads_really_run_side_by_side():
    meeting = threading.Barrier(2, timeout=300)
    Threads(2).run(lambda *_: meeting.wait(), [[(0, 1)], [(1, 2)]])


def test_one_thread_is_the_calling_one():
    here = []
    Threads(1).run(lambda *_: here.append(threading.get_ident()), SHARDS)
    assert set(here) == {threading.get_ident()}


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_comes_through(n_jobs, error):
    def function(first, last, shard):
        if first == 6:
            raise error("range 6")

    with pytest.raises(error, match="range 6"):
        Threads(n_jobs).run(function, SHARDS)


class Endless:
    """Ranges of a shard without end: only a stop ends the work on it. Unless it takes so long that there is none."""

    def __init__(self, first):
        self.first = first

    def __iter__(self):
        end = time.monotonic() + 300
        for k in itertools.count(self.first):
            assert time.monotonic() < end, "nobody stopped this"
            yield k, k + 1


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_an_exception_stops_the_other_shards(n_jobs, monkeypatch):
    calls, started = [], []

    def start(function, arguments):
        started.append(threading.Thread(target=function, args=arguments))
        started[-1].start()

    def function(first, last, shard):
        calls.append(first)
        if shard == 0:
            raise ValueError("shard 0")

    monkeypatch.setattr(threads._thread, "start_new_thread", start)
    with pytest.raises(ValueError, match="shard 0"):
        Threads(n_jobs).run(function, [[(0, 1)], Endless(1), Endless(1), Endless(1)])
    n_calls = len(calls)
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()
    assert len(calls) == n_calls  # no thread continued after the exception was raised


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_ctrl_c_interrupts_between_ranges(n_jobs):
    calls = itertools.count()

    def function(first, last, shard):
        if next(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        Threads(n_jobs).run(function, [Endless(0)] * 4)
    assert next(calls) > 20
    assert threading.active_count() == before


def test_ctrl_c_stops_a_kernel():
    forest, w = words(n_examples=600)
    at_work = threading.Event()

    def interrupt():
        at_work.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            at_work.set()
            forest.logsum(w, backend=Threads(2))
    thread.join()
    assert forest.logsum(w, backend=Threads(2))[0].shape == (600,)  # and all still works


# --------------------------------------------------------------------------------------------------------- n_jobs


def test_n_jobs(monkeypatch):
    monkeypatch.setattr("maxendnet.backends.threads._processors", lambda: 4)
    assert [Threads(n).n_jobs for n in (None, 1, 3, np.int64(2), -1, -2, -4, -9)] == [1, 1, 3, 2, 4, 3, 1, 1]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", [1]])
def test_n_jobs_that_make_no_sense(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or a whole number other than 0, got"):
        Threads(n_jobs)


def test_an_interrupt_waits_for_all_threads(monkeypatch):
    """A thread that is inside a kernel when the interpreter ends would crash the process."""
    wait, ended = threads._wait, []
    other_began, main_ended, interrupted = threading.Event(), threading.Event(), threading.Event()

    def wait_for_threads(*arguments):
        interrupted.set()
        wait(*arguments)

    def work(first, last, shard):
        if threading.current_thread() is threading.main_thread():
            other_began.wait(60)
            main_ended.set()
        else:
            other_began.set()
            main_ended.wait(60)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            interrupted.wait(60)
            ended.append(shard)

    monkeypatch.setattr(threads, "_wait", wait_for_threads)
    with pytest.raises(KeyboardInterrupt):
        Threads(2).run(work, [[(0, 1)], [(1, 2)]])
    assert len(ended) == 1


@pytest.mark.parametrize("loss", [Log(), Hinge(), SoftHinge(temperature=0.5)], ids=["log", "hinge", "soft hinge"])
def test_shards_share_padded_weights(loss, monkeypatch):
    """Weights are laid out once for a sum, and not kept after it; the next sum is one at its own weights."""
    X, y = labelled_chains()
    examples = Examples.build(X, y)
    bound = Chain().bind(examples, distinct_labels(examples.y))
    problem = Problem.pose(bound, loss, Gaussian())
    problem.data.shards = [bound.take(k, k + 4) for k in range(0, len(X), 4)]
    compute, calls = padding._search_weights, []
    monkeypatch.setattr(padding, "_search_weights", lambda *a: calls.append(None) or compute(*a))
    w = np.random.default_rng(0).normal(size=problem.n_weights)
    first = problem.loss_and_gradient(w)
    assert len(calls) == 1 and not bound.layout.cache._of_weights
    w *= 2.0  # in place
    second = problem.loss_and_gradient(w)
    assert len(calls) == 2 and w.flags.writeable
    alone = [loss.evaluate(shard, w, 1.0, problem.cost) for shard in problem.data.shards]
    assert second.loss == add_up(alone, len(alone)).loss != first.loss

"""The Dask backend: results of threads, and errors or recovery after failures."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from systems import every_system, flat, labelled_chains, roughly, weights_of

from maxendnet import L1CRF, L2CRF, M3N, UNKNOWN, Examples, PathSearchCV, _kernels, experiments
from maxendnet.backends import Backend, BackendError, Dask, Threads
from maxendnet.backends import dask as backend_module
from maxendnet.backends.dask import Packed, cut_evenly, each_of, join_on_worker, pack, sum_of, unpack
from maxendnet.backends.partial import Partial, Span, add_up, join
from maxendnet.cli import main
from maxendnet.data.ragged import is_mapped
from maxendnet.experiments.engine.cells import run_cells
from maxendnet.problem.partitions import curvature_of, partitions_of
from maxendnet.problem.placed import PlacedData
from maxendnet.solvers import LBFGS, OWLQN, SMO, BlockFrankWolfe, ConcaveConvex, Smoothing, Subgradient
from maxendnet.solvers.base import Snapshots
from maxendnet.structures import Chain, Tree
from maxendnet.structures.bound.automaton import BoundAutomaton
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.text import ColumnFiles, TokenFeatures, read_columns

distributed = pytest.importorskip("distributed", reason="needs distributed (pip install 'maxendnet[dask]')")


def cluster_of(n_workers, **options):
    """A cluster that is reached from this machine only."""
    return distributed.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        protocol="tcp",
        silence_logs=50,
        **options,
    )


@pytest.fixture(scope="module")
def threads():
    """Two workers that are threads of this process: quick to start."""
    with cluster_of(2, processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def processes():
    """Two workers that can be killed; others take their place."""
    with cluster_of(2, processes=True) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def large():
    """Examples with enough nodes for several shards."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 26)) for n in rng.integers(5, 15, size=600)]
    return Examples.build(X, [np.argmax(x + rng.normal(size=x.shape), axis=1).tolist() for x in X])


MODELS = {
    "LBFGS": L2CRF(solver=LBFGS(), tol=0.01),
    "OWLQN": L1CRF(solver=OWLQN(), max_passes=4),
    "Smoothing": M3N(solver=Smoothing(), max_passes=4),
}


IN_PARTS = {
    "BlockFrankWolfe": M3N(solver=BlockFrankWolfe(check_every=3), max_passes=5, random_state=0),
}


# ---- identical results -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_results_are_identical_to_those_of_threads(name, threads, large, tmp_path):
    model = clone(MODELS[name]).set_params(random_state=0)
    one_thread, two_threads = clone(model).fit(large), clone(model).set_params(n_jobs=2).fit(large)
    backend = Dask(threads)
    assert isinstance(backend, Backend) and len(backend.place(Chain().bind(large, np.arange(26)))) >= 2
    dask = clone(model).set_params(backend=backend).fit(large)
    mapped = Examples.write(tmp_path, [large])
    dask_mapped = clone(model).set_params(backend=backend).fit(mapped)
    for model_fit in (two_threads, dask, dask_mapped):
        assert_array_equal(one_thread.model_.weights, model_fit.model_.weights)
        assert one_thread.gap_ == model_fit.gap_ and one_thread.n_passes_ == model_fit.n_passes_
    assert one_thread.predict(large) == dask.predict(large) == dask_mapped.predict(mapped)
    assert one_thread.score(large) == dask.score(large)


@every_system
def test_every_system(model, threads):
    X, y = labelled_chains()
    distant = roughly(model, backend=Dask(threads)).fit(X, y)
    assert distant.objective_ > 0 and len(flat(distant.predict(X))) == len(flat(y))
    here = roughly(model).fit(X, y)
    if here.solver_ == distant.solver_ and "variational" not in repr(model):  # no kernels that go through examples here
        assert_array_equal(weights_of(distant), weights_of(here))


def test_large_arguments_are_sent_once(threads, large, monkeypatch):
    """Gradients are then added on the workers."""
    monkeypatch.setattr(backend_module, "MAX_SCHEDULER_BYTES", 100)
    model = L2CRF(solver=LBFGS(), tol=0.05)
    assert_array_equal(clone(model).set_params(backend=Dask(threads)).fit(large).coef_, clone(model).fit(large).coef_)


def _twice(shard, w):
    return Partial(1.0, 2 * w)


def test_workers_do_not_wait_for_each_other(threads, large):
    """Weights and gradients are not sent between workers, where transfers would wait for kernels to end."""
    backend, w = Dask(threads), np.arange(50_000.0)
    shards = backend.place(Chain().bind(large, np.arange(26)))
    before = threads.run(_n_transfers)
    total = backend.sum(_twice, shards, w)
    assert_array_equal(total.gradient, 2 * len(shards) * w)
    assert len(before) == 2 and threads.run(_n_transfers) == before


def _n_transfers(dask_worker):
    return dask_worker.state.transfer_incoming_count_total


def test_arrays_of_arguments_are_not_copied_into_the_pickle():
    w = np.arange(1000.0)
    packed = Packed.of((w, "loss"))
    assert len(packed.head) < 500 and packed.size == len(packed.head) + 8000
    (array,) = packed.arrays
    shifted = memoryview(b"." + bytes(array))[1:]  # as it may lie in what has come over a network
    for copy in (packed, Packed(packed.head, [shifted]), pickle.loads(pickle.dumps(packed, protocol=5))):
        again, name = copy.value()
        assert again.flags.writeable and again.flags.aligned and name == "loss"
        assert_array_equal(again, w)
        again[0] = 7.0
        assert w[0] == 0.0


@pytest.mark.parametrize("protocol", [4, 5])
def test_arguments_that_have_come_over_a_network_can_be_sent_on(protocol):
    """Their arrays are memoryviews, which pickle does not accept directly."""
    w = np.arange(1000.0)
    first = Packed.of((w,))
    received = Packed(first.head, [memoryview(bytes(array)) for array in first.arrays])
    buffers = []
    sent = pickle.dumps(received, protocol=protocol, buffer_callback=buffers.append if protocol == 5 else None)
    assert len(buffers) == (protocol == 5)
    (again,) = pickle.loads(sent, buffers=buffers).value()
    assert_array_equal(again, w)
    (again,) = pickle.loads(pickle.dumps(received, protocol=protocol)).value()
    assert_array_equal(again, w)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 11, 16])
def test_sums_are_joined_along_one_tree(n):
    """The result does not depend on which worker has which shards."""
    rng = np.random.default_rng(n)
    values = [Partial(float(v), np.array([v, 1 / v]), values=np.array([v])) for v in 1 + rng.random(n) * 1e8]
    copies = lambda: [part._replace(gradient=part.gradient.copy()) for part in values]  # noqa: E731
    row = copies()  # level by level, as it is drawn
    while len(row) > 1:
        row = [row[k].plus(row[k + 1]) if k + 1 < len(row) else row[k] for k in range(0, len(row), 2)]
    for n_workers in range(1, n + 2):
        parts, packed = copies(), Packed.of(())
        pieces = cut_evenly(n, n_workers)
        spans = [sum_of(parts[a:b], (a, b), n, lambda part: part, packed, _kernels.level()) for a, b in pieces]
        if n_workers % 2:
            half = len(spans) // 2
            spans = [join_on_worker(spans[:half], n), join_on_worker(spans[half:], n)]
        (joined,) = join_on_worker(spans, n)
        for expected, actual in zip(row[0], joined.sum):
            assert_array_equal(expected, actual)
    for expected, actual in zip(row[0], add_up(copies(), n)):
        assert_array_equal(expected, actual)


def test_joining_on_a_worker_does_not_change_its_input():
    left, right = Partial(1.0, np.ones(2)), Partial(1.0, np.ones(2))
    assert join_on_worker([[Span(0, 1, left)], [Span(1, 2, right)]], 2)[0].sum.gradient.tolist() == [2, 2]
    assert left.gradient.tolist() == [1, 1]
    assert join([Span(0, 1, left), Span(1, 2, right)], 2)[0].sum.gradient is left.gradient


def test_the_number_of_shards_is_a_setting(threads, large):
    structure = Chain().bind(large, np.arange(26))
    assert len(Threads().place(structure)) > 1 == len(Threads(shards=1).place(structure))
    with pytest.warns(UserWarning, match=r"The cluster has 2 threads, but only 1 are used.*shards=4"):
        assert len(Dask(threads, shards=1).place(structure)) == 1
    with pytest.raises(ValueError, match="shards must be a whole number of at least 1"):
        Threads(shards=0)


def test_solvers_that_go_through_examples_here_are_refused(threads):
    with pytest.raises(ValueError, match=r"SMO needs backend\.local.*Solvers that fit: .*BlockFrankWolfe"):
        M3N(solver=SMO(), backend=Dask(threads)).fit(*labelled_chains())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("parts", [None, 1, 4])
@pytest.mark.parametrize("name", ["BlockFrankWolfe"])
def test_parts_are_identical_to_those_of_threads(name, parts, threads, large):
    """None is one part for each of the two workers."""
    model = IN_PARTS[name].set_params(solver__parts=parts or (2 if parts is None else parts))
    here = clone(model).fit(large)
    there = clone(model).set_params(solver__parts=parts, backend=Dask(threads)).fit(large)
    assert_array_equal(here.model_.weights, there.model_.weights)
    assert here.gap_ == there.gap_ and here.n_passes_ == there.n_passes_
    if parts == 1:
        assert_array_equal(clone(model).set_params(solver__parts=None).fit(large).coef_, there.coef_)


@pytest.mark.skipif(len(_kernels.levels()) < 2, reason="needs two levels of kernels")
def test_workers_take_the_level_of_the_client(large):
    """The worker is this process at another level."""
    best = _kernels.level()
    shard, w = Chain().bind(large, np.arange(26)), np.random.default_rng(0).normal(size=26 * 26 * 2)
    packed, arguments = pack(shard), Packed.of((w,))
    expected = shard.logsum(w)[0]
    with _kernels.at_level("baseline"):
        (actual,) = each_of([unpack(packed, best)], (0, 1), 1, _logsum, arguments, best)
        assert _kernels.level() == best
    assert_array_equal(actual, expected)


def _logsum(shard, w):
    return shard.logsum(w)[0]


def test_arrays_in_files_are_sent_by_name(large, tmp_path):
    mapped = Examples.write(tmp_path, [large])
    shard = Chain().bind(mapped, np.arange(26)).take(100, 300)
    assert len(pack(shard)) < 0.4 * len(pack(Chain().bind(large, np.arange(26)).take(100, 300)))
    again = unpack(pack(shard), _kernels.level())
    assert is_mapped(again.batch.data) and is_mapped(again.batch.indices)
    for sent, received in zip(shard.batch, again.batch):
        assert_array_equal(sent, received)


def test_an_address_is_enough(large):
    """There is no other client in the process."""
    with cluster_of(1, processes=False) as cluster:
        backend = Dask(cluster.scheduler_address)
        model = L2CRF(solver=LBFGS(), tol=0.05)
        distant = clone(model).set_params(backend=backend).fit(large)
        backend.client.close()
    assert_array_equal(distant.coef_, clone(model).fit(large).coef_)


def test_a_backend_is_cloned_and_pickled(threads):
    backend = Dask(threads, timeout=7.0)
    assert clone(L2CRF(backend=backend)).backend is backend
    again = pickle.loads(pickle.dumps(backend))
    assert (again.address, again.timeout) == (backend.address, 7.0)
    assert repr(backend).startswith("Dask('")


# ---- errors ----------------------------------------------------------------------------------------------------------


def _wrong(shard):
    raise ZeroDivisionError("in a worker")


def test_errors_of_workers_come_here(threads, large):
    backend = Dask(threads)
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        backend.sum(_wrong, backend.place(Chain().bind(large, np.arange(26))))


def test_a_wrong_client_is_refused():
    with pytest.raises(ValueError, match=r"client must be a distributed\.Client or the address of a scheduler, got 3"):
        Dask(3)
    with pytest.raises(ValueError, match="timeout must be a positive number"):
        Dask("tcp://127.0.0.1:1", timeout=0)


def test_no_scheduler():
    with pytest.raises(BackendError, match=r"There is no Dask scheduler at tcp://127\.0\.0\.1:1"):
        L2CRF(solver=LBFGS(), backend=Dask("tcp://127.0.0.1:1", timeout=0.5)).fit(*labelled_chains())


def test_no_workers(tmp_path):
    with cluster_of(0, processes=False) as cluster, distributed.Client(cluster) as client:
        model = L2CRF(solver=LBFGS(), backend=Dask(client, timeout=0.5))
        with pytest.raises(BackendError, match=r"No worker of .* has responded for 0\.5 seconds \(0 workers"):
            model.fit(*labelled_chains())


def test_a_late_worker(large, monkeypatch):
    """A worker that starts when the shards were sent."""
    submit = Dask._submit

    def submit_and_start_worker(*arguments):
        futures = submit(*arguments)
        cluster.scale(1)
        return futures

    monkeypatch.setattr(Dask, "_submit", submit_and_start_worker)
    with cluster_of(0, processes=False) as cluster, distributed.Client(cluster) as client:
        model = L2CRF(solver=LBFGS(), tol=0.05)
        distant = clone(model).set_params(backend=Dask(client, timeout=60)).fit(large)
    assert_array_equal(distant.coef_, clone(model).fit(large).coef_)


SLOW: set[str] = set()
"""Addresses of slow workers."""


def _sum_slowly(*arguments):
    if distributed.get_worker().address in SLOW:
        time.sleep(0.1)  # a sum takes a small part of this
    return sum_of(*arguments)


def test_a_slow_worker(threads, large, monkeypatch):
    """Results do not depend on which worker is slow."""
    model = L2CRF(solver=LBFGS(), max_passes=3)
    monkeypatch.setattr(backend_module, "sum_of", _sum_slowly)
    monkeypatch.setattr(backend_module, "SLOTS_EVERY", 0.1)  # workers are counted while one is busy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        here = clone(model).fit(large)
        for slow in threads.nthreads():
            monkeypatch.setattr(f"{__name__}.SLOW", {slow})
            distant = clone(model).set_params(backend=Dask(threads, timeout=60)).fit(large)
            assert_array_equal(distant.coef_, here.coef_)
            assert distant.gap_ == here.gap_


def test_a_lost_scheduler_leaves_a_checkpoint(large, tmp_path):
    path, cluster = tmp_path / "fit.checkpoint", cluster_of(1, processes=False)
    client = distributed.Client(cluster)

    def lose(progress):
        if progress.row.n_pass == 25:
            cluster.close()

    model = L2CRF(solver=LBFGS(), tol=1e-7, random_state=0)
    try:
        with pytest.raises(BackendError, match=r"The connection to the Dask scheduler at .* was lost"):
            clone(model).set_params(backend=Dask(client, timeout=20), callback=lose).fit(
                large, checkpoint=path, checkpoint_every=0
            )
    finally:
        client.close(timeout=1)
        cluster.close()
    assert path.exists()
    resumed = clone(model).fit(large, checkpoint=path)  # on threads
    assert_array_equal(resumed.coef_, clone(model).fit(large).coef_)


# ---- partitions ------------------------------------------------------------------------------------------------------

WORDS = ["the", "dog", "barks", "a", "cat", "sees", "bird", "and", "it", "sings", "to", "all", "who", "hear"]


def sentences(n, seed=0):
    """Sentences with words that occur in few partitions, and labels that depend on the words."""
    rng = np.random.default_rng(seed)
    words = [[WORDS[k] for k in rng.integers(len(WORDS), size=rng.integers(1, 6))] for _ in range(n)]
    return [
        ([{"w": word} for word in sentence], ["V" if word[-1] == "s" else "N" for word in sentence])
        for sentence in words
    ]


def written(folder, items, n_files):
    """A folder of examples for each partition, the second without any."""
    import dask.bag

    cuts = [items[a:b] for a, b in cut_evenly(len(items), n_files)]
    cuts.insert(1, [])
    paths = []
    for k, cut in enumerate(cuts):
        paths.append(folder / f"part-{k}.txt")
        paths[-1].write_text("\n".join("".join(f"{x['w']} {label}\n" for x, label in zip(*item)) for item in cut))
    folders = [folder / f"part-{k}" for k in range(len(cuts)) if cuts[k]]
    for path, cut in zip(folders, [cut for cut in cuts if cut]):
        Examples.write(path, cut)
    bag = dask.bag.from_delayed([dask.delayed(cut) for cut in cuts])
    delayed = [dask.delayed(Examples.build)(*map(list, zip(*cut))) for cut in cuts if cut]
    return {"bag": bag, "delayed": delayed, "folders": folders, "files": ColumnFiles(paths, columns=[0])}


@pytest.mark.parametrize("kind", ["bag", "delayed", "folders", "files"])
def test_partitions(kind, threads, tmp_path):
    """The optimum is that of all examples in one process."""
    items = sentences(40)
    source = written(tmp_path, items, 3)[kind]
    backend = Dask(threads)
    model = L2CRF(solver=LBFGS(), tol=1e-8)
    distant = clone(model).set_params(backend=backend).fit(source)
    X, y = [x for x, _ in items], [labels for _, labels in items]
    if kind == "files":
        columns = read_columns([line for path in source.paths for line in [*Path(path).read_text().splitlines(), ""]])
        X = TokenFeatures("words").fit_transform(columns.split()[0])
    here = clone(model).fit(X, y)
    order = [list(distant.feature_names_).index(name) for name in here.feature_names_]
    assert set(distant.feature_names_) == set(here.feature_names_)
    assert_allclose(distant.coef_[order], here.coef_, atol=1e-3)
    assert distant.gap_ <= 1e-8 and distant.trace_[-1].n_oracle % 40 == 0
    assert distant.lam == "scale" and distant.lam_ == here.lam_
    assert distant.predict(source) == here.predict(X)
    again = clone(model).set_params(backend=backend).fit(source)
    assert_array_equal(again.coef_, distant.coef_)


@pytest.mark.parametrize("name", ["OWLQN", "Smoothing", "Subgradient", "BlockFrankWolfe"])
def test_solvers_on_partitions(name, threads):
    import dask

    items = sentences(40)
    X, y = [x for x, _ in items], [labels for _, labels in items]
    model = {
        "OWLQN": L1CRF(solver=OWLQN()), "Smoothing": M3N(), "Subgradient": M3N(solver=Subgradient(), max_passes=3000),
        "BlockFrankWolfe": M3N(solver=BlockFrankWolfe()),
    }[name].set_params(tol=0.02, random_state=0)  # fmt: skip
    parts = [dask.delayed(Examples.build)(X[a:b], y[a:b]) for a, b in cut_evenly(40, 3)]
    distant = clone(model).set_params(backend=Dask(threads)).fit(parts)
    here = clone(model).fit(X, y)
    assert distant.converged_ and distant.solver_.startswith(name)
    assert distant.dual_ <= here.objective_ * (1 + 1e-9) and here.dual_ <= distant.objective_ * (1 + 1e-9)


def test_partitions_that_are_refused(threads, tmp_path):
    import dask

    (tmp_path / "good").write_text("dog N\n\nsings V\n")
    (tmp_path / "bad").write_text("dog N\n\nsings\n")
    model = L2CRF(solver=LBFGS(), backend=Dask(threads))
    with pytest.raises(ValueError, match=r"In partition 1, .*bad: .*bad:3: 1 column, but line 1 has 2"):
        model.fit(ColumnFiles([tmp_path / "good", tmp_path / "bad"]))
    with pytest.raises(
        ValueError, match=r"good is not a folder of examples; for column files use maxendnet.text.ColumnFiles"
    ):
        model.fit([tmp_path / "good"])
    with pytest.raises(ValueError, match=r"In partition 1: .*has 1 labels? but"):
        model.fit([dask.delayed([([[1.0]], ["a"])]), dask.delayed([([[1.0], [2.0]], ["a"])])])
    with pytest.raises(ValueError, match=r"different numbers of features: partition 0 has 1, partition 1 has 2"):
        model.fit([dask.delayed([([[1.0]], ["a"])]), dask.delayed([([[1.0, 2.0]], ["a"])])])
    with pytest.raises(ValueError, match="2 partitions have no labelled node"):
        model.fit([dask.delayed([]), dask.delayed([])])
    with pytest.raises(ValueError, match="y and sample_weight cannot be passed with partitions"):
        model.fit(ColumnFiles([tmp_path / "good"]), [["N"], ["V"]])
    with pytest.raises(AttributeError, match=r"examples in partitions on workers\. Use a solver that needs only sums"):
        _ = model.pose(partitions_of(ColumnFiles([tmp_path / "good"]), Dask(threads)), np.array(["N", "V"])).batch
    with pytest.raises(
        ValueError, match=r"Partition 1 has no labels, but other partitions do; label all of its nodes as UNKNOWN"
    ):
        model.fit([dask.delayed([([[1.0]], ["a"])]), dask.delayed([[[1.0]]])])
    with pytest.raises(
        ValueError, match=r"Partition 1 is incompatible with previous partitions: n_edge_features of the weights"
    ):
        clone(model).set_params(structure=Tree()).fit([dask.delayed(_pair)(0), dask.delayed(_pair)(1)])
    with pytest.raises(ValueError, match=r"Partitions with node types do not support unknown labels"):
        model.fit(
            [dask.delayed(Examples.build)([[[1.0], [2.0], [3.0]]], [["a", "b", UNKNOWN]], node_types=[[0, 0, 1]])]
        )
    with pytest.raises(ValueError, match=r"SelfTraining needs structure\.unknown_labels, which"):
        M3N(unlabelled=1.0, backend=Dask(threads)).fit([dask.delayed([([[1.0], [2.0], [3.0]], ["a", "b", UNKNOWN])])])
    with pytest.raises(ValueError, match="min_count=2 needs the tokens of all files"):
        ColumnFiles(["a.txt"], TokenFeatures(min_count=2))
    with pytest.raises(ValueError, match=r"template='auto' needs the tokens of all files.*pass words"):
        ColumnFiles(["a.txt"], TokenFeatures(n_hashed=64))
    with pytest.raises(ValueError, match=r"In partition 0, .*good: .*column 1 contains the labels"):
        model.fit(ColumnFiles([tmp_path / "good"], columns=[1]))


def _pair(n_edge_features):
    edge = np.ones((1, n_edge_features)) if n_edge_features else None
    return Examples.build([([[1.0], [2.0]], [[0, 1]])], [["a", "b"]], edge_features=None if edge is None else [edge])


def shards_here(sizes, monkeypatch):
    """Let threads use the shards of partitions, and hide properties of all examples from solvers."""
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    place = lambda self, structure: [structure.take(a, b) for a, b in pairwise(cuts)]  # noqa: E731
    monkeypatch.setattr(Threads, "place", place)
    declared = BoundForest.capabilities.func
    without = property(lambda self: replace(declared(self), linear_nodes=False))
    monkeypatch.setattr(BoundForest, "capabilities", without)
    monkeypatch.setattr(BoundAutomaton, "capabilities", replace(BoundAutomaton.capabilities, linear_nodes=False))
    monkeypatch.setattr(PlacedData, "curvature", lambda self: self.backend.sum(curvature_of, self.shards).gradient)


def hide(items):
    """Replace some labels by UNKNOWN, and those of the last item by sets."""
    hidden = [
        (x, [UNKNOWN if (i + t) % 4 == 0 else label for t, label in enumerate(y)]) for i, (x, y) in enumerate(items)
    ]
    x, y = hidden[-1]
    hidden[-1] = (x, [frozenset(["N", "V"])] * len(y))
    return hidden


SETTINGS = {
    "seen pairs": (L2CRF(solver=LBFGS(), structure=Chain(pairs="seen", bias=True, ends=True)), False),
    "seen n-grams": (L2CRF(solver=LBFGS(), structure=Chain(order=2, ngrams="seen")), False),
    "balanced": (M3N(class_weight="balanced", solver=Smoothing()), False),
    "unknown": (L2CRF(solver=LBFGS()), True),
    "unknown, seen pairs": (L2CRF(solver=LBFGS(), structure=Chain(pairs="seen")), True),
    "unknown, states": (L2CRF(solver=LBFGS(), structure=Chain(hidden=2)), True),
    "unknown, margin": (M3N(solver=ConcaveConvex(Smoothing())), True),
    "unknown, average": (M3N(solver=ConcaveConvex(Subgradient(), max_passes=30), completion="average"), True),
    "unknown, balanced": (M3N(class_weight="balanced", solver=ConcaveConvex(Smoothing())), True),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_properties_of_all_partitions_are_combined(name, threads, monkeypatch):
    """Results are those of the same shards in this process."""
    import dask

    model, hidden = SETTINGS[name]
    model = clone(model).set_params(tol=1e-3, max_passes=6, random_state=0)
    items = hide(sentences(24)) if hidden else sentences(24)
    sizes = [5, 9, 10]
    cuts = [items[a : a + n] for a, n in zip(np.cumsum([0, *sizes]), sizes)]
    distant = clone(model).set_params(backend=Dask(threads)).fit([dask.delayed(cut) for cut in cuts])
    examples = Examples.build(*map(list, zip(*items)))
    names = sorted(examples.feature_names)
    examples = replace(examples, X=examples.X[:, [examples.feature_names.index(name) for name in names]])
    shards_here(sizes, monkeypatch)
    here = clone(model).fit(examples)
    assert distant.model_.layout == here.model_.layout
    assert_array_equal(distant.model_.weights, here.model_.weights)
    assert distant.objective_ == here.objective_


def test_weights_of_nodes_in_partitions(threads, monkeypatch):
    """Label sets of nodes with weights differ between partitions, and are combined."""
    import dask

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(12)]
    y = [["a" if value > 0 else "b" for value in x[:, 0] + rng.normal(size=4)] for x in X]
    weights = [np.full(4, 1.0 + i // 6) for i in range(12)]
    parts = [dask.delayed(Examples.build)(X[a:b], y[a:b], node_weight=weights[a:b]) for a, b in ((0, 6), (6, 12))]
    model = M3N(solver=Smoothing(), tol=1e-3)
    distant = clone(model).set_params(backend=Dask(threads)).fit(parts)
    shards_here([6, 6], monkeypatch)
    here = clone(model).fit(X, y, node_weight=weights)
    assert_array_equal(distant.model_.weights, here.model_.weights)
    assert distant.dual_ == here.dual_


@pytest.mark.parametrize("kind", ["ready", "template", "hashed", "columns"])
def test_features_of_column_files(kind, threads, tmp_path):
    """A built-in template, a template, hashed names, and a label column that is not the last."""
    rows = [[("the", "D", "O"), ("dog", "N", "B")], [("barks", "V", "O")], [("a", "D", "O"), ("cat", "N", "B")]]
    order = (0, 2, 1) if kind == "columns" else (0, 1, 2)
    paths = [tmp_path / f"{k}.txt" for k in range(2)]
    for path, part in zip(paths, (rows[:1], rows[1:])):
        path.write_text(
            "\n".join("".join(" ".join(row[c] for c in order) + "\n" for row in sentence) for sentence in part)
        )
    features = {
        "ready": "chunks", "template": "U0=%x[0,0]\nU1=%x[-1,1]/%x[0,1]", "columns": "U0=%x[0,0]\nU1=%x[0,1]",
        "hashed": TokenFeatures("chunks", n_hashed=64),
    }[kind]  # fmt: skip
    given = {"label": 1, "columns": [2, 0]} if kind == "columns" else {}
    files, model = ColumnFiles(paths, features, **given), L2CRF(solver=LBFGS(), tol=1e-8)
    distant = clone(model).set_params(backend=Dask(threads)).fit(files)
    maker = features if isinstance(features, TokenFeatures) else TokenFeatures(features)
    columns = [[(row[1], row[0]) if kind == "columns" else row[:2] for row in sentence] for sentence in rows]
    X, y = clone(maker).fit_transform(columns), [[row[2] for row in sentence] for sentence in rows]
    here = clone(model).fit(X, y)
    if kind != "hashed":
        assert set(distant.feature_names_) == set(here.feature_names_)
    assert distant.objective_ == pytest.approx(here.objective_, rel=1e-7)
    assert distant.predict(files) == here.predict(X) == y
    if kind == "ready":
        (tmp_path / "plain.txt").write_text("the D\ndog N\n")
        assert distant.predict(ColumnFiles([tmp_path / "plain.txt"], features, label=None)) == [["O", "B"]]


def test_a_checkpoint_of_partitions(threads, tmp_path):
    paths, model = written(tmp_path, sentences(30), 2)["folders"], L2CRF(solver=LBFGS(), tol=1e-6)
    whole = clone(model).set_params(backend=Dask(threads)).fit(paths)
    short = clone(model).set_params(backend=Dask(threads), max_passes=4)
    with pytest.warns(ConvergenceWarning):
        short.fit(paths, checkpoint=tmp_path / "checkpoint")
    resumed = clone(model).set_params(backend=Dask(threads)).fit(paths, checkpoint=tmp_path / "checkpoint")
    assert_array_equal(whole.coef_, resumed.coef_)


# ---- folds and cells -------------------------------------------------------------------------------------------------


def test_folds_are_computed_on_workers(threads, large):
    grid, score = {"lam": [0.1, 10.0]}, lambda model, X, y: model.score(X, y)
    model = L2CRF(solver=LBFGS(), tol=0.1, random_state=0)
    here = PathSearchCV(model, grid, cv=3, scoring=score).fit(large[:60])
    there = PathSearchCV(clone(model).set_params(backend=Dask(threads)), grid, cv=3, scoring=score).fit(large[:60])
    assert_array_equal(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])
    assert_array_equal(here.cv_results_["mean_gap"], there.cv_results_["mean_gap"])
    assert_array_equal(here.best_estimator_.coef_, there.best_estimator_.coef_)
    with pytest.raises(ValueError, match="C must be a positive"):
        PathSearchCV(M3N(backend=Dask(threads)), {"C": [-1.0]}, error_score="raise", cv=2).fit(large[:10])


def test_cells_are_computed_on_workers(threads, tmp_path):
    experiment = experiments.get("shrinkage")
    here = run_cells(experiment, tmp_path / "here", scale="tiny", progress=False)
    there = run_cells(experiment, tmp_path / "there", scale="tiny", pool=Dask(threads), progress=False)
    assert here.n_cells and not there.failures
    assert [done[:2] for done in here.done] == [done[:2] for done in there.done]


def test_cells_that_fail_on_workers(threads):
    results = dict(Dask(threads).run_all(_inverse, [(2,), (0,)]))
    assert results[0] == 0.5 and isinstance(results[1], ZeroDivisionError)


def _inverse(value):
    return 1 / value


def test_no_scheduler_for_cells(monkeypatch):
    monkeypatch.setattr(backend_module, "CONNECT", 0.5)
    result = CliRunner().invoke(main, ["reproduce", "shrinkage", "--quick", "--backend", "tcp://127.0.0.1:1"])
    assert result.exit_code == 1 and "There is no Dask scheduler at tcp://127.0.0.1:1" in result.output


# ---- workers that are killed -----------------------------------------------------------------------------------------


def wait_until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)


def two_workers(client):
    """Wait for two workers that answer; start another one if the place of a killed one stays empty.

    ``client.wait_for_workers`` is not used: it replaces the list of workers that a cluster maintains by messages. A
    message about a worker that is not in the new list is a KeyError, which the cluster raises when it is closed.
    """
    for _ in range(3):
        try:
            return wait_until(lambda: len(client.run(os.getpid, on_error="ignore")) >= 2, seconds=20)
        except TimeoutError:
            client.cluster.scale(len(client.cluster.workers) + 1)


def kill_workers(client, n=1):
    """SIGKILL workers; their nannies start other ones."""
    workers = list(client.nthreads())[:n]
    for pid in client.run(os.getpid, workers=workers, on_error="ignore").values():
        os.kill(pid, signal.SIGKILL)


def kill_during_task(client, folder, n=1):
    """Kill workers as soon as a task has reported in the folder that it runs."""

    def kill():
        wait_until((folder / "running").exists)
        kill_workers(client, n)
        (folder / "killed").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def _report_and_wait(folder):
    """In a task on a worker: report that it runs, and wait until a worker was killed."""
    (folder / "running").touch()
    wait_until((folder / "killed").exists)


def _ones(shard, folder=None):
    if folder is not None:
        _report_and_wait(folder)
    return Partial(1.0, np.ones(2))


def _sum_during_kill(folder, *arguments):
    if (folder / "armed").exists():
        _report_and_wait(folder)
    return sum_of(*arguments)


def _each_during_kill(folder, *arguments):
    _report_and_wait(folder)
    return each_of(*arguments)


def _unpack_during_kill(folder, packed, level):
    _report_and_wait(folder)
    return unpack(packed, level)


def _read_during_kill(items, folder):
    _report_and_wait(folder)
    return items


def after_placing(client, large, model, folder):
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(large, np.arange(26)))
    kill_workers(client)
    assert backend.sum(_ones, shards).loss == len(shards)


def in_a_sum(client, large, model, folder):
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(large, np.arange(26)))
    thread = kill_during_task(client, folder)
    total = backend.sum(_ones, shards, folder)
    thread.join()
    assert total.loss == len(shards)


def in_an_evaluation(client, large, model, folder):
    killed = []

    def kill(progress):
        if not killed:
            killed.append(None)
            kill_workers(client)

    fitted = clone(model).set_params(backend=Dask(client, timeout=120), callback=kill).fit(large)
    assert_array_equal(fitted.coef_, clone(model).fit(large).coef_)


def in_a_pass(client, large, model, folder):
    """In a pass after the first evaluation."""
    thread = kill_during_task(client, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "sum_of", partial(_sum_during_kill, folder))
        distant = clone(model).set_params(
            backend=Dask(client, timeout=120), callback=lambda progress: (folder / "armed").touch()
        )
        distant.fit(large)
    thread.join()
    assert_array_equal(distant.coef_, clone(model).fit(large).coef_)


def with_scattered_weights(client, large, model, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "MAX_SCHEDULER_BYTES", 100)
        in_a_pass(client, large, model, folder)


def saving_a_checkpoint(client, large, model, folder):
    from maxendnet.models import checkpoint

    write, n_written = checkpoint.write_sealed, count()

    def write_and_kill(*arguments):
        if next(n_written) == 1:
            kill_workers(client)
        write(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "write_sealed", write_and_kill)
        distant = clone(model).set_params(backend=Dask(client, timeout=120))
        distant.fit(large, checkpoint=folder / "fit.checkpoint", checkpoint_every=0)
    assert_array_equal(distant.coef_, clone(model).fit(large).coef_)


def in_a_prediction(client, large, model, folder):
    fitted = clone(model).fit(large)
    expected = fitted.predict(large)
    thread = kill_during_task(client, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "each_of", partial(_each_during_kill, folder))
        assert fitted.set_params(backend=Dask(client, timeout=120)).predict(large) == expected
    thread.join()


def reading_partitions(client, large, model, folder):
    import dask

    items, model = sentences(30), clone(model).set_params(backend=Dask(client, timeout=120))
    cuts = [items[a:b] for a, b in cut_evenly(30, 4)]
    thread = kill_during_task(client, folder)
    fitted = clone(model).fit([dask.delayed(_read_during_kill)(cut, folder) for cut in cuts])
    thread.join()
    two_workers(client)
    assert_array_equal(fitted.coef_, clone(model).fit([dask.delayed(cut) for cut in cuts]).coef_)


def in_parts(client, large, model, folder):
    """A worker died with its state: the fit resumes from the beginning or from a snapshot."""
    model = clone(IN_PARTS["BlockFrankWolfe"]).set_params(solver__parts=2, max_passes=9)
    expected, killed = clone(model).fit(large).coef_, []

    def kill(progress):
        if not killed:
            killed.append(None)
            kill_workers(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "every", 0.0)
        fitted = clone(model).set_params(backend=Dask(client, timeout=120), callback=kill).fit(large)
    assert killed
    assert_array_equal(fitted.coef_, expected)


def all_after_placing(client, large, model, folder):
    """No worker is left: shards are made again by later ones, which have other addresses."""
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(large, np.arange(26)))
    assert backend.sum(_ones, shards).loss == len(shards)
    kill_workers(client, n=len(client.nthreads()))
    replacement = threading.Thread(target=two_workers, args=(client,))
    replacement.start()
    assert backend.sum(_ones, shards).loss == len(shards)
    replacement.join()


def all_in_placing(client, large, model, folder):
    """No worker is left while shards are on their way."""
    backend, structure = Dask(client, timeout=120), Chain().bind(large, np.arange(26))
    thread = kill_during_task(client, folder, n=len(client.nthreads()))

    def replace_workers():
        thread.join()
        two_workers(client)

    replacement = threading.Thread(target=replace_workers)
    replacement.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "unpack", partial(_unpack_during_kill, folder))
        shards = backend.place(structure)
        assert backend.sum(_ones, shards).loss == len(shards)
    replacement.join()


PHASES = [
    after_placing,
    in_a_sum,
    in_an_evaluation,
    in_a_pass,
    with_scattered_weights,
    saving_a_checkpoint,
    in_a_prediction,
    reading_partitions,
    in_parts,
    all_after_placing,
    all_in_placing,
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL (POSIX)")
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_killed_worker(phase, processes, large, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two_workers(processes)
        phase(processes, large, MODELS["LBFGS"], tmp_path)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL (POSIX)")
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_workers_that_are_killed_again_and_again(phase, processes, large, tmp_path):
    for k in range(10):
        (tmp_path / str(k)).mkdir()
        test_a_killed_worker(phase, processes, large, tmp_path / str(k))


def test_threads_are_a_backend():
    assert isinstance(Threads(), Backend)

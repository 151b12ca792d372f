"""The Dask backend: bits of threads, and an end whatever dies."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from dataclasses import replace
from itertools import pairwise
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
def many():
    """So many nodes that they are cut into several shards."""
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


# ---- the same bits ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_bits_are_those_of_threads(name, threads, many, tmp_path):
    model = clone(MODELS[name]).set_params(random_state=0)
    one, two = clone(model).fit(many), clone(model).set_params(n_jobs=2).fit(many)
    backend = Dask(threads)
    assert isinstance(backend, Backend) and len(backend.place(Chain().bind(many, np.arange(26)))) >= 2
    three = clone(model).set_params(backend=backend).fit(many)
    mapped = Examples.write(tmp_path, [many])
    four = clone(model).set_params(backend=backend).fit(mapped)
    for other in (two, three, four):
        assert_array_equal(one.model_.weights, other.model_.weights)
        assert one.gap_ == other.gap_ and one.n_passes_ == other.n_passes_
    assert one.predict(many) == three.predict(many) == four.predict(mapped)
    assert one.score(many) == three.score(many)


@every_system
def test_every_system(model, threads):
    X, y = labelled_chains()
    distant = roughly(model, backend=Dask(threads)).fit(X, y)
    assert distant.objective_ > 0 and len(flat(distant.predict(X))) == len(flat(y))
    here = roughly(model).fit(X, y)
    if here.solver_ == distant.solver_ and "variational" not in repr(model):  # no kernels that go through examples here
        assert_array_equal(weights_of(distant), weights_of(here))


def test_large_arguments_are_sent_once(threads, many, monkeypatch):
    """And then gradients are added on the workers."""
    monkeypatch.setattr(backend_module, "IN_ALL", 100)
    model = L2CRF(solver=LBFGS(), tol=0.05)
    assert_array_equal(clone(model).set_params(backend=Dask(threads)).fit(many).coef_, clone(model).fit(many).coef_)


def _twice(shard, w):
    return Partial(1.0, 2 * w)


def test_workers_do_not_wait_for_each_other(threads, many):
    """Weights and gradients of a sum do not pass from worker to worker, where they would wait for kernels to end."""
    backend, w = Dask(threads), np.arange(50_000.0)
    shards = backend.place(Chain().bind(many, np.arange(26)))
    before = threads.run(_n_transfers)
    found = backend.sum(_twice, shards, w)
    assert_array_equal(found.gradient, 2 * len(shards) * w)
    assert len(before) == 2 and threads.run(_n_transfers) == before


def _n_transfers(dask_worker):
    return dask_worker.state.transfer_incoming_count_total


def test_arrays_of_arguments_are_not_copied_into_the_pickle():
    w = np.arange(1000.0)
    packed = Packed.of((w, "question"))
    assert len(packed.head) < 500 and packed.size == len(packed.head) + 8000
    (array,) = packed.arrays
    shifted = memoryview(b"." + bytes(array))[1:]  # as it may lie in what has come over a network
    for one in (packed, Packed(packed.head, [shifted]), pickle.loads(pickle.dumps(packed, protocol=5))):
        again, question = one.value()
        assert again.flags.writeable and again.flags.aligned and question == "question"
        assert_array_equal(again, w)
        again[0] = 7.0
        assert w[0] == 0.0


@pytest.mark.parametrize("protocol", [4, 5])
def test_arguments_that_have_come_over_a_network_can_be_sent_on(protocol):
    """Their arrays are memoryviews then. Dask would pickle those without an end, and only then try another way."""
    w = np.arange(1000.0)
    first = Packed.of((w,))
    received = Packed(first.head, [memoryview(bytes(one)) for one in first.arrays])
    buffers = []
    sent = pickle.dumps(received, protocol=protocol, buffer_callback=buffers.append if protocol == 5 else None)
    assert len(buffers) == (protocol == 5)
    (again,) = pickle.loads(sent, buffers=buffers).value()
    assert_array_equal(again, w)
    (again,) = pickle.loads(pickle.dumps(received, protocol=protocol)).value()
    assert_array_equal(again, w)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 11, 16])
def test_sums_are_joined_along_one_tree(n):
    """Whoever has which shards, and however many are joined at a time."""
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
        (found,) = join_on_worker(spans, n)
        for one, other in zip(row[0], found.sum):
            assert_array_equal(one, other)
    for one, other in zip(row[0], add_up(copies(), n)):
        assert_array_equal(one, other)


def test_joining_on_a_worker_leaves_what_it_was_given():
    left, right = Partial(1.0, np.ones(2)), Partial(1.0, np.ones(2))
    assert join_on_worker([[Span(0, 1, left)], [Span(1, 2, right)]], 2)[0].sum.gradient.tolist() == [2, 2]
    assert left.gradient.tolist() == [1, 1]
    assert join([Span(0, 1, left), Span(1, 2, right)], 2)[0].sum.gradient is left.gradient


def test_the_number_of_shards_is_a_setting(threads, many):
    structure = Chain().bind(many, np.arange(26))
    assert len(Threads().place(structure)) > 1 == len(Threads(shards=1).place(structure))
    with pytest.warns(UserWarning, match=r"The cluster has 2 threads, of which 1 have work.*shards=4"):
        assert len(Dask(threads, shards=1).place(structure)) == 1
    with pytest.raises(ValueError, match="shards must be a whole number of at least 1"):
        Threads(shards=0)


def test_solvers_that_go_through_examples_here_are_refused(threads):
    with pytest.raises(ValueError, match=r"SMO needs backend\.local.*Solvers that fit: .*BlockFrankWolfe"):
        M3N(solver=SMO(), backend=Dask(threads)).fit(*labelled_chains())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("parts", [None, 1, 4])
@pytest.mark.parametrize("name", ["BlockFrankWolfe"])
def test_parts_have_the_bits_of_threads(name, parts, threads, many):
    """None is one for each of the two workers."""
    model = IN_PARTS[name].set_params(solver__parts=parts or (2 if parts is None else parts))
    here = clone(model).fit(many)
    there = clone(model).set_params(solver__parts=parts, backend=Dask(threads)).fit(many)
    assert_array_equal(here.model_.weights, there.model_.weights)
    assert here.gap_ == there.gap_ and here.n_passes_ == there.n_passes_
    if parts == 1:
        assert_array_equal(clone(model).set_params(solver__parts=None).fit(many).coef_, there.coef_)


@pytest.mark.skipif(len(_kernels.levels()) < 2, reason="needs two levels of kernels")
def test_workers_take_the_level_of_the_client(many):
    """Here a worker is this process at another level."""
    best = _kernels.level()
    shard, w = Chain().bind(many, np.arange(26)), np.random.default_rng(0).normal(size=26 * 26 * 2)
    packed, asked = pack(shard), Packed.of((w,))
    expected = shard.logsum(w)[0]
    with _kernels.at_level("baseline"):
        (found,) = each_of([unpack(packed, best)], (0, 1), 1, _logsum, asked, best)
        assert _kernels.level() == best
    assert_array_equal(found, expected)


def _logsum(shard, w):
    return shard.logsum(w)[0]


def test_arrays_in_files_are_sent_by_name(many, tmp_path):
    mapped = Examples.write(tmp_path, [many])
    shard = Chain().bind(mapped, np.arange(26)).take(100, 300)
    assert len(pack(shard)) < 0.4 * len(pack(Chain().bind(many, np.arange(26)).take(100, 300)))
    again = unpack(pack(shard), _kernels.level())
    assert is_mapped(again.batch.data) and is_mapped(again.batch.indices)
    for one, other in zip(shard.batch, again.batch):
        assert_array_equal(one, other)


def test_an_address_is_enough(many):
    """Without any other client in the process."""
    with cluster_of(1, processes=False) as cluster:
        backend = Dask(cluster.scheduler_address)
        model = L2CRF(solver=LBFGS(), tol=0.05)
        distant = clone(model).set_params(backend=backend).fit(many)
        backend.client.close()
    assert_array_equal(distant.coef_, clone(model).fit(many).coef_)


def test_a_backend_is_cloned_and_pickled(threads):
    backend = Dask(threads, timeout=7.0)
    assert clone(L2CRF(backend=backend)).backend is backend
    again = pickle.loads(pickle.dumps(backend))
    assert (again.address, again.timeout) == (backend.address, 7.0)
    assert repr(backend).startswith("Dask('")


# ---- errors ----------------------------------------------------------------------------------------------------------


def _wrong(shard):
    raise ZeroDivisionError("in a worker")


def test_errors_of_workers_come_here(threads, many):
    backend = Dask(threads)
    with pytest.raises(ZeroDivisionError, match="in a worker"):
        backend.sum(_wrong, backend.place(Chain().bind(many, np.arange(26))))


def test_what_is_no_client():
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
        with pytest.raises(BackendError, match=r"No worker of .* has answered for 0\.5 seconds \(0 workers"):
            model.fit(*labelled_chains())


def test_a_late_worker(many):
    with cluster_of(0, processes=False) as cluster, distributed.Client(cluster) as client:
        later = threading.Timer(0.3, lambda: cluster.scale(1))
        later.start()
        model = L2CRF(solver=LBFGS(), tol=0.05)
        distant = clone(model).set_params(backend=Dask(client, timeout=60)).fit(many)
        later.join()
    assert_array_equal(distant.coef_, clone(model).fit(many).coef_)


SLOW: set[str] = set()
"""Addresses of workers that take their time."""


def _sum_slowly(*arguments):
    if distributed.get_worker().address in SLOW:
        time.sleep(0.1)  # a sum takes a small part of this
    return sum_of(*arguments)


def test_a_slow_worker(threads, many, monkeypatch):
    """Is waited for: shards stay where they are, and bits do not depend on who is first."""
    model = L2CRF(solver=LBFGS(), max_passes=3)
    monkeypatch.setattr(backend_module, "sum_of", _sum_slowly)
    monkeypatch.setattr(backend_module, "SLOTS_EVERY", 0.1)  # workers are counted while one is busy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        here = clone(model).fit(many)
        for slow in threads.scheduler_info(n_workers=-1)["workers"]:
            monkeypatch.setattr(f"{__name__}.SLOW", {slow})
            distant = clone(model).set_params(backend=Dask(threads, timeout=60)).fit(many)
            assert_array_equal(distant.coef_, here.coef_)
            assert distant.gap_ == here.gap_


def test_a_lost_scheduler_leaves_a_checkpoint(many, tmp_path):
    path, cluster = tmp_path / "fit.checkpoint", cluster_of(1, processes=False)
    client = distributed.Client(cluster)

    def lose(progress):
        if progress.row.n_pass == 25:
            cluster.close()

    model = L2CRF(solver=LBFGS(), tol=1e-7, random_state=0)
    try:
        with pytest.raises(BackendError, match=r"The Dask scheduler at .* was lost"):
            clone(model).set_params(backend=Dask(client, timeout=20), callback=lose).fit(
                many, checkpoint=path, checkpoint_every=0
            )
    finally:
        client.close(timeout=1)
        cluster.close()
    assert path.exists()
    gone_on = clone(model).fit(many, checkpoint=path)  # on threads
    assert_array_equal(gone_on.coef_, clone(model).fit(many).coef_)


# ---- partitions ------------------------------------------------------------------------------------------------------

WORDS = ["the", "dog", "barks", "a", "cat", "sees", "bird", "and", "it", "sings", "to", "all", "who", "hear"]


def sentences(n, seed=0):
    """Words of which some occur in some partitions only, and labels that follow from them."""
    rng = np.random.default_rng(seed)
    words = [[WORDS[k] for k in rng.integers(len(WORDS), size=rng.integers(1, 6))] for _ in range(n)]
    return [([{"w": word} for word in some], ["V" if word[-1] == "s" else "N" for word in some]) for some in words]


def written(folder, items, n_files):
    """A folder of examples for each partition, the second without any."""
    import dask.bag

    cuts = [items[a:b] for a, b in cut_evenly(len(items), n_files)]
    cuts.insert(1, [])
    paths = []
    for k, some in enumerate(cuts):
        paths.append(folder / f"part-{k}.txt")
        paths[-1].write_text("\n".join("".join(f"{x['w']} {label}\n" for x, label in zip(*one)) for one in some))
    folders = [folder / f"part-{k}" for k in range(len(cuts)) if cuts[k]]
    for path, some in zip(folders, [some for some in cuts if some]):
        Examples.write(path, some)
    bag = dask.bag.from_delayed([dask.delayed(some) for some in cuts])
    delayed = [dask.delayed(Examples.build)(*map(list, zip(*some))) for some in cuts if some]
    return {"bag": bag, "delayed": delayed, "folders": folders, "files": ColumnFiles(paths, columns=[0])}


@pytest.mark.parametrize("kind", ["bag", "delayed", "folders", "files"])
def test_partitions(kind, threads, tmp_path):
    """Labels and names are agreed on; the optimum is that of all examples in one place."""
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
    with pytest.raises(ValueError, match="leave y and weights out"):
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
    with pytest.raises(ValueError, match="min_count=2 counts tokens of all files"):
        ColumnFiles(["a.txt"], TokenFeatures(min_count=2))
    with pytest.raises(ValueError, match=r"template='auto' goes by the tokens of all files.*name a template: words"):
        ColumnFiles(["a.txt"], TokenFeatures(n_hashed=64))
    with pytest.raises(ValueError, match=r"In partition 0, .*good: .*column 1 has the labels"):
        model.fit(ColumnFiles([tmp_path / "good"], columns=[1]))


def _pair(n_edge_features):
    edge = np.ones((1, n_edge_features)) if n_edge_features else None
    return Examples.build([([[1.0], [2.0]], [[0, 1]])], [["a", "b"]], edge_features=None if edge is None else [edge])


def shards_here(sizes, monkeypatch):
    """Let threads cut examples as partitions are cut, and solvers know of all examples no more than of partitions."""
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    place = lambda self, structure: [structure.take(a, b) for a, b in pairwise(cuts)]  # noqa: E731
    monkeypatch.setattr(Threads, "place", place)
    declared = BoundForest.capabilities.func
    without = property(lambda self: replace(declared(self), linear_nodes=False))
    monkeypatch.setattr(BoundForest, "capabilities", without)
    monkeypatch.setattr(BoundAutomaton, "capabilities", replace(BoundAutomaton.capabilities, linear_nodes=False))
    monkeypatch.setattr(PlacedData, "curvature", lambda self: self.backend.sum(curvature_of, self.shards).gradient)


def hide(items):
    """Some labels unknown, some sets; the sets in the last partition only."""
    found = [
        (x, [UNKNOWN if (i + t) % 4 == 0 else label for t, label in enumerate(y)]) for i, (x, y) in enumerate(items)
    ]
    x, y = found[-1]
    found[-1] = (x, [frozenset(["N", "V"])] * len(y))
    return found


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
def test_what_all_partitions_agree_on(name, threads, monkeypatch):
    """The bits of the same shards in this process."""
    import dask

    model, hidden = SETTINGS[name]
    model = clone(model).set_params(tol=1e-3, max_passes=6, random_state=0)
    items = hide(sentences(24)) if hidden else sentences(24)
    sizes = [5, 9, 10]
    cuts = [items[a : a + n] for a, n in zip(np.cumsum([0, *sizes]), sizes)]
    distant = clone(model).set_params(backend=Dask(threads)).fit([dask.delayed(some) for some in cuts])
    examples = Examples.build(*map(list, zip(*items)))
    names = sorted(examples.feature_names)
    examples = replace(examples, X=examples.X[:, [examples.feature_names.index(one) for one in names]])
    shards_here(sizes, monkeypatch)
    here = clone(model).fit(examples)
    assert distant.model_.layout == here.model_.layout
    assert_array_equal(distant.model_.weights, here.model_.weights)
    assert distant.objective_ == here.objective_


def test_weights_of_nodes_in_partitions(threads, monkeypatch):
    """Label sets of nodes with weights differ from partition to partition, and are agreed on."""
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
    """A ready set, a template, hashed names, and a column of labels that is not the last."""
    rows = [[("the", "D", "O"), ("dog", "N", "B")], [("barks", "V", "O")], [("a", "D", "O"), ("cat", "N", "B")]]
    order = (0, 2, 1) if kind == "columns" else (0, 1, 2)
    paths = [tmp_path / f"{k}.txt" for k in range(2)]
    for path, some in zip(paths, (rows[:1], rows[1:])):
        path.write_text("\n".join("".join(" ".join(row[c] for c in order) + "\n" for row in one) for one in some))
    features = {
        "ready": "chunks", "template": "U0=%x[0,0]\nU1=%x[-1,1]/%x[0,1]", "columns": "U0=%x[0,0]\nU1=%x[0,1]",
        "hashed": TokenFeatures("chunks", n_hashed=64),
    }[kind]  # fmt: skip
    given = {"label": 1, "columns": [2, 0]} if kind == "columns" else {}
    files, model = ColumnFiles(paths, features, **given), L2CRF(solver=LBFGS(), tol=1e-8)
    distant = clone(model).set_params(backend=Dask(threads)).fit(files)
    maker = features if isinstance(features, TokenFeatures) else TokenFeatures(features)
    columns = [[(row[1], row[0]) if kind == "columns" else row[:2] for row in one] for one in rows]
    X, y = clone(maker).fit_transform(columns), [[row[2] for row in one] for one in rows]
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
    gone_on = clone(model).set_params(backend=Dask(threads)).fit(paths, checkpoint=tmp_path / "checkpoint")
    assert_array_equal(whole.coef_, gone_on.coef_)


# ---- folds and cells -------------------------------------------------------------------------------------------------


def test_folds_are_computed_on_workers(threads, many):
    grid, score = {"lam": [0.1, 10.0]}, lambda model, X, y: model.score(X, y)
    model = L2CRF(solver=LBFGS(), tol=0.1, random_state=0)
    here = PathSearchCV(model, grid, cv=3, scoring=score).fit(many[:60])
    there = PathSearchCV(clone(model).set_params(backend=Dask(threads)), grid, cv=3, scoring=score).fit(many[:60])
    assert_array_equal(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])
    assert_array_equal(here.cv_results_["mean_gap"], there.cv_results_["mean_gap"])
    assert_array_equal(here.best_estimator_.coef_, there.best_estimator_.coef_)
    with pytest.raises(ValueError, match="C must be a positive"):
        PathSearchCV(M3N(backend=Dask(threads)), {"C": [-1.0]}, error_score="raise", cv=2).fit(many[:10])


def test_cells_are_computed_on_workers(threads, tmp_path):
    experiment = experiments.get("shrinkage")
    here = run_cells(experiment, tmp_path / "here", scale="tiny", progress=False)
    there = run_cells(experiment, tmp_path / "there", scale="tiny", pool=Dask(threads), progress=False)
    assert here.n_cells and not there.failures
    assert [done[:2] for done in here.done] == [done[:2] for done in there.done]


def test_cells_that_fail_on_workers(threads):
    found = dict(Dask(threads).run_all(_inverse, [(2,), (0,)]))
    assert found[0] == 0.5 and isinstance(found[1], ZeroDivisionError)


def _inverse(value):
    return 1 / value


def test_no_scheduler_for_cells(monkeypatch):
    monkeypatch.setattr(backend_module, "CONNECT", 0.5)
    found = CliRunner().invoke(main, ["reproduce", "shrinkage", "--quick", "--backend", "tcp://127.0.0.1:1"])
    assert found.exit_code == 1 and "There is no Dask scheduler at tcp://127.0.0.1:1" in found.output


# ---- workers that are killed -----------------------------------------------------------------------------------------


def kill_one(client, most=1):
    """SIGKILL a worker, or several; their nannies start other ones."""
    workers = list(client.scheduler_info(n_workers=-1)["workers"])[:most]
    if workers:
        pids = client.run(os.getpid, workers=workers, on_error="ignore")
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)


def two_workers(client):
    """Wait for two; under load it happens that the place of a killed one stays empty, then take another."""
    for _ in range(3):
        alive = client.run(os.getpid, on_error="ignore")
        if len(alive) >= 2:
            return
        try:
            client.wait_for_workers(2, timeout=20)
        except TimeoutError:
            client.cluster.scale(len(client.cluster.workers) + 1)


def others_come(client, after=None):
    """Make sure, beside what is done meanwhile, that workers take the places of those that were killed."""

    def come():
        if after is not None:
            after.join()
        two_workers(client)

    thread = threading.Thread(target=come)
    thread.start()
    return thread


def _slowly(shard, seconds):
    time.sleep(seconds)
    return Partial(1.0, np.ones(2))


def kill_soon(client, seconds=0.2, most=1):
    thread = threading.Timer(seconds, kill_one, args=(client, most))
    thread.start()
    return thread


def in_placing(client, many, model):
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(many, np.arange(26)))
    kill_one(client)
    found = backend.sum(_slowly, shards, 0.0)
    assert found.loss == len(shards)


def in_a_sum(client, many, model):
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(many, np.arange(26)))
    thread = kill_soon(client)
    found = backend.sum(_slowly, shards, 0.1)
    thread.join()
    assert found.loss == len(shards)


def in_a_look(client, many, model):
    killed = []

    def kill(progress):
        if not killed:
            killed.append(None)
            kill_one(client)

    fitted = clone(model).set_params(backend=Dask(client, timeout=120), callback=kill).fit(many)
    assert_array_equal(fitted.coef_, clone(model).fit(many).coef_)


def in_a_fit(client, many, model):
    model = clone(model).set_params(tol=1e-4)
    thread = kill_soon(client, 0.5)
    fitted = clone(model).set_params(backend=Dask(client, timeout=120)).fit(many)
    thread.join()
    assert_array_equal(fitted.coef_, clone(model).fit(many).coef_)


def with_scattered_weights(client, many, model):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "IN_ALL", 100)
        in_a_fit(client, many, model)


def saving_a_checkpoint(client, many, model):
    from maxendnet.models import checkpoint

    write, killed = checkpoint.write_sealed, []

    def write_and_kill(*arguments):
        if len(killed) == 1:
            kill_one(client)
        killed.append(None)
        write(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "write_sealed", write_and_kill)
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"maxendnet-{os.getpid()}.checkpoint")
        fitted = (
            clone(model).set_params(backend=Dask(client, timeout=120)).fit(many, checkpoint=path, checkpoint_every=0)
        )
    assert_array_equal(fitted.coef_, clone(model).fit(many).coef_)


def in_a_prediction(client, many, model):
    fitted = clone(model).fit(many)
    expected = fitted.predict(many)
    thread = kill_soon(client, 0.02)
    assert fitted.set_params(backend=Dask(client, timeout=120)).predict(many) == expected
    thread.join()


def in_the_first_pass(client, many, model):
    """Over names and labels, of partitions that are read."""
    import dask

    items = sentences(30)
    parts = [dask.delayed(_read_slowly)(items[a:b]) for a, b in cut_evenly(30, 4)]
    thread = kill_soon(client, 0.3)
    fitted = clone(model).set_params(backend=Dask(client, timeout=120)).fit(parts)
    thread.join()
    parts = [dask.delayed(Examples.build)(*map(list, zip(*items[a:b]))) for a, b in cut_evenly(30, 4)]
    assert_array_equal(fitted.coef_, clone(model).set_params(backend=Dask(client, timeout=120)).fit(parts).coef_)


def _read_slowly(items):
    time.sleep(0.2)
    return items


def in_parts(client, many, model):
    """What the worker held is lost: the fit goes back, to the beginning or to a copy."""
    model = clone(IN_PARTS["BlockFrankWolfe"]).set_params(solver__parts=2, max_passes=9)
    expected, killed = clone(model).fit(many).coef_, []

    def kill(progress):
        if not killed:
            killed.append(None)
            kill_one(client)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "every", 0.0)
        fitted = clone(model).set_params(backend=Dask(client, timeout=120), callback=kill).fit(many)
    assert killed
    assert_array_equal(fitted.coef_, expected)


def all_at_once(client, many, model):
    """There is no worker left: shards are made again by those that come later, which have other addresses."""
    backend = Dask(client, timeout=120)
    shards = backend.place(Chain().bind(many, np.arange(26)))
    assert backend.sum(_slowly, shards, 0.0).loss == len(shards)
    kill_one(client, most=len(client.scheduler_info(n_workers=-1)["workers"]))
    others = others_come(client)
    assert backend.sum(_slowly, shards, 0.0).loss == len(shards)
    others.join()


def all_in_placing(client, many, model):
    """The same, while shards are on their way."""
    backend, structure = Dask(client, timeout=120), Chain().bind(many, np.arange(26))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend_module, "unpack", _unpack_slowly)
        thread = kill_soon(client, 0.3, most=len(client.scheduler_info(n_workers=-1)["workers"]))
        others = others_come(client, after=thread)
        shards = backend.place(structure)
        assert backend.sum(_slowly, shards, 0.0).loss == len(shards)
    others.join()


def _unpack_slowly(packed, level):
    time.sleep(0.3)
    return unpack(packed, level)


PHASES = [
    in_placing,
    in_a_sum,
    in_a_look,
    in_a_fit,
    with_scattered_weights,
    saving_a_checkpoint,
    in_a_prediction,
    in_parts,
    all_at_once,
    all_in_placing,
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL (POSIX)")
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_a_killed_worker(phase, processes, many):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two_workers(processes)
        phase(processes, many, MODELS["LBFGS"])


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL (POSIX)")
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_workers_that_are_killed_again_and_again(phase, processes, many):
    for _ in range(10):
        test_a_killed_worker(phase, processes, many)


def test_threads_are_a_backend():
    assert isinstance(Threads(), Backend)

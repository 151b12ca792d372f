"""Checkpoints: an interrupted fit resumes with an identical result, and only from its own checkpoint."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from systems import labelled_chains

from maxendnet import (
    CRF,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    UNKNOWN,
    Chain,
    CheckpointError,
    ElasticNet,
    Gaussian,
    LapMEDN,
    MaxEnDNet,
    SpikeSlab,
    _kernels,
    solvers,
)  # fmt: skip
from maxendnet.data.examples import Examples, distinct_labels
from maxendnet.losses import Log
from maxendnet.models import checkpoint
from maxendnet.models.checkpoint import Checkpoint
from maxendnet.solvers import (
    LBFGS,
    OWLQN,
    SMO,
    BlockFrankWolfe,
    ConcaveConvex,
    ConstraintGeneration,
    CuttingPlane,
    ExponentiatedGradient,
    Extragradient,
    InteriorPoint,
    PotentialAscent,
    ProximalAscent,
    ProximalPoint,
    SelfTraining,
    Smoothing,
    Subgradient,
    Variational,
)  # fmt: skip
from maxendnet.solvers.base import missing

X, Y = labelled_chains()
HIDDEN = [[UNKNOWN if (i + t) % 3 == 0 else label for t, label in enumerate(labels)] for i, labels in enumerate(Y)]
NOTHING = [[UNKNOWN] * len(labels) if i % 4 == 0 else labels for i, labels in enumerate(Y)]

MODELS = {
    "LBFGS": (L2CRF(solver=LBFGS(), tol=1e-9), Y),
    "LBFGS without a certificate": (CRF(solver=LBFGS(), tol=1e-3), Y),
    "OWLQN": (L1CRF(solver=OWLQN(), tol=1e-7), Y),
    "Smoothing": (M3N(solver=Smoothing(), tol=1e-3), Y),
    "Smoothing under L1": (L1M3N(solver=Smoothing(), tol=1e-2), Y),
    "BlockFrankWolfe": (M3N(solver=BlockFrankWolfe(), tol=1e-3), Y),
    "BlockFrankWolfe Laplace": (LapMEDN(solver=BlockFrankWolfe(check_every=2), tol=1e-4), Y),
    "PotentialAscent": (L2CRF(solver=PotentialAscent(), tol=1e-6), Y),
    "ProximalAscent": (L1CRF(lam=0.1, solver=ProximalAscent(check_every=2)), Y),
    "PotentialAscent elastic net": (MaxEnDNet(ElasticNet(), Log(), solver=PotentialAscent(), tol=1e-4), Y),
    "SMO": (M3N(solver=SMO(), tol=1e-4), Y),
    "ExponentiatedGradient": (M3N(solver=ExponentiatedGradient(), tol=0.1), Y),
    "Extragradient": (M3N(solver=Extragradient(), tol=0.05), Y),
    "Subgradient": (M3N(solver=Subgradient(), tol=0.2), Y),
    "Subgradient online": (M3N(solver=Subgradient(online=True, check_every=5), tol=0.1), Y),
    "Subgradient in the ball": (L1M3N(radius=3.0, solver=Subgradient(), tol=0.2), Y),
    "ProximalPoint": (L1M3N(solver=ProximalPoint(), tol=1e-2), Y),
    "ProximalPoint in the ball": (L1M3N(radius=3.0, solver=ProximalPoint(), tol=1e-2), Y),
    "ProximalPoint Gaussian": (M3N(solver=ProximalPoint(), tol=1e-3), Y),
    "ProximalPoint Laplace": (LapMEDN(solver=ProximalPoint(), tol=1e-3), Y),
    "InteriorPoint": (L1M3N(C=5.0, solver=InteriorPoint(), tol=1e-2), Y),
    "InteriorPoint log": (L1CRF(lam=0.1, solver=InteriorPoint(), tol=1e-4), Y),
    "CuttingPlane": (M3N(solver=CuttingPlane(), tol=1e-4), Y),
    "ConstraintGeneration": (L1M3N(solver=ConstraintGeneration(), tol=1e-4), Y),
    "Variational": (LapMEDN(method="variational", iterations=None, tol=1e-3), Y),
    "Variational without a certificate": (MaxEnDNet(SpikeSlab(), tol=1e-3), Y),
    "ConcaveConvex": (M3N(solver=ConcaveConvex(starts=2), tol=1e-2), HIDDEN),
    "ConcaveConvex averaged": (M3N(completion="average", tol=1e-2), HIDDEN),
    "SelfTraining": (M3N(solver=SelfTraining(rounds=3), tol=1e-2), NOTHING),
    "unknown labels": (L2CRF(tol=1e-3), HIDDEN),
    "order 2": (M3N(structure=Chain(order=2), solver=BlockFrankWolfe(), tol=1e-3), Y),
    "seen pairs": (M3N(structure=Chain(pairs="seen"), solver=BlockFrankWolfe(), tol=1e-3), Y),
}


def first_accepted(kind):
    """Return a model for a solver that has no entry above."""
    examples = Examples.build(X, Y)
    for model in (M3N(), LapMEDN(), L2CRF(), L1CRF(), L1M3N(), CRF()):
        if not missing(kind, model.pose(examples, distinct_labels(examples.y))):
            return model.set_params(solver=kind(), tol=kind.accuracy), Y
    return pytest.fail(f"no system has a problem that {kind.__name__} accepts")


with_row = {type(model.solver) for model, _ in MODELS.values()} | {Variational}
MODELS |= {kind.__name__: first_accepted(kind) for kind in solvers.ALL if kind not in with_row}
every_solver = pytest.mark.parametrize("name", MODELS)


EVERY_PASS = (60.0, None, lambda: 0.0)
"""Defaults of `Checkpoint` with a clock that stands still: writing takes no time, and happens after every pass."""


class Interrupted(BaseException):
    """Simulates a signal that ends the process."""


def fitted(model, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).set_params(random_state=3).fit(X, y, **options)


def interrupted(monkeypatch, at, model, y, path, **options):
    """Whether a fit was interrupted after it wrote ``n`` positions; False if it finished first."""
    offer, n_offers = Checkpoint.offer, [0]

    def offer_and_stop(self, position, problem, last=False):
        offer(self, position, problem, last)
        n_offers[0] += 1
        if n_offers[0] == at:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint.__init__, "__defaults__", EVERY_PASS)
        patch.setattr(Checkpoint, "offer", offer_and_stop)
        try:
            fitted(model, y, checkpoint=path, checkpoint_every=0, **options)
        except Interrupted:
            return True
    return False


def assert_same(left, right):
    assert_array_equal(left.model_.weights, right.model_.weights)
    for name in ("objective_", "dual_", "gap_", "round_gap_", "n_passes_", "n_rounds_", "which_", "converged_"):
        assert repr(getattr(left, name)) == repr(getattr(right, name)), name
    timeless = [[row._replace(seconds=0.0) for row in model.trace_] for model in (left, right)]
    assert repr(timeless[0]) == repr(timeless[1])
    assert type(left.posterior_) is type(right.posterior_)
    assert_array_equal(left.posterior_.mean, right.posterior_.mean)
    if left._support[1] is not None:
        assert left.support_ == right.support_


@every_solver
def test_a_resumed_fit_is_identical(name, tmp_path, monkeypatch):
    """Interrupt a fit repeatedly, each time after one more pass."""
    model, y = MODELS[name]
    path, whole = tmp_path / "fit.checkpoint", fitted(model, y)
    n_interrupted = 0
    for at in (2, 1, 4, 7, 20):  # a fit of n passes has n + 1 positions
        if not interrupted(monkeypatch, at, model, y, path):
            break
        n_interrupted += 1
        assert checkpoint.read_sealed(path, checkpoint.KIND).header["n_pass"] >= at - 1
    assert n_interrupted >= min(2, whole.n_passes_)
    assert_same(fitted(model, y, checkpoint=path), whole)
    assert not path.exists()


def fit_in_step(model, y, path, pipe):
    """Fit in the child process, which waits for its parent after every pass."""
    offer = Checkpoint.offer

    def offer_and_wait(self, position, problem, last=False):
        offer(self, position, problem, last)
        pipe.send(position.n_pass)
        pipe.recv()

    Checkpoint.__init__.__defaults__, Checkpoint.offer = EVERY_PASS, offer_and_wait
    fitted(model, y, checkpoint=path, checkpoint_every=0)


def killed(model, y, path, n_passes):
    """Kill a fit in another process, in the pass after the first ``n_passes``."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    child = fork.Process(target=fit_in_step, args=(model, y, path, there))
    child.start()
    there.close()  # so that the pipe ends when the child ends
    for _ in range(n_passes):
        here.recv()
        here.send("continue")
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL and path.exists()


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork (POSIX)")
KILLED = ["LBFGS", "OWLQN", "Smoothing", "BlockFrankWolfe", "PotentialAscent"]


@needs_fork
@pytest.mark.parametrize("name", KILLED)
def test_a_killed_process(name, tmp_path):
    model, y = MODELS[name]
    path = tmp_path / "fit.checkpoint"
    killed(model, y, path, 5)
    assert_same(fitted(model, y, checkpoint=path), fitted(model, y))
    assert not os.listdir(tmp_path)


@pytest.mark.long
@needs_fork
@pytest.mark.parametrize("name", KILLED)
def test_a_process_that_is_killed_again_and_again(name, tmp_path):
    """Kill each fit five times, thirty kills in all."""
    model, y = MODELS[name]
    path = tmp_path / "fit.checkpoint"
    for n_passes in (2, 3, 2, 4, 3):
        killed(model, y, path, n_passes)
    assert_same(fitted(model, y, checkpoint=path), fitted(model, y))


# ---- when checkpoints are written and removed ------------------------------------------------------------------------


def test_it_is_written_now_and_then(tmp_path, monkeypatch):
    times, written = [0.0], []
    write = checkpoint.write_sealed

    def counted(path, kind, header, arrays):
        written.append(header["n_pass"])
        times[0] += 1.0  # a write takes a second
        write(path, kind, header, arrays)

    def tick(self, problem, state):
        times[0] += 4.0
        return step(self, problem, state)

    step = LBFGS.step
    monkeypatch.setattr(checkpoint, "write_sealed", counted)
    monkeypatch.setattr(LBFGS, "step", tick)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", (60.0, None, lambda: times[0]))
    fitted(L2CRF(solver=LBFGS(), tol=1e-9, max_passes=22), Y, checkpoint=tmp_path / "c", checkpoint_every=10.0)
    # every 10 seconds requested, but a write that takes one second happens at most every 20; and the last one
    assert written == [0, 5, 10, 15, 20, 22]


def test_it_stays_where_passes_did_not_suffice(tmp_path):
    path = tmp_path / "fit.checkpoint"
    model, whole = L2CRF(solver=LBFGS(), tol=1e-9, random_state=0), L2CRF(solver=LBFGS(), tol=1e-9, random_state=0)
    with pytest.warns(UserWarning, match="stopped after 4 passes"):
        model.set_params(max_passes=4).fit(X, Y, checkpoint=path)
    assert path.exists()
    model.set_params(max_passes=1000).fit(X, Y, checkpoint=path)
    assert_same(model, whole.fit(X, Y))
    assert not path.exists()


def test_a_fit_with_a_checkpoint_is_that_without(tmp_path):
    model = M3N(random_state=0)
    assert_same(clone(model).fit(X, Y, checkpoint=tmp_path / "c", checkpoint_every=0), clone(model).fit(X, Y))
    assert not os.listdir(tmp_path)


# ---- checkpoints that are refused ------------------------------------------------------------------------------------


@pytest.fixture
def half(tmp_path, monkeypatch):
    """The checkpoint of a fit that was interrupted."""
    path = tmp_path / "fit.checkpoint"
    assert interrupted(monkeypatch, 3, L2CRF(solver=LBFGS(), tol=1e-9), Y, path)
    return path


OTHERS = {
    "the prior changed from": dict(model=MaxEnDNet(Gaussian(3.0), Log(), solver=LBFGS(), tol=1e-9)),
    "the solver changed from": dict(model=L2CRF(solver=LBFGS(memory=3), tol=1e-9)),
    "tol changed from": dict(model=L2CRF(solver=LBFGS(), tol=1e-8)),
    "random_state changed from": dict(random_state=4),
    "the examples, their labels and weights, or the structure changed": dict(
        y=[list(reversed(labels)) for labels in Y]
    ),
    "or the structure changed\\.": dict(model=L2CRF(structure=Chain(bias=True), solver=LBFGS(), tol=1e-9)),
}


@pytest.mark.parametrize("message", OTHERS)
def test_another_fit_is_refused(half, message):
    before, other = half.read_bytes(), OTHERS[message]
    model = clone(other.get("model", L2CRF(solver=LBFGS(), tol=1e-9)))
    model.set_params(random_state=other.get("random_state", 3))
    with pytest.raises(CheckpointError, match=rf"is a checkpoint of another fit: .*{message}.*use another path"):
        model.fit(X, other.get("y", Y), checkpoint=half)
    assert half.read_bytes() == before and not hasattr(model, "model_")


def test_other_weights_and_costs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.checkpoint"
    model = M3N(C=2.0, tol=1e-9)
    assert interrupted(monkeypatch, 3, model, Y, path)
    for changed, message in ((M3N(C=3.0, tol=1e-9), "C changed from 2.0 to 3.0"),
                             (M3N(C=2.0, tol=1e-9, cost={("a", "b"): 2.0}), "the loss")):  # fmt: skip
        with pytest.raises(CheckpointError, match=message):
            fitted(changed, Y, checkpoint=path)
    with pytest.raises(CheckpointError, match="their labels and weights"):
        fitted(model, Y, checkpoint=path, sample_weight=np.full(len(X), 2.0))


def test_another_version_or_level_is_refused(half, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("maxendnet.models.checkpoint.__version__", "9.9")
        with pytest.raises(CheckpointError, match=r"the version of maxendnet changed from .* to '9\.9'"):
            fitted(L2CRF(solver=LBFGS(), tol=1e-9), Y, checkpoint=half)
    with monkeypatch.context() as patch:
        patch.setattr(_kernels, "level", lambda: "sse9")
        with pytest.raises(CheckpointError, match=r"the level of the kernels changed from .* to 'sse9'"):
            fitted(L2CRF(solver=LBFGS(), tol=1e-9), Y, checkpoint=half)


REMOVED = {
    "the solver SDCA was removed; use PotentialAscent": ("SDCA(check_every=5)", "SDCA.DualState"),
    "the solver ActiveSetNewton was removed; use OWLQN": ("Variational(solver=ActiveSetNewton())", "Variational.State"),
    "the online version of ExponentiatedGradient was removed": (
        "ExponentiatedGradient()", "ExponentiatedGradient.OwnState",
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REMOVED)
def test_a_removed_solver_is_named(half, message):
    solver, record = REMOVED[message]
    header, arrays = checkpoint.read_sealed(half, checkpoint.KIND)
    header["of"] |= {"the version of maxendnet": ["'0.1.0'", "-"], "the solver": [solver, "-"]}
    header["state"] = {"record": [record, {}]}
    checkpoint.write_sealed(half, checkpoint.KIND, header, arrays)
    with pytest.raises(CheckpointError, match=rf"fit\.checkpoint .*{message}.*to start again"):
        fitted(L2CRF(solver=LBFGS(), tol=1e-9), Y, checkpoint=half)


def test_damage_at_any_position_is_detected(half):
    whole = half.read_bytes()
    model = L2CRF(solver=LBFGS(), tol=1e-9)
    for place in np.linspace(0, len(whole) - 1, 40).astype(int):
        half.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"damaged|not a maxendnet checkpoint|format version"):
            fitted(model, Y, checkpoint=half)
        half.write_bytes(whole[:place])
        with pytest.raises(CheckpointError, match="truncated"):
            fitted(model, Y, checkpoint=half)
    half.write_bytes(b"something else entirely")
    with pytest.raises(CheckpointError, match="is not a maxendnet checkpoint"):
        fitted(model, Y, checkpoint=half)


def test_content_of_another_program_is_refused(half):
    """Write a checkpoint with a valid checksum and invalid content."""
    header, arrays = checkpoint.read_sealed(half, checkpoint.KIND)
    model = L2CRF(solver=LBFGS(), tol=1e-9)
    name, _ = header["state"]["record"]
    for state in (
        {"record": ["os.system", {}]},
        {"record": [name, {}]},
        {"kernel": ["Shape", []]},
        {"piece": ["x", {}]},
    ):
        checkpoint.write_sealed(half, checkpoint.KIND, header | {"state": state}, arrays)
        with pytest.raises(CheckpointError, match="is undamaged, but this version of maxendnet cannot read it"):
            fitted(model, Y, checkpoint=half)


def test_a_path_that_cannot_be_written_is_refused_before_the_first_pass(tmp_path):
    def too_late(_):
        raise AssertionError("a look")

    model = L2CRF(solver=LBFGS(), callback=too_late)
    with pytest.raises(FileNotFoundError, match="The folder does not exist"):
        model.fit(X, Y, checkpoint=tmp_path / "nowhere" / "fit.checkpoint")
    with pytest.raises(CheckpointError, match="is a folder"):
        model.fit(X, Y, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint_every must be a number of seconds of at least 0, got -1"):
        model.fit(X, Y, checkpoint=tmp_path / "c", checkpoint_every=-1)


class OwnState:
    w = np.zeros(3)


class OwnSolver(LBFGS):
    def start(self, problem, warm=None, seed=None, tol=1e-3):
        return OwnState()


def test_a_state_that_is_not_ours_is_refused_before_the_first_pass(tmp_path):
    with pytest.raises(CheckpointError, match=r"state is of type .*OwnState, which a checkpoint cannot store"):
        L2CRF(solver=OwnSolver()).fit(X, Y, checkpoint=tmp_path / "c")
    assert not os.listdir(tmp_path)


# ---- objects of the kernels ------------------------------------------------------------------------------------------


def test_active_sets_as_numbers():
    model = M3N(solver=BlockFrankWolfe(), warm_start=True, random_state=0).fit(X, Y)
    sets = model.warm_state[1].collected().states[0].sets
    copy = pickle.loads(pickle.dumps(sets))
    for left, right in zip(sets.__getstate__(), copy.__getstate__(), strict=True):
        assert_array_equal(left, right)
    nodes, active, labels, alpha, cost = sets.__getstate__()
    state = dict(nodes=nodes, active=active, labels=labels, alpha=alpha, cost=cost)
    wrong = [
        dict(nodes=nodes + 1), dict(active=active - 1), dict(active=-active), dict(labels=labels[:-1]),
        dict(alpha=alpha[:-1]), dict(cost=cost[1:]), dict(nodes=np.full_like(nodes, 2**62)),
        dict(nodes=nodes[:-1], active=active[:-1]),
    ]  # fmt: skip
    for numbers in wrong:
        with pytest.raises(ValueError, match="active sets are inconsistent"):
            _kernels.ActiveSets.__new__(_kernels.ActiveSets).__setstate__(tuple((state | numbers).values()))


# ---- fingerprints ----------------------------------------------------------------------------------------------------

FINGERPRINTS = """
import numpy as np
from maxendnet import UNKNOWN, Chain, Examples, Gaussian, Graph, Hinge, Tree, solvers
from maxendnet.data.labels import distinct_labels
from maxendnet.models.checkpoint import Checkpoint
from maxendnet.problem import Problem

edges = [[(0, 1), (1, 2), (0, 2)]] * 3
cyclic = Examples.build([np.eye(3)] * 3, [["a", "b", UNKNOWN], ["b", {"a", "c"}, "a"], ["a", "a", "c"]], edges=edges)
plain = Examples.build([np.eye(3)] * 3, [["a", "b", UNKNOWN], ["b", {"a", "c"}, "a"], ["a", "a", "c"]])
tree = Examples.build([np.eye(3)] * 2, [["a", "b", "c"], ["b", "c", "a"]], edges=[[(0, 1), (0, 2)]] * 2)
pairs = [
    (Chain(), plain), (Chain(order=2, bias=True), plain), (Chain(pairs="seen", hidden=2), plain),
    (Graph(), cyclic), (Graph(inference="relaxed"), cyclic), (Tree(siblings=True), tree), (Tree(), tree),
]
for structure, examples in pairs:
    bound = structure.bind(examples, distinct_labels(examples.y))
    problem = Problem.pose(bound, Hinge(), Gaussian(np.arange(1.0, 1.0 + bound.layout.n_weights)))
    print(Checkpoint("here")._describe(solvers.Smoothing(), problem, 0.1))
"""


def test_fingerprints_are_those_of_any_process():
    """Fingerprints do not depend on memory addresses or the order of sets."""
    lines = []
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", FINGERPRINTS], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines())
    assert lines[0] == lines[1]
    assert len(set(lines[0])) == len(lines[0]) == 7

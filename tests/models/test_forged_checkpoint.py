"""Forged checkpoints, with a valid checksum: refused with a reason, or the fit ends with a certificate that holds."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import signal
import warnings
from functools import cache

import numpy as np
import pytest
from forge import forged, leaves, set_at
from sklearn.base import clone
from test_checkpoint import EVERY_PASS, MODELS, Interrupted, X, Y, fitted, interrupted, needs_fork
from test_file import MODELS as SAVED

from maxendnet import (
    L2CRF,
    M3N,
    Chain,
    CheckpointError,
    ElasticNet,
    Gaussian,
    Graph,
    Hinge,
    LapMEDN,
    MaxEnDNet,
    rules,
)
from maxendnet.data.examples import Examples, distinct_labels
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.models import checkpoint
from maxendnet.models.checkpoint import Checkpoint
from maxendnet.solvers import LBFGS
from maxendnet.utils import atomic_write

UNDER = ("state", "placed", "trace", "at_zero", "n_pass", "seconds", "n_oracle")
SECONDS = 60  # of the processor, for a fit of about 0.1 s


@cache
def reference(name):
    """The bounds of the minimum from a tight fit, and the problem; None without a certificate."""
    model, y = MODELS[name]
    examples = Examples.build(X, y)
    tight = (
        fitted(clone(model).set_params(tol=1e-6, max_passes=2000), y) if np.isfinite(fitted(model, y).gap_) else None
    )
    return tight, model.pose(examples, distinct_labels(examples.y))


def content(name, tmp_path, monkeypatch):
    """Header and arrays of a checkpoint of an interrupted fit."""
    model, y = MODELS[name]
    path = tmp_path / "fit.checkpoint"
    for at in (12, 6, 3, 2, 1):  # after an evaluation, unless the fit is shorter
        path.unlink(missing_ok=True)
        if interrupted(monkeypatch, at, model, y, path):
            break
    return path, checkpoint.read_sealed(path, checkpoint.KIND)


def resumed(name, path):
    """Resume in a child process, which may crash; return what happened."""
    model, y = MODELS[name]
    _, problem = reference(name)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        import resource

        used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
        resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS, used + SECONDS + 1))
        try:
            model = fitted(clone(model).set_params(max_passes=60), y, checkpoint=path)
            answer = (model.objective_, model.dual_, float(problem.primal(np.array(model.model_.weights))))
        except CheckpointError as error:
            answer = str(error)
        except BaseException as error:
            answer = error.__class__.__name__, str(error)[:300]
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(answer) if answer else os.WTERMSIG(status)


def check(name, path, what):
    """Return the class of the result: "refused" or "right"; fail for all others."""
    answer = resumed(name, path)
    assert not isinstance(answer, int), f"{name}: {what}: the process ended by signal {answer}"
    if isinstance(answer, str):
        return "refused"
    assert len(answer) == 3, f"{name}: {what}: {answer}"
    objective, dual, actual = answer
    assert np.isfinite(objective), f"{name}: {what}"
    tight, _ = reference(name)
    if tight is not None:
        allowed = 1e-6 * max(abs(tight.objective_), 1.0)
        assert dual <= tight.objective_ + allowed, f"{name}: {what}: the dual {dual} is above the minimum"
        # the objective of the variational method is a bound at a mean and a variance
        if "Variational" not in name:
            assert objective == pytest.approx(actual, rel=1e-3), f"{name}: {what}"
    return "right"


def attack(name, seeds, tmp_path, monkeypatch):
    path, (header, arrays) = content(name, tmp_path, monkeypatch)
    counts = {"refused": 0, "right": 0}
    for seed in seeds:
        new_header, new_arrays, what = forged(header, arrays, seed, UNDER)
        contiguous = {key: np.ascontiguousarray(array) for key, array in new_arrays.items()}
        checkpoint.write_sealed(path, checkpoint.KIND, new_header, contiguous)
        counts[check(name, path, f"{seed}: {what}")] += 1
    return counts


# the first three crashed the process, the others gave false certificates or never ended
BEFORE = {
    "ProximalAscent": ("state.inner.node_potentials", lambda a: a.reshape(-1)[: a.size // 2]),
    "PotentialAscent elastic net": ("state.node_potentials", lambda a: a.reshape(-1)[: a.size // 2]),
    "PotentialAscent": ("state.weights", lambda a: np.where(np.arange(a.size) == 48, np.float32(1e30), a)),
    "Extragradient": ("state.alpha.eta", lambda a: 0 * a),
    "Subgradient in the ball": ("state.corner.eta", lambda a: 0 * a),
    "ConstraintGeneration": ("state.cuts.rows", lambda a: 0 * a),
    "Subgradient": ("state.at.eta", lambda a: np.where(np.arange(a.size) == 18, 1e300, a)),
    "Smoothing under L1": ("state.points.eta_____", lambda a: 0 * a),
    "Subgradient online": ("state.average.mass", lambda a: 0 * a),
}


@needs_fork
@pytest.mark.parametrize("name", BEFORE)
def test_checkpoints_that_crashed_or_deceived_are_refused(name, tmp_path, monkeypatch):
    path, (header, arrays) = content(name, tmp_path, monkeypatch)
    array, change = BEFORE[name]
    checkpoint.write_sealed(
        path, checkpoint.KIND, header, arrays | {array: np.ascontiguousarray(change(arrays[array]))}
    )
    assert check(name, path, array) == "refused"


@needs_fork
@pytest.mark.parametrize("name", ["OWLQN", "InteriorPoint log", "ProximalPoint Laplace", "ProximalPoint Gaussian"])
def test_a_dual_value_above_the_minimum_is_refused(name, tmp_path, monkeypatch):
    path, (header, arrays) = content(name, tmp_path, monkeypatch)
    tight, _ = reference(name)
    paths = [path for path in leaves(header["state"], ("state",)) if path[-1] == "dual"]
    for place in paths:
        changed = copy.deepcopy(header)
        set_at(changed, place, 1.02 * tight.objective_)
        checkpoint.write_sealed(path, checkpoint.KIND, changed, arrays)
        assert check(name, path, str(place)) == "refused"


@needs_fork
@pytest.mark.parametrize("name", ["BlockFrankWolfe", "LBFGS", "CuttingPlane"])
def test_forged_checkpoints(name, tmp_path, monkeypatch):
    counts = attack(name, range(8), tmp_path, monkeypatch)
    assert counts["refused"] >= 4


@pytest.mark.long
@needs_fork
@pytest.mark.parametrize("name", MODELS)
def test_many_forged_checkpoints(name, tmp_path, monkeypatch):
    counts = attack(name, range(100), tmp_path, monkeypatch)
    assert counts["refused"] >= 50


# ---- a disk that is full -------------------------------------------------------------------------------------------


def test_a_full_disk_warns_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path, model = tmp_path / "fit.checkpoint", L2CRF(solver=LBFGS(), tol=1e-9, random_state=3)
    whole, contents, failures = clone(model).fit(X, Y), [], []
    fsync, offer = os.fsync, Checkpoint.offer

    def full(handle):
        if 3 <= len(contents) < 6:
            failures.append(path.read_bytes())
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    def counted(self, position, problem, last=False):
        offer(self, position, problem, last)
        contents.append(path.read_bytes())

    monkeypatch.setattr(atomic_write.os, "fsync", full)
    monkeypatch.setattr(Checkpoint, "offer", counted)
    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", EVERY_PASS)
    with pytest.warns(UserWarning, match=r"pass \d could not be written .*No space.* still contains the previous"):
        model.fit(X, Y, checkpoint=path, checkpoint_every=0)
    assert len(failures) == 3 and failures == [contents[2]] * 3
    assert contents[6] != contents[2]  # written again, when there is space
    assert np.array_equal(model.model_.weights, whole.model_.weights)
    assert not os.listdir(tmp_path)


def test_a_disk_that_is_full_from_the_start_raises(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic_write.os, "fsync", full)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OSError, match="No space"):
            L2CRF(solver=LBFGS()).fit(X, Y, checkpoint=tmp_path / "c")
    assert not os.listdir(tmp_path)


# ---- checkpoints that are not forged -------------------------------------------------------------------------------

OTHERS = {
    "hidden": (M3N(structure=Chain(hidden=2), tol=0.05), Y),
    "rules": (M3N(structure=Chain(rules=rules.regex(".*")), tol=0.05), Y),
    "durations": (L2CRF(structure=Chain(durations={"a": (1, 6)})), Y),
    "order 3": (L2CRF(structure=Chain(order=3, ngrams="seen")), Y),
    "order 2, ends": (LapMEDN(structure=Chain(order=2, ends=True, bias=True)), Y),
    "slack": (MaxEnDNet(Gaussian(), Hinge(slack="squared"), tol=0.01), Y),
    "costs": (M3N(cost={("a", "b"): 3.0}, tol=0.01), Y),
    "elastic net": (MaxEnDNet(ElasticNet(), Hinge(), tol=0.05), Y),
    "relaxed": (M3N(structure=Graph(inference="relaxed"), tol=0.1), None),
    "relaxed log": (L2CRF(structure=Graph(inference="relaxed"), tol=0.01), None),
    "exact graph": (M3N(structure=Graph(), tol=0.05), None),
}


def triangles():
    edges = [[(t, t + 1) for t in range(len(y) - 1)] + [(0, 2)] * (len(y) > 2) for y in Y]
    return Examples.build(X, Y, edges=edges)


def resume_once(monkeypatch, fit):
    """Interrupt a fit after its second position, and resume it."""
    offer, n_offers = Checkpoint.offer, [0]

    def offer_and_stop(self, position, problem, last=False):
        offer(self, position, problem, last)
        n_offers[0] += 1
        if n_offers[0] == 3:
            raise Interrupted

    monkeypatch.setattr(Checkpoint.__init__, "__defaults__", EVERY_PASS)
    monkeypatch.setattr(Checkpoint, "offer", offer_and_stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return fit()
        except Interrupted:
            return fit()


@pytest.mark.parametrize("name", OTHERS)
def test_every_structure_and_loss_resumes(name, tmp_path, monkeypatch):
    model, y = OTHERS[name]
    data = (triangles(),) if y is None else (X, y)
    fit = lambda: clone(model).set_params(random_state=0).fit(*data, checkpoint=tmp_path / "c", checkpoint_every=0)  # noqa: E731
    assert resume_once(monkeypatch, fit).n_passes_ > 0


@pytest.mark.parametrize("name", SAVED)
def test_every_saved_model_resumes(name, tmp_path, monkeypatch):
    fit = MarkovNetwork.fit
    with monkeypatch.context() as patch:
        patch.setattr(MarkovNetwork, "fit", lambda self, *data: fit(self, *data, checkpoint=tmp_path / "c"))
        assert resume_once(patch, SAVED[name]).n_passes_ > 0

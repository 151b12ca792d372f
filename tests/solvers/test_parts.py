"""Parts of the examples that are updated at the same time: the dual never falls, and the certificate holds."""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from systems import labelled_chains

from maxendnet import M3N, Hinge, LapMEDN
from maxendnet.backends import BackendError, Threads
from maxendnet.backends.threads import taken
from maxendnet.data.examples import Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.priors import Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import BlockFrankWolfe
from maxendnet.solvers.base import Snapshots
from maxendnet.solvers.blocks.parts import Part
from maxendnet.structures import Chain

X, Y = labelled_chains()
EXAMPLES = Examples.build(X, Y)
MODELS = {
    "M3N": (M3N, BlockFrankWolfe),
    "LapMEDN": (LapMEDN, BlockFrankWolfe),
}


def problem_of(prior, loss, C=1.0):
    return Problem.pose(Chain().bind(EXAMPLES, distinct_labels(EXAMPLES.y)), loss, prior, C)


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize(
    ("solver", "prior", "loss"),
    [(BlockFrankWolfe, Gaussian(), Hinge()), (BlockFrankWolfe, Laplace(4.0), Hinge())],
    ids=["gaussian", "laplace"],
)
def test_the_dual_never_falls(solver, prior, loss, parts):
    problem = problem_of(prior, loss, C=3.0)
    options = {"average": False} if solver is BlockFrankWolfe else {}
    solver = solver(parts=parts, **options)
    state, before = solver.start(problem, seed=0), -np.inf
    for _ in range(8):
        state = solver.step(problem, state)
        # as it was carried along, and not as a look would compute it afresh
        carried = problem.structure.blocks.unpad(state.eta).copy()
        found = solver.evaluate(problem, state)
        assert_allclose(carried, problem.structure.blocks.unpad(state.eta), atol=1e-8)
        assert found.dual >= before - 1e-9 * abs(before)
        assert found.dual <= found.primal * (1 + 1e-12)
        before = found.dual


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_the_same_optimum(name, parts):
    model, solver = MODELS[name]
    one = model(solver=solver(), tol=0.02, random_state=0).fit(X, Y)
    several = model(solver=solver(parts=parts), tol=0.02, random_state=0).fit(X, Y)
    assert several.converged_ and several.gap_ <= 0.02
    assert several.dual_ <= one.objective_ and one.dual_ <= several.objective_


@pytest.mark.parametrize("name", MODELS)
def test_bits_do_not_depend_on_threads(name):
    model, solver = MODELS[name]
    fits = [model(solver=solver(parts=3), tol=0.2, random_state=0, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2, 3)]
    for other in fits[1:]:
        assert_array_equal(fits[0].model_.weights, other.model_.weights)


class Elsewhere(Threads):
    """Threads that imitate workers and lose the state of one part after some sums."""

    local = False

    def __init__(self, forgets=()):
        super().__init__()
        self.n_sums, self.forgets, self.made = 0, set(forgets), None

    def n_slots(self):
        return 2

    def hold(self, make, shards, given):
        given = pickle.dumps(given)  # as if it was sent
        self.made = lambda k: make(taken(shards[k]), *pickle.loads(given)[k])
        return [self.made(k) for k in range(len(shards))]

    def sum(self, oracle, shards, *arguments):
        self.n_sums += 1
        if self.n_sums in self.forgets and isinstance(shards[0], Part):
            shards[-1] = self.made(len(shards) - 1)
        return super().sum(oracle, shards, *arguments)


def same(one, other):
    assert_array_equal(one.model_.weights, other.model_.weights)
    assert [row._replace(seconds=0) for row in one.trace_] == [row._replace(seconds=0) for row in other.trace_]


@pytest.mark.parametrize("name", MODELS)
def test_one_part_elsewhere_is_the_solver_itself(name):
    model, solver = MODELS[name]
    here, there = (
        model(solver=solver(parts=1), tol=0.02, random_state=0, backend=backend).fit(X, Y)
        for backend in (None, Elsewhere())
    )
    same(here, there)


@pytest.mark.parametrize("name", MODELS)
def test_parts_elsewhere_are_those_of_threads(name):
    """The default is one part per thread of the workers."""
    model, solver = MODELS[name]
    here = model(solver=solver(parts=2), tol=0.1, random_state=0).fit(X, Y)
    there = model(solver=solver(), tol=0.1, random_state=0, backend=Elsewhere()).fit(X, Y)
    same(here, there)
    if solver is BlockFrankWolfe:
        assert here.support_ == there.support_ and here.n_support_ > 0


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["from a copy", "from the beginning"])
@pytest.mark.parametrize("name", MODELS)
def test_a_part_that_is_lost(name, every, monkeypatch):
    """The fit resumes from a snapshot with a bit-for-bit identical result, and callbacks see every evaluation once."""
    monkeypatch.setattr(Snapshots, "every", every)
    monkeypatch.setattr(Snapshots, "share", np.inf)
    model, solver = MODELS[name]
    here = model(solver=solver(parts=2), tol=0.1, random_state=0).fit(X, Y)
    seen, backend = [], Elsewhere(forgets=[2, 9, 30, 31, 60])
    there = model(solver=solver(parts=2), tol=0.1, random_state=0, backend=backend)
    there.set_params(callback=lambda progress: seen.append(progress.row.n_pass)).fit(X, Y)
    assert backend.n_sums > 60
    same(here, there)
    assert seen == [row.n_pass for row in there.trace_]


class WithCopies(Elsewhere):
    """A worker that gets a copy of a part, and makes one sum of it: schedulers move what workers hold."""

    def sum(self, oracle, shards, *arguments):
        self.n_sums += 1
        if self.n_sums in self.forgets and isinstance(shards[0], Part):
            shards = [*shards[:-1], deepcopy(shards[-1])]
        return Threads.sum(self, oracle, shards, *arguments)


@pytest.mark.parametrize("workers", [Elsewhere, WithCopies])
@pytest.mark.parametrize("name", MODELS)
def test_a_part_that_is_lost_at_any_moment(name, workers, monkeypatch):
    """A part may also be lost in an evaluation, which changes its block gaps."""
    monkeypatch.setattr(Snapshots, "every", 0.0)
    monkeypatch.setattr(Snapshots, "share", np.inf)
    warnings.simplefilter("ignore", ConvergenceWarning)
    model, solver = MODELS[name]
    model = model(solver=solver(parts=2), tol=1e-4, max_passes=12, random_state=0)
    here, asked = clone(model).fit(X, Y), []

    class Listing(Elsewhere):
        def sum(self, oracle, shards, *arguments):
            asked.append(oracle.__name__)
            return super().sum(oracle, shards, *arguments)

    clone(model).set_params(backend=Listing()).fit(X, Y)
    looks = [k for k, name in enumerate(asked, 1) if name == "evaluate"]
    for moment in {1, 2, 3, 50, *(look + k for look in looks for k in (-2, -1, 0, 1, 2))}:
        same(here, clone(model).set_params(backend=workers(forgets=[moment])).fit(X, Y))


def test_parts_that_are_lost_again_and_again():
    model = M3N(solver=BlockFrankWolfe(parts=2), backend=Elsewhere(forgets=range(5, 100_000)))
    with pytest.raises(BackendError, match="Workers have died 21 times since the last copy"):
        model.fit(X, Y)


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_of_parts_elsewhere(name, tmp_path):
    """A checkpoint of parts on workers can also be resumed in this process."""
    model, solver = MODELS[name]
    whole = model(solver=solver(parts=3), tol=0.05, random_state=0).fit(X, Y)
    path = tmp_path / "checkpoint"
    begun = model(solver=solver(parts=3), tol=0.05, random_state=0, backend=Elsewhere(), max_passes=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun.fit(X, Y, checkpoint=path)
    gone_on = model(solver=solver(parts=3), tol=0.05, random_state=0).fit(X, Y, checkpoint=path)
    assert_array_equal(whole.model_.weights, gone_on.model_.weights)


def test_more_parts_than_examples():
    model = M3N(solver=BlockFrankWolfe(parts=50), tol=0.1, random_state=0).fit(X[:3], Y[:3])
    assert model.converged_


@pytest.mark.parametrize("parts", [0, 1.5, True])
def test_no_number_of_parts(parts):
    with pytest.raises(ValueError, match="parts must be a whole number of at least 1"):
        M3N(solver=BlockFrankWolfe(parts=parts)).fit(X, Y)


def test_a_model_with_parts_is_saved(tmp_path):
    from maxendnet import load

    model = M3N(solver=BlockFrankWolfe(parts=2), tol=0.1, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").solver.parts == 2
    assert pickle.loads(pickle.dumps(model)).solver.parts == 2

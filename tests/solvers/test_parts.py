"""Parts of the examples that are updated at the same time: the dual never falls, and the certificate holds."""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from systems import labelled_chains

from maxendnet import L2CRF, M3N, Hinge, LapMEDN
from maxendnet.backends import BackendError, Threads
from maxendnet.backends.threads import taken
from maxendnet.data.examples import Examples
from maxendnet.data.labels import distinct_labels
from maxendnet.losses import Log
from maxendnet.priors import ElasticNet, Gaussian, Laplace
from maxendnet.problem import Problem
from maxendnet.solvers import BlockFrankWolfe, PotentialAscent
from maxendnet.solvers.base import Kept, run
from maxendnet.solvers.parts import Part
from maxendnet.structures import Chain
from maxendnet.structures.padded_blocks import AtOnce

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
    options = {"ramp": 0, "average": False} if solver is BlockFrankWolfe else {}
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
    """Threads that pass for workers, and forget what one part was after some sums."""

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
    """As many as there are threads of workers, if nothing else is asked for."""
    model, solver = MODELS[name]
    here = model(solver=solver(parts=2), tol=0.1, random_state=0).fit(X, Y)
    there = model(solver=solver(), tol=0.1, random_state=0, backend=Elsewhere()).fit(X, Y)
    same(here, there)
    if solver is BlockFrankWolfe:
        assert here.support_ == there.support_ and here.n_support_ > 0


@pytest.mark.parametrize("every", [0.0, 1e9], ids=["from a copy", "from the beginning"])
@pytest.mark.parametrize("name", MODELS)
def test_a_part_that_is_lost(name, every, monkeypatch):
    """The fit goes back to where all is known, and ends with the same bits; callbacks see every look once."""
    monkeypatch.setattr(Kept, "every", every)
    monkeypatch.setattr(Kept, "share", np.inf)
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
    """Also at a look, which changes what the part knows of its examples."""
    monkeypatch.setattr(Kept, "every", 0.0)
    monkeypatch.setattr(Kept, "share", np.inf)
    warnings.simplefilter("ignore", ConvergenceWarning)
    model, solver = MODELS[name]
    model = model(solver=solver(parts=2), tol=1e-4, max_passes=12, random_state=0)
    here, asked = clone(model).fit(X, Y), []

    class Listing(Elsewhere):
        def sum(self, oracle, shards, *arguments):
            asked.append(oracle.__name__)
            return super().sum(oracle, shards, *arguments)

    clone(model).set_params(backend=Listing()).fit(X, Y)
    looks = [k for k, name in enumerate(asked, 1) if name == "look"]
    for moment in {1, 2, 3, 50, *(look + k for look in looks for k in (-2, -1, 0, 1, 2))}:
        same(here, clone(model).set_params(backend=workers(forgets=[moment])).fit(X, Y))


def test_parts_that_are_lost_again_and_again():
    model = M3N(solver=BlockFrankWolfe(parts=2), backend=Elsewhere(forgets=range(5, 100_000)))
    with pytest.raises(BackendError, match="Workers have died 21 times since the last copy"):
        model.fit(X, Y)


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_of_parts_elsewhere(name, tmp_path):
    """It goes on in this process too."""
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


def passes_of(solver, problem, n):
    """The state after every pass, and its evaluation."""
    state = solver.start(problem, seed=0)
    for _ in range(n):
        state = solver.step(problem, state)
        yield state, solver.evaluate(problem, state)


AT_ONCE = [
    (BlockFrankWolfe(ramp=0), Gaussian(), Hinge()),
    (BlockFrankWolfe(ramp=0, inner=1), Gaussian(mean=0.3), Hinge()),
    (BlockFrankWolfe(), Laplace(4.0), Hinge()),
    (PotentialAscent(), Gaussian(), Log()),
    (PotentialAscent(), ElasticNet(l1=0.1, l2=0.5), Log()),
]
IDS = ["gaussian", "mean", "laplace", "log", "elastic net"]


@pytest.mark.parametrize("at_once", [2, 5])
@pytest.mark.parametrize(("solver", "prior", "loss"), AT_ONCE, ids=IDS)
def test_several_examples_at_once(solver, prior, loss, at_once):
    """eta is that of the dual point, weights follow it, and bounds hold after every pass."""
    problem, solver = problem_of(prior, loss, C=3.0), replace(solver, at_once=at_once)
    blocks = problem.structure.blocks
    single = replace(solver, at_once=1)
    optimum = list(passes_of(single, problem, 60))[-1][1].primal
    state, before = solver.start(problem, seed=0), -np.inf
    for _ in range(6):
        state = solver.step(problem, state)
        carried = blocks.unpad(state.eta.astype(float))
        weights = state.weights.copy()
        assert_allclose(weights, blocks.for_search(problem.dual_prior.mean(carried), weights.dtype.type), atol=1e-5)
        found = solver.evaluate(problem, state)
        assert_allclose(carried, blocks.unpad(state.eta.astype(float)), atol=1e-4)
        assert found.dual <= optimum * (1 + 1e-9)
        if isinstance(solver, BlockFrankWolfe):
            assert found.dual >= before - 1e-9 * abs(before)
        before = found.dual


@pytest.mark.parametrize(("solver", "prior", "loss"), AT_ONCE, ids=IDS)
def test_bits_of_examples_at_once_do_not_depend_on_threads(solver, prior, loss):
    bound = Chain(bias=True).bind(EXAMPLES, distinct_labels(EXAMPLES.y))
    found = []
    for n_jobs in (1, 2, 3):
        problem = Problem.pose(bound, loss, prior, 2.0, Threads(n_jobs))
        (*_, (state, last)) = passes_of(replace(solver, at_once=3), problem, 4)
        found.append((state.eta.copy(), last.w))
    for eta, w in found[1:]:
        assert_array_equal(eta, found[0][0])
        assert_array_equal(w, found[0][1])


def test_one_at_once_is_one_after_the_other():
    """One part, in rounds: the very same steps, to rounding."""
    problem = problem_of(Gaussian(), Hinge())
    solver = BlockFrankWolfe(ramp=0, sampling="uniform")
    one, other = (solver.start(problem, seed=0) for _ in range(2))
    picks = np.arange(problem.n_examples)
    solver.change(problem, one, picks)
    solver.change(problem, other, picks, at_once=AtOnce.of(1, 1, 4, other.eta, other.weights))
    assert_allclose(one.eta, other.eta, atol=1e-12)
    assert_array_equal(one.sets.labellings()[3], other.sets.labellings()[3])


def test_a_pass_after_which_the_dual_fell_is_taken_back(monkeypatch):
    """Twenty examples at once that are all the same overshoot twenty times."""
    monkeypatch.setattr("maxendnet.solvers.block_frank_wolfe.round_of", lambda problem: 1 << 20)
    same = Examples.build([X[0]] * 40, [Y[0]] * 40)
    problem = Problem.pose(Chain().bind(same, distinct_labels(same.y)), Hinge(), Gaussian(), 1.0)
    state, before = (solver := BlockFrankWolfe(ramp=0, at_once=20)).start(problem, seed=0), -np.inf
    for _ in range(6):
        state = solver.step(problem, state)
        found = solver.evaluate(problem, state)
        assert found.dual >= before - 1e-9 * abs(before)
        before = found.dual
    assert state.n_falls > 0


def test_potentials_go_on_one_by_one_after_the_dual_fell(monkeypatch):
    monkeypatch.setattr("maxendnet.solvers.potential_ascent.round_of", lambda problem: 1 << 20)
    same = Examples.build([X[0]] * 40, [Y[0]] * 40)
    problem = Problem.pose(Chain().bind(same, distinct_labels(same.y)), Log(), Gaussian(), 1.0)
    result = run(PotentialAscent(at_once=20), problem, tol=1e-3, seed=0)
    assert result.state.fell and result.converged


@pytest.mark.parametrize("at_once", [0, 1.5, True])
@pytest.mark.parametrize(("model", "solver"), [(M3N, BlockFrankWolfe), (L2CRF, PotentialAscent)])
def test_no_number_of_examples_at_once(model, solver, at_once):
    with pytest.raises(ValueError, match="at_once must be a whole number of at least 1"):
        model(solver=solver(at_once=at_once)).fit(X, Y)


def test_seen_pairs_and_label_features_at_once():
    """Layouts whose rows are not all of the same length."""
    rng = np.random.default_rng(0)
    X_sparse = [[{f"f{rng.integers(30)}": 1.0, "one": 1.0} for _ in x] for x in X]
    fits = [
        M3N(structure=Chain(pairs="seen", bias=True), solver=BlockFrankWolfe(at_once=at_once), tol=0.02, random_state=0)
        .fit(X_sparse, Y) for at_once in (1, 3)
    ]  # fmt: skip
    assert fits[1].converged_
    assert fits[1].dual_ <= fits[0].objective_ and fits[0].dual_ <= fits[1].objective_


@pytest.mark.parametrize("parts", [0, 1.5, True])
def test_no_number_of_parts(parts):
    with pytest.raises(ValueError, match="parts must be None or a whole number of at least 1"):
        M3N(solver=BlockFrankWolfe(parts=parts)).fit(X, Y)


def test_a_model_with_parts_is_saved(tmp_path):
    from maxendnet import load

    model = M3N(solver=BlockFrankWolfe(parts=2), tol=0.1, random_state=0).fit(X, Y)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").solver.parts == 2
    assert pickle.loads(pickle.dumps(model)).solver.parts == 2

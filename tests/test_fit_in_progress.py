"""Fits in progress: callbacks see every evaluation and can stop a fit; backends do not change results."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from systems import every_system, labelled_chains, roughly, weights_of

from maxendnet import CRF, L2CRF, M3N, LapMEDN, PathSearchCV, path
from maxendnet.backends import Backend, Threads
from maxendnet.solvers import LBFGS, BlockFrankWolfe, TraceRow, run
from maxendnet.solvers.base import Progress


@pytest.fixture(scope="module")
def data():
    return labelled_chains()


@pytest.fixture(scope="module")
def many():
    """Enough nodes for several shards."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 26)) for n in rng.integers(5, 15, size=600)]
    return X, [np.argmax(x + rng.normal(size=x.shape), axis=1).tolist() for x in X]


class Watch:
    """Callback that records its arguments, and stops the fit after a number of evaluations."""

    def __init__(self, end_after=np.inf):
        self.seen, self.end_after, self.closed = [], end_after, 0

    def __call__(self, progress):
        self.seen.append(progress)
        return len(self.seen) >= self.end_after

    def close(self):
        self.closed += 1


# ---- callbacks -------------------------------------------------------------------------------------------------------


@every_system
def test_a_callback_sees_every_look(model, data):
    watch = Watch()
    fitted = roughly(model, callback=watch).fit(*data)
    assert all(isinstance(progress, Progress) for progress in watch.seen)
    shown = [row for row in TraceRow._fields if row not in ("primal", "dual")]
    if getattr(model, "method", "exact") == "exact":  # the trace of the variational method is in terms of its own
        shown = TraceRow._fields
    for progress, row in zip(watch.seen, fitted.trace_, strict=True):
        assert repr([getattr(progress.row, name) for name in shown]) == repr([getattr(row, name) for name in shown])
    last = watch.seen[-1]
    assert_array_equal(last.evaluation.w, fitted.model_.weights)
    assert last.tol == fitted.tol and last.problem.n_examples == len(data[0])
    assert watch.closed == 1
    # it changes nothing
    plain = roughly(model).fit(*data)
    assert_array_equal(weights_of(fitted), weights_of(plain))


@every_system
def test_a_callback_can_end_a_fit(model, data):
    watch = Watch(end_after=1)
    model = clone(model).set_params(tol=1e-12, random_state=0, callback=watch)
    if getattr(model, "method", "exact") == "variational":
        model.set_params(iterations=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # to be ended by a callback is no reason to warn
        model.fit(*data)
    assert len(watch.seen) == len(model.trace_) == 1
    assert not model.converged_
    assert model.n_passes_ == watch.seen[0].row.n_pass
    assert_array_equal(model.model_.weights, watch.seen[0].evaluation.w)
    assert len(model.predict(data[0])) == len(data[0])


def test_the_reason_says_so(data):
    model = L2CRF(tol=1e-12)
    examples = model.fit(*data).model_.read(*data, needs_y=True)
    problem = model.pose(examples, model.classes_)
    watch = Watch(end_after=2)
    result = run(LBFGS(), problem, tol=1e-12, hooks=[watch])
    assert (result.reason, result.converged) == ("callback", False)
    assert len(result.trace) == len(watch.seen) == 2 and result.n_pass == watch.seen[-1].row.n_pass
    # a fit that is done is done, whatever the callback says
    result = run(LBFGS(), problem, tol=1e3, hooks=[lambda progress: True])
    assert (result.reason, result.converged) == ("tol", True)


def test_only_true_ends_a_fit(data):
    for answer in (None, False, 0, 1, "stop", np.float64(1.0)):
        fitted = L2CRF(callback=lambda progress, answer=answer: answer).fit(*data)
        assert fitted.converged_, answer
    for answer in (True, np.True_):
        fitted = L2CRF(tol=1e-9, callback=lambda progress, answer=answer: answer).fit(*data)
        assert len(fitted.trace_) == 1 and not fitted.converged_, answer


def test_a_callback_can_stop_early_by_its_own_measure(data):
    """For example when the gap is below a value larger than ``tol``."""
    model = M3N(tol=1e-6, random_state=0, callback=lambda progress: progress.row.gap < 0.1, solver=BlockFrankWolfe())
    model.fit(*data)
    assert 1e-6 < model.gap_ < 0.1
    assert all(row.gap >= 0.1 for row in model.trace_[:-1])


def test_an_error_in_a_callback_ends_the_fit_and_leaves_the_last_one_whole(data):
    model = M3N(tol=0.2, random_state=0).fit(*data)
    before = model.predict(data[0])

    def fail(progress):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        model.set_params(callback=fail, C=5.0).fit(*data)
    assert model.predict(data[0]) == before


def test_hooks_are_closed_when_a_fit_fails(data):
    class Fails(Watch):
        def __call__(self, progress):
            raise RuntimeError("disk full")

    watch, fails = Watch(), Fails()
    model = L2CRF()
    problem = model.pose(model.fit(*data).model_.read(*data, needs_y=True), model.classes_)
    with pytest.raises(RuntimeError):
        run(LBFGS(), problem, hooks=[watch, fails])
    assert watch.closed == fails.closed == 1


def test_a_fit_that_ended_by_a_callback_goes_on_from_there(data):
    """L-BFGS is evaluated every 25 passes; it takes 30 and more to this gap, at every vector width."""
    model = L2CRF(tol=1e-11, warm_start=True, callback=lambda progress: progress.row.n_pass >= 2).fit(*data)
    assert not model.converged_
    model.set_params(callback=None).fit(*data)
    assert model.converged_ and model.n_passes_ < L2CRF(tol=1e-11).fit(*data).n_passes_


def test_without_a_callback_the_warning_is_as_ever(data):
    with pytest.warns(ConvergenceWarning, match="stopped after 2 passes"):
        L2CRF(tol=1e-12, max_passes=2, callback=lambda progress: None).fit(*data)


def test_a_callback_in_a_search(data):
    """A callback is an ordinary parameter: it survives ``clone`` and is called in every fit."""
    seen = []

    def note(progress):
        seen.append(progress.problem.prior.get_params()["variance"])

    model = L2CRF(tol=0.1, callback=note)
    assert clone(model).callback is note
    search = GridSearchCV(model, {"lam": [0.1, 1.0]}, cv=2).fit(*data)
    assert set(seen) == {1.0, 10.0} and len(seen) >= 5
    assert search.best_estimator_.callback is note


# ---- backends --------------------------------------------------------------------------------------------------------


def test_threads_are_a_backend_that_clone_keeps():
    backend = Threads(2)
    assert isinstance(backend, Backend) and backend.local
    model = M3N(backend=backend)
    assert clone(model).backend is backend
    assert model.get_params(deep=False)["backend"] is backend
    assert model.get_params()["backend"] is backend


@every_system
def test_a_backend_gives_the_same_bits_as_its_number_of_threads(model, data):
    fits = [
        roughly(model, **settings).fit(*data)
        for settings in ({"n_jobs": 1}, {"n_jobs": 2}, {"backend": Threads(2)}, {"backend": Threads(1), "n_jobs": 2})
    ]
    for other in fits[1:]:
        assert_array_equal(weights_of(other), weights_of(fits[0]))
        assert (other.objective_, other.n_passes_) == (fits[0].objective_, fits[0].n_passes_)
        assert other.predict(data[0]) == fits[0].predict(data[0])
        assert_array_equal(other.decision_function(data[0]), fits[0].decision_function(data[0]))


@pytest.mark.parametrize(
    "model", [M3N(C=0.1, tol=0.1), LapMEDN(C=0.1, tol=0.1), L2CRF(tol=0.01), CRF(tol=0.05)],
    ids=lambda model: type(model).__name__,
)  # fmt: skip
def test_the_same_bits_on_several_shards(model, many):
    X, y = many
    one = clone(model).set_params(random_state=0).fit(X, y)
    problem = one.pose(one.model_.read(X, y, needs_y=True), one.classes_)
    assert len(problem.data.shards) > 1
    for backend in (Threads(2), Threads(3)):
        other = clone(model).set_params(random_state=0, backend=backend).fit(X, y)
        assert_array_equal(other.model_.weights, one.model_.weights)
        assert other.predict(X) == one.predict(X)
        for a, b in zip(other.predict_marginals(X), one.predict_marginals(X)):
            assert_array_equal(a, b)


class Counting(Threads):
    """A user-defined backend that counts the requested sums."""

    def __init__(self):
        super().__init__(1)
        self.n_placed = self.n_sums = 0

    def place(self, structure):
        self.n_placed += 1
        return super().place(structure)

    def sum(self, oracle, shards, *arguments):
        self.n_sums += 1
        return super().sum(oracle, shards, *arguments)


def test_a_backend_of_the_user_is_asked(data):
    backend = Counting()
    fitted = L2CRF(backend=backend).fit(*data)
    assert backend.n_placed == 1 and backend.n_sums >= fitted.n_passes_
    assert_array_equal(weights_of(fitted), weights_of(L2CRF().fit(*data)))


def test_a_backend_in_searches_and_paths(data):
    plain = GridSearchCV(L2CRF(tol=0.1), {"lam": [0.1, 1.0]}, cv=2).fit(*data)
    threads = GridSearchCV(L2CRF(tol=0.1, backend=Threads(2)), {"lam": [0.1, 1.0]}, cv=2).fit(*data)
    assert_array_equal(plain.cv_results_["mean_test_score"], threads.cv_results_["mean_test_score"])
    for one, other in zip(
        path(L2CRF(tol=0.1), *data, {"lam": [1.0, 0.1]}),
        path(L2CRF(tol=0.1, backend=Threads(2)), *data, {"lam": [1.0, 0.1]}),
    ):
        assert_array_equal(weights_of(one.model), weights_of(other.model))
    one, other = (
        PathSearchCV(L2CRF(tol=0.1, backend=backend), {"lam": [1.0, 0.1]}, cv=2).fit(*data)
        for backend in (None, Threads(2))
    )
    assert_array_equal(weights_of(one.best_estimator_), weights_of(other.best_estimator_))


def test_a_fitted_model_with_threads_can_be_pickled(data):
    fitted = L2CRF(backend=Threads(2), solver=LBFGS()).fit(*data)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.backend.n_jobs == 2
    assert again.predict(data[0]) == fitted.predict(data[0])

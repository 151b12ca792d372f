"""The estimators: each is a combination of a prior and a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxendnet import solvers
from maxendnet.backends import Backend
from maxendnet.data.annotations import LARGEST_WEIGHT
from maxendnet.data.examples import Examples
from maxendnet.estimators.fitted import FittedModel
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.estimators.settings import COMMON, Scale, ScaleFunctions, Seed
from maxendnet.losses import Hinge, Log
from maxendnet.piece import Piece
from maxendnet.posterior import VariationalPosterior
from maxendnet.priors import L1, Flat, Gaussian, L1Ball, Laplace
from maxendnet.priors.base import FloatArray, Prior, capable, offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Hook, Result, Solver, check_requirements
from maxendnet.structures.base import Structure
from maxendnet.utils.checks import is_number, require_count

Costs = ArrayLike | Mapping[Any, float]
"""Costs by true and predicted label."""
ClassWeight = Mapping[Any, float] | Literal["balanced"]
Completion = Literal["best", "average"]
Pieces = tuple[Prior, Hinge | Log, float]
"""Prior, loss and C."""
CLOSER = "a larger C fits the examples closer."
UNPENALISED = "for no penalty use CRF()."
MARGIN_PARAMETERS = """\
    cost : ndarray of shape (n_labels, n_labels), dict or None, default=None
        Cost ``cost[true, predicted]`` of a node, or a dict ``{(true, predicted): cost}`` in which missing pairs cost 1.
        None is the Hamming cost. A dict may also contain costs of several consecutive labels:
        ``{(("B", "I"), ("B", "O")): 2.0}``.
    class_weight : dict, "balanced" or None, default=None
        Cost factors by true label.
    completion : {"best", "average"}, default="best"
        Target for unknown labels: the best labelling that agrees with the known labels, or an average over all such
        labellings; see `Hinge`.
    unlabelled : float, default=0.0
        Weight of unlabelled examples (labelled ones have weight 1). Their targets are the model's own
        predictions, which is a heuristic, see `SelfTraining`. If it is 0, they are ignored.
"""


class MaxEnDNet(MarkovNetwork):
    """Maximum entropy discrimination Markov network with any prior and loss.

    Minimises ``prior.penalty(mu) + C * sum_i loss_i(mu)`` over the posterior mean mu.

    Parameters
    ----------
    prior : a prior, default=Gaussian()
    loss : Hinge or Log, default=Hinge()
    C : float, default=1.0

    Examples
    --------
    >>> from maxendnet import MaxEnDNet, SpikeSlab
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> MaxEnDNet(prior=SpikeSlab(p=0.5, v=2.0)).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    prior: Prior | None
    loss: Hinge | Log | None
    C: float

    def __init__(
        self,
        prior: Prior | None = None,
        loss: Hinge | Log | None = None,
        C: float = 1.0,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        prior = Gaussian() if self.prior is None else self.prior
        loss = Hinge() if self.loss is None else self.loss
        if not (isinstance(prior, Piece) and hasattr(prior, "penalty")):
            raise ValueError(f"prior must be a prior such as Laplace(lam=1.0), got {prior!r}.")
        if not isinstance(loss, (Hinge, Log)):
            raise ValueError(f"loss must be Hinge() or Log(), got {loss!r}.")
        return prior, loss, positive("C", self.C, CLOSER, LARGEST_WEIGHT)

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        if not offers(problem.prior, "variational_bound"):
            return super()._report(problem, result)
        v = result.state.used_variance
        posterior = VariationalPosterior(result.w, v, capable(problem.prior, "variational_bound").bound(result.w, v))
        return result.primal, result.dual, result.gap, posterior


class MarginModel(MarkovNetwork):
    """Base class of the estimators with the hinge loss."""

    documented_parameters = MARGIN_PARAMETERS + COMMON
    cost: Costs | None
    class_weight: ClassWeight | None
    completion: Completion
    unlabelled: float

    def _hinge(self) -> Hinge:
        return Hinge(self.cost, completion=self.completion, class_weight=self.class_weight)


class M3N(MarginModel):
    """Max-margin Markov network (structured SVM): Gaussian prior and hinge loss.

    Minimises ``1/2 |mu|^2 + C sum_i hinge_i(mu)``.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the loss: a larger C fits the training examples closer, and takes longer. "scale" is ``2.5 / R^2``,
        R^2 the mean squared norm of the features of a node: 0.25 for ten features of size 1, 0.025 for 100
        standardised features (benchmarks/DEFAULTS.md). `C_` is the resulting number. If all features are
        multiplied by a factor, C adapts and predictions hardly change. To tune it, try a tenth to ten times `C_`, as
        `PathSearchCV` does.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    C: float | Scale

    at_scale: ClassVar[ScaleFunctions] = {"C": lambda squared_norm: 2.5 / squared_norm}

    def __init__(
        self,
        C: float | Scale = "scale",
        cost: Costs | None = None,
        class_weight: ClassWeight | None = None,
        completion: Completion = "best",
        unlabelled: float = 0.0,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        C = (constants or self.constants())["C"]
        return Gaussian(), self._hinge(), positive("C", C, CLOSER, LARGEST_WEIGHT, or_scale=True)


class LapMEDN(MarginModel):
    """Laplace maximum entropy discrimination Markov network.

    Its weights are nearly sparse, and there is a posterior distribution over them.

    ``method="exact"`` minimises ``sum_k [s_k - 1 - log((s_k + 1)/2)] + C sum_i hinge_i(mu)`` with
    ``s_k = sqrt(1 + lam mu_k^2)``. ``method="variational"`` is Algorithm 1 of Zhu & Xing, which minimises
    ``sum_k [sqrt(lam (mu_k^2 + v_k)) - 1/2 log v_k] + C sum_i hinge_i(mu)`` over mu and variances v. At convergence its
    mean equals that of the exact method with four times lam and twice C.

    Parameters
    ----------
    C : float, default=3.0
        Weight of the loss: a larger C fits the training examples closer, and takes longer. Try 0.3 to 3.
    lam : float or "scale", default="scale"
        The prior is ``sqrt(lam)/2 exp(-sqrt(lam) |w|)``, with variance 2/lam. "scale" is ``3 R^2``, R^2 the mean
        squared norm of the features of a node: 30 for ten features of size 1; `lam_` is the number. The model is close
        to ``M3N(2 * C / lam)`` for small C and to `L1M3N` for large C, so change both together; `PathSearchCV` chooses
        both.
    method : {"exact", "variational"}, default="exact"
    iterations : int or None, default=None
        For the variational method: number of Gaussian problems that are solved (3 in the paper). None iterates until
        convergence. With this method, ``max_passes``, ``n_passes_`` and the first column of the trace count Gaussian
        problems, and ``solver`` solves each of them.

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> model = LapMEDN(C=10, lam=4).fit(X, y)
    >>> model.predict(X)
    [['a', 'b'], ['b']]
    >>> model.posterior_.kind
    'exact'
    """

    C: float
    lam: float | Scale
    method: Literal["exact", "variational"]
    iterations: int | None

    at_scale: ClassVar[ScaleFunctions] = {"lam": lambda squared_norm: 3.0 * squared_norm}

    def __init__(
        self,
        C: float = 3.0,
        lam: float | Scale = "scale",
        method: Literal["exact", "variational"] = "exact",
        iterations: int | None = None,
        cost: Costs | None = None,
        class_weight: ClassWeight | None = None,
        completion: Completion = "best",
        unlabelled: float = 0.0,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        lam = (constants or self.constants())["lam"]
        lam = positive("lam", lam, "a larger lam is a sparser prior.", or_scale=True)
        loss, C = self._hinge(), positive("C", self.C, CLOSER, LARGEST_WEIGHT)
        if self.method == "exact":
            return Laplace(lam), loss, C
        if self.method != "variational":
            raise ValueError(f"method must be 'exact' or 'variational', got {self.method!r}.")
        if self.iterations is not None:
            require_count("iterations", self.iterations)
        # the fixed point of Algorithm 1 is the exact model with four times lam and twice C
        return Laplace(4 * lam), loss, 2 * C

    def _requested_solver(self, problem: Problem) -> Solver | None:
        solver = super()._requested_solver(problem)
        if self.method == "exact" or isinstance(solver, solvers.ConcaveConvex):
            return solver
        # with the variational method, solver= solves its Gaussian problems
        if solver is not None:
            check_requirements(solver, problem.replace(prior=Gaussian()))
        return solvers.Variational(self.iterations, solver)

    def _model(self, examples: Examples, classes: NDArray[Any], problem: Problem, result: Result) -> FittedModel:
        model = super()._model(examples, classes, problem, result)
        if self.method == "exact":
            return model
        trace = [
            row._replace(primal=self._halved(problem, row.primal), dual=self._halved(problem, row.dual))
            for row in result.trace
        ]
        report = model.report._replace(trace=trace)
        if np.isnan(report.gap):  # the objective is that of all rounds
            report = report._replace(objective=trace[-1].primal)
        return replace(model, report=report)

    def _halved(self, problem: Problem, value: float) -> float:
        """Convert a value of the exact problem to the objective of Algorithm 1.

        The exact problem has four times lam and twice C.
        """
        return float(0.5 * value + problem.n_weights * (1 + 0.5 * np.log(laplace(problem).lam / 4)))

    def _report(self, problem: Problem, result: Result) -> tuple[float, float, float, Any]:
        if self.method == "exact":
            return super()._report(problem, result)
        lam, mu = laplace(problem).lam / 4, result.w
        # At convergence, each variance is optimal for its mean. After a fixed number of iterations it is that of the
        # last Gaussian problem, as in the paper, and the objective is higher by `excess`.
        best = (1 + np.sqrt(1 + 4 * lam * mu**2)) / (2 * lam)
        v = best if self.iterations is None else 2 * result.state.used_variance  # halved in the solver
        excess = variational_penalty(mu, v, lam) - variational_penalty(mu, best, lam)
        twice = result.primal + 2 * excess
        gap = problem.relative(twice - result.dual, twice)
        # the bound on KL(q || Laplace): entropy of the Gaussian, and the log of sqrt(lam)/2 exp(-sqrt(lam <w^2>))
        kl = variational_penalty(mu, v, lam) - len(mu) * (0.5 * np.log(2 * np.pi * np.e * lam) - np.log(2.0))
        primal, dual = self._halved(problem, twice), self._halved(problem, result.dual)
        return primal, dual, gap, VariationalPosterior(mu, v, kl)


class L1M3N(MarginModel):
    """L1-regularised max-margin Markov network, with weights that are exactly zero.

    Minimises ``1/2 |mu|_1 + C sum_i hinge_i(mu)``, or with a ``radius`` ``C sum_i hinge_i(mu)`` subject to
    ``|mu|_1 <= radius``. A point estimate: there is no posterior.

    Parameters
    ----------
    C : float, default=0.5
        Weight of the loss: a larger C fits the training examples closer, with fewer zeros. The default suits any number
        of features of size about 1; try 0.1 to 3. For features ten times as large, divide it by ten.
    radius : float or None, default=None
        Radius of the L1 ball; None is the penalty form.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1M3N(C=10).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    C: float
    radius: float | None

    def __init__(
        self,
        C: float = 0.5,
        radius: float | None = None,
        cost: Costs | None = None,
        class_weight: ClassWeight | None = None,
        completion: Completion = "best",
        unlabelled: float = 0.0,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        ball = self.radius is not None
        prior = L1Ball(positive("radius", self.radius, "None is the penalty form.")) if ball else L1(0.5)
        return prior, self._hinge(), positive("C", self.C, CLOSER, LARGEST_WEIGHT)


class CRF(MarkovNetwork):
    """Conditional random field by maximum likelihood.

    Minimises ``-sum_i log p(y_i | x_i; mu)``.

    Without a penalty there is no certificate: ``dual_`` and ``gap_`` are nan, and ``tol`` applies to the norm of the
    gradient relative to that at zero. On separable data there is no minimiser, and weights grow until ``tol`` or
    ``max_passes`` stops the fit.

    Examples
    --------
    >>> from maxendnet import CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> CRF().fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    def __init__(
        self,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        return Flat(), Log(), 1.0


class L1CRF(MarkovNetwork):
    """Conditional random field with an L1 penalty.

    Minimises ``-sum_i log p(y_i | x_i; mu) + lam |mu|_1``.

    Parameters
    ----------
    lam : float, default=0.5
        Weight of the penalty: a larger lam results in more zero weights. The default suits any number of features of
        size about 1; try 0.1 to 3. For features ten times as large, multiply it by ten.

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1CRF(lam=0.1).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    lam: float

    def __init__(
        self,
        lam: float = 0.5,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        return L1(positive("lam", self.lam, UNPENALISED)), Log(), 1.0


class L2CRF(MarkovNetwork):
    """Conditional random field with a squared L2 penalty.

    Minimises ``-sum_i log p(y_i | x_i; mu) + lam/2 |mu|^2``.

    Parameters
    ----------
    lam : float or "scale", default="scale"
        Weight of the penalty: a larger lam keeps weights smaller. "scale" is ``0.03 R^2``, R^2 the mean squared norm of
        the features of a node: 0.3 for ten features of size 1, 3 for 100 standardised features
        (benchmarks/DEFAULTS.md). `lam_` is the number. To tune it, try a tenth to thirty times `lam_`, as
        `PathSearchCV` does. With sparse features, fits are fastest if lam is at least 0.5.
    margin : float, default=0.0
        Softmax-margin: amount that each wrong label adds to the score of a labelling during training, see `Log`. It
        often improves the accuracy, but probabilities then need a temperature (`maxendnet.text.fit_temperature`). 0 is
        the likelihood.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L2CRF(lam=0.1).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    lam: float | Scale
    margin: float

    at_scale: ClassVar[ScaleFunctions] = {"lam": lambda squared_norm: 0.03 * squared_norm}

    def __init__(
        self,
        lam: float | Scale = "scale",
        margin: float = 0.0,
        structure: Structure | str = "chain",
        solver: Solver | None = None,
        tol: float = 1e-2,
        max_passes: int = 10_000,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Seed = None,
        verbose: int = 0,
        backend: Backend | None = None,
        callback: Hook | None = None,
    ) -> None:
        self._store(locals())

    def compose(self, constants: Mapping[str, Any] | None = None) -> Pieces:
        lam = positive("lam", (constants or self.constants())["lam"], UNPENALISED, or_scale=True)
        return Gaussian(1.0 / lam), Log(self.margin), 1.0


def laplace(problem: Problem) -> Laplace:
    """Return the Laplace prior of a problem."""
    assert isinstance(problem.prior, Laplace)
    return problem.prior


def positive(name: str, value: Any, hint: str, largest: float = np.inf, or_scale: bool = False) -> float:
    """Return a positive finite value as a float, or raise ``ValueError``.

    ``or_scale`` is whether the setting may also be "scale", for the message.
    """
    if not (is_number(value) and 0 < value < np.inf):
        kinds = "a positive finite number" + ' or "scale"' * or_scale
        raise ValueError(f"{name} must be {kinds}, got {value!r}; {hint}")
    if value > largest:
        raise ValueError(
            f"{name} is {value:g}, above the limit of {largest:g} up to which sums and squares are finite; {hint}"
        )
    return float(value)


def variational_penalty(mu: FloatArray, v: FloatArray, lam: float) -> float:
    """Return the penalty of Algorithm 1.

    It is ``sum_k [sqrt(lam (mu_k^2 + v_k)) - 1/2 log v_k]``.
    """
    return float(np.sum(np.sqrt(lam * (mu**2 + v)) - 0.5 * np.log(v)))

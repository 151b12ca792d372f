"""The estimators: a table of prior x loss, each row under the name people know."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxendnet.losses import Hinge, Log
from maxendnet.markov_network import MarkovNetwork
from maxendnet.posterior import VariationalPosterior
from maxendnet.priors import L1, Flat, Gaussian, L1Ball, Laplace
from maxendnet.solvers import LBFGS, OWLQN, BlockFrankWolfe, Continuation, Solver, Variational
from maxendnet.solvers.base import Result


def default_solver(prior: Any, loss: Any) -> Solver:
    """The solver we would take ourselves."""
    if loss.smooth:
        return OWLQN() if hasattr(prior, "rho") else LBFGS()
    return Continuation() if hasattr(prior, "rho") or hasattr(prior, "radius") else BlockFrankWolfe()


class MaxEnDNet(MarkovNetwork):
    """Maximum entropy discrimination Markov network with any prior and loss; the others are rows of this one.

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
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, prior=None, loss=None, C=1.0, structure="chain", bias=False, ends=False, solver=None, tol=1e-3,
                 max_passes=1000, n_jobs=None, warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self.prior = prior
        self.loss = loss
        self.C = C
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        prior = Gaussian() if self.prior is None else self.prior
        loss = Hinge() if self.loss is None else self.loss
        return prior, loss, self.C, default_solver(prior, loss)


class M3N(MarkovNetwork):
    """Max-margin Markov network (structured SVM): Gaussian prior and hinge loss.

    Minimises ``1/2 |mu|^2 + C sum_i hinge_i(mu)``.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    cost : ndarray of shape (n_labels, n_labels) or None, default=None
        ``cost[true, predicted]`` of a node; None is Hamming.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10).fit(X, y).predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, C=1.0, cost=None, structure="chain", bias=False, ends=False, solver=None, tol=1e-3,
                 max_passes=1000, n_jobs=None, warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self.C = C
        self.cost = cost
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        return Gaussian(), Hinge(self.cost), self.C, BlockFrankWolfe()


class LapMEDN(MarkovNetwork):
    """Laplace maximum entropy discrimination Markov network: sparse in effect, with a posterior for every weight.

    ``method="exact"`` minimises ``sum_k [s_k - 1 - log((s_k + 1)/2)] + C sum_i hinge_i(mu)`` with
    ``s_k = sqrt(1 + lam mu_k^2)``. ``method="variational"`` is Algorithm 1 of Zhu & Xing, which minimises
    ``sum_k [sqrt(lam (mu_k^2 + v_k)) - 1/2 log v_k] + C sum_i hinge_i(mu)`` over mu and variances v; at convergence its
    mean is that of the exact method with four times lam and twice C.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    lam : float, default=1.0
        The prior is ``sqrt(lam)/2 exp(-sqrt(lam) |w|)``, with variance 2/lam.
    method : {"exact", "variational"}, default="exact"
    iterations : int or None, default=None
        For the variational method: number of Gaussian problems solved, 3 in the paper; None is to convergence.
    cost : ndarray of shape (n_labels, n_labels) or None, default=None
        ``cost[true, predicted]`` of a node; None is Hamming.

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> model = LapMEDN(C=10, lam=4).fit(X, y)
    >>> model.predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    >>> model.posterior_.kind
    'exact'
    """

    def __init__(self, C=1.0, lam=1.0, method="exact", iterations=None, cost=None, structure="chain", bias=False,
                 ends=False, solver=None, tol=1e-3, max_passes=1000, n_jobs=None, warm_start=False, random_state=None,
                 verbose=0):  # fmt: skip
        self.C = C
        self.lam = lam
        self.method = method
        self.iterations = iterations
        self.cost = cost
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        if self.method == "exact":
            return Laplace(self.lam), Hinge(self.cost), self.C, BlockFrankWolfe()
        if self.method != "variational":
            raise ValueError(f"method must be 'exact' or 'variational', got {self.method!r}.")
        # the algorithm's fixed point is the exact model with four times lam and twice C
        inner = {} if self.solver is None else {"inner": self.solver}
        return Laplace(4 * self.lam), Hinge(self.cost), 2 * self.C, Variational(self.iterations, **inner)

    def _solver(self, default):
        # under the variational method, solver= is the one for its Gaussian problems
        return default if self.method == "variational" else super()._solver(default)

    def _report(self, problem, result: Result):
        if self.method != "variational":
            return super()._report(problem, result)
        lam, mu, v = self.lam, result.w, result.state.used_variance
        constant = len(mu) * (1 + 0.5 * np.log(lam))
        prior_cost = float(np.sum(np.sqrt(lam * (mu**2 + v)) - 0.5 * np.log(v)))
        primal = prior_cost + self.C * problem.losses(mu, gradient=False)[0]
        dual = 0.5 * result.dual + constant
        scale = max(abs(primal - constant), 1e-3 * 0.5 * abs(problem.at_zero), np.finfo(float).tiny)
        # the bound on KL(q || Laplace): entropy of the Gaussian, and the log of sqrt(lam)/2 exp(-sqrt(lam <w^2>))
        kl = prior_cost - len(mu) * (0.5 * np.log(2 * np.pi * np.e * lam) - np.log(2.0))
        return primal, dual, max(primal - dual, 0.0) / scale, VariationalPosterior(mu, v, kl)


class L1M3N(MarkovNetwork):
    """L1-regularised max-margin Markov network: hinge loss, and weights that are exactly zero.

    Minimises ``1/2 |mu|_1 + C sum_i hinge_i(mu)``, or with a ``radius`` ``C sum_i hinge_i(mu)`` subject to
    ``|mu|_1 <= radius``. A point estimate: there is no posterior.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    radius : float or None, default=None
        Size of the L1 ball; None is the penalty form.
    cost : ndarray of shape (n_labels, n_labels) or None, default=None
        ``cost[true, predicted]`` of a node; None is Hamming.

    Examples
    --------
    >>> from maxendnet import L1M3N
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1M3N(C=10).fit(X, y).predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, C=1.0, radius=None, cost=None, structure="chain", bias=False, ends=False, solver=None, tol=1e-3,
                 max_passes=1000, n_jobs=None, warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self.C = C
        self.radius = radius
        self.cost = cost
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        prior = L1(0.5) if self.radius is None else L1Ball(self.radius)
        return prior, Hinge(self.cost), self.C, Continuation()


class CRF(MarkovNetwork):
    """Conditional random field, maximum likelihood: minimises ``-sum_i log p(y_i | x_i; mu)``.

    Without a penalty there is no certificate: ``dual_`` and ``gap_`` are nan, and ``tol`` is on the norm of the
    gradient relative to that at zero. On separable data there is no minimiser; the weights then grow until ``tol`` or
    ``max_passes`` stops them.

    Examples
    --------
    >>> from maxendnet import CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> CRF().fit(X, y).predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, structure="chain", bias=False, ends=False, solver=None, tol=1e-3, max_passes=1000, n_jobs=None,
                 warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        return Flat(), Log(), 1.0, LBFGS()


class L1CRF(MarkovNetwork):
    """CRF with an L1 penalty: minimises ``-sum_i log p(y_i | x_i; mu) + lam |mu|_1``.

    Parameters
    ----------
    lam : float, default=1.0

    Examples
    --------
    >>> from maxendnet import L1CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L1CRF(lam=0.1).fit(X, y).predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, lam=1.0, structure="chain", bias=False, ends=False, solver=None, tol=1e-3, max_passes=1000,
                 n_jobs=None, warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self.lam = lam
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        return L1(_positive("lam", self.lam)), Log(), 1.0, OWLQN()


class L2CRF(MarkovNetwork):
    """CRF with a squared penalty: minimises ``-sum_i log p(y_i | x_i; mu) + lam/2 |mu|^2``.

    Parameters
    ----------
    lam : float, default=1.0

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> L2CRF(lam=0.1).fit(X, y).predict(X)
    [array(['a', 'b'], dtype='<U1'), array(['b'], dtype='<U1')]
    """

    def __init__(self, lam=1.0, structure="chain", bias=False, ends=False, solver=None, tol=1e-3, max_passes=1000,
                 n_jobs=None, warm_start=False, random_state=None, verbose=0):  # fmt: skip
        self.lam = lam
        self._store(structure, bias, ends, solver, tol, max_passes, n_jobs, warm_start, random_state, verbose)

    def _compose(self):
        return Gaussian(1.0 / _positive("lam", self.lam)), Log(), 1.0, LBFGS()


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}; for no penalty use CRF().")
    return float(value)

"""Posterior distributions over the weights, as results of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from scipy.special import erf

from maxendnet.priors.base import ExactPrior, FloatArray


class NoPosteriorError(ValueError, AttributeError):
    """Raised if a posterior is requested from a point estimate."""


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Exact posterior ``q(w) = p0(w) exp(eta . w - phi(eta))``.

    It is the posterior of a maximum entropy discrimination model.

    Parameters
    ----------
    prior : ExactPrior
        Prior ``p0`` with the cumulant phi.
    eta : ndarray of shape (n_weights,)
        Dual point, ``sum alpha * df``.
    kind : str, default="exact"

    Attributes
    ----------
    mean : ndarray of shape (n_weights,)
        ``phi'(eta)``, the weights used for prediction.
    variance : ndarray of shape (n_weights,)
        ``phi''(eta)``.
    kl : float
        ``KL(q || p0) = eta . phi'(eta) - phi(eta)``, the penalty of the mean.
    relevance : ndarray of shape (n_weights,)
        ``|P(w_k > 0) - P(w_k < 0)|``: 1 if the sign of a weight is certain, 0 if both signs are equally likely.
    scale : ndarray of shape (n_weights,)
        Posterior mean of the variance tau_k of each weight, for hierarchical priors.

    Examples
    --------
    >>> import numpy as np
    >>> from maxendnet.priors import Laplace
    >>> posterior = Posterior(Laplace(lam=4.0), np.array([0.0, 1.0]))
    >>> posterior
    Posterior(prior=Laplace(lam=4.0), n_weights=2, kind='exact', kl=0.379)
    >>> posterior.mean.round(3).tolist(), posterior.relevance.tolist()
    ([0.0, 0.667], [0.0, 0.5])
    >>> posterior.sample(1000, random_state=0).shape
    (1000, 2)
    """

    prior: ExactPrior
    eta: FloatArray
    kind: str = "exact"

    @cached_property
    def mean(self) -> FloatArray:
        return self.prior.mean(self.eta)

    @cached_property
    def variance(self) -> FloatArray:
        return self.prior.variance(self.eta)

    @cached_property
    def kl(self) -> float:
        cumulant = self.prior.cumulant(self.eta)
        if cumulant == np.inf:  # eta is outside the domain; avoids inf - inf
            return cumulant
        # at eta = 0, rounding may give -1e-17
        return float(np.maximum(np.sum(self.eta * self.mean) - cumulant, 0.0))

    @cached_property
    def relevance(self) -> FloatArray:
        return np.abs(self.prior.sign(self.eta))

    @property
    def scale(self) -> FloatArray:
        """Posterior mean of the variance tau_k of each weight.

        Only for hierarchical priors: Gaussians whose variance tau_k has a prior. For a Laplace prior, tau_k is
        exponential with prior mean 2/lam and posterior mean ``2 / (lam - eta_k^2)``.
        """
        if not hasattr(self.prior, "scale"):
            raise AttributeError(f"{type(self.prior).__name__} is not a hierarchical prior; its weights have no scale")
        scale: FloatArray = self.prior.scale(self.eta)
        return scale

    def sample(self, n: int = 1, random_state: Any = None) -> FloatArray:
        """Draw ``n`` weight vectors.

        Parameters
        ----------
        n : int, default=1
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n, n_weights)
        """
        return self.prior.sample(self.eta, n, np.random.default_rng(random_state))

    def __repr__(self) -> str:
        return f"Posterior(prior={self.prior!r}, n_weights={len(self.eta)}, kind={self.kind!r}, kl={self.kl:.4g})"


@dataclass(frozen=True, eq=False, repr=False)
class VariationalPosterior:
    """Gaussian approximation ``N(mean, diag(variance))`` of the posterior.

    It is the result of Algorithm 1 of the paper.

    Parameters
    ----------
    mean, variance : ndarray of shape (n_weights,)
    kl : float
        Upper bound of ``KL(q || p0)``, as computed by the algorithm.

    Attributes
    ----------
    relevance : ndarray of shape (n_weights,)
        ``|P(w_k > 0) - P(w_k < 0)|``, as for `Posterior`.
    kind : str
        "variational".

    Examples
    --------
    >>> import numpy as np
    >>> posterior = VariationalPosterior(mean=np.array([0.0, 2.0]), variance=np.array([1.0, 1.0]), kl=2.0)
    >>> posterior.relevance.round(4).tolist()
    [0.0, 0.9545]
    """

    mean: FloatArray
    variance: FloatArray
    kl: float
    kind = "variational"

    @cached_property
    def relevance(self) -> FloatArray:
        return np.abs(erf(self.mean / np.sqrt(2.0 * self.variance)))

    def sample(self, n: int = 1, random_state: Any = None) -> FloatArray:
        """Draw ``n`` weight vectors.

        Parameters
        ----------
        n : int, default=1
        random_state : int, Generator or None, default=None

        Returns
        -------
        ndarray of shape (n, n_weights)
        """
        rng = np.random.default_rng(random_state)
        return self.mean + np.sqrt(self.variance) * rng.standard_normal((n, len(self.mean)))

    def __repr__(self) -> str:
        return f"VariationalPosterior(n_weights={len(self.mean)}, kl={self.kl:.4g})"


@dataclass(frozen=True, eq=False, repr=False)
class PointEstimate:
    """Weights without a posterior distribution; only ``mean`` is available.

    Parameters
    ----------
    mean : ndarray of shape (n_weights,)

    Examples
    --------
    >>> import numpy as np
    >>> estimate = PointEstimate(np.array([0.5, 0.0]))
    >>> estimate.mean.tolist(), estimate.kind, hasattr(estimate, "variance")
    ([0.5, 0.0], 'point', False)
    """

    mean: FloatArray
    kind = "point"

    def __post_init__(self) -> None:
        mean = self.mean.view()  # read-only, so that predictions can cache values computed from the weights
        mean.flags.writeable = False
        object.__setattr__(self, "mean", mean)

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("variance", "sample", "kl", "relevance"):
            raise NoPosteriorError(
                f"this model is a point estimate and has no {name}; M3N, LapMEDN and MaxEnDNet (with a prior that has "
                "a cumulant) have a posterior over the weights."
            )
        raise AttributeError(f"PointEstimate has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"PointEstimate(n_weights={len(self.mean)})"

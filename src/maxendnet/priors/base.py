"""Prior protocols, optional capabilities, and shared numerical tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxendnet.utils.checks import is_number

FloatArray = NDArray[np.float64]

Method = TypeVar("Method", bound=Callable[..., Any])


def quiet(method: Method) -> Method:
    """Decorator that silences NumPy warnings.

    At the borders of a domain, infinite values (log 0, 1/0, overflow) are correct results.
    """

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return method(*args, **kwargs)

    return cast(Method, call)


@runtime_checkable
class Prior(Protocol):
    """Protocol of all priors: the penalty of a weight vector in the primal objective.

    Smooth priors also define ``gradient(mu)``, the derivative of the penalty. Non-smooth priors define ``prox(v,
    step)``, the minimiser of ``step * penalty(u) + |u - v|^2 / 2``. Methods that a prior does not support are absent.
    """

    def check(self) -> None: ...

    def penalty(self, mu: FloatArray) -> float: ...


@runtime_checkable
class ExactPrior(Prior, Protocol):
    """Protocol of priors with a cumulant, which therefore have an exact posterior.

    The cumulant of a prior ``p0`` is ``phi(eta) = log E_p0[exp(eta . w)]``.

    The posterior is ``q(w) = p0(w) exp(eta . w - phi(eta))``, where ``eta`` has one entry per weight.

    - ``cumulant(eta)``: phi summed over the weights, ``+inf`` outside the domain
    - ``mean(eta)``, ``variance(eta)``: phi' and phi'', the posterior mean and variance of each weight
    - ``penalty(mu)``: the conjugate of phi, ``+inf`` where no posterior has the mean ``mu``
    - ``gradient(mu)``: the ``eta`` with ``mean(eta) == mu``
    - ``sample(eta, n, rng)``: exact samples from the posterior, shape (n, n_weights)
    - ``sign(eta)``: ``P(w_k > 0) - P(w_k < 0)`` under the posterior
    - ``kernel_args()``: name and parameters of this prior in the compiled solvers; optional
    - ``quadratic_bound(mu)``: Gaussian prior whose penalty, up to a constant, touches that of this prior at ``mu`` and
      is nowhere below it; optional
    """

    def cumulant(self, eta: FloatArray) -> float: ...

    def mean(self, eta: FloatArray) -> FloatArray: ...

    def variance(self, eta: FloatArray) -> FloatArray: ...

    def gradient(self, mu: FloatArray) -> FloatArray: ...

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray: ...

    def sign(self, eta: FloatArray) -> FloatArray: ...


class ConjugatePair(NamedTuple):
    """Penalty that is not the conjugate of a cumulant. In the dual, its conjugate replaces the cumulant."""

    penalty: Callable[[FloatArray], float]
    cumulant: Callable[[FloatArray], float]
    mean: Callable[[FloatArray], FloatArray]


CAPABILITIES = {
    "exact": "cumulant",  # a cumulant: dual values, and an exact posterior
    "conjugate": "conjugate",  # dual values without a posterior
    "smooth": "gradient",  # a derivative of the penalty
    "spread": "variance",  # variances of the posterior
    "kernel": "kernel_args",  # supported by the compiled solvers
    "l1": "rho",  # the penalty rho |w|_1
    "elastic_net": "l2",  # the penalty l1 |w|_1 + l2/2 |w|^2
    "l1_ball": "radius",  # |w|_1 at most radius
    "quadratic_bound": "quadratic_bound",  # a Gaussian penalty that touches the penalty and is nowhere below it
    "scale_mixture": "next_variance",  # scale mixture of Gaussians, for `Variational`
    "variational_bound": "bound",  # bound on the KL divergence of a variational posterior
    "gram": "gram",  # inner products of directions, for quadratic programmes
    "fenchel_gap": "fenchel_gap",  # small gaps without cancellation
}
"""Optional capabilities of priors, with the method or parameter that indicates each."""


def offers(prior: object, *capabilities: str) -> bool:
    """Whether a prior offers at least one of the capabilities.

    Examples
    --------
    >>> from maxendnet.priors import L1, Laplace
    >>> offers(Laplace(), "exact"), offers(L1(), "exact"), offers(L1(), "l1", "l1_ball")
    (True, False, True)
    """
    return any(hasattr(prior, CAPABILITIES[capability]) for capability in capabilities)


def capable(prior: Prior, capability: str) -> Any:
    """Return the prior, or raise ``TypeError`` if it does not offer a capability.

    Examples
    --------
    >>> from maxendnet.priors import L1
    >>> capable(L1(rho=2.0), "l1").rho
    2.0
    >>> capable(L1(), "exact")
    Traceback (most recent call last):
        ...
    TypeError: L1 has no cumulant, so it does not offer 'exact'.
    """
    if not offers(prior, capability):
        raise TypeError(
            f"{type(prior).__name__} has no {CAPABILITIES[capability]}, so it does not offer {capability!r}."
        )
    return prior


def dual_form(prior: Prior) -> ExactPrior | ConjugatePair:
    """Return the penalty of a prior and its conjugate, for the dual.

    Examples
    --------
    >>> from maxendnet.priors import ElasticNet
    >>> dual_form(ElasticNet(l1=1.0, l2=0.5)).mean([2.0]).tolist()
    [2.0]
    """
    if offers(prior, "exact"):
        exact: ExactPrior = capable(prior, "exact")
        return exact
    convex = capable(prior, "conjugate")
    return ConjugatePair(convex.penalty, convex.conjugate, convex.conjugate_slope)


def total(terms: FloatArray, outside: NDArray[np.bool_]) -> float:
    """Return the sum of terms, or ``+inf`` if any weight is outside the domain."""
    return float("inf") if np.any(outside) else float(np.sum(terms))


def strictly_inside(values: FloatArray, border: float) -> FloatArray:
    """Clip values to the open interval (-border, border).

    Otherwise rounding to the border would make conjugates infinite.
    """
    last = np.nextafter(border, 0.0)
    return np.clip(values, -last, last)


def require_positive(owner: object, hint: str, **parameters: Any) -> None:
    """Raise ``ValueError`` unless all parameters are positive and finite.

    ``hint`` is appended to the message.
    """
    for name, value in parameters.items():
        if not (is_number(value) and 0.0 < value < np.inf):
            raise ValueError(f"{type(owner).__name__} needs {name} > 0 and finite, got {name}={value!r}; {hint}")


def require_posterior(owner: object, inside: NDArray[np.bool_], eta: FloatArray, domain: str) -> None:
    """Raise ``ValueError`` for the first entry of ``eta`` that is outside the domain of the posterior."""
    if not np.all(inside):
        k = int(np.argmin(inside))
        raise ValueError(
            f"{type(owner).__name__} has a posterior only for {domain}, got eta[{k}]={eta.flat[k]}; "
            "sample at a dual point with a finite cumulant."
        )


def increasing_root(
    newton: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    low: FloatArray,
    high: FloatArray,
    guess: FloatArray,
) -> FloatArray:
    """Find the roots of many increasing functions by bracketed Newton steps.

    Each function has one positive variable.

    Parameters
    ----------
    newton : callable
        Maps points of shape (n,) to ``(residual, proposal)``. The sign of the residual determines the new bracket. The
        proposal is the next point if it lies inside the bracket.
    low, high : ndarray of shape (n,)
        Brackets, ``0 < low <= root <= high``.
    guess : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n,)
        Accurate to a few units in the last place if the residual is.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([2.0, 9.0])
    >>> newton = lambda z: (z**2 - target, z - (z**2 - target) / (2 * z))
    >>> increasing_root(newton, np.ones(2), target, target).round(6).tolist()
    [1.414214, 3.0]
    """
    z = np.clip(guess, low, high)
    done = np.zeros(z.shape, dtype=bool)
    for sweep in range(200):
        residual, proposal = newton(z)
        low, high = np.where(residual < 0, z, low), np.where(residual > 0, z, high)
        # Bisect the logarithm, since brackets can span orders of magnitude. Also bisect in every eighth sweep in case
        # Newton converges slowly: 200 sweeps include 25 bisections. In practice 4 to 8 sweeps are enough.
        bisect = ~((proposal > low) & (proposal < high)) | (sweep % 8 == 7)
        new = np.where(bisect, np.sqrt(low) * np.sqrt(high), proposal)
        # A proposal equal to the current point is a root, even if rounding puts it outside the bracket.
        settled = (residual == 0) | (np.abs(proposal - z) <= 4e-16 * z)
        done |= settled | (np.abs(new - z) <= 4e-16 * z)
        z = np.where(done, z, new)
        if done.all():
            break
    return z

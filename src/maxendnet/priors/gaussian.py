"""Gaussian prior, the prior of M3N and of transfer learning."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import erf

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, quiet
from maxendnet.utils.scikit_learn import available_if


class Gaussian(Piece):
    """Gaussian prior ``N(m, S)``.

    The density is proportional to ``exp(-(w - m)' S^-1 (w - m) / 2)``.

    ``phi(eta) = m . eta + eta' S eta / 2``, and the posterior is ``N(m + S eta, S)``. The penalty of a mean ``mu`` is
    ``(mu - m)' S^-1 (mu - m) / 2``.

    Parameters
    ----------
    variance : float or ndarray of shape (n_weights,) or (n_weights, n_weights), default=1.0
        Variance of all weights, of each weight, or the full covariance ``S``. Stored as ``prior_variance``, because
        the method ``variance`` returns the posterior variance.
    mean : float or ndarray of shape (n_weights,), default=0.0
        Prior mean ``m`` of all weights, or of each weight. Stored as ``prior_mean``.

    Examples
    --------
    >>> prior = Gaussian(variance=2.0, mean=1.0)
    >>> prior.mean([0.0, 1.0]).tolist(), prior.penalty([1.0, 3.0])
    ([1.0, 3.0], 1.0)
    >>> prior.get_params()
    {'variance': 2.0, 'mean': 1.0}
    """

    quadratic = True  # the cumulant is quadratic
    _factor: FloatArray
    _factor_of: object = None

    def __init__(self, variance: float | FloatArray = 1.0, mean: float | FloatArray = 0.0) -> None:
        self.prior_variance = variance
        self.prior_mean = mean

    # scikit-learn accesses parameters as attributes of the same name, but `variance` and `mean` are methods here.
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name."""
        return {"variance": self.prior_variance, "mean": self.prior_mean}

    def set_params(self, **params: Any) -> Gaussian:
        """Set hyper-parameters by name."""
        for name, value in params.items():
            if name not in ("variance", "mean"):
                raise ValueError(f"Gaussian has the parameters variance and mean, got {name!r}; use one of the two.")
            setattr(self, f"prior_{name}", value)
        return self

    @property
    def ridge(self) -> float | None:
        """Factor of ``w_k^2 / 2`` if this is the whole penalty, else None.

        It is the whole penalty if the mean is 0 and all weights have the same variance.
        """
        if np.ndim(self.prior_variance) or np.any(self.prior_mean):
            return None
        return 1.0 / float(self.prior_variance)

    def check(self) -> None:
        v, m = (np.asarray(value) for value in self.get_params().values())
        for name, value, most in (("variance", v, 2), ("mean", m, 1)):
            if value.dtype.kind not in "iuf" or value.ndim > most or value.size == 0 or not np.all(np.isfinite(value)):
                raise ValueError(
                    f"Gaussian needs finite numbers as {name}, at most {most}-dimensional, got {name} of shape "
                    f"{value.shape} and dtype {value.dtype}; pass a number or an array with one entry per weight."
                )
        if v.ndim and m.ndim and v.shape[0] != m.shape[0]:
            raise ValueError(
                f"Gaussian got {v.shape[0]} variances and {m.shape[0]} means; pass one of each per weight."
            )
        if v.ndim < 2 and np.min(v) <= 0:
            raise ValueError(
                f"Gaussian needs variance > 0, got {np.min(v)}; a weight with variance 0 cannot be learned."
            )
        if v.ndim == 2:
            if v.shape[0] != v.shape[1] or not np.allclose(v, v.T, rtol=1e-8, atol=1e-12 * np.max(np.abs(v))):
                raise ValueError(f"Gaussian needs a symmetric covariance, got shape {v.shape}; pass (S + S.T) / 2.")
            try:
                self._factor_of = None  # the array may have been modified in place
                self._cholesky()
            except np.linalg.LinAlgError as error:
                raise ValueError(
                    f"Gaussian needs a positive definite covariance, and its Cholesky factorisation failed ({error}); "
                    "add a small number to the diagonal."
                ) from error

    @quiet
    def cumulant(self, eta: FloatArray) -> float:
        eta = self._vector(eta)
        if self.ridge is not None:  # avoids temporary vectors
            return 0.5 * float(self.prior_variance) * float(np.vdot(eta, eta))
        return float(np.sum(eta * (self.prior_mean + 0.5 * self._times(eta))))

    @quiet
    def mean(self, eta: FloatArray) -> FloatArray:
        return self.prior_mean + self._times(self._vector(eta))

    def variance(self, eta: FloatArray) -> FloatArray:
        v = np.asarray(self.prior_variance, dtype=float)
        return np.broadcast_to(v.diagonal() if v.ndim == 2 else v, self._vector(eta).shape).copy()

    @quiet
    def penalty(self, mu: FloatArray) -> float:
        mu = self._vector(mu)
        return self._half_square(mu if self.ridge is not None else mu - self.prior_mean)

    @quiet
    def fenchel_gap(self, mu: FloatArray, eta: FloatArray) -> float:
        """Return ``penalty(mu) + cumulant(eta) - mu . eta`` without cancellation."""
        return self._half_square(self._vector(mu) - self.mean(eta))

    @quiet
    def gradient(self, mu: FloatArray) -> FloatArray:
        away = self._vector(mu) - self.prior_mean
        if self._full:
            return cho_solve((self._cholesky(), True), away, check_finite=False)
        return away / self.prior_variance

    def sample(self, eta: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
        mean = self.mean(eta)
        noise = rng.standard_normal((n, *mean.shape))
        return mean + (noise @ self._cholesky().T if self._full else noise * np.sqrt(self.prior_variance))

    @quiet
    def sign(self, eta: FloatArray) -> FloatArray:
        return erf(self.mean(eta) / np.sqrt(2.0 * self.variance(eta)))

    @available_if(lambda self: not self._full)
    def kernel_args(self) -> tuple[str, tuple[float | FloatArray, float | FloatArray]]:
        """Return variance and mean, each a number or an array.

        The method is absent for a full covariance, because that couples the weights.
        """
        v, m = (np.ascontiguousarray(x, float) if np.ndim(x) else float(x) for x in self.get_params().values())
        return "gaussian", (v, m)

    @available_if(lambda self: not self._full)
    def quadratic_bound(self, mu: FloatArray) -> Gaussian:
        """Return this prior: its penalty is quadratic."""
        return self

    def gram(self, rows: Any, columns: Any) -> FloatArray:
        """Return ``rows S columns'`` for sparse rows and columns."""
        times = rows @ self.prior_variance if self._full else rows.multiply(self.prior_variance)
        product = times @ columns.T
        return product if isinstance(product, np.ndarray) else product.toarray()

    @property
    def _full(self) -> bool:
        return np.ndim(self.prior_variance) == 2

    def _times(self, eta: FloatArray) -> FloatArray:
        return self.prior_variance @ eta if self._full else self.prior_variance * eta

    def _half_square(self, away: FloatArray) -> float:
        """``away' S^-1 away / 2``."""
        if self._full:
            return 0.5 * float(np.sum(solve_triangular(self._cholesky(), away, lower=True, check_finite=False) ** 2))
        if np.ndim(self.prior_variance) == 0:  # avoids temporary vectors
            return 0.5 * float(np.vdot(away, away)) / float(self.prior_variance)
        return 0.5 * float(np.sum(away * (away / self.prior_variance)))

    def _cholesky(self) -> FloatArray:
        """Return the lower Cholesky factor of the covariance, cached by array."""
        if self._factor_of is not self.prior_variance:
            factor, _ = cho_factor(np.asarray(self.prior_variance, dtype=float), lower=True)
            self._factor, self._factor_of = np.tril(factor), self.prior_variance
        return self._factor

    def _vector(self, values: FloatArray) -> FloatArray:
        values = np.asarray(values, dtype=float)
        for name, value in self.get_params().items():
            if np.ndim(value) and values.shape != np.shape(value)[:1]:
                raise ValueError(
                    f"Gaussian has {name} for {np.shape(value)[0]} weights, got a vector of shape {values.shape}; "
                    f"pass one {name} per weight, or a single number."
                )
        return values

"""Elastic net: sum of an L1 and a squared penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxendnet.piece import Piece
from maxendnet.priors.base import FloatArray, require_positive


@dataclass(eq=False, repr=False)
class ElasticNet(Piece):
    """Elastic net penalty ``l1 |w|_1 + l2/2 |w|^2``.

    It sets unimportant weights to zero and shrinks the others.

    Its conjugate is ``sum_k max(|eta_k| - l1, 0)^2 / (2 l2)``. The derivative of the conjugate, a soft threshold, gives
    the weights. The result is a point estimate, without a posterior.

    CRFsuite's ``c1`` and ``c2`` are ``l1=c1`` and ``l2=2 * c2``.

    Parameters
    ----------
    l1 : float, default=0.1
        Strength of the L1 penalty, the factor of ``|w_k|``.
    l2 : float, default=0.2
        Strength of the squared penalty, the factor of ``w_k^2 / 2``.

    Examples
    --------
    >>> from maxendnet import ElasticNet, Log, MaxEnDNet
    >>> prior = ElasticNet(l1=0.5, l2=2.0)
    >>> prior.penalty([1.0, 0.0]), prior.conjugate_slope([-2.5, 0.3]).tolist()
    (1.5, [-1.0, 0.0])
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> MaxEnDNet(prior=ElasticNet(l1=0.01, l2=0.1), loss=Log()).fit(X, y).predict(X)
    [['a', 'b'], ['b']]
    """

    l1: float = 0.1
    l2: float = 0.2

    def check(self) -> None:
        require_positive(
            self, "use Gaussian(1 / l2) instead of l1=0, and L1(l1) instead of l2=0.", l1=self.l1, l2=self.l2
        )

    def penalty(self, mu: FloatArray) -> float:
        mu = np.asarray(mu, dtype=float)
        return float(self.l1 * np.abs(mu).sum() + 0.5 * self.l2 * np.sum(mu**2))

    def prox(self, v: FloatArray, step: float | FloatArray) -> FloatArray:
        v = np.asarray(v, dtype=float)
        return (v - np.clip(v, -self.l1 * step, self.l1 * step)) / (1.0 + self.l2 * step)

    def conjugate(self, eta: FloatArray) -> float:
        """Conjugate of the penalty. It is not the cumulant of a density."""
        return float(np.sum(np.maximum(np.abs(eta) - self.l1, 0.0) ** 2) / (2 * self.l2))

    def conjugate_slope(self, eta: FloatArray) -> FloatArray:
        """Return the weights that correspond to a dual point: the derivative of `conjugate`."""
        eta = np.asarray(eta, dtype=float)
        return (eta - np.clip(eta, -self.l1, self.l1)) / self.l2

    def kernel_args(self) -> tuple[str, tuple[Any, ...]]:
        return "proximal_l1", (self.l1, 1.0 / self.l2, 0.0)

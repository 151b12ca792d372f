"""Integrals of a density, as an independent reference for priors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest


class Tilted(NamedTuple):
    cumulant: float
    mean: float
    variance: float
    sign: float


@pytest.fixture
def tilted():
    """``tilted(density, eta, limit)``: what ``density(w) exp(eta w)`` on [-limit, limit] integrates to.

    Composite Gauss-Legendre in log|w|, from limit down to limit * exp(-depth): sees power-law singularities at 0.
    """

    def integrate(density, eta, limit, depth=60.0):
        nodes, weights = np.polynomial.legendre.leggauss(20)
        edges = np.log(limit) + np.linspace(-depth, 0.0, 1 + int(4 * depth))
        half = np.diff(edges)[:, None] / 2
        w = np.exp(edges[:-1, None] + half * (1 + nodes)).ravel()
        dw = w * (half * weights).ravel()
        right, left = density(w) * np.exp(eta * w) * dw, density(-w) * np.exp(-eta * w) * dw
        mass = np.sum(right) + np.sum(left)
        mean = np.sum(w * right - w * left) / mass
        variance = np.sum((w - mean) ** 2 * right + (w + mean) ** 2 * left) / mass
        return Tilted(np.log(mass), mean, variance, (np.sum(right) - np.sum(left)) / mass)

    return integrate

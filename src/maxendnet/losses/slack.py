"""Slack functions U(h) of the hinge h of an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray

Function = Callable[["FloatArray", float], "FloatArray"]


class Slack(NamedTuple):
    """Slack function ``U(h)``, its derivative and its conjugate.

    ``h >= 0`` is a hinge. All three depend on C. The conjugate is ``max_h [a h - U(h)]``.
    """

    value: Function
    slope: Function
    conjugate: Function
    code: int
    """Number of the slack function in the kernels."""


class SlackDerivative(NamedTuple):
    """Factor ``U'(h) / C`` of the subgradient of an example with hinge h."""

    slack: str
    C: float

    @property
    def code(self) -> int:
        return SLACKS[self.slack].code

    def __call__(self, values: FloatArray) -> FloatArray:
        return SLACKS[self.slack].slope(values, self.C) / self.C


def _kl(h: FloatArray, C: float) -> FloatArray:
    x = np.maximum(C * h - 1.0, 0.0)
    return x - np.log1p(x)


def _kl_conjugate(a: FloatArray, C: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return -np.log1p(-np.minimum(a / C, 1.0))


SLACKS = {
    "linear": Slack(
        value=lambda h, C: C * h,
        slope=lambda h, C: np.full_like(h, C),
        conjugate=lambda a, C: np.where(a <= C, 0.0, np.inf),
        code=0,
    ),
    "squared": Slack(
        value=lambda h, C: 0.5 * C * h**2,
        slope=lambda h, C: C * h,
        conjugate=lambda a, C: a**2 / (2.0 * C),
        code=1,
    ),
    # with an exponential prior of rate C on the slack, a mean slack above 1/C costs its KL divergence from the prior
    "kl": Slack(
        value=_kl,
        slope=lambda h, C: C - 1.0 / np.maximum(h, 1.0 / C),
        conjugate=_kl_conjugate,
        code=2,
    ),
}

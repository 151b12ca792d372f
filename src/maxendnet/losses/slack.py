"""What an example pays for its hinge h: the function U(h), as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray

Function = Callable[["FloatArray", float], "FloatArray"]


class Slack(NamedTuple):
    """``U(h)`` for a hinge ``h >= 0`` under a given C, its derivative, and its conjugate ``max_h [a h - U(h)]``."""

    value: Function
    slope: Function
    conjugate: Function
    code: int
    """The name under which kernels know it."""


class SlackDerivative(NamedTuple):
    """``U'(h) / C``: the factor of the subgradient of an example with hinge h."""

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
    # the margin has the prior c exp(-c (1 - margin)): a slack beyond the prior's mean 1/C costs its divergence
    "kl": Slack(
        value=_kl,
        slope=lambda h, C: C - 1.0 / np.maximum(h, 1.0 / C),
        conjugate=_kl_conjugate,
        code=2,
    ),
}

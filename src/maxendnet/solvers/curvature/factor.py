"""Factorised matrix, for solving systems of equations."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from maxendnet.problem import FloatArray, Problem
from maxendnet.utils.state_fields import Values, require

RIDGE = 1e-5
"""Added to the unit diagonal of the scaled matrix before it is factorised in float32."""


class Factor(NamedTuple):
    """Factorised matrix ``A = D L L' D``, with D diagonal and L lower triangular.

    Examples
    --------
    >>> factor = Factor.of(np.array([[3.0, 0.0], [1.0, 1.0]], dtype=np.float32), added=np.ones(2))  # [[4, 1], [1, 2]]
    >>> factor.inverse_times(np.array([7.0, 0.0])).round(3)
    array([ 2., -1.])
    """

    lower: Annotated[NDArray[np.float32], Values("covered covered")]
    size: Annotated[FloatArray, Values("covered", low=5e-324)]
    """The diagonal of D."""

    @classmethod
    def of(cls, lower: NDArray[np.float32], added: FloatArray) -> Factor | None:
        """Factorise a matrix with ``added`` on its diagonal, or return None if it is not positive definite.

        The matrix is given by its lower triangle, which is overwritten.
        """
        diagonal = lower.diagonal() + added
        if not (np.isfinite(diagonal).all() and diagonal.min(initial=1.0) > 1e-30):
            return None
        size = np.sqrt(diagonal)
        inverse = (1.0 / size).astype(np.float32)
        lower *= inverse
        lower *= inverse[:, None]
        np.fill_diagonal(lower, 1.0 + RIDGE)
        # LAPACK uses column-major order, in which the lower triangle of a row-major matrix is the upper one
        upper, failed = lapack.spotrf(lower.T, lower=False, clean=False, overwrite_a=True)
        return None if failed else cls(upper.T, size)

    def inverse_times(self, v: FloatArray) -> FloatArray:
        """Return ``A^-1 v``."""
        half = blas.strsv(self.lower.T, (v / self.size).astype(np.float32), trans=1)
        return blas.strsv(self.lower.T, half).astype(np.float64) / self.size

    def check(self, problem: Problem) -> None:
        """Check that the matrix is regular."""
        require(len(self.size) <= problem.n_weights, "the factorised Hessian covers more weights than there are")
        require(self.lower.diagonal().all(), "the factorised Hessian is singular")

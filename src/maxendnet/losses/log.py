"""The log loss of conditional random fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from maxendnet import _kernels
from maxendnet.piece import Piece

if TYPE_CHECKING:
    from maxendnet.problem import FloatArray, Problem


@dataclass(eq=False, repr=False)
class Log(Piece):
    """``log_i(w) = -log p(y_i | x_i; w)``, with ``p(y | x; w)`` proportional to ``exp(w . f(x, y))``.

    Examples
    --------
    >>> Log().smooth
    True
    """

    smooth = True

    def evaluate(self, problem: Problem, w: FloatArray, gradient: bool, single: bool) -> tuple[FloatArray, FloatArray]:
        """Log loss of every example and, if asked, the gradient of their weighted sum."""
        structure, batch = problem.structure, problem.batch
        dtype = np.float32 if single and structure.mode(w, batch, np.float32) == 0 else np.float64
        mode = structure.mode(w, batch, dtype)
        weights, values = structure.for_search(w, dtype), np.zeros(problem.n_examples)
        blocks, groups = problem.blocks

        def part(first: int, last: int, buffer: FloatArray | None) -> None:
            _kernels.log_oracle(
                batch, structure.shape, groups, blocks.examples, weights, mode, first, last, values, buffer
            )

        return values, problem.sum_over(blocks.shards, part, gradient)

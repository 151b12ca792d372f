"""Block updates of the dual, one example at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.structures.weights.layout import FloatArray

KernelPrior = tuple[str, float, float, FloatArray | None, FloatArray | None]
"""A prior for the kernels: kind, two scalars, and arrays of variances and means if weights differ."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Block updates for `BlockFrankWolfe`.

    The block of an example is the set of its labellings with positive dual weight. Weights, eta and costs are in the
    layouts of the kernels, see `KernelStructure`.
    """

    structure: Any
    """A `KernelStructure`."""

    @property
    def size(self) -> int:
        """Length of eta in the layout of the kernels."""
        return int(self.structure.slope_size)

    def pad(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Weights in the layout of eta."""
        values: NDArray[Any] = self.structure.pad(w, dtype)
        return values

    def unpad(self, padded: FloatArray) -> FloatArray:
        """Remove the padding of `pad`."""
        values: FloatArray = self.structure.unpad(padded)
        return values

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray[Any]:
        """Weights as the recursions read them; `update` changes them in place."""
        values: NDArray[Any] = self.structure.for_search(w, dtype)
        return values

    def update(
        self, prior: KernelPrior, C: float, weights: NDArray[Any], eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        """Update the blocks ``picks``, and all arrays, in place.

        Returns the change of the dual costs.
        """
        s = self.structure
        rows, rows64 = s.pad_rows(cost, weights.dtype.type), s.pad_rows(cost)
        recursion = s.recursion_of(weights)
        return _kernels.block_frank_wolfe(s.batch, recursion, *prior, C, eta, rows, rows64, picks, inner, sets, gaps)

    def gap_evaluation(
        self, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        """Return a function that computes hinges and gaps of examples [first, last)."""
        s = self.structure
        recursion, rows = s.recursion(w), s.pad_rows(cost)
        return lambda a, b: _kernels.block_gaps(s.batch, recursion, rows, C, a, b, sets, hinges, gaps)

    def add_features(self, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        """Add the contribution of the active sets of examples [first, last) to eta."""
        _kernels.active_features(self.structure.batch, self.structure.without_weights, sets, first, last, eta)

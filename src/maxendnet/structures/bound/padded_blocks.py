"""Steps from example to example on the dual, for structures whose kernels read padded weights: forests and choices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.data.batch import Batch
from maxendnet.structures.weights import padding
from maxendnet.structures.weights.layout import FloatArray, Layout

KernelPrior = tuple[str, float, float, FloatArray | None, FloatArray | None]
"""A prior as the kernels take it: kind, two scalars, and arrays of variances and means where weights differ."""


@dataclass(frozen=True, eq=False)
class PaddedBlocks:
    """What `BlockFrankWolfe` asks of a structure. The block of an example are its labellings with dual weight.

    ``pad`` and ``unpad`` translate between weight vectors and the layout in which the kernels keep eta; ``size`` is its
    length.
    """

    layout: Layout
    batch: Batch
    shape: _kernels.Shape
    forbidden: NDArray[np.uint8] | None = None

    @property
    def size(self) -> int:
        return padding.padded_size(self.layout)

    def pad(self, w: FloatArray) -> FloatArray:
        return padding.pad(self.layout, w)

    def unpad(self, padded: FloatArray) -> FloatArray:
        return padding.unpad(self.layout, padded)

    def for_search(self, w: FloatArray, dtype: type = np.float64) -> NDArray:
        return padding.for_search(self.layout, w, dtype, self.forbidden)

    def update(
        self, prior: KernelPrior, C: float, weights: NDArray, eta: FloatArray, cost: FloatArray,
        picks: NDArray[np.int64], inner: int, sets: _kernels.ActiveSets, gaps: FloatArray,
    ) -> float:  # fmt: skip
        """A step for every picked example; ``weights``, ``eta``, ``sets`` and ``gaps`` change. The change of costs."""
        recursion, wide = _kernels.forest(self.shape, weights), padding.pad_rows(self.layout, cost)
        return _kernels.block_frank_wolfe(
            self.batch, recursion, *prior, C, eta, wide.astype(weights.dtype), wide, picks, inner, sets, gaps
        )

    def look(
        self, w: FloatArray, cost: FloatArray, C: float, sets: _kernels.ActiveSets, hinges: FloatArray,
        gaps: FloatArray,
    ) -> Callable[[int, int], None]:  # fmt: skip
        """What fills in hinges and gaps of examples from the first to before the last, at the weights ``w``."""
        recursion = _kernels.forest(self.shape, self.for_search(w))
        wide = padding.pad_rows(self.layout, cost)
        return lambda a, b: _kernels.block_gaps(self.batch, recursion, wide, C, a, b, sets, hinges, gaps)

    def add_features(self, sets: _kernels.ActiveSets, first: int, last: int, eta: FloatArray) -> None:
        """Add up eta of active sets, padded."""
        _kernels.active_features(self.batch, _kernels.forest(self.shape, None), sets, first, last, eta)

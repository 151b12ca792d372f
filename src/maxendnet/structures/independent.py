"""Isolated nodes: the label of each depends on its own features alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.structures.base import Structure
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.rules import PairMasks
from maxendnet.structures.weights import options
from maxendnet.structures.weights.layout import FloatArray, Layout


@dataclass(eq=False, repr=False)
class Independent(Structure):
    """Isolated nodes: the label of each depends on its own features alone. Edges of examples are not used.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node of an example.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or those that occur in the examples of the fit. With
        many features and labels seen pairs are few, and take less memory and time; ``coef_`` is sparse then.

    Examples
    --------
    >>> from maxendnet import M3N, Independent
    >>> M3N(C=10, structure=Independent()).fit([[0.0], [1.0]], ["a", "b"]).predict([[1.0]])
    array(['b'], dtype='<U1')
    """

    bias: bool = False
    ends: bool = False
    pairs: str = "all"

    def check(self) -> None:
        options.check_options(self, "bias", "ends")

    def layout(self, examples: Examples, classes: NDArray) -> Layout:
        """The layout of weights for labelled examples."""
        return options.layout_of(self, examples, classes, "independent")

    def bind(self, examples: Examples, classes: NDArray, layout: Layout | None = None) -> BoundForest:
        """The nodes of these examples."""
        layout = self.layout(examples, classes) if layout is None else layout
        return BoundForest(layout, options.batch_of(self, examples, classes, layout, "independent"))

    def pair_masks(self, classes: NDArray, rules: Any = None) -> PairMasks | None:
        """Masks that permit every label everywhere."""
        return PairMasks.everything(len(classes)) if rules is None else None

    def layout_error(self, layout: Layout, n_features_in: int, classes: NDArray) -> str:
        """What of a layout read from a file does not fit these options; empty if all does."""
        return options.check_layout(self, layout, n_features_in, joined=False)

    def named_weights(self, layout: Layout, w: FloatArray) -> dict[str, FloatArray]:
        """The parts of a weight vector by name."""
        return options.named_weights(self, layout, w)

"""Independent nodes: each label depends only on the features of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.rules import PairMasks
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.linear import LinearStructure


@dataclass(eq=False, repr=False)
class Independent(LinearStructure):
    """Independent nodes: each label depends only on the features of its node.

    Edges of examples are ignored.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node of an example.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or only those that occur in the training examples.
        With many features and labels, ``"seen"`` takes less memory and time, and ``coef_`` is sparse.

    Examples
    --------
    >>> from maxendnet import M3N, Independent
    >>> M3N(C=10, structure=Independent()).fit([[0.0], [1.0]], ["a", "b"]).predict([[1.0]])
    array(['b'], dtype='<U1')
    """

    bias: bool = False
    ends: bool = False
    pairs: str = "all"

    def bind(self, examples: Examples, classes: NDArray[Any], layout: Layout | None = None) -> BoundForest:
        """Return the structure bound to these examples."""
        layout = self.layout(examples, classes) if layout is None else layout
        return BoundForest(layout, self.batch_of(examples, classes, layout))

    def pair_masks(self, classes: NDArray[Any], rules: Any = None) -> PairMasks | None:
        """Return masks that allow every label everywhere, or None if there are ``rules``."""
        return PairMasks.everything(len(classes)) if rules is None else None

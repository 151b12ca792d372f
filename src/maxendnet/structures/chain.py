"""Chains: every node is joined to the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.piece import Piece
from maxendnet.structures import options
from maxendnet.structures.forest import BoundForest
from maxendnet.structures.hierarchy import BoundHierarchy
from maxendnet.structures.joined import bind_joined
from maxendnet.structures.layout import FloatArray, Layout


@dataclass(eq=False, repr=False)
class Chain(Piece):
    """Sequences: every node is joined to the one before it.

    The score of a labelling is the sum over nodes of ``x_t . coef[:, y_t]`` and over neighbours of
    ``transitions[y_t, y_t+1]``. Inference is exact.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node.
    forbidden : list of (label, label) or None, default=None
        Labels that a node and the next one cannot have together, neither in learning nor in prediction.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or those that occur in the examples of the fit. With
        many features and labels seen pairs are few, and take less memory and time; ``coef_`` is sparse then.

    Examples
    --------
    >>> from maxendnet import M3N, Chain
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, structure=Chain(bias=True)).fit(X, y).intercept_.shape
    (2,)
    """

    bias: bool = False
    ends: bool = False
    forbidden: Any = None
    pairs: str = "all"

    def check(self) -> None:
        options.check_options(self, "bias", "ends")

    def layout(self, examples: Examples, classes: NDArray) -> Layout:
        """The layout of weights for labelled examples."""
        return options.layout_of(self, examples, classes, "chain")

    def bind(self, examples: Examples, classes: NDArray, layout: Layout | None = None) -> BoundForest | BoundHierarchy:
        """The chain with these examples."""
        if examples.edges is not None:
            raise ValueError(
                "Chain() joins every node to the one before it, and X comes with edges of its own; choose "
                "structure=Tree(), or leave the edges out."
            )
        layout = self.layout(examples, classes) if layout is None else layout
        return bind_joined(self, examples, classes, layout, "chain")

    def misfit(self, layout: Layout, n_features_in: int, classes: NDArray) -> str:
        """What of a layout read from a file does not fit these options; empty if all does."""
        return options.check_layout(self, layout, n_features_in, joined=True) or options.check_pairs(self, classes)

    def named_weights(self, layout: Layout, w: FloatArray) -> dict[str, FloatArray]:
        """The parts of a weight vector by name."""
        return options.named_weights(self, layout, w)

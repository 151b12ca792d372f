"""Trees and forests, with edges from the examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.forbidden_pairs import check_directions, check_pairs, check_possible, pair_codes
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.hierarchy import BoundHierarchy
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.linear import LinearStructure


@dataclass(eq=False, repr=False)
class Tree(LinearStructure):
    """Trees and forests, with edges from the examples.

    The score of a labelling is the sum over nodes of ``x_t . coef[:, y_t]`` and over edges (s, t) of
    ``transitions[y_s, y_t]``, with one matrix per edge type. Inference is exact.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at roots and at leaves.
    siblings : bool, default=False
        Add weights for the labels of neighbouring siblings, given the label of their parent. Siblings are ordered by
        node number. Edges must be (parent, child).
    forbidden : list of (label, label) or None, default=None
        Pairs (label of the parent, label of the child) that cannot occur, in training and in prediction.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or only those that occur in the training examples.
        With many features and labels, ``"seen"`` takes less memory and time, and ``coef_`` is sparse.

    Examples
    --------
    >>> from maxendnet import M3N, Tree
    >>> X, y = [([[0.0], [1.0], [1.0]], [(0, 1), (0, 2)])], [["a", "b", "b"]]
    >>> M3N(C=10, structure=Tree(siblings=True)).fit(X, y).predict(X)
    [['a', 'b', 'b']]
    """

    bias: bool = False
    ends: bool = False
    siblings: bool = False
    forbidden: Any = None
    pairs: str = "all"
    joined = "tree"

    def bind(
        self, examples: Examples, classes: NDArray[Any], layout: Layout | None = None
    ) -> BoundForest | BoundHierarchy:
        """Return a `BoundHierarchy` of these examples if siblings have weights, else a `BoundForest`."""
        layout = self.layout(examples, classes) if layout is None else layout
        forbidden = pair_codes(self.forbidden, classes)
        batch = self.batch_of(examples, classes, layout)
        if not (layout.siblings or forbidden):
            return BoundForest(layout, batch)
        hierarchy = BoundHierarchy(layout, batch, forbidden)
        check_directions(batch, examples)
        if len(batch.y) and not hierarchy.label_sets.all_known:
            check_possible(hierarchy.within_truth.impossible(), examples)
        elif len(batch.y):
            check_pairs(batch, examples, classes, hierarchy.forbidden_matrix)
        else:
            check_possible(hierarchy.impossible(), examples)
        return hierarchy if layout.siblings else BoundForest(layout, batch, hierarchy.forbidden_matrix)

    def layout_error(self, layout: Layout, n_features_in: int, classes: NDArray[Any]) -> str:
        """Error message if the layout does not match the structure, else an empty string."""
        try:
            pair_codes(self.forbidden, classes)
        except ValueError as error:
            return str(error)
        return super().layout_error(layout, n_features_in, classes)

"""Selection of at most one node per example: all other nodes have the rest label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from maxendnet.data.choices import check_one_choice, check_rest, rest_of
from maxendnet.data.examples import Examples
from maxendnet.structures.bound.choice import BoundChoice
from maxendnet.structures.weights.layout import Layout
from maxendnet.structures.weights.linear import LinearStructure


@dataclass(eq=False, repr=False)
class Choice(LinearStructure):
    """Selection of at most one node per example; the others have the label ``rest``.

    Nodes compete with each other and with selecting no node, as in multinomial choice models. Examples are the leaf of
    a web page that contains the price, the sentence of a text that answers a question, and the cause among several
    events. There are no edges, so the score of a labelling is the sum over its nodes.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node of an example.
    rest : label or None, default=None
        Label of the nodes that are not selected. None means the most frequent label that is allowed at every node
        and leaves at most one selected node per example.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or only those that occur in the training examples.
        With many features and labels, ``"seen"`` takes less memory and time, and ``coef_`` is sparse.

    Examples
    --------
    >>> from maxendnet import M3N, Choice
    >>> X, y = [[[1.0], [3.0], [2.0]], [[4.0], [0.0]]], [["-", "best", "-"], ["best", "-"]]
    >>> M3N(C=10, structure=Choice(rest="-")).fit(X, y).predict([[[2.0], [1.0], [5.0]]])
    [['-', '-', 'best']]
    """

    bias: bool = False
    ends: bool = False
    rest: Any = None
    pairs: str = "all"

    def layout(self, examples: Examples, classes: NDArray[Any]) -> Layout:
        """Layout of the weights for labelled examples, including the number of the rest label."""
        layout = super().layout(examples, classes)
        batch = self.batch_of(examples, classes, layout)
        return replace(layout, rest=rest_of(batch, examples, classes, self.rest))

    def bind(self, examples: Examples, classes: NDArray[Any], layout: Layout | None = None) -> BoundChoice:
        """Return the structure bound to these examples."""
        layout = self.layout(examples, classes) if layout is None else layout
        batch = self.batch_of(examples, classes, layout)
        check_rest(batch, examples, layout.rest)
        if len(batch.y):
            check_one_choice(batch, examples, classes, layout.rest)
        return BoundChoice(layout, batch, layout.rest)

    def layout_error(self, layout: Layout, n_features_in: int, classes: NDArray[Any]) -> str:
        """Error message if the layout does not match the structure, else an empty string."""
        if not 0 <= layout.rest < layout.n_labels:
            return f"the rest is label number {layout.rest}, but the model has {layout.n_labels} labels"
        if self.rest is not None and classes.tolist()[layout.rest] != self.rest:
            return "the option rest differs from the rest label of the weights"
        return super().layout_error(layout, n_features_in, classes)

"""Binding of the pieces whose nodes are joined by edges, chains and trees."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.forbidden_pairs import check_directions, check_pairs, check_possible, pair_codes
from maxendnet.structures.forest import BoundForest
from maxendnet.structures.hierarchy import BoundHierarchy
from maxendnet.structures.layout import Layout
from maxendnet.structures.options import batch_of


def bind_joined(
    piece: Any, examples: Examples, classes: NDArray, layout: Layout, joined: str
) -> BoundForest | BoundHierarchy:
    """A forest; where siblings are scored together or pairs are forbidden, the recursion for these."""
    forbidden = pair_codes(piece.forbidden, classes)
    batch = batch_of(piece, examples, classes, layout, joined)
    if not (layout.siblings or forbidden):
        return BoundForest(layout, batch)
    bound = BoundHierarchy(layout, batch, forbidden)
    check_directions(batch, examples)
    if len(batch.y) and not bound.kinds.all_known:
        check_possible(bound.within_truth.impossible(), examples)
    elif len(batch.y):
        check_pairs(batch, examples, classes, bound.forbidden_matrix)
    else:
        check_possible(bound.impossible(), examples)
    return bound

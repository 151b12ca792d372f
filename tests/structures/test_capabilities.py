"""Bound structures implement exactly the capabilities that they declare."""

from __future__ import annotations

import numpy as np
import pytest

from maxendnet import Chain, Choice, Examples, Graph, Independent, Tree
from maxendnet.rules import at_most_once

PLAIN = Examples.build([np.eye(2), np.eye(2)], [["a", "b"], ["b", "a"]])
JOINED = Examples.build([np.eye(2)] * 2, [["a", "b"], ["b", "a"]], edges=[[(0, 1)]] * 2)
BOUND = [
    (Chain(), PLAIN), (Chain(order=2), PLAIN), (Chain(rules=at_most_once("a")), PLAIN), (Chain(hidden=2), PLAIN),
    (Independent(), PLAIN), (Choice(rest="b"), PLAIN), (Tree(), JOINED), (Tree(siblings=True), JOINED),
    (Graph(), JOINED), (Graph(inference="relaxed"), JOINED),
]  # fmt: skip
NEEDED = {
    "blocks": ["blocks"],
    "edge_costs": ["edge_labels", "edge_offsets"],
    "unknown_labels": ["within_truth", "completed", "with_pseudo_labels"],
    "proofs": ["prove", "search"],
    "max_marginals": ["max_marginals"],
    "top": ["top"],
    "sample": ["sample"],
    "linear_nodes": ["batch"],
}


@pytest.mark.parametrize(
    ("piece", "examples"), BOUND, ids=lambda value: repr(value) if value not in (PLAIN, JOINED) else ""
)
def test_a_structure_has_what_it_declares_and_declares_what_it_has(piece, examples):
    bound = piece.bind(examples, np.array(["a", "b"]))
    for field, methods in NEEDED.items():
        has = all(hasattr(bound, method) for method in methods)
        assert getattr(bound.capabilities, field) == has, field

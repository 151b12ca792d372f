"""Hypothesis strategies: small batches of chains and forests with everything a batch can carry.

Hypothesis draws the shape of a case (sizes, edges, which options are on) and a seed; the numbers themselves come from
the seed, so that a failing case shrinks to a small structure with plain random numbers on it.
Labellings may tie (a node without features, weights of scale zero): compare scores of labellings, not labellings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from maxendnet.data.batch import Batch
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.weights.layout import Layout


def known_batch(**arrays):
    """Return a batch with known labels."""
    return Batch(**arrays, row=arrays["y"], label_sets=None)


@dataclass(frozen=True)
class Case:
    """Batch, weights, and sizes that the batch does not determine.

    ``kwargs`` are the sizes by the names that the functions of ``brute_force`` use.
    """

    batch: Batch
    w: np.ndarray
    n_labels: int
    n_features: int
    n_edge_types: int
    cost: np.ndarray | None  # (n_labels, n_labels), or None for Hamming
    seed: int

    @property
    def n_examples(self):
        return len(self.batch.offsets) - 1

    @property
    def n_nodes(self):
        return int(self.batch.offsets[-1])

    @property
    def n_edge_features(self):
        return self.batch.edge_features.shape[1]

    @property
    def n_label_features(self):
        return self.batch.label_features.shape[2]

    @property
    def kwargs(self):
        return {"n_labels": self.n_labels, "n_features": self.n_features, "n_edge_types": self.n_edge_types}

    @property
    def layout(self):
        return Layout(self.n_features, self.n_labels, self.n_edge_types, self.n_edge_features, self.n_label_features)

    @property
    def forest(self):
        return BoundForest(self.layout, self.batch)

    def __repr__(self):
        b = self.batch
        lines = [f"Case(seed={self.seed}, {self.kwargs}, cost={self.cost}, w={self.w!r},"]
        lines += [f"  {name}={np.asarray(getattr(b, name)).tolist()}," for name in b._fields]
        return "\n".join([*lines, ")"])


def _local_parents(draw, n_nodes, shape):
    """Parent of each node (-1: root) and an order with parents first, both local."""
    if shape == "chain":
        return list(range(-1, n_nodes - 1)), list(range(n_nodes))
    if shape == "independent":
        return [-1] * n_nodes, list(range(n_nodes))
    order = draw(st.permutations(range(n_nodes)))
    parent = [-1] * n_nodes
    for position, node in enumerate(order):
        # -1 makes a further root; "tree" has one root only
        lowest = 0 if shape == "tree" and position else -1
        chosen = draw(st.integers(lowest, position - 1))
        parent[node] = order[chosen] if chosen >= 0 else -1
    return parent, order


@st.composite
def _cases(
    draw,
    shape,
    max_nodes,
    max_labels,
    *,
    max_examples=3,
    min_nodes=0,
    min_labels=1,
    max_features=3,
    scales=(1.0, 0.0, 30.0),
    plain=False,
):
    def option():
        return False if plain else draw(st.booleans())

    n_examples = draw(st.integers(1, max_examples))
    lengths = [draw(st.integers(min_nodes, max_nodes)) for _ in range(n_examples)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_nodes = int(offsets[-1])
    n_labels = draw(st.integers(min_labels, max_labels))
    n_features = draw(st.integers(1, max_features))
    n_edge_types = 1 if plain else draw(st.integers(1, 2))
    n_edge_features = draw(st.integers(1, 2)) if option() else 0
    n_label_features = draw(st.integers(1, 2)) if option() else 0

    order, parent = np.zeros(n_nodes, np.int32), np.full(n_nodes, -1, np.int32)
    for i, n in enumerate(lengths):
        start = offsets[i]
        parents, local_order = _local_parents(draw, n, shape)
        order[start : start + n] = [start + t for t in local_order]
        parent[start : start + n] = [start + t if t >= 0 else -1 for t in parents]

    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    child = parent >= 0
    density = draw(st.sampled_from([1.0, 0.5]))
    ones = option()
    values = np.ones((n_nodes, n_features)) if ones else rng.normal(size=(n_nodes, n_features))
    dense = values * (rng.random((n_nodes, n_features)) < density)
    rows, columns = np.nonzero(dense)
    edge_type = np.where(child, rng.integers(n_edge_types, size=n_nodes), 0).astype(np.int32)
    # an edge is turned round only in trees and forests: a chain is (t, t + 1) by definition
    turned = option() and shape in ("tree", "forest")
    flipped = (child & (rng.random(n_nodes) < 0.5) if turned else np.zeros(n_nodes)).astype(np.uint8)
    edge_features = np.where(child[:, None], rng.normal(size=(n_nodes, n_edge_features)), 0.0)
    y = rng.integers(n_labels, size=n_nodes).astype(np.int32)
    allowed = np.zeros((0, 0), np.uint8)
    if option():
        allowed = (rng.random((n_nodes, n_labels)) < 0.6).astype(np.uint8)
        allowed[np.arange(n_nodes), y] = 1
    label_features = rng.normal(size=(n_nodes, n_labels, n_label_features)) if n_label_features else np.zeros((0, 0, 0))
    sample_weight = rng.uniform(0.25, 2.0, size=n_examples) if option() else np.ones(n_examples)
    cost = None
    if option():
        cost = rng.uniform(0.1, 2.0, size=(n_labels, n_labels))
        np.fill_diagonal(cost, 0.0)
    batch = known_batch(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_nodes))]).astype(np.int64),
        indices=columns.astype(np.int32),
        data=np.ascontiguousarray(dense[rows, columns]),
        y=y,
        offsets=offsets,
        order=order,
        parent=parent,
        edge_type=edge_type,
        flipped=flipped,
        edge_features=np.ascontiguousarray(edge_features),
        allowed=allowed,
        label_features=label_features,
        sample_weight=sample_weight,
        ones=ones,
    )
    n_weights = n_features * n_labels + (n_edge_types + n_edge_features) * n_labels**2 + n_label_features
    w = draw(st.sampled_from(scales)) * rng.normal(size=n_weights)
    return Case(batch, w, n_labels, n_features, n_edge_types, cost, seed)


def forest_cases(max_nodes=5, max_labels=3, **options):
    """Forests: any number of roots per example, nodes in any order.

    Up to ``max_examples`` examples of ``min_nodes`` to ``max_nodes`` nodes (so by default some are empty) and
    ``min_labels`` to ``max_labels`` labels. Weights are normal times one of ``scales`` (0: everything ties; 30: far
    into saturation). Features that are all 1, masks of allowed labels (the truth is always allowed), edge types, edge
    features, label features, flipped edges, sample weights and cost matrices are on or off by chance, or all off with
    ``plain=True``.
    """
    return _cases("forest", max_nodes, max_labels, **options)


def tree_cases(max_nodes=5, max_labels=3, **options):
    """Trees: as ``forest_cases``, with one root per example."""
    return _cases("tree", max_nodes, max_labels, **options)


def chain_cases(max_nodes=5, max_labels=3, **options):
    """Chains: as ``forest_cases``, with edges (t, t + 1) only, none of them flipped."""
    return _cases("chain", max_nodes, max_labels, **options)


def independent_cases(max_nodes=5, max_labels=3, **options):
    """Isolated nodes: as ``forest_cases`` without edges; the transition weights are there, unused."""
    return _cases("independent", max_nodes, max_labels, **options)


def sized(batch):
    """The batch with its true ``largest`` and ``max_children``: sums may do without logarithms."""
    values = (batch.data, batch.edge_features, batch.label_features)
    children = np.bincount(batch.parent[batch.parent >= 0])
    return batch._replace(
        largest=max(float(np.abs(v).max(initial=0.0)) for v in values), max_children=int(children.max(initial=1))
    )


@st.composite
def any_case(draw, **options):
    """A case of any family, half of them sized; the others are taken to have numbers of any size."""
    families = (chain_cases, tree_cases, forest_cases, independent_cases)
    case = draw(st.one_of([family(**options) for family in families]))
    return replace(case, batch=sized(case.batch) if draw(st.booleans()) else case.batch._replace(largest=1e300))


@st.composite
def score_cases(draw, max_nodes=5, max_labels=3):
    """Explicit scores of one example: ``(node_scores, edges, edge_scores, allowed or None)``, a forest."""
    n_nodes, n_labels = draw(st.integers(0, max_nodes)), draw(st.integers(1, max_labels))
    parent, _ = _local_parents(draw, n_nodes, "forest")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = [(p, t) if draw(st.booleans()) else (t, p) for t, p in enumerate(parent) if p >= 0]
    allowed = None
    if draw(st.booleans()):
        allowed = rng.random((n_nodes, n_labels)) < 0.6
        allowed[np.arange(n_nodes), rng.integers(n_labels, size=n_nodes)] = True
    return (
        rng.normal(size=(n_nodes, n_labels)),
        edges,
        list(rng.normal(size=(len(edges), n_labels, n_labels))),
        allowed,
    )

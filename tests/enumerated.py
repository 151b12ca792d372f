"""Bound structures whose labellings can be enumerated in a test: forests, hierarchies and choices."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import brute_force
import numpy as np
import strategies
from hypothesis import strategies as st

from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures.bound.choice import BoundChoice
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.hierarchy import BoundHierarchy
from maxendnet.structures.weights.layout import Layout


@dataclass(frozen=True)
class EnumeratedCase:
    """Bound structure and weights; the true labelling is valid."""

    case: strategies.Case
    structure: BoundForest | BoundHierarchy | BoundChoice
    w: np.ndarray

    @property
    def batch(self):
        return self.case.batch

    def labellings(self, i):
        if isinstance(self.structure, BoundChoice):
            return brute_force.choice_labellings(self.batch, i, self.case.n_labels, self.structure.rest)
        forbidden = getattr(self.structure, "forbidden", ())
        return brute_force.hierarchy_labellings(self.batch, i, self.case.n_labels, forbidden)

    def features(self, i, labellings):
        options = self.case.kwargs | {"siblings": self.structure.layout.siblings}
        found = [brute_force.hierarchy_feature_vector(self.batch, i, y, **options) for y in labellings]
        return np.array(found).reshape(-1, self.structure.layout.n_weights)

    def costs(self, i, labellings):
        truth = brute_force.example_truth(self.batch, i)
        return np.array([brute_force.labelling_cost(truth, y, self.case.cost) for y in labellings])

    @property
    def nodes(self):
        """(first, last + 1) of every example."""
        return [(int(a), int(b)) for a, b in zip(self.batch.offsets, self.batch.offsets[1:])]

    @property
    def tolerance(self):
        return 2e-13 * (1 + np.abs(self.w).sum() * (1 + max(np.abs(x).max(initial=0.0) for x in self.values)))

    @property
    def values(self):
        return self.batch.data, self.batch.edge_features, self.batch.label_features


@st.composite
def hierarchy_cases(draw, siblings=None, forbidden=None, **options):
    family = draw(st.sampled_from([strategies.forest_cases, strategies.tree_cases, strategies.chain_cases]))
    case = draw(family(**options))
    batch = case.batch._replace(flipped=np.zeros_like(case.batch.flipped))
    case = strategies.replace(case, batch=batch)
    siblings = draw(st.booleans()) if siblings is None else siblings
    pairs = ()
    if draw(st.booleans()) if forbidden is None else forbidden:
        every = [(a, c) for a in range(case.n_labels) for c in range(case.n_labels)]
        child = np.flatnonzero(batch.parent >= 0)
        true = set(zip(batch.y[batch.parent[child]].tolist(), batch.y[child].tolist()))
        pairs = tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=6)))
        pairs = tuple(sorted(set(pairs) - true))
    layout = dataclasses.replace(case.layout, siblings=siblings)
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    w = scale * np.random.default_rng(case.seed).normal(size=layout.n_weights)
    if siblings and draw(st.booleans()):  # so far apart that they are not multiplied as exponentials
        layout.segments(w).siblings[:] *= 400.0
    return EnumeratedCase(case, BoundHierarchy(layout, batch, pairs), w)


@st.composite
def choice_cases(draw, **options):
    """Any number of nodes and labels; the rest is any label, allowed everywhere."""
    case = draw(strategies.independent_cases(**options))
    batch, rng = case.batch, np.random.default_rng(case.seed)
    rest = draw(st.integers(0, case.n_labels - 1))
    y = np.full_like(batch.y, rest)
    for begin, end in zip(batch.offsets[:-1], batch.offsets[1:]):
        if begin < end and draw(st.booleans()):
            y[rng.integers(begin, end)] = rng.integers(case.n_labels)
    allowed = batch.allowed.copy()
    if allowed.size:
        allowed[:, rest] = allowed[np.arange(len(y)), y] = 1
    batch = batch._replace(y=y, row=y, allowed=allowed, edge_features=np.zeros((len(y), 0)))
    case = strategies.replace(case, batch=batch, n_edge_types=0)
    layout = Layout(case.n_features, case.n_labels, 0, 0, case.n_label_features)
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    return EnumeratedCase(case, BoundChoice(layout, batch, rest), scale * rng.normal(size=layout.n_weights))


@st.composite
def forest_cases(draw, **options):
    """Edges in both directions, of chains, trees and forests."""
    case = draw(strategies.any_case(**options))
    return EnumeratedCase(case, case.forest, case.w)


def cases(**options):
    """Cases of hierarchies and choices; `test_forest` has the aggregates of forests."""
    return st.one_of(hierarchy_cases(**options), choice_cases(**options))


def all_cases(**options):
    """Cases of all structures."""
    return st.one_of(forest_cases(**options), cases(**options))


def problem_of(case, loss):
    return Problem.pose(case.structure, loss, Gaussian())

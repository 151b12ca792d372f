"""Structures whose labellings can be enumerated in a test: hierarchies and choices."""

from __future__ import annotations

from dataclasses import dataclass

import brute_force
import numpy as np
import strategies
from hypothesis import strategies as st

from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Choice, Hierarchy


@dataclass(frozen=True)
class EnumeratedCase:
    """A structure with a batch and weights; the true labels are one of its labellings."""

    case: strategies.Case
    structure: Hierarchy | Choice
    w: np.ndarray

    @property
    def batch(self):
        return self.case.batch

    def labellings(self, i):
        if isinstance(self.structure, Choice):
            return brute_force.choice_labellings(self.batch, i, self.case.n_labels, self.structure.rest)
        return brute_force.hierarchy_labellings(self.batch, i, self.case.n_labels, self.structure.forbidden)

    def features(self, i, labellings):
        options = self.case.kwargs | {"siblings": self.structure.n_siblings > 0}
        found = [brute_force.hierarchy_feature_vector(self.batch, i, y, **options) for y in labellings]
        return np.array(found).reshape(-1, self.structure.n_weights)

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
    structure = Hierarchy(
        case.n_features, case.n_labels, case.n_edge_types, case.n_edge_features, case.n_tied, siblings, pairs
    )
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    w = scale * np.random.default_rng(case.seed).normal(size=structure.n_weights)
    if siblings and draw(st.booleans()):  # so far apart that they are not multiplied as exponentials
        structure.parts(w).siblings[:] *= 400.0
    return EnumeratedCase(case, structure, w)


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
    batch = batch._replace(y=y, allowed=allowed, edge_features=np.zeros((len(y), 0)))
    case = strategies.replace(case, batch=batch, n_edge_types=0)
    structure = Choice(case.n_features, case.n_labels, 0, 0, case.n_tied, rest)
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    return EnumeratedCase(case, structure, scale * rng.normal(size=structure.n_weights))


def cases(**options):
    """Cases of all structures."""
    return st.one_of(hierarchy_cases(**options), choice_cases(**options))


def problem_of(case, loss):
    return Problem(case.batch, case.structure, loss, Gaussian())

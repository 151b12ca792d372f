"""Joint costs compared with enumeration, and solvers compared with each other."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from maxendnet import L1M3N, M3N, UNKNOWN, Chain, Examples, Graph, Independent, LapMEDN, Tree
from maxendnet.losses import Hinge
from maxendnet.losses.costs import joint_table
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.rules import at_most_once
from maxendnet.solvers import SMO, BlockFrankWolfe, ConstraintGeneration, CuttingPlane, Smoothing, Subgradient

pytestmark = pytest.mark.usefixtures("every_level")

CLASSES = np.array(["a", "b", "c"])
COST = {
    ("a", "b"): 2.5,
    (("a", "b"), ("b", "a")): 4.0,
    (("a", "b"), ("a", "c")): 1.5,
    (("c", "c"), ("c", "a")): 0.5,
}
CHAINS = {
    "chain": Chain(),
    "order 2": Chain(order=2),
    "seen": Chain(order=3),
    "pairs seen": Chain(ngrams="seen"),
    "rules": Chain(order=2, bias=True, rules=at_most_once("c")),
}
OF_THREE = {
    (("a", "b", "c"), ("a", "c", "c")): 2.0,
    (("a", "b", "c"), ("b", "b", "b")): 1.0,
    (("b", "b", "b", "a"), ("a", "a", "a", "a")): 6.0,
    (("b", "a"), ("a", "a")): 0.7,
}
# in this tree edges are written with the child first, too
EDGES = [(0, 1), (2, 1), (1, 3)]
CYCLE = [(0, 1), (2, 1), (3, 2), (0, 3)]
OF_PAIRS = ("chain", "tree", "graph")


def examples(joined, seed=0, n=6):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(4, 2)) for _ in range(n)]
    y = [rng.choice(CLASSES, size=4).tolist() for _ in range(n - 3)]
    y += [list("abca"), list("bbba"), list("babc")]
    if joined == "rules":  # the label "c" comes at most once
        y[: n - 3] = [
            [label if t == 0 or label != "c" else "a" for t, label in enumerate(labels)] for labels in y[: n - 3]
        ]
    if joined in CHAINS:
        return CHAINS[joined], Examples.build(X, y)
    if joined == "graph":
        return Graph(), Examples.build(X, y, edges=[CYCLE] * n, edge_types=[[0, 1, 0, 1]] * n)
    features = [rng.normal(size=(3, 1)) for _ in range(n)]
    return Tree(), Examples.build(X, y, edges=[EDGES] * n, edge_features=features)


def cost_of(cost, truth, labels, edges):
    total = sum(cost.get((t, p), 1.0) for t, p in zip(truth, labels) if t != p)
    total += sum(cost.get(((truth[s], truth[t]), (labels[s], labels[t])), 0.0) for s, t in edges)
    for n in (3, 4):
        for t in range(len(labels) - n + 1):
            total += cost.get((tuple(truth[t : t + n]), tuple(labels[t : t + n])), 0.0)
    return total


def enumerated(bound, data, w, edges, cost):
    """Yield for every example the costs of all labellings, and their scores minus that of the truth."""
    for i in range(len(data)):
        single = bound.take(i, i + 1)
        truth = CLASSES[single.y].tolist()
        labellings = [np.array(labels, dtype=np.int32) for labels in product(range(3), repeat=4)]
        costs = np.array([cost_of(cost, truth, CLASSES[labels].tolist(), edges) for labels in labellings])
        scores = np.array([single.score(w, labels)[0] for labels in labellings]) - single.score(w, single.y)[0]
        there = np.isfinite(scores)
        yield costs[there], scores[there], [y for y, is_there in zip(labellings, there) if is_there], single


@pytest.mark.parametrize("joined", [*CHAINS, "tree", "graph"])
def test_hinge_and_soft_hinge_are_enumeration(joined):
    structure, data = examples(joined)
    cost_given = COST if joined in OF_PAIRS else COST | OF_THREE
    bound = structure.bind(data, CLASSES)
    edges = {"tree": EDGES, "graph": CYCLE}.get(joined, [(0, 1), (1, 2), (2, 3)])
    w = np.random.default_rng(1).normal(size=bound.layout.n_weights)
    hinge = Hinge(cost_given).for_labels(CLASSES, data.y)
    soft = SoftHinge(cost_given, temperature=0.7).for_labels(CLASSES, data.y)
    of_hinge, of_soft, cost, slope = 0.0, 0.0, 0.0, np.zeros_like(w)
    for costs, scores, labellings, single in enumerated(bound, data, w, edges, cost_given):
        of_hinge += (costs + scores).max()
        of_soft += 0.7 * logsumexp((costs + scores) / 0.7)
        p = np.exp((costs + scores) / 0.7 - logsumexp((costs + scores) / 0.7))
        cost += p @ costs
        slope += sum(share * (single.features(y) - single.features(single.y)) for share, y in zip(p, labellings))
    assert_allclose(Problem.pose(bound, hinge, Gaussian()).loss_and_gradient(w).loss, of_hinge, rtol=1e-12)
    partial = Problem.pose(bound, soft, Gaussian()).loss_and_gradient(w)
    assert_allclose(partial.loss, of_soft, rtol=1e-12)
    assert_allclose(partial.gradient, slope, atol=1e-11)
    assert_allclose(partial.cost, cost, rtol=1e-12)


@pytest.mark.parametrize("joined", ["chain", "tree", "graph", "order 2", "rules"])
def test_solvers_agree(joined):
    structure, data = examples(joined, n=12)
    cost = COST if joined in OF_PAIRS else COST | OF_THREE
    solvers = [None, Smoothing(), CuttingPlane(), CuttingPlane(slacks="n")]
    fits = [M3N(C=0.5, cost=cost, structure=structure, solver=s, tol=1e-4).fit(data) for s in solvers]
    assert isinstance(fits[0].gap_, float)
    for fit in fits:
        assert fit.gap_ <= 1e-4
        assert_allclose(fit.objective_, fits[-1].objective_, rtol=2e-4)
    plain = M3N(C=0.5, structure=structure, tol=1e-4).fit(data)
    assert abs(plain.objective_ - fits[0].objective_) > 0.1


@pytest.mark.parametrize("joined", ["chain", "seen"])
def test_other_systems(joined):
    structure, data = examples(joined, n=12)
    assert LapMEDN(C=0.5, lam=2.0, cost=COST, structure=structure, tol=1e-2).fit(data).gap_ <= 1e-2
    by_smoothing = L1M3N(C=0.5, cost=COST, structure=structure, tol=1e-3).fit(data)
    by_constraints = L1M3N(C=0.5, cost=COST, solver=ConstraintGeneration(), structure=structure, tol=1e-6).fit(data)
    assert_allclose(by_smoothing.objective_, by_constraints.objective_, rtol=2e-3)
    assert M3N(C=0.1, cost=COST, solver=Subgradient(), structure=structure, tol=0.2).fit(data).gap_ <= 0.2


@pytest.mark.parametrize("solver", [BlockFrankWolfe(), SMO()])
def test_solvers_with_kernels_for_costs_of_labels_say_no(solver):
    structure, data = examples("chain")
    with pytest.raises(ValueError, match="costs of several labels together"):
        M3N(cost=COST, structure=structure, solver=solver).fit(data)


def test_where_a_label_is_not_known_the_pair_costs_nothing():
    X = [[[1.0], [0.5], [0.0]]]
    cost = {(("a", "b"), ("b", "b")): 7.0}
    for y, expected in (["a", "b", "a"], [1]), ([UNKNOWN, "b", "a"], []), (["a", {"a", "b"}, "a"], []):
        data = Examples.build(X, [y])
        bound = Chain().bind(data, np.array(["a", "b"]))
        joint = Hinge(cost).for_labels(np.array(["a", "b"]), data.y).joint_costs
        assert np.flatnonzero(joint_table(joint, bound).row).tolist() == expected
        bound = Chain(order=2).bind(data, np.array(["a", "b"]))
        table = joint_table(joint, bound)
        assert np.flatnonzero(table.rows[table.row, 0]).tolist() == expected


def test_a_relaxed_graph_bounds_the_exact_one():
    _, data = examples("graph", n=12)
    exact = M3N(C=0.5, cost=COST, structure=Graph(), tol=1e-4).fit(data)
    relaxed = M3N(C=0.5, cost=COST, structure=Graph("relaxed"), tol=1e-2).fit(data)
    assert relaxed.gap_ <= 1e-2
    assert relaxed.objective_ >= exact.dual_
    plain = M3N(C=0.5, structure=Graph("relaxed"), tol=1e-2).fit(data)
    assert relaxed.dual_ > plain.objective_ + 0.1


def test_an_example_without_nodes():
    data = Examples.build([np.zeros((0, 2)), np.ones((3, 2))], [[], ["a", "b", "c"]])
    model = M3N(cost=OF_THREE, structure=Chain(order=2)).fit(data)
    assert model.predict(data) == [[], ["a", "b", "c"]]


@pytest.mark.parametrize(
    ("cost", "structure", "message"),
    [
        ({(("a", "b"), ("a", "z")): 1.0}, Chain(), "has the label 'z'"),
        ({(("a", "b", "a"), ("a", "a", "a")): 1.0}, Chain(), r"use structure=Chain\(order=2\)"),
        ({(("a", "b", "a"), ("a", "a")): 1.0}, Chain(order=2), "tuples of the same length"),
        ({(("a", "b"), ("a", "b")): 1.0}, Chain(), "0 if the prediction is right"),
        ({(("a", "b"), ("b", "b")): -1.0}, Chain(), "non-negative"),
        ({(("a", "b"), ("b", "b")): "x"}, Chain(), "real numbers"),
        ({(("a", "b"), ("b", "b")): 1.0}, Independent(), "there are no edges"),
        ({(("a", "b"), ("b", "b")): 1.0}, Chain(hidden=2), "hidden states"),
    ],
)
def test_errors(cost, structure, message):
    data = examples("chain")[1]
    with pytest.raises(ValueError, match=message):
        M3N(cost=cost, structure=structure).fit(data)

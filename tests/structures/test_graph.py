"""Graphs with cycles: elimination compared with enumeration, bounds with linear programmes solved by HiGHS."""

from __future__ import annotations

import brute_force
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

from maxendnet import L2CRF, M3N, UNKNOWN, Examples, Graph, Tree
from maxendnet.structures.base import ExcessOptions, Table
from maxendnet.structures.bound.graph import BoundGraph, EdgeMarginals

pytestmark = pytest.mark.usefixtures("every_level")


class Case:
    """Random graphs with weights, and explicit scores of every example."""

    def __init__(self, seed, sizes, n_labels, n_types=1, n_edge_features=0, allowed=False, density=0.6, scale=1.0):
        rng = np.random.default_rng(seed)
        self.labels = [f"label {a}" for a in range(n_labels)]
        self.X = [rng.normal(size=(n, 2)) for n in sizes]
        self.edges = []
        for n in sizes:
            pairs = [(s, t) if rng.random() < 0.5 else (t, s) for s in range(n) for t in range(s)]
            self.edges.append([pair for pair in pairs if rng.random() < density])
        if not any(n and len(pairs) >= n for n, pairs in zip(sizes, self.edges)):  # at least one cycle
            self.X.append(rng.normal(size=(3, 2)))
            self.edges.append([(0, 1), (1, 2), (2, 0)])
        sizes = [len(x) for x in self.X]
        self.kinds = [rng.integers(0, n_types, size=len(pairs)) for pairs in self.edges]
        self.edge_features = [rng.normal(size=(len(pairs), n_edge_features)) for pairs in self.edges]
        self.y = [rng.integers(0, n_labels, size=n) for n in sizes]
        self.masks = None
        if allowed:
            self.masks = [rng.random((n, n_labels)) < 0.6 for n in sizes]
            for mask, y in zip(self.masks, self.y):
                mask[np.arange(len(y)), y] = True
        more = {} if n_types == 1 else {"edge_types": [k.tolist() for k in self.kinds]}
        if n_edge_features:
            more["edge_features"] = self.edge_features
        if allowed:
            more |= {"allowed": self.masks, "labels": self.labels}
        self.examples = Examples.build(
            self.X,
            [[self.labels[a] for a in y] for y in self.y],
            edges=self.edges,
            sample_weight=rng.uniform(0.5, 2.0, size=len(sizes)),
            **more,
        )
        self.n_labels, self.n_types = n_labels, max(1, self.examples.n_edge_types)
        n_weights = (2 + 1) * n_labels + (self.n_types + n_edge_features) * n_labels**2
        self.w = scale * rng.normal(size=n_weights)

    def bind(self, **options):
        return Graph(bias=True, **options).bind(self.examples, np.array(self.labels))

    def scores(self, i, w=None, table=None):
        """Explicit scores of an example, from the flat weights."""
        w, L = self.w if w is None else w, self.n_labels
        node, bias = w[: 2 * L].reshape(2, L), w[2 * L : 3 * L]
        matrices = w[3 * L :].reshape(-1, L, L)
        along = [
            matrices[kind] + np.tensordot(own, matrices[self.n_types :], 1)
            for kind, own in zip(self.kinds[i], self.edge_features[i])
        ]
        at = self.X[i] @ node + bias
        if table is not None:
            at = at + table
        return brute_force.Scores(at, self.edges[i], along, None if self.masks is None else self.masks[i])


@st.composite
def cases(draw, most_nodes=8, **fixed):
    n_labels = draw(st.sampled_from([2, 3, 5]))
    largest = {2: most_nodes, 3: min(6, most_nodes), 5: min(4, most_nodes)}[n_labels]
    sizes = draw(st.lists(st.integers(0, largest), min_size=1, max_size=3))
    return Case(
        draw(st.integers(0, 10**6)),
        sizes,
        n_labels,
        draw(st.integers(1, 2)),
        draw(st.integers(0, 2)),
        draw(st.booleans()),
        draw(st.sampled_from([0.3, 0.7, 1.0])),
        **fixed,
    )


def table_for(bound, seed):
    return Table(
        np.random.default_rng(seed).normal(size=(3, bound.n_labels)), np.arange(len(bound.y), dtype=np.int32) % 3
    )


# ---- elimination -----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(cases())
def test_elimination_is_enumeration(case):
    bound = case.bind(inference="exact")
    assert isinstance(bound, BoundGraph) and bound.exact.all() and not bound.capabilities.relaxed
    table = table_for(bound, 1)
    values, labels = bound.maximum(case.w, table)
    log_partitions, q = bound.logsum(case.w, table, cliques=True)
    best_with, ranked = bound.max_marginals(case.w), bound.top(case.w, 3)[0]
    for i, (begin, end) in enumerate(zip(bound.offsets[:-1], bound.offsets[1:])):
        scores = case.scores(i, table=table.at_nodes()[begin:end])
        assert_allclose(values[i], brute_force.best(*scores)[0], atol=1e-10)
        found = brute_force.labelling_scores(*scores)[tuple(labels[begin:end].tolist())]
        assert_allclose(found, values[i], atol=1e-10)
        log_z, node, edge = brute_force.logsum(*scores)
        assert_allclose(log_partitions[i], log_z, atol=1e-10)
        assert_allclose(q.node[begin:end], node, atol=1e-10)
        assert_allclose(q.edge[bound.edges.offsets[i] : bound.edges.offsets[i + 1]], edge, atol=1e-10)
        plain = case.scores(i)
        assert_allclose(best_with[begin:end], brute_force.max_marginals(*plain), atol=1e-10)
        expected = [value for value, _ in brute_force.top(*plain, k=3)]
        assert_allclose(ranked[i, : len(expected)], expected, atol=1e-10)
        assert np.all(ranked[i, len(expected) :] == -np.inf)


def test_samples_have_the_probabilities_of_the_model():
    case = Case(3, [4], 3, allowed=True, density=1.0)
    bound = case.bind()
    drawn = bound.sample(case.w, 20_000, np.random.default_rng(0))
    _, node, edge = brute_force.logsum(*case.scores(0))
    shares = (drawn[:, :, None] == np.arange(3)).mean(axis=0)
    assert_allclose(shares, node, atol=0.015)
    first, second = case.edges[0][0]
    together = np.zeros((3, 3))
    np.add.at(together, (drawn[:, first], drawn[:, second]), 1 / len(drawn))
    assert_allclose(together, edge[0], atol=0.015)


@pytest.mark.parametrize("seed", range(3))
def test_scores_far_apart_are_summed_without_overflow(seed):
    case = Case(seed, [5, 4], 3, density=1.0, scale=300.0)
    bound = case.bind()
    values, q = bound.logsum(case.w, cliques=True)
    for i in range(2):
        log_z, node, _ = brute_force.logsum(*case.scores(i))
        assert_allclose(values[i], log_z, rtol=1e-12)
        assert_allclose(q.node[bound.offsets[i] : bound.offsets[i + 1]], node, atol=1e-9)


def test_tables_are_counted_by_allowed_labels():
    """A clique of ten nodes exceeds the table limit with five labels per node, but not with two allowed labels."""
    edges = [[(s, t) for s in range(10) for t in range(s)]]
    X, labels = [np.ones((10, 1))], list("abcde")
    wide = Examples.build(X, [["a"] * 10], edges=edges)
    classes = np.array(labels)
    assert Graph().bind(wide, classes).exact.tolist() == [0]
    narrow = Examples.build(X, [["a"] * 10], edges=edges, allowed=[[["a", "b"]] * 10], labels=labels)
    assert Graph(max_table=1024).bind(narrow, classes).exact.tolist() == [1]
    assert Graph(max_table=1023).bind(narrow, classes).exact.tolist() == [0]


def test_graphs_without_cycles_have_the_numbers_of_trees():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (5, 3)]
    y = [rng.choice(list("ab"), size=n).tolist() for n in (5, 3)]
    data = Examples.build(X, y, edges=[[(0, 1), (0, 2), (3, 2)], [(2, 0)]])
    for inference in ("auto", "exact", "relaxed"):
        ours = L2CRF(structure=Graph(inference)).fit(data)
        tree = L2CRF(structure=Tree()).fit(data)
        assert_array_equal(ours.model_.weights, tree.model_.weights)
        assert ours.objective_ == tree.objective_ and ours.predict(data) == tree.predict(data)
    # together with an example with a cycle they are eliminated, with equal results up to rounding
    cycle = Examples.build(
        [*X, np.ones((3, 2))],
        [*y, ["a", "b", "a"]],
        edges=[*[[(0, 1), (0, 2), (3, 2)], [(2, 0)]], [(0, 1), (1, 2), (2, 0)]],
    )
    graph, forest = Graph("relaxed").bind(cycle, np.array(["a", "b"])), Tree().bind(data, np.array(["a", "b"]))
    w = rng.normal(size=forest.layout.n_weights)
    assert graph.exact.tolist() == [1, 1, 0]
    assert_allclose(graph.logsum(w)[0][:2], forest.logsum(w)[0], atol=1e-12)
    assert_allclose(graph.maximum(w)[0][:2], forest.maximum(w)[0], atol=1e-12)


# ---- bounds ----------------------------------------------------------------------------------------------------------


def local_polytope(scores):
    """Maximum over the local polytope by HiGHS, written out as a linear programme."""
    n, L = scores.node_scores.shape
    n_variables = n * L + len(scores.edges) * L * L
    objective = np.concatenate([scores.node_scores.ravel(), *[matrix.ravel() for matrix in scores.edge_scores]])
    rows, right = [], []
    for t in range(n):
        row = np.zeros(n_variables)
        row[t * L : (t + 1) * L] = 1
        rows.append(row)
        right.append(1.0)
    for e, (first, second) in enumerate(scores.edges):
        begin = n * L + e * L * L
        for a in range(L):
            for node, cells in ((first, begin + a * L + np.arange(L)), (second, begin + a + L * np.arange(L))):
                row = np.zeros(n_variables)
                row[cells] = 1
                row[node * L + a] = -1
                rows.append(row)
                right.append(0.0)
    upper = np.ones(n_variables)
    if scores.allowed is not None:
        upper[: n * L] = np.asarray(scores.allowed).ravel()
    bounds = np.stack([np.zeros(n_variables), upper], axis=1)
    found = linprog(-objective, A_eq=sparse.csr_array(np.array(rows)), b_eq=right, bounds=bounds, method="highs")
    assert found.status == 0
    return -found.fun


@settings(max_examples=25, deadline=None)
@given(cases(scale=1.0))
def test_the_relaxed_maximum_is_the_linear_programme(case):
    bound = case.bind(inference="relaxed")
    w = case.w
    found = bound.hard(bound.scores(w), w, None, tol=1e-8, max_sweeps=100_000)
    proof = bound.prove(w)
    for i in range(len(case.X)):
        expected = local_polytope(case.scores(i)) if len(case.X[i]) else 0.0
        assert_allclose(found.upper[i], expected, atol=1e-6)
        assert_allclose(found.attained[i], expected, atol=1e-6)
        assert found.attained[i] <= expected + 1e-8 and found.upper[i] >= expected - 1e-8
        best = brute_force.best(*case.scores(i))[0]
        assert proof.score[i] <= best + 1e-9 and proof.bound[i] >= best - 1e-9
        assert not proof.proven[i] or proof.score[i] >= best - 1e-6


def feasible(bound, q):
    """Return the largest inconsistency between tables of nodes and edges."""
    first, second = bound.edges.nodes(bound.offsets).T
    wrong = [np.abs(q.node.sum(axis=1) - 1), np.abs(q.edge.sum(axis=2) - q.node[first]).ravel()]
    wrong += [np.abs(q.edge.sum(axis=1) - q.node[second]).ravel(), -np.minimum(q.edge, 0).ravel()]
    return max(part.max(initial=0.0) for part in wrong)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_the_relaxed_log_partition_is_a_bound_and_its_tables_agree(case):
    bound = case.bind(inference="relaxed")
    solve = lambda w: bound.soft(bound.scores(w), w, None, tol=1e-11, max_sweeps=100_000)  # noqa: E731
    found = solve(case.w)
    q = EdgeMarginals(found.node, found.edge)
    assert feasible(bound, q) < 1e-12 and feasible(bound, bound.logsum(case.w, cliques=True)[1]) < 1e-12
    for i in range(len(case.X)):
        assert found.upper[i] >= brute_force.log_partition(*case.scores(i)) - 1e-9
    # the tables are the gradient of the bound, compared here along a random direction
    change, step = np.random.default_rng(0).normal(size=len(case.w)), 1e-4
    above, below = (solve(case.w + sign * step * change).upper for sign in (1, -1))
    assert_allclose((above - below) / (2 * step), bound.score(change, q), atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(cases(most_nodes=6), st.sampled_from(["maximum", "logsum"]))
def test_what_losses_see_of_bounds_is_true(case, aggregate):
    """Value, slope and relaxation gap define a linear function that bounds the convex loss from below."""
    bound = case.bind(inference="relaxed")
    rng = np.random.default_rng(1)
    cost = Table(1.0 - np.eye(bound.n_labels), bound.y)
    assert np.all(bound.excess(aggregate, case.w, cost).relaxation_gap >= 0)
    for _ in range(5):  # each call continues from the messages of the previous one
        found = bound.excess(aggregate, case.w, cost, ExcessOptions(expected_table=cost))
    assert_allclose(found.relaxation_gap, 0.0, atol=1e-2)
    u = bound.sample_weight
    for _ in range(3):
        v = case.w + rng.normal(size=len(case.w))
        there = case.bind(inference="relaxed").excess(aggregate, v, cost, ExcessOptions(gradient=False)).values
        assert u @ (found.values - found.relaxation_gap) + found.slope @ (v - case.w) <= u @ there + 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_messages_are_kept_and_change_nothing_but_the_time(seed):
    """Previous calls with other weights, temperatures and costs change a bound by at most its tolerance."""
    case = Case(seed, [7, 6], 3, density=0.7)
    warm, cold = case.bind(inference="relaxed"), case.bind(inference="relaxed")
    rng, cost = np.random.default_rng(seed), Table(1.0 - np.eye(3), warm.y)
    for factor in (1.0, 3.0, -1.0, 10.0, 0.0):
        warm.excess("logsum", factor * case.w + rng.normal(size=len(case.w)), cost._replace(rows=factor * cost.rows))
        warm.excess("maximum", factor * case.w, cost)
    for aggregate in ("maximum", "logsum"):
        found, expected = (bound.excess(aggregate, case.w, cost) for bound in (warm, cold))
        assert_allclose(found.values, expected.values, atol=1e-3)
        assert np.all(found.values >= expected.values - expected.relaxation_gap - 1e-9)


def test_a_frustrated_cycle_is_proven_by_search_alone():
    """Three mutually repelling nodes with two labels: a fractional solution scores higher than any labelling."""
    data = Examples.build([np.ones((3, 1))], [["a", "b", "b"]], edges=[[(0, 1), (1, 2), (2, 0)]])
    bound = Graph("relaxed").bind(data, np.array(["a", "b"]))
    w = np.array([0.1, 0.0, 0.0, 1.0, 1.0, 0.0])  # score of label a, and the matrix of an edge
    proof = bound.prove(w)
    assert not proof.proven[0]
    assert_allclose([proof.score[0], proof.bound[0]], [2.2, 3.15], atol=1e-6)
    found = bound.search(w, proof)
    assert found.proven[0] and np.bincount(found.labels).tolist() == [2, 1]
    assert_allclose([found.score[0], found.bound[0]], 2.2, atol=1e-9)
    assert not bound.search(w, bound.prove(w), max_variables=3).proven[0]  # too large for branch and bound


def test_predictions_come_with_a_proof():
    case = Case(1, [6, 5], 3, density=0.8)
    best = M3N(structure=Graph("exact", bias=True), tol=0.1).fit(case.examples)
    model = M3N(structure=Graph("relaxed", bias=True), tol=0.1).fit(case.examples)
    labels, proven = model.predict(case.examples, return_proof=True)
    assert proven.all() and [len(own) for own in labels] == [len(x) for x in case.X]
    assert best.predict(case.examples, return_proof=True)[1].all()
    with pytest.raises(ValueError, match="return_proof needs by='mean'"):
        model.predict(case.examples, by="vote", return_proof=True)


# ---- learning --------------------------------------------------------------------------------------------------------


def test_bad_options_and_graphs():
    for options, message in (
        ({"inference": "fast"}, "inference to be 'auto', 'exact' or 'relaxed', got 'fast'"),
        ({"max_table": 0}, "max_table to be a number of at least 1"),
        ({"max_table": True}, "max_table to be a number"),
        ({"bias": 1}, "bias to be True or False"),
    ):
        with pytest.raises(ValueError, match=message):
            M3N(structure=Graph(**options)).fit([([[0.0]], [])], [["a"]])
    X, y = np.ones((3, 1)), [["a", "b", "a"]]
    for edges, message in (
        ([(0, 0)], "a loop"),
        ([(0, 1), (1, 0)], "twice"),
        ([(0, 3)], "has 3 nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            M3N(structure=Graph()).fit([(X, edges)], y)
    with pytest.raises(ValueError, match=r"Graph\(\) needs the edges"):
        M3N(structure=Graph()).fit([X], y)
    complete = [(s, t) for s in range(12) for t in range(s)]
    with pytest.raises(
        ValueError, match=r"X\[0\], a graph of 12 nodes and 66 edges, cannot be eliminated .* raise max_table"
    ):
        M3N(structure=Graph("exact", max_table=1000)).fit([(np.ones((12, 1)), complete)], [["a", "b"] * 6])
    with pytest.raises(ValueError, match=r"close a cycle.*structure=Graph\(\)"):
        M3N(structure=Tree()).fit([(X, [(0, 1), (1, 2), (2, 0)])], y)


def test_what_needs_elimination_says_so():
    case = Case(0, [6], 2, density=1.0)
    model = M3N(structure=Graph("relaxed", bias=True), tol=0.1).fit(case.examples)
    for call in (model.predict_top, model.sample, model.predict_max_marginals):
        with pytest.raises(ValueError, match=r"need elimination, but X\[0\], with 6 nodes and 15 edges"):
            call(case.examples)


def test_disconnected_graphs_and_single_nodes():
    """The values of connected components are added."""
    rng = np.random.default_rng(0)
    X, edges = rng.normal(size=(8, 2)), [(0, 1), (1, 2), (2, 0), (4, 5), (5, 6), (6, 4)]
    data = Examples.build([X, X[:1]], [["a", "b"] * 4, ["a"]], edges=[edges, []])
    for inference in ("exact", "relaxed"):
        model = M3N(C=1.0, structure=Graph(inference), tol=1e-3).fit(data)
        assert model.gap_ <= 1e-3 and [len(labels) for labels in model.predict(data)] == [8, 1]


@pytest.mark.parametrize("estimator", [M3N(C=0.5), L2CRF(lam=0.3)], ids=lambda e: type(e).__name__)
def test_unknown_labels_and_given_labels(estimator):
    case = Case(5, [5, 4, 6], 2, density=0.8)
    y = [[case.labels[a] for a in labels] for labels in case.y]
    y[0][1], y[2][3] = UNKNOWN, UNKNOWN
    data = Examples.build(case.X, y, edges=case.edges)
    for inference in ("exact", "relaxed"):
        model = estimator.set_params(structure=Graph(inference, bias=True), tol=1e-2).fit(data)
        for labels, known in zip(model.predict(data, given=y), y):
            assert all(b is UNKNOWN or a == b for a, b in zip(labels, known))


def test_a_fit_says_how_many_graphs_are_exact():
    rng = np.random.default_rng(0)
    square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    clique = [(a, b) for a in range(5) for b in range(a)]
    X = [rng.normal(size=(n, 2)) for n in (4, 5, 4)]
    y = [rng.choice(["a", "b", "c"], size=len(x)).tolist() for x in X]
    found = Examples.build(X, y, edges=[square, clique, square])
    model = M3N(C=0.1, structure=Graph(max_table=30), tol=0.1).fit(found)
    assert model.solver_.endswith("; 2 of 3 graphs are exact, the others relaxed")
    assert M3N(C=0.1, structure=Graph(), tol=0.1).fit(found).solver_.endswith("; all 3 graphs are exact")

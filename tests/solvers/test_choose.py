"""The default solver: every rule of the table, the facts behind it, and the table in the documentation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from systems import labelled_chains

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, UNKNOWN, ElasticNet, LapMEDN, Log, MaxEnDNet, solvers
from maxendnet.data.examples import Examples, distinct_labels
from maxendnet.solvers.choose import RULES, Facts, choose, facts_of, rules_table

EVERY = frozenset(kind.__name__ for kind in solvers.ALL)


def facts(prior="gaussian", loss="hinge", n_nodes=5000, without=(), **others):
    return Facts(prior, loss, EVERY - set(without), n_nodes, **others)


OTHER_SLACK = "hinge with another slack"
BLOCK_SOLVERS = ("ProximalPoint", "BlockFrankWolfe")
# a problem for every rule, in the order of the table, with tol
CASES = [
    (facts(unknown_labels=True, self_training=True), 1e-3, "SelfTraining"),
    (facts(unknown_labels=True), 1e-3, "ConcaveConvex"),
    (facts("scale mixture"), 1e-3, "Variational"),
    (facts(loss=OTHER_SLACK, without=["Variational"]), 1e-3, "CuttingPlane"),
    (facts("l1", n_nodes=20_000, full_hessian=True, l1_strength=1.0), 1e-2, "InteriorPoint"),
    (facts(n_weights=200, full_hessian=True), 1e-3, "Smoothing"),
    (facts(), 1e-3, "ProximalPoint"),
    (facts("other", OTHER_SLACK, without=["Variational", "CuttingPlane"]), 1e-3, "Subgradient"),
    (facts("other", without=["ProximalPoint"]), 1e-3, "BlockFrankWolfe"),
    (facts("other", without=BLOCK_SOLVERS), 1e-3, "Smoothing"),
    (facts(loss="log", sparse=True), 1e-3, "ProximalAscent"),
    (facts("l1", "log", cheap_hessian=True), 1e-3, "InteriorPoint"),
    (facts("l1", "log"), 1e-3, "OWLQN"),
    (facts(loss="log", without=["OWLQN"]), 1e-3, "LBFGS"),
]


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)))
def test_every_rule_decides_a_problem(number, case):
    problem, tol, solver = case
    choice = choose(problem, tol)
    assert type(choice.solver).__name__ == solver == RULES[number].solver
    assert choice.rule == RULES[number].condition


def test_there_is_a_case_for_every_rule():
    assert len(CASES) == len(RULES)


def test_reference_solvers_are_never_a_default():
    chosen = {rule.solver for rule in RULES}
    reference = {kind.__name__ for kind in solvers.ALL if ".reference." in kind.__module__}
    assert len(reference) == 4 and not chosen & reference


# pairs of problems that differ in one fact, and tol where that decides
@pytest.mark.parametrize(
    ("problem", "tol", "solver"),
    [
        (facts(n_weights=300, full_hessian=True), 1e-3, "ProximalPoint"),
        (facts(n_weights=200, full_hessian=True), 1e-5, "ProximalPoint"),
        (facts(n_weights=200), 1e-3, "ProximalPoint"),
        (facts(), 1e-6, "ProximalPoint"),
        (facts(), 1e-7, "BlockFrankWolfe"),
        (facts("l1"), 1e-7, "ProximalPoint"),
        (facts("l1", n_weights=200, full_hessian=True), 1e-3, "ProximalPoint"),
        (facts(local=False, without=["ProximalPoint"]), 1e-3, "Smoothing"),
        (facts("l1", without=BLOCK_SOLVERS), 1e-3, "Smoothing"),
        (facts("l1", n_nodes=20_000, full_hessian=True, l1_strength=1.0), 0.5, "ProximalPoint"),
        (facts("l1", n_nodes=9000, full_hessian=True, l1_strength=1.0), 1e-2, "ProximalPoint"),
        (facts("l1 ball"), 1e-3, "ProximalPoint"),
        (facts("l1 ball", without=["ProximalPoint"]), 1e-3, "Subgradient"),
        (facts("l1 ball", OTHER_SLACK, without=["Variational", "CuttingPlane"]), 1e-3, "Subgradient"),
        (facts("l1", "log", dependent=True), 1e-3, "InteriorPoint"),
        (facts("l1", "log", dependent=True), 1e-5, "OWLQN"),
        (facts("l1", "log", dependent=True, n_nodes=900), 1e-3, "OWLQN"),
        (facts("l1", "log", full_hessian=True, l1_strength=20.0), 1e-3, "InteriorPoint"),
        (facts("l1", "log", full_hessian=True, l1_strength=2.0), 1e-3, "OWLQN"),
        (facts("l1", "log", sparse=True), 1e-3, "ProximalAscent"),
        (facts("l1", "log", sparse=True), 1e-5, "OWLQN"),
        (facts("l1", "log", sparse=True, cheap_hessian=True), 1e-3, "ProximalAscent"),
        (facts(loss="log", sparse=True, ridge=True), 1e-5, "ProximalAscent"),
        (facts(loss="log", sparse=True, without=["OWLQN"]), 1e-5, "LBFGS"),
        (facts("other", unknown_labels=True), 1e-3, "ConcaveConvex"),
        (facts(unknown_labels=True, self_training=True, without=["SelfTraining"]), 1e-3, "SelfTraining"),
    ],
)
def test_one_fact_decides(problem, tol, solver):
    assert type(choose(problem, tol).solver).__name__ == solver


# ---- facts -----------------------------------------------------------------------------------------------------------


def facts_for(model, X, y, **options):
    examples = Examples.build(X, y)
    return facts_of(model.pose(examples, distinct_labels(np.asarray(examples.y))), **options)


def test_facts_of_margin_models():
    X, y = labelled_chains()
    n_nodes = sum(map(len, X))
    found = facts_for(M3N(C=2.0), X, y)
    assert (found.prior, found.loss, found.n_nodes, found.local) == ("gaussian", "hinge", n_nodes, True)
    assert {"ProximalPoint", "BlockFrankWolfe", "Smoothing", "CuttingPlane"} <= found.accepts
    assert not {"LBFGS", "ConcaveConvex"} & found.accepts
    assert found.n_weights == X[0].shape[1] * 3 + 9
    assert found.full_hessian == (n_nodes >= 3 * found.n_weights)
    assert facts_for(LapMEDN(C=3.0, lam=8.0), X, y).prior == "other"
    assert facts_for(L1M3N(), X, y).prior == "l1" and facts_for(L1M3N(radius=1.0), X, y).prior == "l1 ball"
    assert facts_for(L1M3N(C=2.0), X, y).l1_strength == pytest.approx(4 * max(np.abs(x).max() for x in X))
    partly = [[UNKNOWN, *labels[1:]] for labels in y]
    assert facts_for(M3N(), X, partly).unknown_labels and not facts_for(L2CRF(), X, partly).unknown_labels
    assert facts_for(M3N(), X, partly, unlabelled=0.1).self_training


def test_facts_of_likelihood_models():
    X, y = labelled_chains()
    assert facts_for(L2CRF(lam=0.3), X, y).ridge and facts_for(MaxEnDNet(ElasticNet(), Log()), X, y).ridge
    assert facts_for(L1CRF(), X, y).prior == "l1" and not facts_for(L1CRF(), X, y).ridge
    assert not facts_for(CRF(), X, y).ridge
    assert not facts_for(L2CRF(), X, y).sparse
    words = [[{f"word {(37 * i + t) % 900}": 1.0, "bias": 1.0} for t in range(10)] for i in range(120)]
    labels = [["a", "b"] * 5] * 120
    assert facts_for(L2CRF(), words, labels).sparse and facts_for(M3N(), words, labels).sparse
    n_features = len({name for nodes in words for node in nodes for name in node})
    assert facts_for(M3N(), words, labels).n_weights == 2 * n_features + 4
    few = [[{f"word {(37 * i + t) % 100}": 1.0} for t in range(10)] for i in range(120)]
    assert not facts_for(L2CRF(), few, labels).sparse  # the initial Hessian of L-BFGS contains products of features
    assert not facts_for(L2CRF(), words[:50], labels[:50]).sparse


def test_dependent_features_are_found():
    rng = np.random.default_rng(0)
    values = rng.integers(3, size=(120, 10, 2))
    one_hot = [np.concatenate([np.eye(3)[row[:, 0]], np.eye(3)[row[:, 1]]], axis=1) for row in values]
    y = [["a", "b"] * 5] * 120
    assert facts_for(L1CRF(), one_hot, y).dependent
    assert not facts_for(L1CRF(), [x[:, :5] for x in one_hot], y).dependent
    assert not facts_for(L1CRF(), one_hot[:50], y[:50]).dependent  # not checked with few nodes


# ---- what a user sees ------------------------------------------------------------------------------------------------


def test_the_fit_names_the_rule():
    X, y = labelled_chains()
    assert M3N(tol=0.1).fit(X, y).solver_.startswith("ProximalPoint: hinge, L1 penalty or ball; Gaussian")
    assert L2CRF(tol=0.1).fit(X, y).solver_ == "LBFGS: log loss"
    assert M3N(tol=0.1, solver=solvers.Smoothing()).fit(X, y).solver_ == "Smoothing: requested"
    partly = [[UNKNOWN, *labels[1:]] for labels in y]
    assert M3N(tol=0.1).fit(X, partly).solver_ == "ConcaveConvex: hinge, unknown labels"
    inner = M3N(tol=0.1, solver=solvers.Smoothing()).fit(X, partly)
    assert inner.solver_ == "ConcaveConvex: hinge, unknown labels"
    assert L2CRF(tol=0.1).fit(X, partly).solver_ == "LBFGS: log loss"


def test_the_table_of_the_documentation_is_the_table():
    page = Path(__file__).parents[2] / "docs" / "solvers.md"
    assert rules_table() in page.read_text(), "write the output of maxendnet.solvers.choose.rules_table() into the page"

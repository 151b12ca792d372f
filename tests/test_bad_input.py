"""Wrong, extreme and empty input, and interrupted fits."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxendnet import (
    CRF,
    L1,
    L1CRF,
    L1M3N,
    L2CRF,
    M3N,
    Chain,
    Choice,
    Examples,
    Gaussian,
    Hinge,
    Independent,
    Laplace,
    LapMEDN,
    Log,
    MaxEnDNet,
    SpikeSlab,
    Tree,
)
from maxendnet.backends import Threads
from maxendnet.solvers import LBFGS, OWLQN, BlockFrankWolfe, ProximalPoint, Variational

SIX = {
    "LapMEDN": LapMEDN(),
    "LapMEDN variational": LapMEDN(C=1, lam=1, method="variational", iterations=2),
    "M3N": M3N(),
    "L1M3N": L1M3N(C=1),
    "L1M3N ball": L1M3N(radius=1.0),
    "CRF": CRF(),
    "L1CRF": L1CRF(),
    "L2CRF": L2CRF(),
}
each_of_six = pytest.mark.parametrize("model", [clone(m) for m in SIX.values()], ids=SIX.keys())

X = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0]]]
Y = [["a", "b"], ["b"]]


def fitted(model=None):
    return (model or L2CRF()).fit(X, Y)


# ---- wrong input to fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad_X", "bad_y", "message"),
    [
        pytest.param([], [], r"(?i)empty|no example|0 sample", id="empty list"),
        pytest.param([np.zeros((0, 2))], [[]], "1 examples without any node", id="no node at all"),
        pytest.param(X, [["a"], ["b"]], r"y\[0\] has 1 labels but X\[0\] has 2 nodes; expected one", id="short y"),
        pytest.param(X, [["a", "b"]], "X has 2 examples but y has 1; expected a list of labels", id="fewer y"),
        pytest.param(X, None, "requires y to be passed", id="no y"),
        pytest.param([[[0.0, 1.0], [1.0]], [[1.0, 1.0]]], Y, r"X\[0\]", id="ragged rows"),
        pytest.param([np.zeros((2, 2)), np.zeros((1, 3))], Y, r"X\[1\] has 3 features", id="another width"),
        pytest.param([[[0.0, np.nan], [1.0, 0.0]], [[1.0, 1.0]]], Y, r"NaN.*X\[0\] node 0", id="nan"),
        pytest.param([[[0.0, 1.0], [1.0, 0.0]], [[np.inf, 1.0]]], Y, r"infinity.*X\[1\] node 0", id="inf"),
        pytest.param(
            [sparse.csr_array([[0.0, np.nan], [1.0, 0.0]]), sparse.csr_array([[1.0, 1.0]])],
            Y, r"NaN.*X\[0\] node 0", id="sparse nan",
        ),
        pytest.param([[{"f": np.nan}, {}], [{}]], Y, r"X\[0\] node 0", id="nan in a dict"),
        pytest.param([[{"f": [1]}, {}], [{}]], Y, r"X\[0\] node 0.*'f'", id="list in a dict"),
        pytest.param([[[0.0, 1.1e100], [1.0, 0.0]], [[1.0, 1.0]]], Y, r"X\[0\] node 0", id="beyond 1e100"),
        pytest.param(X, [["a", float("nan")], ["b"]], r"y contains NaN.*y\[0\] node 1", id="nan label"),
        pytest.param(X, [["a", ["b"]], ["b"]], r"y\[0\] node 1.*not hashable", id="list as label"),
        pytest.param(X, [[0.5, 1.0], [1.0]], r"continuous.*y\[0\] node 0", id="continuous"),
        pytest.param(X, ["ab", "b"], r"y\[0\] is the string 'ab'", id="strings for sequences"),
        pytest.param(np.zeros((2, 2, 2, 2)), Y, r"(?i)dim|shape", id="four dimensions"),
        pytest.param(np.zeros(3), ["a", "b", "a"], r"(?i)1d|1-D|dim|shape", id="one dimension"),
        pytest.param("a text", [["a"]], r"X is", id="a string"),
        pytest.param(None, Y, r"(?i)X is", id="None"),
        pytest.param([["no", "numbers"]], [["a", "b"]], r"X\[0\]", id="words for numbers"),
    ],
)  # fmt: skip
def test_bad_examples(bad_X, bad_y, message):
    with pytest.raises(ValueError, match=message):
        M3N().fit(bad_X, bad_y)


@pytest.mark.parametrize(
    ("n_nodes", "edges", "message"),
    [
        pytest.param(2, [(0, 2)], r"X\[0\]", id="edge out of range"),
        pytest.param(2, [(0, 0)], r"X\[0\]", id="loop"),
        pytest.param(3, [(0, 1), (1, 2), (2, 0)], r"X\[0\].*cycle", id="cycle"),
    ],
)
def test_bad_edges(n_nodes, edges, message):
    with pytest.raises(ValueError, match=message):
        M3N(structure="tree").fit([(np.zeros((n_nodes, 1)), edges)], [["a", "b", "a"][:n_nodes]])


@pytest.mark.parametrize("structure", ["chain", Chain(), Chain(forbidden=[("b", "a")])])
def test_a_chain_refuses_edges_of_examples(structure):
    with pytest.raises(ValueError, match=r"but X has edges; choose structure=Tree\(\)"):
        M3N(structure=structure).fit([(np.zeros((2, 1)), [(1, 0)])], [["a", "b"]])
    model = M3N(structure=structure).fit([np.zeros((2, 1))], [["a", "b"]])
    with pytest.raises(ValueError, match=r"but X has edges"):
        model.predict([(np.zeros((2, 1)), [(1, 0)])])


@pytest.mark.parametrize("sample_weight", [[1.0], [1.0, -1.0], [1.0, np.nan], [0.0, 0.0], ["a", "b"]])
def test_bad_sample_weights(sample_weight):
    with pytest.raises(ValueError, match=r"(?i)weight"):
        M3N().fit(X, Y, sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"allowed": [[["a"], ["a"]], None], "labels": ["a", "b"]}, r"y\[0\] node 1 has the label 'b'.*not allowed"),
        ({"allowed": [[[], None], None], "labels": ["a", "b"]}, r"X\[0\] node 0 has no allowed label"),
    ],
)
def test_impossible_constraints_in_training(more, message):
    with pytest.raises(ValueError, match=message):
        M3N().fit(Examples.build(X, Y, **more))


def test_impossible_constraints_at_prediction():
    impossible = Examples.build(X, allowed=[[["c"], None], None], labels=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"X\[0\] node 0 has no allowed label among the 2 classes"):
        fitted().predict(impossible)


def test_tree_without_edges():
    with pytest.raises(ValueError, match=r"Tree\(\) needs the edges .* use structure=Chain\(\)"):
        M3N(structure="tree").fit(X, Y)


# ---- wrong input to predict ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param([[[1.0]]], "1 features, but L2CRF is expecting 2 features", id="fewer features"),
        pytest.param([[{"f": 1.0}]], "fitted on arrays without names", id="names"),
        pytest.param([[[1.0, np.nan]]], r"NaN.*X\[0\] node 0", id="nan"),
        pytest.param(Examples.build([[[1.0, 1.0], [1.0, 1.0]]], edge_types=[[3]]), "edges of type 3", id="edge type"),
        pytest.param(Examples.build([[[1.0, 1.0], [1.0, 1.0]]], edge_features=[[[1.0]]]), "1 edge features", id="edge"),
        pytest.param(
            Examples.build([[[1.0, 1.0]]], label_features=[[[[1.0], [1.0]]]], labels=["a", "b"]), "1 label features",
            id="label features",
        ),
    ],
)  # fmt: skip
def test_bad_examples_at_prediction(bad, message):
    model = fitted()
    for name in ("predict", "predict_marginals", "predict_max_marginals", "predict_top", "sample", "decision_function"):
        with pytest.raises(ValueError, match=message):
            getattr(model, name)(bad)


def test_arrays_for_a_model_of_names():
    model = L2CRF().fit([[{"f": 1.0}, {"g": 1.0}]], [["a", "b"]])
    assert len(model.predict([[[1.0, 0.0]]])[0]) == 1  # columns in the order of feature_names_
    with pytest.raises(ValueError, match="expecting 2 features"):
        model.predict([[[1.0, 0.0, 0.0]]])


def test_an_unseen_label_in_the_truth_is_just_wrong():
    assert fitted().score([[[0.0, 1.0], [1.0, 0.0]]], [["never seen", "b"]]) == 0.5


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3"])
def test_bad_counts(bad):
    model = fitted()
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        model.predict_top(X, bad)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        model.sample(X, bad)


def test_score_needs_labels():
    with pytest.raises(ValueError, match="pass y"):
        fitted().score(X)


def one_label(**more):
    return Examples.build([[[1.0], [1.0]]], [["a", "a"]], edges=[[(0, 1)]], **more)


@each_of_six
def test_one_label_and_the_rounding_error_of_its_gradient(model):
    for size in (0.13, 0.7, 1e-3, 1e3):
        model = clone(model).set_params(structure="tree")
        model.fit(one_label(edge_features=[[[size]]], sample_weight=[0.56]))
        assert model.converged_ and np.isfinite(model.objective_) and np.all(np.isfinite(model.model_.weights))


@pytest.mark.parametrize("kind", ["edge_types", "node_types"])
@pytest.mark.parametrize("bad", [2**16, 10**6, 2**31 - 1, 2**40])
def test_a_type_beyond_the_limit(kind, bad):
    with pytest.raises(
        ValueError, match=rf"{kind}\[0\] holds {bad} at position 0, above the limit of 65535.*without gaps"
    ):
        Examples.build(X, **{kind: [[bad] if kind == "edge_types" else [bad, 0], [] if kind == "edge_types" else [0]]})


def test_more_labellings_than_there_are():
    model = fitted()
    four, all_of_them = model.predict_top(X, 4), model.predict_top(X, 10**9)
    assert [[score for score, _ in row] for row in four] == [[score for score, _ in row] for row in all_of_them]
    assert [len(row) for row in all_of_them] == [4, 2]


def test_more_results_than_there_is_room_for():
    model, long = fitted(), [np.zeros((1000, 2))]
    for ask in (
        lambda: model.predict_top(long, 10**9),
        lambda: model.sample(long, 10**9),
        lambda: model.sample(X, 10**400),
    ):
        with pytest.raises(ValueError, match=r"[kn]=1000+ needs at least .* of memory, but .*; use a smaller [kn], or"):
            ask()


@pytest.mark.parametrize("bad", [1e308, 1e21])
def test_weights_and_C_beyond_the_limit(bad):
    with pytest.raises(ValueError, match=r"sample weight of example 1 is .*, above the limit of 1e\+20"):
        M3N().fit(X, Y, sample_weight=[1.0, bad])
    for model in (M3N(C=bad), LapMEDN(C=bad), L1M3N(C=bad), MaxEnDNet(C=bad)):
        with pytest.raises(ValueError, match=r"C is .*, above the limit of 1e\+20"):
            model.fit(X, Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_of_six
def test_weights_and_C_at_the_limit_give_finite_answers(model):
    model = clone(model).set_params(max_passes=20, random_state=0)
    if "C" in model.get_params():
        model.set_params(C=1e20)
    model.fit(X, Y, sample_weight=[1e20, 1.0])
    assert np.isfinite(model.objective_) and np.all(np.isfinite(model.model_.weights))
    assert isinstance(model, CRF) or model.objective_ - model.dual_ <= model.gap_ * 3e40


@pytest.mark.parametrize(
    ("ragged", "message"),
    [
        ([[[1.0, [2.0]], [1.0, 2.0]]], r"X\[0\] row 0 holds a list where a number is expected"),
        ([[[1.0, 2.0], [1.0, [2.0, 3.0]]]], r"X\[0\] row 1 holds a list where a number is expected"),
        ([[1.0, [2.0]], [1.0, 2.0]], "X row 0 holds a list where a number is expected"),
        ([[[[1.0], 2.0]], [[1.0, 2.0]]], r"X\[0\] row 0 holds a list|X\[0\] has shape"),
    ],
)
def test_ragged_nested_lists(ragged, message):
    with pytest.raises(ValueError, match=message):
        M3N().fit(ragged, [["a", "b"]] * len(ragged))


# ---- wrong settings --------------------------------------------------------------------------------------------------


def number_of(kind, name):
    """Values that a constant may have, in words."""
    return "a positive finite number" + ' or "scale"' * (name in kind.at_scale)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        *(pytest.param(kind(C=bad), f"C must be {number_of(kind, 'C')}, got {bad!r}", id=f"{kind.__name__} C={bad}")
          for kind in (M3N, LapMEDN, L1M3N, MaxEnDNet) for bad in (-1.0, 0, np.inf, np.nan, "big", None, True)),
        pytest.param(LapMEDN(C=-1.0, method="variational"), r"C must be a positive finite number, got -1.0", id="2C"),
        *(pytest.param(kind(lam=bad), f"lam must be {number_of(kind, 'lam')}, got {bad!r}", id=f"{kind.__name__} {bad}")
          for kind in (LapMEDN, L1CRF, L2CRF) for bad in (-1.0, 0, np.nan, "big", True)),
        pytest.param(LapMEDN(lam=-1.0, method="variational"), "lam must be a positive .*, got -1.0", id="4 lam"),
        *(pytest.param(L1M3N(radius=bad), "radius", id=f"radius={bad}") for bad in (-1.0, 0, np.inf, "big")),
        *(pytest.param(M3N(tol=bad), "tol must be a positive number", id=f"tol={bad}") for bad in (-1, 0, np.nan, "x")),
        *(pytest.param(M3N(max_passes=bad), "max_passes must be a whole number of at least 1", id=f"max_passes={bad}")
          for bad in (-1, 0, 1.5, "x", None)),
        pytest.param(LapMEDN(method="laplace"), "method must be 'exact' or 'variational', got 'laplace'", id="method"),
        *(pytest.param(LapMEDN(method="variational", iterations=bad), "iterations must be a whole", id=f"iter={bad}")
          for bad in (0, 2.5, "x")),
        *(pytest.param(M3N(structure=bad), r"structure must be one of Chain\(\), .* got ", id=f"structure={bad}")
          for bad in ("grid", "Chain", None, 3, Chain, Laplace())),
        *(pytest.param(M3N(solver=bad), r"solver must be None or a solver such as .*BlockFrankWolfe\(\)", id=f"{bad}")
          for bad in ("lbfgs", BlockFrankWolfe, 3)),
        *(pytest.param(M3N(n_jobs=bad), "n_jobs must be None or a whole number", id=f"n_jobs={bad}")
          for bad in (0, 1.5, "x")),
        *(pytest.param(M3N(verbose=bad), "verbose must be a bool or an integer of at least 0", id=f"verbose={bad}")
          for bad in ("x", 1.5, None, -1)),
        pytest.param(M3N(tol=10**400), "tol must be a positive number", id="tol beyond float"),
        pytest.param(M3N(C=10**400), "C must be a positive finite number", id="C beyond float"),
        pytest.param(L2CRF(lam=10**400), "lam must be a positive finite number", id="lam beyond float"),
        pytest.param(MaxEnDNet(Laplace(lam=10**400)), "Laplace needs lam > 0 and finite", id="prior beyond float"),
        *(pytest.param(M3N(random_state=bad), "random_state must be", id=f"random_state={bad}")
          for bad in (-1, "x", 1.5)),
        pytest.param(M3N(warm_start="yes"), "warm_start must be True or False, got 'yes'", id="warm_start"),
        *(pytest.param(M3N(structure=kind(**{name: "yes"})), f"{kind.__name__} needs {name} to be True or False, got",
                       id=f"{kind.__name__} {name}")
          for kind, names in ((Chain, ("bias", "ends")), (Tree, ("bias", "ends", "siblings")),
                              (Independent, ("bias", "ends")), (Choice, ("bias", "ends")))
          for name in names),
        pytest.param(M3N(structure=Chain(forbidden=[("a", "?")])), r"forbidden.*'\?'", id="forbidden, unknown label"),
        pytest.param(M3N(structure=Chain(forbidden=[("a", "b")])), "'b' after 'a', which breaks the rule never",
                     id="forbidden truth"),
        *(pytest.param(M3N(structure=Chain(forbidden=bad)), "forbidden", id=f"forbidden={bad}")
          for bad in (7, "ab", [("a",)], [("a", "b", "a")])),
        pytest.param(M3N(structure=Choice(rest="?")), r"rest.*'\?'", id="unknown rest"),
        *(pytest.param(M3N(backend=bad), r"backend must be None or a backend such as Threads\(2\)", id=f"on {bad}")
          for bad in (2, "threads", Threads)),
        *(pytest.param(M3N(callback=bad), "callback must be None or a function of a Progress", id=f"callback={bad}")
          for bad in (1, "stop")),
        pytest.param(M3N(cost=[[0, 1]]), r"cost has shape \(1, 2\), but there are 2 labels", id="shape of cost"),
        pytest.param(M3N(cost=[[0, -1], [1, 0]]), "cost must be finite and non-negative", id="negative cost"),
        pytest.param(M3N(cost=[[1, 1], [1, 0]]), "zeros on its diagonal", id="cost of the truth"),
        pytest.param(M3N(cost="hamming"), "(?i)cost", id="cost as text"),
        pytest.param(MaxEnDNet(prior="laplace"), "prior must be a prior such as Laplace", id="prior as text"),
        pytest.param(MaxEnDNet(prior=Laplace), "prior must be a prior such as Laplace", id="prior as class"),
        pytest.param(MaxEnDNet(loss="hinge"), r"loss must be Hinge\(\) or Log\(\)", id="loss as text"),
        pytest.param(MaxEnDNet(loss=Hinge), r"loss must be Hinge\(\) or Log\(\)", id="loss as class"),
        pytest.param(MaxEnDNet(prior=Hinge()), "prior must be a prior", id="loss for prior"),
        pytest.param(MaxEnDNet(prior=Laplace(lam=-1.0)), "Laplace needs lam > 0", id="prior's lam"),
        pytest.param(MaxEnDNet(prior=SpikeSlab(p=2.0)), "SpikeSlab", id="prior's p"),
        pytest.param(MaxEnDNet(prior=Gaussian(variance=np.ones(3))), "3", id="prior of another size"),
        pytest.param(M3N(solver=BlockFrankWolfe(check_every=0)), "check_every must be a whole number", id="solver"),
    ],
)  # fmt: skip
def test_bad_settings(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


@pytest.mark.parametrize(
    ("model", "needs", "fitting"),
    [
        (M3N(solver=LBFGS()), "LBFGS needs loss.smooth", ["BlockFrankWolfe"]),
        (L2CRF(solver=BlockFrankWolfe()), "BlockFrankWolfe needs not loss.smooth", ["LBFGS"]),
        (L1CRF(solver=LBFGS()), "LBFGS needs prior.gradient", ["OWLQN"]),
        (L2CRF(solver=OWLQN()), "OWLQN needs prior.rho", ["LBFGS"]),
        (L1M3N(solver=BlockFrankWolfe()), "BlockFrankWolfe needs prior.kernel_args", ["ProximalPoint"]),
        (M3N(solver=Variational()), "Variational needs prior.next_variance", ["BlockFrankWolfe"]),
        (MaxEnDNet(SpikeSlab(), solver=ProximalPoint()), "ProximalPoint needs", ["BlockFrankWolfe"]),
        (LapMEDN(method="variational", solver=Variational()), "Variational needs", ["BlockFrankWolfe"]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_a_solver_that_does_not_fit_names_those_that_do(model, needs, fitting):
    with pytest.raises(ValueError) as caught:
        model.fit(X, Y)
    message = str(caught.value)
    assert message.startswith(needs)
    offered = message.split("Solvers that fit: ")[1]
    assert all(name in offered for name in fitting)
    assert type(model.solver).__name__ not in offered


def test_a_problem_without_any_solver_is_refused():
    correlated = Gaussian(variance=np.eye(8) + 0.1)
    with pytest.raises(ValueError, match=r"BlockFrankWolfe needs prior\.kernel_args.*that fit: .*Smoothing"):
        MaxEnDNet(correlated, Hinge(), solver=BlockFrankWolfe()).fit(X, Y)
    assert MaxEnDNet(correlated, Hinge()).fit(X, Y).converged_  # the default is one that fits
    with pytest.raises(ValueError, match="L1Ball prior and Log loss"):
        from maxendnet import L1Ball

        MaxEnDNet(L1Ball(), Log()).fit(X, Y)
    assert MaxEnDNet(L1(0.1), Log()).fit(X, Y).converged_


# ---- unusual, but valid ----------------------------------------------------------------------------------------------


@each_of_six
def test_an_empty_sequence_has_an_empty_labelling(model):
    model = clone(model).set_params(tol=0.1, random_state=0).fit([*X, np.zeros((0, 2))], [*Y, []])
    examples = [np.zeros((0, 2)), np.ones((2, 2))]
    assert [len(labels) for labels in model.predict(examples)] == [0, 2]
    assert model.predict(examples)[0] == []
    assert model.predict_marginals(examples)[0].shape == (0, 2)
    assert model.decision_function(examples)[0] == 0.0
    (score, labels), *rest = model.predict_top(examples, 3)[0]
    assert (score, len(labels), rest) == (0.0, 0, [])
    assert [len(labels) for labels in model.sample(examples, 2, random_state=0)[1]] == [0, 2]
    assert np.isnan(model.score(examples[:1], [[]]))


def test_predicting_nothing():
    """No examples at all is an error to fit; to predict it is either an error or an empty answer, never a crash."""
    with pytest.raises(ValueError, match=r"(?i)empty|no example|0 sample"):
        fitted().predict([])


@each_of_six
def test_one_single_label_is_predicted(model):
    model = clone(model).set_params(random_state=0).fit(X, [["only", "only"], ["only"]])
    assert model.predict(X) == [["only", "only"], ["only"]]
    assert np.all(np.concatenate(model.predict_marginals(X)) == 1.0)
    assert model.converged_ and np.isfinite(model.objective_) and not model.coef_.any()
    assert np.isnan(model.gap_) if isinstance(model, CRF) else model.gap_ <= 1e-3


@each_of_six
def test_features_without_values(model):
    """All zero, or none at all: the transitions still learn."""
    for columns in (2, 0):
        flat = [np.zeros((2, columns)), np.zeros((1, columns))]
        model = clone(model).set_params(tol=0.1, random_state=0).fit(flat, Y)
        assert model.coef_.shape == (columns, 2) and not model.coef_.any()
        assert [len(labels) for labels in model.predict(flat)] == [2, 1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_of_six
@pytest.mark.parametrize("size", [1e100, 1e-100])
def test_enormous_and_tiny_features_give_finite_answers(model, size):
    rng = np.random.default_rng(0)
    data = [np.sign(x) * size for x in (rng.normal(size=(n, 3)) for n in (3, 2, 4, 1))]
    labels = [rng.integers(3, size=len(x)) for x in data]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        model = clone(model).set_params(max_passes=20, random_state=0).fit(data, labels)
        marginals = np.concatenate(model.predict_marginals(data))
        answers = [model.decision_function(data), marginals, np.concatenate(model.predict_max_marginals(data))]
        top = [score for example in model.predict_top(data, 2) for score, _ in example]
        model.sample(data, 2, random_state=0)
    for values in (model.objective_, model.coef_, model.transitions_, model.posterior_.mean, top, *answers):
        assert np.all(np.isfinite(values))
    assert np.allclose(marginals.sum(axis=1), 1.0)
    # at the border of the range the other way round: a model of everyday numbers asked about enormous ones
    usual = clone(model).fit([np.sign(x) for x in data], labels)
    assert np.all(np.isfinite(usual.decision_function(data)))
    assert np.all(np.isfinite(np.concatenate(usual.predict_marginals(data))))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each_of_six
@pytest.mark.parametrize("form", ["chain", "tree"])
def test_a_sequence_of_a_hundred_thousand_nodes(model, form):
    n = 100_000
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    x = rng.normal(size=(n, 2)) + labels[:, None]
    long = x if form == "chain" else (x, np.column_stack([np.arange(n - 1), np.arange(1, n)])[::-1])
    model = clone(model).set_params(structure=form, max_passes=3, tol=0.3, random_state=0)
    if "C" in model.get_params():
        model.set_params(C=1e-4)  # the loss is that of many nodes
    model.fit([long], [labels])
    assert len(model.predict([long])[0]) == n
    marginals = model.predict_marginals([long])[0]
    assert np.all(np.isfinite(marginals)) and np.allclose(marginals.sum(axis=1), 1.0)
    for values in (model.objective_, model.coef_, model.transitions_, model.decision_function([long])):
        assert np.all(np.isfinite(values))
    assert len(model.sample([long], 1, random_state=0)[0][0]) == n


def test_warnings_are_not_errors_in_disguise():
    """A fit that did not converge can still be used."""
    with pytest.warns(ConvergenceWarning):
        model = M3N(max_passes=1, tol=1e-9, random_state=0).fit(X, Y)
    assert len(model.predict(X)) == 2


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------

# One process for all cases, since importing takes longer than any of them. A thread sends the signal when the solver
# has been at work for a while, and notes how much processor time was used until then. Processor time and not the clock:
# what else the machine is doing is not the library's doing.
INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    from maxendnet import L1CRF, L1M3N, L2CRF, LapMEDN, M3N, _kernels
    from maxendnet.solvers import SMO, ExponentiatedGradient, Extragradient, Monitor

    def interrupt(at_work, sent):
        at_work.wait()
        began = time.process_time()
        while time.process_time() < began + 0.1:
            time.sleep(0.002)
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    def case(model, lengths, n_jobs, method="fit"):
        rng = np.random.default_rng(0)
        X = [rng.normal(size=(n, 50)) for n in lengths]
        y = [rng.integers(20, size=len(x)) for x in X]
        if method == "predict_top":
            model.set_params(tol=0.5, n_jobs=n_jobs).fit([x[:30] for x in X], [list(range(20)) + [0] * 10] * len(X))
        at_work, sent = threading.Event(), []
        thread = threading.Thread(target=interrupt, args=(at_work, sent), daemon=True)
        thread.start()
        Monitor.__call__ = lambda *_: at_work.set()  # called at the first evaluation: the solver is running
        top = _kernels.top
        _kernels.top = lambda *arguments: (at_work.set(), top(*arguments))
        try:
            if method == "predict_top":
                model.predict_top(X, 20)
            else:
                model.set_params(tol=1e-12, max_passes=10**6, n_jobs=n_jobs).fit(X, y)
        except KeyboardInterrupt:
            print(time.process_time() - sent[0], method == "fit" and hasattr(model, "coef_"), flush=True)
        _kernels.top = top
        thread.join()

    for line in sys.stdin:
        case(*eval(line))
"""
INTERRUPTED_CASES = [
    "M3N(C=10.0), [10] * 2000, 1",
    "M3N(C=10.0), [10] * 2000, 2",
    "M3N(C=10.0), [100_000], 1",
    "LapMEDN(method='variational'), [10] * 200, 1",
    "L1M3N(), [10] * 2000, 1",
    "L2CRF(lam=1e-6), [10] * 5000, 1",
    "L2CRF(lam=1e-6), [10] * 5000, 2",
    "L2CRF(lam=1e-6), [100_000], 1",
    "L1CRF(lam=1e-3), [10] * 2000, 1",
    "M3N(solver=SMO(check_every=1)), [10] * 1000, 1",
    "M3N(solver=ExponentiatedGradient(check_every=1)), [10] * 500, 1",
    "M3N(solver=ExponentiatedGradient(check_every=1)), [20_000], 1",
    "M3N(solver=Extragradient(check_every=1)), [10] * 500, 1",
    "L2CRF(), [150_000], 1, 'predict_top'",
    "L2CRF(), [100_000] * 2, 2, 'predict_top'",
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals, which Windows lacks")
def test_control_c_stops_a_fit_or_a_prediction():
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED)]
    done = subprocess.run(command, input="\n".join(INTERRUPTED_CASES), capture_output=True, text=True, check=False)
    answers = done.stdout.splitlines()
    assert done.returncode == 0 and len(answers) == len(INTERRUPTED_CASES), (answers, done.stderr)
    for case, answer in zip(INTERRUPTED_CASES, answers):
        seconds, fitted = answer.split()
        # Meant to be half a second, and four times that on a busy machine. Without an ear for signals these fits go on
        # for hours, and the predictions take 50 CPU seconds.
        assert float(seconds) < 8.0 and fitted == "False", case


def test_memoryviews_are_arrays():
    table = np.eye(2)
    for X in ([memoryview(table)], memoryview(table[None])):
        assert M3N(max_passes=3, tol=0.5).fit(X, [["a", "b"]]).predict(X) == [["a", "b"]]
    assert len(Examples.build(memoryview(table))) == 2
    for y in ([memoryview(np.array(["a", "b"]))], memoryview(np.array([["a", "b"]]))):
        assert M3N(max_passes=3, tol=0.5).fit([table], y).predict([table]) == [["a", "b"]]
    with pytest.raises(ValueError, match=r"y\[0\] has shape \(2, 2\)"):
        M3N().fit([table], [memoryview(table)])


@pytest.mark.parametrize("model", [M3N(), L2CRF(), LapMEDN()], ids=lambda model: type(model).__name__)
def test_no_features_and_no_other_weights(model):
    with pytest.raises(ValueError, match=r"There is nothing to learn: X has 0 features, and Independent\(\) has"):
        model.set_params(structure=Independent()).fit(np.zeros((2, 3, 0)), [list("aba"), list("bab")])

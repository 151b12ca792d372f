"""Input that `Choice` accepts and refuses."""

import numpy as np
import pytest

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Choice, Examples, Independent, LapMEDN, load

SYSTEMS = [M3N(C=1), LapMEDN(C=1, lam=1), L1M3N(C=1), CRF(), L2CRF(lam=0.1), L1CRF(lam=0.1)]
RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 4)) for n in RNG.integers(2, 9, size=60)]
Y = [np.where(np.arange(len(x)) == np.argmax(x[:, 0] - x[:, 1]), "best", "-") for x in X]
"""One node of each example is the best, but no threshold on single node scores identifies it."""


@pytest.mark.parametrize("model", SYSTEMS, ids=lambda model: type(model).__name__)
def test_every_system_learns_to_choose(model, tmp_path):
    model = model.set_params(structure=Choice(bias=True), random_state=0, tol=1e-2, max_passes=2000)
    model.fit(X[:40], Y[:40])
    assert model.gap_ <= 1e-2 or type(model) is CRF
    right = np.mean([np.array_equal(p, y) for p, y in zip(model.predict(X[40:]), Y[40:])])
    assert right >= 0.85
    assert all(p.count("best") <= 1 for p in model.predict(X))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), model.predict(X)))
    assert again.model_.layout == model.model_.layout and repr(again.structure) == repr(model.structure)


def test_choosing_is_better_than_nodes_by_themselves():
    def right(structure):
        model = L2CRF(lam=0.1, structure=structure).fit(X[:40], Y[:40])
        return np.mean([np.array_equal(p, y) for p, y in zip(model.predict(X[40:]), Y[40:])])

    assert right(Choice(bias=True)) > right(Independent(bias=True)) + 0.2


def test_marginals_are_the_confidence_of_a_choice():
    model = L2CRF(lam=0.1, structure="choice").fit(X, Y)
    for x, p in zip(X, model.predict_marginals(X)):
        assert p.shape == (len(x), 2) and np.allclose(p.sum(axis=1), 1.0)
        assert p[:, 1].sum() <= 1 + 1e-12


def test_the_rest_is_the_most_frequent_label():
    model = L2CRF(structure="choice").fit([[[1.0], [2.0], [0.5]]] * 2, [["z", "a", "z"], ["z", "z", "z"]])
    assert model.model_.layout.rest == 1
    # another label is more frequent, but then two nodes of the last example would be chosen
    model = L2CRF(structure="choice").fit(
        [[[1.0]]] * 4 + [[[1.0], [2.0], [0.0]]], [["best"]] * 4 + [["-", "best", "-"]]
    )
    assert model.classes_[model.model_.layout.rest] == "-"


def test_an_ambiguous_rest_must_be_named(tmp_path):
    pairs, y = [[[1.0], [3.0]], [[5.0], [2.0]], [[0.0], [4.0]]], [["none", "best"], ["best", "none"], ["none", "best"]]
    with pytest.raises(ValueError, match=r"equally frequent\. Name it, for instance Choice\(rest='best'\)"):
        M3N(structure="choice").fit(pairs, y)
    model = M3N(structure=Choice(rest="none"), C=10.0).fit(pairs, y)
    assert model.predict([[[1.0], [9.0], [2.0]]])[0] == ["none", "best", "none"]
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.structure.rest == "none" and again.predict([[[1.0], [9.0], [2.0]]])[0] == ["none", "best", "none"]
    with pytest.raises(ValueError, match=r"structure was changed after the fit, from Choice\(rest=\'none\'\)"):
        model.set_params(structure__rest="best").predict(pairs)
    with pytest.raises(ValueError, match="rest is 'other', but no node of y has this label"):
        M3N(structure=Choice(rest="other")).fit(pairs, y)
    with pytest.raises(ValueError, match=r"another label than 'a', but y\[0\] node 0 has the label 'b'"):
        M3N(structure=Choice(rest="a")).fit([[[1.0], [2.0], [0.0]]], [["b", "a", "b"]])
    data = Examples.build([np.ones((2, 1))] * 2, [["-", "a"], ["a", "-"]], labels=["-", "a"],
                          allowed=[[["-"], ["a"]], [["a"], ["-", "a"]]])  # fmt: skip
    with pytest.raises(ValueError, match="no label is allowed at every node"):
        L2CRF(structure="choice").fit(data)


def test_two_choices_in_an_example_are_refused():
    with pytest.raises(
        ValueError, match=r"y\[1\] node 0 has the label 'a' and y\[1\] node 2 has 'b'; make an example for each"
    ):
        L2CRF(structure="choice").fit([np.ones((3, 1))] * 3, [["-", "a", "-"], ["a", "-", "b"], ["-", "-", "-"]])


def test_a_node_that_must_be_chosen_is_refused():
    data = Examples.build([np.ones((2, 1))] * 2, [["-", "a"], ["-", "-"]], labels=["-", "a"],
                          allowed=[[["-", "a"], ["a"]], [["-"], ["-", "a"]]])  # fmt: skip
    with pytest.raises(ValueError, match=r"X\[0\] node 1 must not have the label of nodes that are not chosen"):
        L2CRF(structure=Choice(rest="-")).fit(data)
    model = L2CRF(structure="choice").fit(X, Y)
    data = Examples.build([X[0]], labels=["-", "best"], allowed=[[["best"]] * len(X[0])])
    with pytest.raises(ValueError, match="must not have the label of nodes that are not chosen"):
        model.predict(data)


def test_a_structure_that_was_changed_after_the_fit_is_refused():
    for left, right in (("choice", "independent"), ("independent", "choice"), ("choice", "chain")):
        model = L2CRF(structure=left).fit(X, Y).set_params(structure=right)
        with pytest.raises(ValueError, match="changed after the fit"):
            model.predict(X)


@pytest.mark.parametrize("option", [{"siblings": True}, {"forbidden": [("-", "best")]}])
def test_siblings_and_forbidden_pairs_need_edges(option):
    with pytest.raises(TypeError, match=next(iter(option))):
        Choice(**option)


def test_a_solver_for_pairs_of_labels_is_refused_and_others_are_named():
    from maxendnet.solvers import PotentialAscent

    with pytest.raises(ValueError, match=r"on a choice among nodes does not offer. Solvers that fit: LBFGS"):
        L2CRF(structure="choice", solver=PotentialAscent()).fit(X, Y)

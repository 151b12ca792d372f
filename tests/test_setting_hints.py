"""Hints in errors for unknown settings; signatures remain visible."""

from __future__ import annotations

import inspect
import pydoc

import pytest
from sklearn.base import clone

from maxendnet import CRF, L1, L1CRF, L1M3N, L2CRF, M3N, Chain, Gaussian, Hinge, LapMEDN, MaxEnDNet, path
from maxendnet.estimators.setting_hints import HINTS
from maxendnet.solvers import LBFGS


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (L2CRF, {"C": 2}, "L2CRF has no setting 'C'; C is 1 / lam: L2CRF(lam=0.5)."),
        (L1CRF, {"C": 4}, "L1CRF(lam=0.25)"),
        (CRF, {"C": 2}, "L2CRF(lam=0.5)"),
        (CRF, {"lam": 2}, "L2CRF(lam=2)"),
        (M3N, {"lam": 2}, "M3N has no setting 'lam'; lam is 1 / C: M3N(C=0.5)."),
        (M3N, {"lam": 0}, "M3N(C=1 / 0)"),
        (L1M3N, {"lam": 2}, "lam is 1 / (2 C): L1M3N(C=0.25)"),
        (MaxEnDNet, {"lam": 2}, "MaxEnDNet(prior=Laplace(lam=2))"),
        (LapMEDN, {"max_iter": 5}, "LapMEDN(max_passes=5)"),
    ],
)
def test_settings_of_other_estimators_show_the_form_here(kind, settings, message):
    for use, error in ((kind, TypeError), (kind().set_params, ValueError)):
        with pytest.raises(error) as caught:
            use(**settings)
        assert message in str(caught.value)


def test_misspelt_settings_are_corrected():
    with pytest.raises(TypeError, match=r"M3N has no setting 'max_pases'. Did you mean 'max_passes'\?"):
        M3N(max_pases=3)
    with pytest.raises(TypeError, match=r"M3N has no setting 'gamma'. Its settings are: C, backend"):
        M3N(gamma=3)


def test_other_type_errors_stay_as_they_are():
    with pytest.raises(TypeError, match="multiple values for argument 'C'"):
        M3N(1.0, C=1.0)
    with pytest.raises(TypeError, match="positional arguments"):
        L2CRF(*range(99))


@pytest.mark.parametrize(
    ("model", "prior"), [(M3N(C=1 / 4), Gaussian(1 / 4)), (L1M3N(C=1 / 8), L1(4.0))], ids=["M3N", "L1M3N"]
)
def test_the_hints_for_lam_are_the_same_problem(model, prior):
    """``lam`` = 4 as the weight of the penalty: the objective is that of the hinted C, divided by C."""
    X, y = [[[0.0, 1.0], [1.0, 0.2]], [[1.0, -0.3]]], [["a", "b"], ["b"]]
    penalised = MaxEnDNet(prior, Hinge(), C=1.0, tol=1e-6).fit(X, y)
    assert model.set_params(tol=1e-6).fit(X, y).objective_ / model.C == pytest.approx(penalised.objective_, rel=1e-5)


def test_the_hint_table_names_settings_that_exist():
    kinds = {kind.__name__: kind for kind in (CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MaxEnDNet)}
    for name, setting in HINTS:
        assert name == "MarkovNetwork" or setting not in kinds[name]().get_params()


@pytest.mark.parametrize("kind", [M3N, L2CRF, LapMEDN, MaxEnDNet])
def test_signatures_are_visible(kind):
    parameters = inspect.signature(kind).parameters
    assert parameters.keys() == kind().get_params().keys() and "self" not in parameters
    assert kind.__new__ is object.__new__  # type checkers and editors read __init__ alone
    assert "max_passes: 'int' = 10000" in pydoc.render_doc(kind)


def test_a_subclass_has_the_hints_of_its_base():
    class Mine(M3N):
        def __init__(self, C=1.0, extra=0):
            super().__init__(C=C)
            self.extra = extra

    assert clone(Mine(extra=3)).get_params() == {"C": 1.0, "extra": 3}
    with pytest.raises(TypeError, match=r"Mine has no setting 'lam'; lam is 1 / C: Mine\(C=0.5\)"):
        Mine(lam=2)


def test_a_path_over_a_setting_of_others_is_explained():
    with pytest.raises(ValueError, match=r"At the point \{'lam': 1.0\} .*lam is 1 / C"):
        path(M3N(), [[[0.0], [1.0]]], [["a", "b"]], {"lam": [1.0, 2.0]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"structure": "chian"}, r"got 'chian'. Did you mean 'chain'\?"),
        ({"structure": "Tree"}, r"Did you mean 'tree'\?"),
        ({"solver": "lbfgs"}, r"got 'lbfgs'. Did you mean maxendnet.solvers.LBFGS\(\)\?"),
        ({"solver": "liblinear"}, "got 'liblinear'.$"),
        ({"structure": 3}, "got 3.$"),
    ],
)
def test_misspelt_pieces_are_corrected(settings, message):
    with pytest.raises(ValueError, match=message):
        L2CRF(**settings).fit([[[0.0], [1.0]]], [["a", "b"]])


def test_classes_in_place_of_pieces_are_corrected():
    with pytest.raises(ValueError, match=r"Did you mean Chain\(\)\?"):
        L2CRF(structure=Chain).fit([[[0.0], [1.0]]], [["a", "b"]])
    with pytest.raises(ValueError, match=r"Did you mean maxendnet.solvers.LBFGS\(\)\?"):
        L2CRF(solver=LBFGS).fit([[[0.0], [1.0]]], [["a", "b"]])

"""The code on the pages of docs/extend: a prior, a solver and a structure in a separate package.

The code is written to files of a new package and imported from there. It must pass the same tests as the pieces of the
library, without any change to the library.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import structure_laws
import test_prior_laws
from sklearn.base import clone

from maxendnet import (
    L2CRF,
    M3N,
    Gaussian,
    LapMEDN,
    MaxEnDNet,
    ModelFileError,
    SpikeSlab,
    load,
    priors,
    solvers,
    structures,
)
from maxendnet.estimators.file import KIND as MODEL_FILE
from maxendnet.estimators.file import read, write_sealed
from maxendnet.solvers.base import missing

PAGES = Path(__file__).parents[1] / "docs" / "extend"
MODULES = {"logistic": "prior.md", "batch_frank_wolfe": "solver.md", "second_order": "structure.md"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package, with one module for every page: its first block of code without prompts."""
    folder = tmp_path_factory.mktemp("written") / "extension"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for module, page in MODULES.items():
        blocks = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
        (folder / f"{module}.py").write_text(next(block for block in blocks if ">>>" not in block))
    sys.path.insert(0, str(folder.parent))
    try:
        yield {module: importlib.import_module(f"extension.{module}") for module in MODULES}
    finally:
        sys.path.remove(str(folder.parent))
        for name in [name for name in sys.modules if name.split(".")[0] == "extension"]:
            del sys.modules[name]


@pytest.fixture
def library(package, monkeypatch):
    """The package after the first step of "Put it into the library" on every page."""
    prior, solver = package["logistic"].Logistic, package["batch_frank_wolfe"].BatchFrankWolfe
    monkeypatch.setattr(priors, prior.__name__, prior, raising=False)
    monkeypatch.setattr(priors, "__all__", [*priors.__all__, prior.__name__])
    monkeypatch.setattr(solvers, "ALL", (*solvers.ALL, solver))
    monkeypatch.setattr(structures, "ALL", (*structures.ALL, package["second_order"].SecondOrder))
    return package


@pytest.fixture(scope="module")
def examples():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 3)) for n in (4, 2, 5, 3)]
    return X, [(x[:, 0] + rng.normal(size=len(x)) > 0).tolist() for x in X]


PRIOR_LAWS = [
    law
    for name, law in sorted(vars(test_prior_laws).items())
    if name.startswith("test_") and list(inspect.signature(law).parameters) == ["prior"]
]


@pytest.mark.parametrize("law", PRIOR_LAWS, ids=lambda law: law.__name__)
def test_the_prior_obeys_the_laws(package, law):
    for scale in (0.03, 1.0, 20.0):
        law(package["logistic"].Logistic(scale))


def test_the_prior_fits(package, examples):
    model = MaxEnDNet(package["logistic"].Logistic(0.5), C=0.5, solver=solvers.Subgradient(), tol=0.02).fit(*examples)
    assert model.converged_ and model.dual_ <= model.objective_ and model.posterior_.kind == "exact"
    assert model.set_params(prior__b=1.0).prior.b == 1.0


def test_the_solver_agrees_with_the_others(package, examples):
    solver = package["batch_frank_wolfe"].BatchFrankWolfe
    for prior in (Gaussian(), SpikeSlab(), package["logistic"].Logistic()):
        problem = MaxEnDNet(prior, C=0.3).pose(*_posed(examples))
        assert not missing(solver, problem)
        found = MaxEnDNet(prior, C=0.3, solver=solver(), tol=1e-2).fit(*examples)
        for kind in solvers.ALL:
            if missing(kind, problem):
                continue
            tol = max(kind.accuracy, 1e-3)
            other = MaxEnDNet(prior, C=0.3, solver=kind(), tol=tol, random_state=0, max_passes=5000).fit(*examples)
            scale = abs(found.objective_)
            assert found.dual_ <= other.objective_ + 1e-9 * scale and other.dual_ <= found.objective_ + 1e-9 * scale
            assert abs(found.objective_ - other.objective_) <= (1e-2 + tol) * scale


@pytest.mark.parametrize("law", structure_laws.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("allowed", [False, True])
def test_the_structure_obeys_the_laws(library, law, allowed):
    law(structure_laws.Subject(library["second_order"].SecondOrder(), structure_laws.make_examples(3, allowed=allowed)))


def test_the_structure_works_in_estimators_with_every_solver_that_fits(package, examples):
    structure = package["second_order"].SecondOrder()
    fits = 0
    for model in (M3N(C=0.3, structure=structure), LapMEDN(C=0.3, structure=structure), L2CRF(structure=structure)):
        best = clone(model).set_params(tol=1e-4).fit(*examples)
        problem = model.pose(*_posed(examples))
        for kind in solvers.ALL:
            if missing(kind, problem):
                with pytest.raises(ValueError, match=f"{kind.__name__} needs"):
                    clone(model).set_params(solver=kind()).fit(*examples)
                continue
            tol = max(kind.accuracy, 1e-3)
            other = clone(model).set_params(solver=kind(), tol=tol, random_state=0, max_passes=5000).fit(*examples)
            assert other.dual_ <= best.objective_ * (1 + 1e-9) and best.dual_ <= other.objective_ * (1 + 1e-9)
            fits += 1
    assert fits >= 8
    assert [len(labels) for labels in best.predict(examples[0])] == [len(x) for x in examples[0]]


def test_a_structure_of_others_is_not_saved(package, examples, tmp_path):
    model = M3N(structure=package["second_order"].SecondOrder()).fit(*examples)
    with pytest.raises(ValueError, match="not a class of maxendnet"):
        model.save(tmp_path / "model.medn")
    assert not list(tmp_path.iterdir())


def test_pieces_in_the_library_are_saved(library, examples, tmp_path):
    prior, solver = library["logistic"].Logistic(0.5), library["batch_frank_wolfe"].BatchFrankWolfe()
    model = MaxEnDNet(prior, C=0.5, structure="secondorder", solver=solver, tol=0.05).fit(*examples)
    model.save(tmp_path / "model.medn")
    loaded = load(tmp_path / "model.medn")
    assert repr(loaded) == repr(model) and loaded.posterior_.prior.b == 0.5
    assert loaded.predict_marginals(examples[0])[0].tolist() == model.predict_marginals(examples[0])[0].tolist()


def test_a_layout_without_its_type_is_refused(library, examples, tmp_path, monkeypatch):
    structure = library["second_order"].SecondOrder
    model = M3N(structure=structure()).fit(*examples)
    monkeypatch.delattr(structure, "layout_type")
    with pytest.raises(ModelFileError, match=r"has class TrigramLayout, .* set layout_type of the structure"):
        model.save(tmp_path / "model.medn")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda layout: layout.pop("n_labels"), "the layout has no 'n_labels'"),
        (lambda layout: layout.update(n_states=2), "the layout has the unknown field 'n_states'"),
        (lambda layout: layout.update(n_labels=3), "where 36 float64 numbers are expected"),
        (lambda layout: layout.update(n_features=2**62), "float64 numbers are expected"),
    ],
)
def test_a_forged_layout_is_refused(library, examples, tmp_path, change, message):
    path = tmp_path / "model.medn"
    M3N(structure="secondorder").fit(*examples).save(path)
    header, arrays = read(path)
    change(header["layout"])
    write_sealed(path, MODEL_FILE, header, arrays)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_the_structure_says_what_does_not_fit_a_file(library, examples, tmp_path, monkeypatch):
    structure, path = library["second_order"].SecondOrder, tmp_path / "model.medn"
    M3N(structure=structure()).fit(*examples).save(path)
    monkeypatch.setattr(
        structure,
        "layout_error",
        lambda self, layout, n_features_in, classes: f"{n_features_in} features",
        raising=False,
    )
    with pytest.raises(ModelFileError, match="3 features"):
        load(path)


def test_weights_of_another_layout_do_not_grow(package, examples):
    model = M3N(structure=package["second_order"].SecondOrder()).fit(*examples)
    with pytest.raises(ValueError, match=r"partial_fit does not support SecondOrder.*; fit the model to all examples"):
        model.partial_fit(*examples)


def _posed(examples):
    from maxendnet.data.examples import as_examples, distinct_labels

    found = as_examples(*examples)
    return found, distinct_labels(found.y)

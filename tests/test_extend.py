"""The pages of docs/extend followed to the letter: a prior, a solver and a structure in a package of their own.

The code of the pages is written to files of a new package, imported from there, and must obey the laws that the pieces
of the library obey. Nothing of the library is changed for it.
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

from maxendnet import L2CRF, M3N, Gaussian, LapMEDN, MaxEnDNet, SpikeSlab, solvers
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
        problem, _ = MaxEnDNet(prior, C=0.3).pose(*_posed(examples))
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
def test_the_structure_obeys_the_laws(package, law, allowed):
    law(structure_laws.Subject(package["second_order"].SecondOrder(), structure_laws.make_examples(3, allowed=allowed)))


def test_the_structure_works_in_estimators_with_every_solver_that_fits(package, examples):
    structure = package["second_order"].SecondOrder()
    fits = 0
    for model in (M3N(C=0.3, structure=structure), LapMEDN(C=0.3, structure=structure), L2CRF(structure=structure)):
        best = clone(model).set_params(tol=1e-4).fit(*examples)
        problem, _ = model.pose(*_posed(examples))
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
    with pytest.raises(ValueError, match="not a piece of maxendnet"):
        model.save(tmp_path / "model.medn")
    assert not list(tmp_path.iterdir())


def _posed(examples):
    from maxendnet.data.examples import as_examples, distinct_labels

    found = as_examples(*examples)
    return found, distinct_labels(found.y)

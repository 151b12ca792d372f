"""Content and public names of the installed package."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import maxendnet
from maxendnet import priors, solvers, structures, text

ROOT = Path(__file__).parents[1]


def printed(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["maxendnet", "maxendnet.solvers", "maxendnet.text"])
def test_dir_lists_every_public_name_before_any_of_them_was_used(module):
    script = (
        f"import {module} as m; print(sorted(set(m.__all__) - set(dir(m))), len(m.__all__), sorted(dir(m)) == dir(m))"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output == f"[] {len(sys.modules[module].__all__)} True\n"


@pytest.mark.parametrize("module", [maxendnet, solvers, text], ids=lambda module: module.__name__)
def test_every_name_that_dir_lists_is_there(module):
    assert all(hasattr(module, name) for name in dir(module))
    assert len(module.__all__) == len(set(module.__all__))
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'nothing'"):
        _ = module.nothing


def imported(script, modules):
    """Which of the modules are imported after a script."""
    return printed(f"import sys\n{script}\nprint([m for m in {modules!r} if m in sys.modules], file=sys.__stdout__)")


def test_the_package_imports_no_dependency():
    assert imported("import maxendnet", ("numpy", "scipy", "sklearn", "click", "tqdm")) == "[]\n"


def test_an_estimator_imports_no_package_beyond_sklearn_base():
    script = """
import sys, sklearn.base
before = set(sys.modules)
from maxendnet import LapMEDN
new = set(sys.modules) - before
print({name.split(".")[0] for name in new} - {"maxendnet", "sklearn"})
print({"sklearn.metrics", "sklearn.model_selection"} & new)
"""
    assert printed(script) == "set()\nset()\n"


@pytest.mark.parametrize("command", ["", "web", "tag"])
def test_help_imports_no_numerical_package(command):
    script = f"""
import io
from maxendnet.cli import main
sys.stdout = io.StringIO()
main({[*command.split(), "--help"]}, standalone_mode=False)
assert "Examples:" in sys.stdout.getvalue()
"""
    assert imported(script, ("numpy", "scipy", "sklearn", "tqdm")) == "[]\n"


def test_subpackages_are_attributes():
    assert printed("import maxendnet; print(maxendnet.solvers.LBFGS.__name__, maxendnet.priors.L1())") == "LBFGS L1()\n"


def test_every_prior_and_every_structure_is_a_name_of_the_package():
    pieces = {kind.__name__ for kind in structures.ALL}
    assert not pieces - set(structures.__all__)
    assert not (pieces | set(priors.__all__) - {"Prior", "ExactPrior"}) - set(maxendnet.__all__)


def test_the_core_does_not_import_applications():
    script = (
        "import sys, maxendnet.estimators.file; print([m for m in ('text', 'web') if f'maxendnet.{m}' in sys.modules])"
    )
    assert printed(script) == "[]\n"


def test_there_is_one_version():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in about and about["dynamic"] == ["version"]
    assert importlib.metadata.version("maxendnet") == maxendnet.__version__
    assert len(re.findall("(?m)^__version__ = ", (ROOT / "src/maxendnet/version.py").read_text())) == 1


def test_the_package_is_marked_as_typed():
    """PEP 561: without this file in the installed package its annotations are not used."""
    assert (Path(maxendnet.__file__).parent / "py.typed").is_file()

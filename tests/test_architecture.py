"""Imports point one way, folders hold what they say, and objects are changed through their own methods."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/maxendnet"
CORE = "version utils kernels piece"
DATA = f"{CORE} data backends"
MODEL = f"{DATA} structures priors losses problem posterior"
ALLOWED = {
    "version": "",
    "utils": "",
    "kernels": "",
    "piece": "utils",
    "data": CORE,
    "backends": CORE,
    "priors": CORE,
    "posterior": f"{CORE} priors",
    "structures": DATA,
    "rules": "structures",
    "losses": f"{DATA} structures",
    "problem": f"{DATA} structures priors losses",
    "solvers": MODEL,
    "models": f"{MODEL} solvers",
    "estimators": f"{MODEL} solvers models preprocessing",
    "certificates": f"{MODEL} solvers",
    "preprocessing": f"{DATA}",
    "selection": f"{MODEL} estimators",
    "datasets": DATA,
    "text": f"{MODEL} models estimators selection rules package",
    "web": f"{MODEL} solvers models estimators",
    "experiments": f"{MODEL} solvers estimators certificates datasets web package",
    "cli": f"{CORE} backends estimators experiments text web",
    "package": f"{MODEL} models estimators preprocessing selection",
}
"""The folders that each folder may import, in the order of the library. ``package`` is ``maxendnet/__init__.py``."""
IN_FUNCTIONS = {
    ("data/examples.py", "data.folder"): "Examples.open is implemented where Examples are built",
    ("estimators/markov_network.py", "models.checkpoint"): "few fits have a checkpoint",
    ("estimators/markov_network.py", "estimators.file"): "the reader of a file knows all estimators",
    ("solvers/base.py", "solvers"): "an error message names all solvers",
    ("solvers/concave_convex.py", "solvers.choose"): "the table of default solvers imports every solver",
    ("solvers/self_training.py", "solvers.choose"): "the table of default solvers imports every solver",
    ("solvers/variational.py", "solvers.choose"): "the table of default solvers imports every solver",
    ("text/tagger.py", "text.results.explain"): "few taggers are explained",
}
"""Imports of our own modules inside functions, beside those of commands, which keep the start of a program short."""


def modules():
    return sorted(path for path in SOURCE.rglob("*.py") if "kernels" not in path.relative_to(SOURCE).parts)


def folder_of(path):
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return {"__init__": "package", "__main__": "cli", "_kernels": "kernels"}.get(first, first)


def imports(path):
    """Every imported module of ours, with whether that happens inside a function; without those for type checkers."""
    pairs = []

    def visit(node, inside):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == "maxendnet":
                assert child.level == 0, f"{path} has a relative import"
                for alias in child.names:
                    name = f"{child.module}.{alias.name}".removeprefix("maxendnet").removeprefix(".")
                    pairs.append((name if is_module(name) else name.rpartition(".")[0], inside))
            elif isinstance(child, ast.Import):
                pairs.extend((a.name[10:], inside) for a in child.names if a.name.startswith("maxendnet."))
            visit(child, inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    visit(ast.parse(path.read_text()), False)
    return pairs


def is_module(name):
    place = SOURCE / name.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").exists() or name == "_bindings"


def top_of(module):
    first = module.split(".")[0]
    return {"": "package", "_kernels": "kernels", "_bindings": "kernels"}.get(first, first)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    folder = folder_of(path)
    for module, _ in imports(path):
        top = top_of(module)
        assert top == folder or top in ALLOWED[folder].split(), f"{folder} imports {module or 'maxendnet'}"


def test_the_table_has_no_cycle():
    left = {folder: set(below.split()) for folder, below in ALLOWED.items()}
    while left:
        lowest = [folder for folder, below in left.items() if not below & left.keys()]
        assert lowest, f"a cycle among {sorted(left)}"
        for folder in lowest:
            del left[folder]


def test_imports_inside_functions_have_a_reason():
    found = {
        (str(path.relative_to(SOURCE)), module)
        for path in modules()
        if path.name not in ("cli.py", "commands.py")
        for module, inside in imports(path)
        if inside
    }
    assert found == set(IN_FUNCTIONS)


def test_nothing_imports_the_integrations_with_other_packages():
    paths = [path for path in modules() if "integrations" not in path.parts]
    names = [module for path in paths for module, _ in imports(path)]
    assert "text.reading.columns" in names
    assert not [name for name in names if name.startswith("text.integrations")]


def test_attributes_are_not_written_past_their_owner():
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
                target = ast.unparse(node.value)
                assert not (target.startswith("vars(") or target.endswith(".__dict__")), f"{path}: {target}[...] ="
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".__dict__.update"):
                raise AssertionError(f"{path}:{node.lineno} writes through __dict__")


@pytest.mark.parametrize("folder", ["solvers", "structures"])
def test_the_top_of_a_folder_holds_pieces(folder):
    """A user can name each of them; machinery is in subfolders."""
    import maxendnet.solvers
    import maxendnet.structures

    package = {"solvers": maxendnet.solvers, "structures": maxendnet.structures}[folder]
    homes = {piece.__module__.rpartition(".")[2] for piece in package.ALL}
    top = {path.stem for path in (SOURCE / folder).glob("*.py")}
    assert top - homes <= {"__init__", "base", "choose", "rules"}


PAGE = (ROOT / "docs/architecture.md").read_text()


def test_the_page_on_architecture_lists_folders_in_the_order_of_imports():
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(ALLOWED)
    for place, folder in enumerate(rows):
        assert set(ALLOWED[folder].split()) <= set(rows[:place]), folder


def test_the_page_on_architecture_names_files_that_exist():
    paths = re.findall(r"`([a-z_/]+\.py)`", PAGE)
    assert paths and not [path for path in paths if not ((SOURCE / path).exists() or (ROOT / path).exists())]

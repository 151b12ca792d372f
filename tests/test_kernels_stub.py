"""The types that mypy sees are those of the compiled module."""

import ast
import importlib
from pathlib import Path

import pytest

import maxendnet
from maxendnet import _kernels

StubGen = pytest.importorskip("nanobind.stubgen", reason="needs nanobind (pip install nanobind)").StubGen


def signatures(stub):
    """Parameter names of every function and method, by name; None where an argument has no name to be called by."""
    found = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = parameters(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
            found.update({f"{node.name}.{method.name}": parameters(method) for method in methods})
    return found


def parameters(node):
    return [None] * len(node.args.posonlyargs) + [argument.arg for argument in node.args.args]


@pytest.mark.parametrize("level", _kernels.levels())
def test_the_stub_has_what_the_module_has(level):
    """The compiled module of a level, and what chooses among them."""
    module = importlib.import_module(f"maxendnet._kernels_{level}")
    generator = StubGen(module)
    generator.put(module)
    source = Path(_kernels.__file__).read_text()
    chooser = {name: found for name, found in signatures(source).items() if not name.startswith("_")}
    written = (Path(maxendnet.__file__).parent / "_kernels.pyi").read_text()
    assert signatures(written) == signatures(generator.get()) | chooser

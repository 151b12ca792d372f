"""The types that mypy sees are those of the compiled module."""

import ast
from pathlib import Path

from nanobind.stubgen import StubGen

import maxendnet
from maxendnet import _kernels


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


def test_the_stub_has_what_the_module_has():
    generator = StubGen(_kernels)
    generator.put(_kernels)
    written = (Path(maxendnet.__file__).parent / "_kernels.pyi").read_text()
    assert signatures(written) == signatures(generator.get())

"""The types that mypy sees are those of the compiled module."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import maxendnet
from maxendnet import _bindings, _kernels

StubGen = pytest.importorskip("nanobind.stubgen", reason="needs nanobind (pip install nanobind)").StubGen


def signatures(stub):
    """Parameter names of the overloads of every class, function and method, by name."""
    names = defaultdict(set)
    for node in ast.parse(stub).body:
        if isinstance(node, ast.FunctionDef):
            names[node.name].add(parameters(node))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            names[node.name] = set()
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    names[f"{node.name}.{method.name}"].add(parameters(method))
    return names


def parameters(node):
    """None for an argument without a name to be called by."""
    named = [argument.arg for argument in node.args.args]
    rest = [] if node.args.vararg is None else [f"*{node.args.vararg.arg}"]
    return (*[None] * len(node.args.posonlyargs), *named, *rest)


def test_the_stub_has_what_the_module_has():
    """The compiled module, and what chooses the level."""
    generator = StubGen(_bindings)
    generator.put(_bindings)
    source = Path(_kernels.__file__).read_text()
    chooser = {name: overloads for name, overloads in signatures(source).items() if not name.startswith("_")}
    written = (Path(maxendnet.__file__).parent / "_kernels.pyi").read_text()
    bound = {name: overloads for name, overloads in signatures(generator.get()).items() if not name.startswith("_")}
    assert signatures(written) == bound | chooser


OPERATIONS = {
    "decode": 5, "hinge_oracle": 5, "block_frank_wolfe": 5, "log_oracle": 4, "max_marginals": 3, "marginals": 3,
    "sample": 3, "block_gaps": 3, "active_features": 3, "impossible": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_overloaded_on_the_recursion(name):
    recursions = re.findall(rf"^{name}\(batch: object, recursion: ([\w.]+)", getattr(_kernels, name).__doc__, re.M)
    assert len(set(recursions)) == len(recursions) == OPERATIONS[name]

"""The declared types of scikit-learn agree with scikit-learn."""

import ast
import inspect
from pathlib import Path

import pytest

from maxendnet.utils import scikit_learn

BLOCK = next(node for node in ast.parse(Path(scikit_learn.__file__).read_text()).body if isinstance(node, ast.If))
DECLARED = [
    (owner.name, function)
    for owner in BLOCK.body
    if isinstance(owner, (ast.ClassDef, ast.FunctionDef))
    for function in (owner.body if isinstance(owner, ast.ClassDef) else [owner])
    if isinstance(function, ast.FunctionDef)
]


@pytest.mark.parametrize("owner, function", DECLARED, ids=lambda value: getattr(value, "name", value))
def test_declared_parameters_are_those_of_scikit_learn(owner, function):
    real = getattr(scikit_learn, owner)
    real = real if owner == function.name else inspect.getattr_static(real, function.name)
    if isinstance(real, classmethod):
        real = real.__func__
    if not inspect.isfunction(real):  # an attribute that exists for some options
        pytest.skip(f"{owner}.{function.name} is a descriptor")
    names = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    parameters = inspect.signature(real).parameters.values()
    assert names == [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def test_every_export_is_declared():
    assert {owner.name for owner in BLOCK.body if hasattr(owner, "name")} == set(scikit_learn.__all__)

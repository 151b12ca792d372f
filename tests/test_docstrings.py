"""Public names are documented: a short summary, the parameters of the signature, and an example."""

import importlib
import inspect
import re

import pytest

FOLDERS = (
    "solvers", "structures", "priors", "losses", "text", "web", "rules", "certificates", "datasets", "selection",
    "backends",
)  # fmt: skip
MODULES = ["maxendnet", *(f"maxendnet.{folder}" for folder in FOLDERS)]
NOT_CALLED = {
    "BoundStructure": "a base class",
    "Backend": "a protocol",
    "ExactPrior": "a base class",
    "Prior": "a protocol",
    "Solver": "a base class",
    "Structure": "a base class",
    "Examples": "made by Examples.build",
    "Page": "made by read_page",
    "BoundReport": "returned by functions",
    "BoundRow": "returned by functions",
    "Capabilities": "an attribute of structures",
    "Monitor": "made by estimators with verbose=1",
    "PageLabels": "made by read_labels",
    "Result": "returned by run",
}
"""Classes that users do not construct, and why."""


def public_objects():
    """Exported functions and classes, once each, by their shortest name."""
    objects = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for exported in module.__all__:
            value = getattr(module, exported)
            if callable(value):
                objects.setdefault(id(value), pytest.param(value, id=f"{name}.{exported}"))
    return list(objects.values())


def section(doc, title):
    """Lines of a numpydoc section."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---|\Z)", inspect.cleandoc(doc), re.MULTILINE | re.DOTALL)
    return match[1].splitlines() if match else []


def is_called_by_users(case):
    """Whether users call the object: not an exception, a tuple of results, or a class of NOT_CALLED."""
    (value,) = case.values
    if not isinstance(value, type):
        return True
    return not (issubclass(value, Exception) or hasattr(value, "_fields") or value.__name__ in NOT_CALLED)


@pytest.mark.parametrize("value", public_objects())
def test_summary_is_one_short_line(value):
    assert value.__doc__, "no docstring"
    summary, *rest = inspect.cleandoc(value.__doc__).splitlines()
    assert 0 < len(summary) <= 80, f"{len(summary)} characters: {summary}"
    assert not rest or not rest[0], f"the summary is more than one line: {summary}"


@pytest.mark.parametrize("value", list(filter(is_called_by_users, public_objects())))
def test_documented_parameters_are_those_of_the_signature(value):
    names = [line.split(":")[0] for line in section(value.__doc__, "Parameters") if line and not line.startswith(" ")]
    documented = [name.strip().lstrip("*") for line in names for name in line.split(",")]
    assert sorted(documented) == sorted(inspect.signature(value).parameters)


@pytest.mark.parametrize("value", list(filter(is_called_by_users, public_objects())))
def test_there_is_an_example(value):
    if value.__name__ == "render_pages":
        pytest.skip("needs a browser: an example would not run everywhere")
    assert ">>>" in value.__doc__ or any(">>>" in (method.__doc__ or "") for method in vars(value).values())


def test_the_list_of_classes_that_are_not_called_is_current():
    names = {case.values[0].__name__ for case in public_objects()}
    assert set(NOT_CALLED) <= names

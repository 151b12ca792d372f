"""Structures: which labels of an example are scored together.

To add a structure, see docs/extend/structure.md.
"""

from __future__ import annotations

from typing import Any

from maxendnet.structures.base import BoundStructure, Excess, Marginals, Structure, Table
from maxendnet.structures.bound.capabilities import Capabilities
from maxendnet.structures.chain import Chain
from maxendnet.structures.choice import Choice
from maxendnet.structures.graph import Graph
from maxendnet.structures.independent import Independent
from maxendnet.structures.tree import Tree
from maxendnet.structures.weights.layout import Layout
from maxendnet.utils.suggest import did_you_mean

ALL = (Chain, Tree, Independent, Choice, Graph)
"""The built-in structures. In lower case, the name of a class selects it with default options."""

__all__ = [
    "ALL",
    "BoundStructure",
    "Capabilities",
    "Chain",
    "Choice",
    "Excess",
    "Graph",
    "Independent",
    "Layout",
    "Marginals",
    "Structure",
    "Table",
    "Tree",
    "as_structure",
]


def as_structure(given: Any) -> Any:
    """Return a structure, or the default structure with this lower-case name.

    Parameters
    ----------
    given : Structure or str

    Returns
    -------
    Structure

    Examples
    --------
    >>> as_structure("tree")
    Tree()
    """
    if isinstance(given, Structure):
        return given
    names = {kind.__name__.lower(): kind for kind in ALL}
    if isinstance(given, str) and given in names:
        return names[given]()
    shown = ", ".join(f"{kind.__name__}()" for kind in ALL)
    word, form = (given, "{!r}") if isinstance(given, str) else (getattr(given, "__name__", ""), "{}()")
    candidates = names if isinstance(given, str) else [kind.__name__ for kind in ALL]
    raise ValueError(
        f"structure must be one of {shown}, or its name in lower case, got {given!r}."
        + did_you_mean(word, candidates, form)
    )

"""Model files of version 0.1.0: the options of the structure were settings of the estimator."""

from __future__ import annotations

from typing import Any

NAMES = {"chain": "Chain", "tree": "Tree", "independent": "Independent", "choice": "Choice"}
OPTIONS = {
    "Chain": {"bias": "bias", "ends": "ends", "forbidden_pairs": "forbidden"},
    "Tree": {"bias": "bias", "ends": "ends", "siblings": "siblings", "forbidden_pairs": "forbidden"},
    "Independent": {"bias": "bias", "ends": "ends"},
    "Choice": {"bias": "bias", "ends": "ends", "rest": "rest"},
}
"""By structure: the old name of an option and the new one."""
FLAGS = ("bias", "ends", "siblings", "forbidden_pairs", "rest")


def from_format_1(header: dict[str, Any]) -> dict[str, Any]:
    """The header of a file of format 1 as that of format 2.

    A chain with siblings was a tree.
    """
    kind, settings = header["estimator"]
    kept = {key: value for key, value in settings.items() if key not in FLAGS}
    name = NAMES[settings.get("structure", "chain")]
    if name == "Chain" and settings.get("siblings", False):
        name = "Tree"
    options = {new: settings[old] for old, new in OPTIONS[name].items() if old in settings}
    piece = {"piece": [name, options]}
    sizes = {key: value for key, value in header["structure"].items() if key != "forbidden"}
    layout = (
        {"siblings": False, "rest": -1, "seen": None, "n_ngrams": 0, "ngrams": None}
        | sizes
        | {"type_allowed": header["type_allowed"]}
    )
    fit = header.get("fit")
    if isinstance(fit, dict) and "gap" in fit:
        header = header | {"fit": {"round_gap": fit["gap"], "n_rounds": 1, "solver": ""} | fit}
    return header | {"estimator": [kind, kept | {"structure": piece}], "structure": piece, "layout": layout}

"""The experiments of the paper, one command each: ``maxendnet reproduce NAME``.

An experiment is data: a list of cells, a function that computes one, and functions that turn finished cells into a
table, a figure and cards (`experiments.engine.experiment`). `experiments.engine.cells` runs any of them.
"""

from __future__ import annotations

from importlib import import_module

from maxendnet.experiments.engine.experiment import Card, Experiment

PAPER = (
    "shrinkage", "norms", "iid", "correlated", "weights", "variances", "ocr", "overfitting", "sensitivity", "bound",
)  # fmt: skip
BEYOND = ("exact_vs_variational", "priors", "ocr_full", "other_tasks")
WEB = ("web",)
NAMES = PAPER + WEB + BEYOND

__all__ = ["BEYOND", "NAMES", "PAPER", "WEB", "Card", "Experiment", "get"]


def get(name: str) -> Experiment:
    """The experiment of this name; its module is imported when asked for."""
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; there are {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"maxendnet.experiments.claims.{name}").EXPERIMENT
    return experiment

"""The experiments of the paper. ``maxendnet reproduce NAME`` runs one of them.

An `Experiment` (`experiments.engine.experiment`) consists of a list of cells, a function that computes a cell, and
functions that turn results into a table, a figure and cards. `experiments.engine.cells` runs it.
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
    """Return an experiment by name, importing its module on first use."""
    if name not in NAMES:
        raise ValueError(f"unknown experiment {name!r}; choose from {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"maxendnet.experiments.claims.{name}").EXPERIMENT
    return experiment

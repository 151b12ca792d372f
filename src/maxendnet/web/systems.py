"""The six systems of the paper with settings for web pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxendnet.estimators import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.markov_network import MarkovNetwork
from maxendnet.solvers import SDCA, BlockFrankWolfe
from maxendnet.web.blocks import forbidden_pairs, miss_cost

STRUCTURES = {"choice": "choice", "independent": "independent", "chain": "chain", "hierarchical": "tree"}

# Chosen on dev pages of SWDE (camera, book, auto), of labelled sites and of new ones. Where leaves compete, a margin
# model is best and quick; where they do not, L2CRF is.
STRENGTH = {
    "choice": {"l2crf": (0.03, 1.0), "l1crf": (0.03, 0.1), "lapmedn": (30.0, 1.0), "m3n": (0.1, 0.0003),
               "l1m3n": (3.0, 3.0)},
    "other models": {"l2crf": (1.0, 2.0), "l1crf": (0.3, 0.3), "lapmedn": (0.1, 0.1), "m3n": (1.0, 1.0),
                     "l1m3n": (1.0, 1.0)},
}  # fmt: skip
"""``lam`` of l2crf and l1crf, ``C`` of the margin models: for labelled sites, and for others."""
LAM = {"choice": 1e3, "other models": 0.1}
"""Of the Laplace prior of lapmedn."""
SYSTEMS: dict[str, type[MarkovNetwork]] = {
    "lapmedn": LapMEDN, "m3n": M3N, "l1m3n": L1M3N, "l2crf": L2CRF, "l1crf": L1CRF, "crf": CRF,
}  # fmt: skip


def default_system(model: str) -> str:
    """What to learn with, if nothing is said."""
    return "lapmedn" if model == "choice" else "l2crf"


def estimator(system: str, strength: float | None = None, new_sites: bool = False, model: str = "choice") -> Any:
    """An estimator by its name in lower case.

    Parameters
    ----------
    system : {"lapmedn", "m3n", "l1m3n", "l2crf", "l1crf", "crf"}
    strength : float, optional
        ``lam`` of l2crf and l1crf, ``C`` of the margin models.
    new_sites : bool
        Whether the model is for sites that are not labelled; it is then held back more.
    model : {"choice", "independent", "chain", "hierarchical"}

    Examples
    --------
    >>> type(estimator("lapmedn")).__name__
    'LapMEDN'
    """
    if system not in SYSTEMS:
        raise ValueError(f"there is no system {system!r}; choose one of {', '.join(SYSTEMS)}.")
    kind = "choice" if model == "choice" else "other models"
    if system == "crf":
        return CRF(tol=0.01)
    strength = strength or STRENGTH[kind][system][new_sites]
    if system in ("l2crf", "l1crf"):
        return SYSTEMS[system](lam=strength, tol=0.01)
    options: dict[str, Any] = {"lam": LAM[kind]} if system == "lapmedn" else {}
    tol, passes = 0.05, 1000 if kind == "choice" else 200  # a tighter gap is no better on dev pages
    if kind == "choice" and system != "l1m3n":  # the last iterate is best here, and to look at the average takes time
        options |= {"solver": BlockFrankWolfe(average=False)}
    return SYSTEMS[system](C=strength, **options, tol=tol, max_passes=passes, random_state=0)


def set_model(
    estimator: MarkovNetwork, model: str, classes: Iterable[str], miss: float = 1.0, siblings: bool = False,
    constraints: bool = False,
) -> None:  # fmt: skip
    """Set the structure that a model of pages has, its costs, and for an L2-CRF without a solver the quickest one.

    Parameters
    ----------
    estimator : an estimator of maxendnet
    model : {"choice", "independent", "chain", "hierarchical"}
    classes : iterable of str
        All labels of the pages to learn from.
    miss : float
        For margin models: what it costs to miss a field.
    siblings, constraints : bool
        For the hierarchical model: weights for neighbouring blocks given their parent, and no labelling with a pair of
        `forbidden_pairs`.
    """
    labels, tree = sorted(set(classes)), model == "hierarchical"
    estimator.set_params(
        structure=STRUCTURES[model],
        siblings=tree and siblings,
        forbidden_pairs=forbidden_pairs(labels) if tree and constraints else None,
    )
    if "cost" in estimator.get_params():
        estimator.set_params(cost=miss_cost(labels, miss))
    if model == "independent" and isinstance(estimator, L2CRF) and estimator.solver is None:
        # with many small examples dual ascent needs a tenth of the passes (35 pages of SWDE: 6 instead of 100)
        estimator.set_params(solver=SDCA(check_every=2), random_state=0)

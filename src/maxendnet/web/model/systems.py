"""The six estimators of the paper with constants for web pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxendnet.estimators import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.solvers import BlockFrankWolfe
from maxendnet.structures import Chain, Choice, Independent, Tree, as_structure
from maxendnet.web.fields.leaf_labels import NONE, miss_cost
from maxendnet.web.hierarchy.block_labels import forbidden_pairs

STRUCTURES: dict[str, type] = {"choice": Choice, "independent": Independent, "chain": Chain, "hierarchical": Tree}

CONSTANTS: dict[str, dict[str, dict[str, dict[str, float]]]] = {
    "choice": {
        "known": {"lapmedn": {"lam": 1e3, "C": 30.0}, "m3n": {"C": 0.1}, "l1m3n": {"C": 3.0}, "l2crf": {"lam": 0.03},
                  "l1crf": {"lam": 0.03}},
        "new": {"lapmedn": {"lam": 1e3, "C": 1.0}, "m3n": {"C": 0.0003}, "l1m3n": {"C": 3.0}, "l2crf": {"lam": 1.0},
                "l1crf": {"lam": 0.1}},
        "many": {"lapmedn": {"lam": 100.0, "C": 3.0}, "m3n": {"C": 0.1}, "l1m3n": {"C": 1.0}, "l2crf": {"lam": 3.0},
                 "l1crf": {"lam": 0.1}},
    },
    "other models": {
        "known": {"lapmedn": {"lam": 0.1, "C": 0.1}, "m3n": {"C": 1.0}, "l1m3n": {"C": 1.0}, "l2crf": {"lam": 1.0},
                  "l1crf": {"lam": 0.3}},
        "new": {"lapmedn": {"lam": 0.1, "C": 0.1}, "m3n": {"C": 1.0}, "l1m3n": {"C": 1.0}, "l2crf": {"lam": 2.0},
                "l1crf": {"lam": 0.3}},
    },
}  # fmt: skip
"""Constants by page model, situation (see `situation`) and estimator.

``known`` and ``new`` were chosen on dev pages of SWDE (camera, book, auto) with 1 to 5 labelled sites, ``many`` on
product pages of other shops; see benchmarks/WEB.md.
"""
BOUNDARY_C = 1.0
WHERE = tuple(CONSTANTS["choice"])
MANY_SITES = 6
"""Minimum number of labelled sites for the constants ``many`` instead of ``new``; see benchmarks/WEB.md."""
SYSTEMS: dict[str, type[MarkovNetwork]] = {
    "lapmedn": LapMEDN, "m3n": M3N, "l1m3n": L1M3N, "l2crf": L2CRF, "l1crf": L1CRF, "crf": CRF,
}  # fmt: skip


def default_system(model: str) -> str:
    """Return the name of the default estimator of a page model."""
    return "lapmedn" if model == "choice" else "l2crf"


def situation(new_sites: bool, n_sites: int = 0) -> str:
    """Return the key of `CONSTANTS` for a model.

    It is ``"known"`` for pages of labelled sites, ``"new"`` for pages of unlabelled sites, and ``"many"`` for pages of
    unlabelled sites if at least `MANY_SITES` other sites are labelled.

    Examples
    --------
    >>> situation(False), situation(True, 3), situation(True, 40)
    ('known', 'new', 'many')
    """
    return "known" if not new_sites else "many" if n_sites >= MANY_SITES else "new"


def estimator(system: str, strength: float | None = None, where: str = "known", model: str = "choice") -> Any:
    """Return an estimator by its name in lower case.

    Parameters
    ----------
    system : {"lapmedn", "m3n", "l1m3n", "l2crf", "l1crf", "crf"}
    strength : float, optional
        Regularisation constant: ``lam`` of l2crf and l1crf, ``C`` of the margin models.
    where : {"known", "new", "many"}
        See `situation`.
    model : {"choice", "independent", "chain", "hierarchical"}

    Examples
    --------
    >>> estimator("lapmedn", where="new").C
    1.0
    """
    for what, given, known in (("system", system, SYSTEMS), ("model", model, STRUCTURES), ("situation", where, WHERE)):
        if given not in known:
            raise ValueError(f"there is no {what} {given!r}; choose one of {', '.join(known)}.")
    if system == "crf":
        if strength is not None:
            raise ValueError(f"strength is {strength!r}, but crf has no regularisation; use l2crf or l1crf.")
        return CRF(tol=0.01)
    competing = model == "choice"
    by_use = CONSTANTS["choice" if competing else "other models"]
    constants: dict[str, Any] = dict((by_use["new"] if where not in by_use else by_use[where])[system])
    if strength is not None:
        constants["lam" if system in ("l2crf", "l1crf") else "C"] = strength
    if system in ("l2crf", "l1crf"):
        return SYSTEMS[system](**constants, tol=0.01)
    tol, passes = 0.05, 1000 if competing else 200  # tighter tolerances do not improve F1 on dev pages
    if competing and system != "l1m3n":  # the last iterate is more accurate than the average, and cheaper to evaluate
        constants["solver"] = BlockFrankWolfe(average=False)
    return SYSTEMS[system](**constants, tol=tol, max_passes=passes, random_state=0)


def boundary_estimator() -> Any:
    """Return the estimator for `maxendnet.web.fields.boundaries`."""
    return M3N(
        C=BOUNDARY_C, structure=Choice(rest=NONE), tol=0.02, max_passes=1000, random_state=0,
        solver=BlockFrankWolfe(average=False),
    )  # fmt: skip


def set_model(
    estimator: MarkovNetwork, model: str, classes: Iterable[str], miss: float = 1.0, siblings: bool = False,
    constraints: bool = False,
) -> None:  # fmt: skip
    """Set the structure and cost of an estimator for a page model.

    Parameters
    ----------
    estimator : MarkovNetwork
    model : {"choice", "independent", "chain", "hierarchical"}
    classes : iterable of str
        Labels of the training pages.
    miss : float
        Cost of missing a field, for margin models.
    siblings : bool
        Hierarchical model: weights for neighbouring blocks given their parent.
    constraints : bool
        Hierarchical model: forbid the pairs of labels in `forbidden_pairs`.
    """
    labels = sorted(set(classes))
    options: dict[str, Any] = {}
    if model == "choice":
        options["rest"] = NONE
    if model == "hierarchical":
        options = {"siblings": siblings, "forbidden": forbidden_pairs(labels) if constraints else None}
    given = as_structure(estimator.structure)
    estimator.set_params(structure=STRUCTURES[model](bias=given.bias, ends=given.ends, **options))
    if "cost" in estimator.get_params():
        estimator.set_params(cost=miss_cost(labels, miss))

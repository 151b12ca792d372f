"""The six systems of the paper with settings for web pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from maxendnet.estimators import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.markov_network import MarkovNetwork
from maxendnet.solvers import SDCA
from maxendnet.web.blocks import forbidden_pairs, miss_cost

STRUCTURES = {"choice": "choice", "independent": "independent", "chain": "chain", "hierarchical": "tree"}

# Chosen on the dev pages of SWDE, four labelled pages: the margin models do as well as L2CRF there with C = 1 (M3N) and
# close to it with a Laplace prior that is nearly Gaussian; a sparse one (lam = 10) loses. A loose gap will do.
TOL, PASSES = 0.05, 200


def estimator(system: str, strength: float | None = None, new_sites: bool = False) -> Any:
    """An estimator by its name in lower case.

    Parameters
    ----------
    system : {"l2crf", "l1crf", "crf", "lapmedn", "m3n", "l1m3n"}
    strength : float, optional
        ``lam`` of l2crf and l1crf, ``C`` of the margin models.
    new_sites : bool
        Whether the model is for sites that are not labelled; l2crf is then held back more.

    Examples
    --------
    >>> type(estimator("lapmedn")).__name__
    'LapMEDN'
    """
    if system == "l2crf":
        return L2CRF(lam=strength or (2.0 if new_sites else 1.0), tol=0.01)
    if system == "l1crf":
        return L1CRF(lam=strength or 0.3, tol=0.01)
    if system == "crf":
        return CRF(tol=0.01)
    if system == "lapmedn":
        return LapMEDN(C=strength or 0.1, lam=0.1, tol=TOL, max_passes=PASSES, random_state=0)
    if system == "m3n":
        return M3N(C=strength or 1.0, tol=TOL, max_passes=PASSES, random_state=0)
    if system == "l1m3n":
        return L1M3N(C=strength or 1.0, tol=TOL, max_passes=PASSES, random_state=0)
    raise ValueError(f"there is no system {system!r}; choose l2crf, l1crf, crf, lapmedn, m3n or l1m3n.")


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

"""The six systems on web pages: construction, fitting and scoring."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, UNKNOWN, LapMEDN
from maxendnet.data.examples import distinct_labels
from maxendnet.experiments.engine.experiment import Row
from maxendnet.experiments.engine.selection import Constants
from maxendnet.experiments.engine.systems import SYSTEMS
from maxendnet.experiments.engine.web_data import IntArray, WebPages
from maxendnet.solvers import OWLQN
from maxendnet.web.features.groups import KNOWN_SITES, NEW_SITES
from maxendnet.web.fields.leaf_labels import NONE, fields_of, miss_cost
from maxendnet.web.model.dataset import LEAVES, examples_of
from maxendnet.web.model.decode import best_leaves, field_margins, scale_of
from maxendnet.web.model.site_votes import vote_by_site
from maxendnet.web.model.systems import CONSTANTS, STRUCTURES

FloatArray = NDArray[np.float64]
MISS = 5.0
"""What a margin model pays for a missed field; any other error costs 1."""
TOL = {"choice": 0.005, "independent": 0.02, "chain": 0.02, "hierarchical": 0.02}
L1_TOL = 0.05
BLOCK = ("name", "image", "price")
"""Fields that the block instance accuracy of the paper counts."""
PASSES = {"choice": 200, "independent": 400, "chain": 1500, "hierarchical": 1500}
"""Where a page is an example, a pass is a handful of updates."""


def grid_of(name: str, candidates: Sequence[float]) -> list[Constants]:
    """Return candidates for a single constant."""
    return [{name: value} for value in candidates]


GRIDS: dict[str, dict[str, list[Constants]]] = {
    "choice": {
        "LapMEDN": [{"lam": lam, "C": C}
                    for lam, C in ((100.0, 0.1), (100.0, 1.0), (100.0, 3.0), (100.0, 10.0), (1e3, 1.0), (1e3, 3.0),
                                   (1e3, 10.0), (1e3, 30.0), (1e3, 100.0), (1e4, 3.0), (1e4, 10.0), (1e4, 30.0),
                                   (1e5, 30.0))],
        "M3N": grid_of("C", [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]),
        "L1-M3N": grid_of("C", [0.1, 0.3, 1.0, 3.0]),
        "CRF": [{}],
        "L2-CRF": grid_of("lam", [3.0, 1.0, 0.3, 0.1, 0.03, 0.01]),
        "L1-CRF": grid_of("lam", [0.3, 0.1, 0.03]),
    },
    "other models": {
        "LapMEDN": [{"lam": lam, "C": C}
                    for lam, C in ((100.0, 1.5), (100.0, 5.0), (10.0, 0.15), (10.0, 0.5), (10.0, 1.5), (1.0, 0.05))],
        "M3N": grid_of("C", [0.03, 0.1, 0.3]),
        "L1-M3N": grid_of("C", [0.3, 1.0, 3.0]),
        "CRF": [{}],
        "L2-CRF": grid_of("lam", [3.0, 1.0, 0.3]),
        "L1-CRF": grid_of("lam", [0.3, 0.1, 0.03]),
    },
}  # fmt: skip
CHOSEN: dict[str, dict[str, dict[str, Constants]]] = {
    "choice": {  # those of the commands
        where: {name: dict(by_system.get(name.replace("-", "").lower(), {})) for name in SYSTEMS}
        for where, by_system in CONSTANTS["choice"].items()
    },
    "other models": {
        "known": {"LapMEDN": {"lam": 10.0, "C": 0.5}, "M3N": {"C": 0.1}, "L1-M3N": {"C": 3.0}, "CRF": {},
                  "L2-CRF": {"lam": 0.3}, "L1-CRF": {"lam": 0.03}},
        "new": {"LapMEDN": {"lam": 10.0, "C": 0.15}, "M3N": {"C": 0.03}, "L1-M3N": {"C": 0.3}, "CRF": {},
                "L2-CRF": {"lam": 1.0}, "L1-CRF": {"lam": 0.1}},
    },
}  # fmt: skip
METHOD = (
    "Constants were chosen once for all verticals, on the dev pages of camera, book and auto: for few pages by the "
    "mean F1 after 2, 4 and 7 pages in three separate draws, for new sites by that after 1 and 3 sites in three "
    "rotations (train pages only). Those for products and recipes, pages of many sites, were chosen on products: on "
    "train pages of other sites, in three draws. A missed field costs margin models 1 as any other error, "
    f"{MISS:g} where leaves do "
    "not compete. LapMEDN is the exact one of the library. Fits stop at a relative gap of "
    f"{TOL['choice']:g} ({TOL['chain']:g} where leaves do not compete, L1 {L1_TOL:g}); the CRF, which has none, when "
    "its gradient is a thousandth of the first."
)


class Protocol(NamedTuple):
    """Purpose of a model, its feature groups, and the smallest number of sites a feature must occur on."""

    where: str
    groups: tuple[str, ...]
    min_sites: int


KNOWN, NEW, MANY = Protocol("known", KNOWN_SITES, 1), Protocol("new", NEW_SITES, 2), Protocol("many", NEW_SITES, 2)


def chosen(system: str, model: str, protocol: Protocol) -> Constants:
    """Return the constants of a system for a page model, on known or new sites."""
    return CHOSEN["choice" if model == "choice" else "other models"][protocol.where][system]


def make(system: str, constants: Mapping[str, Any], model: str, siblings: bool = False) -> Any:
    """Return an estimator for a page model, with or without sibling weights."""
    tol = L1_TOL if system.startswith("L1") else TOL[model]
    structure = STRUCTURES[model](siblings=siblings) if model == "hierarchical" else STRUCTURES[model]()
    options: dict[str, Any] = {
        "tol": tol,
        "max_passes": PASSES[model],
        "structure": structure,
    }
    if system == "CRF":
        # no regularisation: stop when the gradient norm is a thousandth of the first one
        return CRF(**options | {"tol": 1e-3})
    if system == "L1-CRF":
        return L1CRF(**constants, **options, solver=OWLQN(memory=10))
    if system == "L2-CRF":
        return L2CRF(**constants, **options, random_state=0)
    kinds: dict[str, type] = {"LapMEDN": LapMEDN, "M3N": M3N, "L1-M3N": L1M3N}
    return kinds[system](**constants, **options, random_state=0)


class Fit(NamedTuple):
    """A fitted estimator, its columns, and a weight matrix with one row per feature of the pages."""

    estimator: Any
    columns: IntArray
    weights: FloatArray
    seconds: float


def fit(
    pages: WebPages, rows: IntArray, system: str, constants: Constants, model: str, protocol: Protocol,
    siblings: bool = False, unknown_blocks: bool = False,
) -> Fit:  # fmt: skip
    """Fit a system to pages; with ``unknown_blocks`` only leaves of the vision tree have labels."""
    began = time.process_time()
    columns = pages.columns(rows, protocol.groups, protocol.min_sites, model)
    featurised, matrices = pages.featurised(model), pages.matrices(model)
    X = [matrices[i][:, columns] for i in rows]
    inverse, times = np.arange(len(columns)), np.ones(len(columns))
    if system.startswith("L1") and model in LEAVES:
        first, inverse, times = _distinct_columns(X)
        X = [x[:, first] for x in X]
    examples = examples_of([featurised[i] for i in rows], X, model, [pages.labels[i] for i in rows])
    if unknown_blocks:
        leaf = np.concatenate([np.asarray(featurised[i].tree.leaf, dtype=bool) for i in rows])
        y = np.asarray(examples.y, dtype=object).copy()
        y[~leaf] = UNKNOWN
        examples = replace(examples, y=y)
    estimator = make(system, constants, model, siblings)
    if "cost" in estimator.get_params():
        labels = distinct_labels(np.asarray(examples.y)).tolist()
        estimator.set_params(cost=miss_cost(labels, 1.0 if model == "choice" else MISS))
    if model == "choice":
        estimator.set_params(structure__rest=NONE)
    estimator.fit(examples)
    coef = (estimator.coef_ / times[:, None])[inverse]
    weights = np.zeros((len(featurised[0].numbering), coef.shape[1]))
    weights[columns] = coef
    return Fit(estimator, columns, weights, time.process_time() - began)


def _distinct_columns(X: Sequence[sparse.csr_array]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the distinct columns, the distinct column of each column, and its multiplicity.

    The L1 norm does not determine how identical columns share a weight; they get equal shares.
    """
    matrix = sparse.vstack(X, format="csr")
    # random integers below 2**30 as hashes: sums are exact in float64, and different columns differ in one of the two
    marks = np.random.default_rng(0).integers(1, 1 << 30, size=(matrix.shape[0], 2)).astype(float)
    _, first, inverse, times = np.unique(
        matrix.T @ marks, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return first, inverse.ravel(), times.astype(float)


def margins(pages: WebPages, rows: IntArray, fitted: Fit, model: str) -> list[FloatArray]:
    """Return the margins of the fields over ``none`` at the leaves of pages."""
    matrices, classes = pages.matrices(model), fitted.estimator.classes_.tolist()
    if model in LEAVES:  # independent leaves: max-marginals are scores
        values = [matrices[i] @ fitted.weights for i in rows]
    else:
        featurised = pages.featurised(model)
        examples = examples_of([featurised[i] for i in rows], [matrices[i][:, fitted.columns] for i in rows], model)
        max_marginals = fitted.estimator.predict_max_marginals(examples)
        values = [value[featurised[i].leaf] for value, i in zip(max_marginals, rows)]
    return [field_margins(value, classes, pages.fields) for value in values]


def score(pages: WebPages, rows: IntArray, page_margins: Sequence[FloatArray], by_site: bool = False) -> Row:
    """Average F1 over fields and share of pages with all fields of the block right, overall and by site.

    Parameters
    ----------
    pages : WebPages
    rows : ndarray
        Indices of the test pages.
    page_margins : sequence of ndarray
        Margins of the fields on these pages.
    by_site : bool
        Average over sites and fields instead, as for new sites.
    """
    sites = sorted(set(pages.site[rows].tolist()))
    shape = (len(sites), len(pages.fields))
    hits, answers, true = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    right: list[list[bool]] = [[] for _ in sites]
    block = [name for name in pages.fields if name in BLOCK] if {"name", "price"} <= set(pages.fields) else pages.fields
    for i, m in zip(rows.tolist(), page_margins):
        s = sites.index(str(pages.site[i]))
        complete = True
        for f, best in enumerate(best_leaves(m, pages.views[i].texts, together=pages.together)):
            name = pages.fields[f]
            hit = best is not None and name in fields_of(pages.labels[i][best.leaf])
            hits[s, f] += hit
            answers[s, f] += best is not None
            true[s, f] += name in pages.has[i]
            complete &= hit or name not in pages.has[i] or name not in block
        right[s].append(complete)
    with np.errstate(invalid="ignore"):
        of_sites = np.where(true > 0, 2 * hits / (answers + true), np.nan)
        there: NDArray[np.bool_] = np.asarray(true.sum(axis=1) > 0)  # sites without any field have no F1
        overall = np.where(true.sum(0) > 0, 2 * hits.sum(0) / (answers + true).sum(0), np.nan)
    return {
        "f1": float(np.nanmean(of_sites if by_site else overall)),
        "all_right": float(np.mean([x for outcomes in right for x in outcomes])),
        "test_sites": [site for site, outcomes in zip(sites, there) if outcomes],
        "site_f1": np.nanmean(of_sites[there], axis=1).tolist(),
        "site_right": [float(np.mean(outcomes)) for outcomes, has in zip(right, there) if has],
    }


def measure(
    pages: WebPages, train: IntArray, test: IntArray, system: str, constants: Constants, model: str = "independent",
    protocol: Protocol = KNOWN, by_site: bool = False, siblings: bool = False, unknown_blocks: bool = False,
) -> Row:  # fmt: skip
    """Fit a system to pages and score it on others, page by page and with voting by site."""
    fitted = fit(pages, train, system, constants, model, protocol, siblings, unknown_blocks)
    page_margins = margins(pages, test, fitted, model)
    scale = scale_of(margins(pages, train, fitted, model))
    agreed = score(
        pages, test, vote_by_site([pages.views[i] for i in test], [scale * m for m in page_margins]), by_site
    )
    large = np.abs(fitted.weights[fitted.columns]) > 1e-3
    return score(pages, test, page_margins, by_site) | {
        "f1_agreed": agreed["f1"],
        "all_right_agreed": agreed["all_right"],
        "n_large": int(large.sum()),
        "n_weights": int(large.size),
        "gap": fitted.estimator.gap_,
        "converged": bool(fitted.estimator.converged_),
        "passes": fitted.estimator.n_passes_,
        "fit_seconds": fitted.seconds,
    }

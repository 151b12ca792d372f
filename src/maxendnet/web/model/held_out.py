"""Calibration of confidences on held-out sites and held-out pages."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

from maxendnet.web.fields.leaf_labels import NONE
from maxendnet.web.fields.spans import normalise_text, span_text
from maxendnet.web.model.calibration import Calibration, fit_calibration
from maxendnet.web.model.decode import BestLeaf
from maxendnet.web.model.fitting import fit_model, leaf_margins
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.values import find_values
from maxendnet.web.progress import Progress

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

N_FOLDS = 3
HELD_OUT_TOL = 0.1  # a loose tolerance, because these models are used for calibration only


def calibrate(
    extractor: Extractor, labelled: Sequence[LabelledPage], similar: Sequence[tuple[LabelledPage, LabelledPage]],
    progress: Progress,
) -> dict[str, Calibration]:  # fmt: skip
    """Fit the confidence curves for ``"known"`` and ``"new"`` sites.

    If one of the curves has no held-out answers, the other curve is used for both.
    """
    answers: dict[str, list[tuple[BestLeaf, bool, tuple[str, str]]]] = {"known": [], "new": []}
    for kind, rows in progress(held_out_parts([page.site for page in labelled]), "confidence"):
        train = [page for k, page in enumerate(labelled) if k not in rows]
        if all(label == NONE for page in train for label in page.labels):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = fit_model(extractor, train, similar, HELD_OUT_TOL)
        test = [labelled[k] for k in sorted(rows)]
        margins = leaf_margins(extractor, fitted, [page.view for page in test], [page.features for page in test])
        for page, m in zip(test, margins):
            for name, value in zip(extractor.fields_, find_values(extractor, fitted, page.view, m)):
                if value is not None and name not in page.unknown:
                    right = normalise_text(span_text(page.view, value.span)) in page.folded_values(name)
                    answers[kind].append((value.best, right, (page.site, name)))
    # errors on a new site are correlated, so its answers are grouped
    known, new = (
        fit_calibration(
            [best for best, *_ in of_kind],
            [right for _, right, _ in of_kind],
            [group for *_, group in of_kind] if kind == "new" else None,
        )
        for kind, of_kind in answers.items()
    )
    return {"known": known if known.n_answers else new, "new": new if new.n_answers else known}


def held_out_parts(sites: Sequence[str]) -> list[tuple[str, set[int]]]:
    """Return the folds to hold out, as sets of page indices.

    To calibrate for ``"new"`` sites whole sites are held out, for ``"known"`` sites pages of each site.

    Parameters
    ----------
    sites : sequence of str
        Site of each labelled page.

    Examples
    --------
    >>> held_out_parts(["a", "a", "b"])
    [('new', {0, 1}), ('new', {2}), ('known', {0, 2}), ('known', {1})]
    """
    distinct = sorted(set(sites))
    fold_of_site = {site: k % N_FOLDS for k, site in enumerate(distinct)}
    n_previous: Counter[str] = Counter()
    by_site, by_page = [fold_of_site[site] for site in sites], []
    for site in sites:
        by_page.append(n_previous[site] % N_FOLDS)
        n_previous[site] += 1
    kinds = [("new", by_site)] * (len(distinct) > 1) + [("known", by_page)] * (max(by_page, default=0) > 0)
    return [
        (kind, {k for k, fold_of_page in enumerate(folds) if fold_of_page == fold})
        for kind, folds in kinds
        for fold in sorted(set(folds))
    ]

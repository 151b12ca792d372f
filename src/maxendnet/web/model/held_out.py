"""Confidences from held-out answers: whole sites for pages of new sites, pages for those of known sites."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sklearn.exceptions import ConvergenceWarning

from maxendnet.web.fields.leaf_labels import NONE
from maxendnet.web.fields.spans import same_value, span_text
from maxendnet.web.model.calibration import Calibration, fit_calibration
from maxendnet.web.model.decode import BestLeaf
from maxendnet.web.model.fitting import fit_model, leaf_margins
from maxendnet.web.model.labelled_page import LabelledPage
from maxendnet.web.model.values import find_values
from maxendnet.web.progress import Progress

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

FOLDS = 3
HELD_OUT_TOL = 0.1  # these models only tell how often answers are right


def calibrate(
    extractor: Extractor, labelled: Sequence[LabelledPage], similar: Sequence[tuple[LabelledPage, LabelledPage]],
    progress: Progress,
) -> dict[str, Calibration]:  # fmt: skip
    """Calibrations for pages of ``"known"`` and ``"new"`` sites; either replaces the other if that has no answers."""
    answers: dict[str, list[tuple[BestLeaf, bool, tuple[str, str]]]] = {"known": [], "new": []}
    for kind, rows in progress(held_out_parts([page.site for page in labelled]), "confidence"):
        train = [page for k, page in enumerate(labelled) if k not in rows]
        if all(label == NONE for page in train for label in page.labels):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = fit_model(extractor, train, similar, HELD_OUT_TOL)
        held = [labelled[k] for k in sorted(rows)]
        margins = leaf_margins(extractor, fitted, [page.view for page in held], [page.features for page in held])
        for page, m in zip(held, margins):
            for name, value in zip(extractor.fields_, find_values(extractor, fitted, page.view, m)):
                if value is not None and name not in page.unknown:
                    right = same_value(span_text(page.view, value.span)) in page.folded_values(name)
                    answers[kind].append((value.best, right, (page.site, name)))
    # pages of a new site fail together, those of a known one mostly do not
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
    """Pages to hold out in turn: whole sites, to learn about new ones, and pages, to learn about known ones.

    Parameters
    ----------
    sites : sequence of str
        Of the labelled pages.

    Examples
    --------
    >>> held_out_parts(["a", "a", "b"])
    [('new', {0, 1}), ('new', {2}), ('known', {0, 2}), ('known', {1})]
    """
    different = sorted(set(sites))
    of_site = {site: k % FOLDS for k, site in enumerate(different)}
    seen: Counter[str] = Counter()
    by_site, by_page = [of_site[site] for site in sites], []
    for site in sites:
        by_page.append(seen[site] % FOLDS)
        seen[site] += 1
    kinds = [("new", by_site)] * (len(different) > 1) + [("known", by_page)] * (max(by_page, default=0) > 0)
    return [
        (kind, {k for k, part in enumerate(parts) if part == fold})
        for kind, parts in kinds
        for fold in sorted(set(parts))
    ]

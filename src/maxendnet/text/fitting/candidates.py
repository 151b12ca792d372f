"""Candidate tag schemes of a tagger, and their calibration on held-out sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from maxendnet.data.examples import Examples
from maxendnet.text.fitting.calibration import HeldOut, held_out, temperature_of
from maxendnet.text.fitting.outside_bias import fit_outside

TRIAL_TOL = 0.2
"""Gap of the fits by which candidates are compared."""


class Candidate(NamedTuple):
    """Training sentences in one tag scheme, and the model to fit to them."""

    examples: Examples
    model: Any
    rules: Any = None
    """Rules of the tag scheme that predictions follow, or None for the user's own scheme."""


class Calibration(NamedTuple):
    """Settings that were fitted to held-out sentences. The default values do not change predictions."""

    temperature: float = 1.0
    outside: float = 0.0
    """Outside bias: a number added to the score of the label O."""
    f1: float = np.nan
    """Span F1 on the held-out sentences."""


def calibrate_best(candidates: list[Candidate], scheme: str, cv: int) -> tuple[Candidate, Calibration]:
    """Return the candidate with the best span F1 on held-out folds, with its temperature and outside bias.

    Several candidates are compared with fits to a gap of `TRIAL_TOL`, and only the fit of the best one is continued.

    Parameters
    ----------
    candidates : list of Candidate
    scheme : str
        Tag scheme of the user.
    cv : int
        Number of folds.
    """
    best: tuple[Candidate, list[HeldOut], Calibration] | None = None
    for candidate in candidates:
        tol = max(candidate.model.tol, TRIAL_TOL) if len(candidates) > 1 else candidate.model.tol
        model = clone(candidate.model).set_params(tol=tol, warm_start=True)
        folds = held_out(model, candidate.examples, cv, rules=candidate.rules)
        calibration = calibration_of(folds, scheme)
        if best is None or calibration.f1 > best[2].f1:
            best = candidate, folds, calibration
        del folds  # releases the memory of the fit, unless it is the best one
    assert best is not None
    candidate, folds, calibration = best
    if len(candidates) > 1:
        for fold in folds:
            fold.model.set_params(tol=candidate.model.tol).fit(fold.train)
        calibration = calibration_of(folds, scheme)
    return candidate, calibration


def calibration_of(folds: list[HeldOut], scheme: str) -> Calibration:
    """Fit the temperature and the outside bias to held-out folds."""
    temperature = temperature_of(folds)
    return Calibration(temperature, *fit_outside(folds, temperature, scheme))

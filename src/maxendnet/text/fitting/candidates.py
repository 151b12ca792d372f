"""Candidate tag schemes of a tagger, and their calibration on held-out sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from maxendnet.data.examples import Examples
from maxendnet.text.fitting.calibration import held_out, temperature_of
from maxendnet.text.fitting.outside_bias import fit_outside

TRIAL_TOL = 0.2
"""Gap at which the fits to held-out folds stop, unless the model has a larger one. With 0.01, temperatures change by at
most 3 % and the fits take 1.4 times as long (measured in benchmarks/TEXT.md)."""


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


def calibrate(candidate: Candidate, scheme: str, cv: int) -> Calibration:
    """Fit the temperature and the outside bias of a candidate on held-out folds.

    Parameters
    ----------
    candidate : Candidate
    scheme : str
        Tag scheme of the user.
    cv : int
        Number of folds.
    """
    trial = clone(candidate.model).set_params(tol=max(candidate.model.tol, TRIAL_TOL))
    folds = held_out(trial, candidate.examples, cv, rules=candidate.rules)
    temperature = temperature_of(folds)
    return Calibration(temperature, *fit_outside(folds, temperature, scheme))

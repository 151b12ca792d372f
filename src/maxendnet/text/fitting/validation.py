"""Evaluation of validation sentences during a fit, with optional early stopping."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from maxendnet.data.examples import Examples
from maxendnet.estimators.fitted import Labellings
from maxendnet.structures.base import decode
from maxendnet.text.fitting.outside_bias import added_scores
from maxendnet.text.reading.spans import LABELS
from maxendnet.text.results.scores import span_scores


class Evaluation(NamedTuple):
    """State of a fit at one evaluation of the duality gap."""

    n_pass: int
    seconds: float
    objective: float
    gap: float
    score: float
    """Span F1 on the validation sentences, or token accuracy if labels are not span tags."""


@dataclass(eq=False)
class Validation:
    """Callback that scores validation sentences at every evaluation of the gap.

    Parameters
    ----------
    structure : a structure
        Structure of the estimator.
    examples : Examples
        Validation sentences, with the features of the fit.
    y : list of lists of labels
    classes : ndarray of shape (n_labels,)
        Labels of the fit.
    scheme : str
        Tag scheme of y.
    patience : int or None, default=None
        Number of consecutive evaluations without a better score after which the fit stops. None disables early
        stopping.
    verbose : int, default=0
        1 prints a line to stderr at every evaluation.
    outside : float, default=0.0
        Outside bias; see `maxendnet.text.fitting.outside_bias`.
    rules : a rule or a list of rules, optional
        Rules that predictions follow.

    Attributes
    ----------
    evaluations : list of Evaluation
    """

    structure: Any
    examples: Examples
    y: Sequence[Sequence[Any]]
    classes: Any
    scheme: str
    patience: int | None = None
    verbose: int = 0
    outside: float = 0.0
    rules: Any = None
    evaluations: list[Evaluation] = field(default_factory=list, init=False)
    _bound: Any = field(default=None, init=False)

    def __call__(self, progress: Any) -> bool:
        if self._bound is None:
            options = {} if self.rules is None else {"rules": self.rules}
            unlabelled, layout = replace(self.examples, y=None), progress.problem.structure.layout
            bound = self.structure.bind(unlabelled, self.classes, layout, **options)
            self._bound = self.structure.label_view(bound)
        codes = decode(self._bound, progress.evaluation.w, added=added_scores(self.classes, self.outside))
        scores = span_scores(self.y, Labellings.split(self.classes[codes], self.examples.offsets), self.scheme)
        measure, score = ("accuracy", scores.accuracy) if self.scheme == LABELS else ("F1", scores.f1)
        row = progress.row
        self.evaluations.append(Evaluation(row.n_pass, row.seconds, float(row.primal), float(row.gap), score))
        if self.verbose:
            line = f"pass {row.n_pass:4d}  {row.seconds:7.1f} s  objective {row.primal:.6g}  gap {row.gap:.1e}"
            print(f"{line}  validation {measure} {100 * score:.2f}", file=sys.stderr, flush=True)
        if self.patience is None:
            return False
        best = int(np.argmax([evaluation.score for evaluation in self.evaluations]))  # the first one if there are ties
        return len(self.evaluations) - 1 - best >= self.patience

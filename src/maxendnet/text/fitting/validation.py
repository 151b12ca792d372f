"""F1 on sentences that are not learned from, while a fit goes on: a live line, and an early end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxendnet.data.examples import Examples
from maxendnet.text.fitting.outside_bias import added_scores, decode_with
from maxendnet.text.reading.errors import TextError
from maxendnet.text.reading.spans import LABELS
from maxendnet.text.results.scores import span_scores


class Look(NamedTuple):
    """What was seen at one look at a fit."""

    n_pass: int
    seconds: float
    objective: float
    gap: float
    score: float
    """F1 of spans on the validation sentences; the share of right labels where they have no letters."""


class Validation:
    """A callback of estimators that predicts validation sentences at every look at the gap.

    Parameters
    ----------
    structure : a structure
        That of the estimator.
    examples : Examples
        With the features of the fit.
    y : list of lists of labels
    classes : ndarray of shape (n_labels,)
        Labels of the fit.
    scheme : str
        Of the tags.
    patience : int or None, default=None
        End the fit after so many looks in a row that are not better than the best; None is never.
    verbose : int, default=0
        1 shows a line on stderr at every look.
    outside : float, default=0.0
        Added to the score of the label O, as in predictions; see `maxendnet.text.fitting.outside_bias`.
    rules : a rule or a list of rules, optional
        That predictions keep.

    Attributes
    ----------
    looks : list of Look
    """

    def __init__(
        self, structure: Any, examples: Examples, y: Sequence[Sequence[Any]], classes: Any, scheme: str,
        patience: int | None = None, verbose: int = 0, outside: float = 0.0, rules: Any = None,
    ) -> None:  # fmt: skip
        if patience is not None and (isinstance(patience, bool) or not isinstance(patience, int) or patience < 1):
            raise TextError(f"patience must be None or a whole number of at least 1, got {patience!r}.")
        self.structure, self.examples, self.classes = structure, replace(examples, y=None), classes
        self.y, self.scheme, self.patience, self.verbose = [list(row) for row in y], scheme, patience, verbose
        self.added, self.options = added_scores(classes, outside), {} if rules is None else {"rules": rules}
        self.looks: list[Look] = []
        self._bound: Any = None

    def __call__(self, progress: Any) -> bool:
        if self._bound is None:
            layout = progress.problem.structure.layout
            bound = self.structure.bind(self.examples, self.classes, layout, **self.options)
            self._bound = self.structure.label_view(bound)
        labels = self.classes[decode_with(self._bound, progress.evaluation.w, self.added)]
        scores = span_scores(self.y, [part.tolist() for part in self.examples.split(labels)], self.scheme)
        row = progress.row
        score = scores.accuracy if self.scheme == LABELS else scores.f1
        self.looks.append(Look(row.n_pass, row.seconds, float(row.primal), float(row.gap), score))
        if self.verbose:
            what = "right" if self.scheme == LABELS else "F1"
            line = f"pass {row.n_pass:4d}  {row.seconds:7.1f} s  objective {row.primal:.6g}  gap {row.gap:.1e}"
            print(f"{line}  validation {what} {100 * score:.2f}", file=sys.stderr, flush=True)
        if self.patience is None:
            return False
        best = int(np.argmax([look.score for look in self.looks]))  # the first of equals
        return len(self.looks) - 1 - best >= self.patience

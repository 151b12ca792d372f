"""Training that Ctrl-C ends early, with the best model so far."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from maxendnet.text.results.scores import span_scorer
from maxendnet.text.tagger import Tagger

CONSEQUENCES = {
    "search": "the search ends, and the best hyper-parameters so far are used for the final fit",
    "search without scores": "the search ends, and the default hyper-parameters are used for the final fit",
    "calibration": "the calibration ends with the models so far, and the final fit follows",
    "fit": "the fit ends with the weights so far",
}
"""What follows after Ctrl-C in each stage of the training."""


class BestSoFar(NamedTuple):
    """Result of an interrupted search, with the attributes of `PathSearchCV` that are used."""

    best_params_: dict[str, Any]
    best_score_: float


class RecordingScorer:
    """Scorer that records scores by hyper-parameters, for a search that is interrupted.

    It records nothing if the search fits in other processes.
    """

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self.scores: dict[tuple[tuple[str, float], ...], list[float]] = {}

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        score = span_scorer(model, X, y, self.scheme)
        point = tuple((name, getattr(model, name)) for name in ("C", "lam") if hasattr(model, name))
        self.scores.setdefault(point, []).append(score)
        return score

    def best(self) -> BestSoFar | None:
        """Return the hyper-parameters with the best mean score so far, or None if there are no scores."""
        means = {point: float(np.mean(scores)) for point, scores in self.scores.items()}
        if not means:
            return None
        point = max(means, key=means.__getitem__)
        return BestSoFar(dict(point), means[point])


class Interrupts:
    """Ctrl-C during the stages of a training.

    The first Ctrl-C ends the current stage: a search at once, fits at their next evaluation. A second one before that
    raises ``KeyboardInterrupt``.

    Parameters
    ----------
    note : callable
        Function that shows a message.

    Attributes
    ----------
    stages : list of str
        Stages that were ended early.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.stages: list[str] = []
        self.is_pending = False

    def callback(self) -> Callable[[Any], bool]:
        """Return the callback that ends fits while an interrupt is pending."""
        return lambda progress: self.is_pending  # copies of estimators share a function, but not an object

    def add(self, stage: str) -> None:
        """Note that a stage ends early."""
        self.stages.append(stage)
        self.note(f"interrupted: {CONSEQUENCES[stage]}. Press Ctrl-C again to end without a model.")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """End the fits of a stage early after Ctrl-C."""

        def on_interrupt(*_: Any) -> None:
            if self.is_pending:
                self.note("interrupted again: no model is written.")
                raise KeyboardInterrupt
            self.is_pending = True
            self.add(name)

        previous = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
            self.is_pending = False


class InterruptibleTagger(Tagger):
    """Tagger whose fit ends early after Ctrl-C.

    Its model needs the callback of ``interrupts``.
    """

    interrupts: Interrupts

    def _search(self, features: Any, examples: Any, scheme: str) -> Any:
        scorer = RecordingScorer(scheme)
        try:
            return self._search_by(scorer, features, examples)
        except KeyboardInterrupt:
            best = scorer.best()
            self.interrupts.add("search" if best else "search without scores")
            return best

    def _choose(self, *arguments: Any) -> Any:
        with self.interrupts.stage("calibration"):
            return super()._choose(*arguments)

    def _fit_estimator(self, *arguments: Any) -> Any:
        with self.interrupts.stage("fit"):
            return super()._fit_estimator(*arguments)

"""Search for the hyper-parameters of a tagger's model."""

from __future__ import annotations

from functools import partial
from typing import Any

from maxendnet.data.examples import Examples
from maxendnet.selection.search import PathSearchCV
from maxendnet.text.fitting.calibration import shuffled_folds
from maxendnet.text.results.scores import span_scorer


def search_constants(
    model: Any, examples: Examples, scheme: str, cv: int, n_jobs: int | None, verbose: int
) -> PathSearchCV:
    """Choose the hyper-parameters of a model by cross-validation with `span_scorer`."""
    scoring = partial(span_scorer, scheme=scheme)
    search = PathSearchCV(model, scoring=scoring, cv=shuffled_folds(cv), refit=False, n_jobs=n_jobs, verbose=verbose)
    return search.fit(examples)

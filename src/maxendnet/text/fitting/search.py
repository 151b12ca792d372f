"""Search for the hyper-parameters of a tagger's model."""

from __future__ import annotations

from typing import Any

from maxendnet.data.examples import Examples
from maxendnet.selection.search import PathSearchCV
from maxendnet.text.fitting.calibration import shuffled_folds
from maxendnet.text.reading.errors import TextError


def search_constants(
    model: Any, examples: Examples, scoring: Any, cv: int, n_jobs: int | None, verbose: int
) -> PathSearchCV:
    """Choose the hyper-parameters of a model by cross-validation with a scorer such as `span_scorer`."""
    if len(examples) < cv:
        raise TextError(
            f"the search needs at least {cv} sentences for {cv} folds, got {len(examples)}; use fewer folds (cv=2, "
            f"--folds 2), or no search (search=False, --no-search)."
        )
    search = PathSearchCV(model, scoring=scoring, cv=shuffled_folds(cv), refit=False, n_jobs=n_jobs, verbose=verbose)
    return search.fit(examples)

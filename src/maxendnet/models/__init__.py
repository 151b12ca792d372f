"""Fitted models: what a fit learned, in memory and in files."""

from typing import TYPE_CHECKING

from maxendnet.models.fitted import FitReport, FittedModel, Labellings
from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.models import pipeline as pipeline  # imports transformers of scikit-learn

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = ["FitReport", "FittedModel", "Labellings"]

"""Fitted models: what a fit learned, in memory and in files."""

from maxendnet.models.fitted import FitReport, FittedModel, Labellings

__all__ = ["FitReport", "FittedModel", "Labellings"]

"""Bounds on the error on new examples."""

from maxendnet.certificates.generalisation import held_out_bound, pac_bayes
from maxendnet.certificates.report import BoundReport, BoundRow

__all__ = ["BoundReport", "BoundRow", "held_out_bound", "pac_bayes"]

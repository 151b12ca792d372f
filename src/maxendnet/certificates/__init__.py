"""Numbers that prove something: dual values that do not come for free, and bounds of the error on new examples."""

from maxendnet.certificates.duality import marginals_in_parts, mixed_entropy
from maxendnet.certificates.generalisation import held_out_bound, pac_bayes
from maxendnet.certificates.report import BoundReport, BoundRow

__all__ = ["BoundReport", "BoundRow", "held_out_bound", "marginals_in_parts", "mixed_entropy", "pac_bayes"]

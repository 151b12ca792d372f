"""Constants and training procedure of the OCR figure in the paper."""

from __future__ import annotations

from typing import Any

from maxendnet import M3N, LapMEDN, solvers
from maxendnet.estimators.markov_network import MarkovNetwork

PASSES = 200
"""Number of subgradient steps; the paper does not state it."""
LAM = 36.0


def beta(words: int) -> float:
    """Return beta of the paper: 4 for OCR100 and OCR150, 2 for OCR200 and OCR250."""
    return 4.0 if words <= 150 else 2.0


def paper_solver() -> str:
    """Return the solver of the paper's steps, ``"Subgradient"``; recorded in the settings of a cell."""
    return "Subgradient"


def paper_model(system: str, words: int, seed: int, solver: str) -> MarkovNetwork:
    """Return LapMEDN (3 iterations of Algorithm 1) or M3N with ``C = 200 beta``, trained as in the paper."""
    b = beta(words)
    common: dict[str, Any] = {"max_passes": PASSES, "random_state": seed, "tol": 1e-3, "C": 200 * b}
    if solver == "Subgradient":
        # 1 / (2 beta sqrt t), after Ratliff et al. 2007; average=False: the paper predicts with the last weights
        common["solver"] = getattr(solvers, solver)(beta=b, average=False)
    return M3N(**common) if system == "M3N" else LapMEDN(lam=LAM, method="variational", iterations=3, **common)

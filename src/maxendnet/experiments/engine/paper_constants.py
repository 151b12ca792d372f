"""The constants and the training that the paper gives for its OCR figure."""

from __future__ import annotations

from typing import Any

from maxendnet import M3N, LapMEDN, solvers
from maxendnet.estimators.markov_network import MarkovNetwork

PASSES = 200
"""Subgradient steps; the paper does not say how many it took."""
LAM = 36.0


def beta(words: int) -> float:
    """4 on OCR100 and OCR150, 2 on OCR200 and OCR250."""
    return 4.0 if words <= 150 else 2.0


def paper_solver() -> str:
    """The paper's subgradient steps where the library has them, else the default solver; part of a cell's settings."""
    return "Subgradient" if hasattr(solvers, "Subgradient") else "default"


def paper_model(system: str, words: int, seed: int, solver: str) -> MarkovNetwork:
    """LapMEDN (3 iterations of Algorithm 1) or M3N with ``C = 200 beta``, trained as in the paper."""
    b = beta(words)
    common: dict[str, Any] = {"max_passes": PASSES, "random_state": seed, "tol": 1e-3, "C": 200 * b}
    if solver == "Subgradient":
        # 1 / (2 beta sqrt t), after Ratliff et al. 2007; average=False: the paper predicts with the last weights
        common["solver"] = getattr(solvers, solver)(beta=b, average=False)
    return M3N(**common) if system == "M3N" else LapMEDN(lam=LAM, method="variational", iterations=3, **common)

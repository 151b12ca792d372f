"""Data to try things on: a generator and a loader. Nothing is fetched when this is imported."""

from __future__ import annotations

from maxendnet.datasets.ocr import fetch_ocr_letters
from maxendnet.datasets.synthetic import SyntheticChains, make_synthetic_chains

__all__ = ["SyntheticChains", "fetch_ocr_letters", "make_synthetic_chains"]

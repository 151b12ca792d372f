"""Data sets: a generator of synthetic chains, and a loader of OCR letters."""

from __future__ import annotations

from maxendnet.datasets.ocr import fetch_ocr_letters
from maxendnet.datasets.synthetic import SyntheticChains, make_synthetic_chains

__all__ = ["SyntheticChains", "fetch_ocr_letters", "make_synthetic_chains"]

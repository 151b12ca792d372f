"""Data of the experiments, generated or read, cached within a process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxendnet import Examples
from maxendnet.datasets import fetch_ocr_letters, make_synthetic_chains


class Chains(NamedTuple):
    """Chains sampled from a random CRF, and its weights."""

    examples: Examples
    coef: np.ndarray
    groups: np.ndarray


@lru_cache(maxsize=4)
def chains(seed: int, draw: int, n: int, relevant: int, correlated: bool = False, sweeps: int = 5000) -> Chains:
    """Sample ``n`` chains from random CRF number ``draw``; all systems get the same chains."""
    rng = np.random.default_rng([seed, draw, relevant, int(correlated)])
    data = make_synthetic_chains(n, relevant, 100, correlated=correlated, n_gibbs=sweeps, random_state=rng)
    return Chains(Examples.build(data.X, data.y), data.coef, data.groups)


class Letters(NamedTuple):
    """The OCR words with their folds."""

    examples: Examples
    folds: np.ndarray


def ocr_place(data: Path | None) -> Path | None:
    """Return the folder of the OCR letters: ``ocr_letters`` in the data folder, or that folder itself."""
    if data is None:
        return None
    inside = data / "ocr_letters"
    return inside if inside.exists() else data


@lru_cache(maxsize=1)
def letters(data: Path | None) -> Letters:
    """Read all OCR words."""
    dataset = fetch_ocr_letters(ocr_place(data))
    return Letters(Examples.build(dataset.X, dataset.y), np.asarray(dataset.folds))


def letters_missing(data: Path | None) -> str:
    """Return the reason why the OCR letters are unavailable, or an empty string."""
    try:
        letters(data)
    except (OSError, ValueError) as error:
        return f"the OCR letters are not available ({str(error).splitlines()[0]}) Pass their folder with --data."
    return ""


def sample_words(words_and_folds: Letters, seed: int, words: int | None) -> tuple[Examples, np.ndarray]:
    """Sample ``words`` words of every fold (None for all); return them with their folds."""
    if words is None:
        return words_and_folds.examples, words_and_folds.folds
    rng = np.random.default_rng([seed, words])
    chosen = [rng.permutation(np.flatnonzero(words_and_folds.folds == fold))[:words] for fold in range(10)]
    index = np.sort(np.concatenate(chosen))
    return words_and_folds.examples[index], words_and_folds.folds[index]


READINGS = ("one", "nine")
"""Two readings of the protocol: train on one fold and test on nine (as Taskar et al.), or the reverse."""


def split(words_and_folds: Letters, seed: int, words: int | None, fold: int, reading: str) -> tuple[Examples, Examples]:
    """Return training and test words."""
    examples, folds = sample_words(words_and_folds, seed, words)
    inside = (folds == fold) == (reading == "one")
    return examples[inside], examples[~inside]

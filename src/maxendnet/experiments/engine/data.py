"""Data of the experiments: drawn, or read once in a process and kept."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxendnet import Examples
from maxendnet.datasets import fetch_ocr_letters, make_synthetic_chains


class Chains(NamedTuple):
    """Chains drawn from a random CRF, with its weights."""

    examples: Examples
    coef: np.ndarray
    groups: np.ndarray


@lru_cache(maxsize=4)
def chains(seed: int, draw: int, n: int, relevant: int, correlated: bool = False, sweeps: int = 5000) -> Chains:
    """Draw number ``draw`` of a synthetic CRF and ``n`` chains from it; all systems get the same."""
    rng = np.random.default_rng([seed, draw, relevant, int(correlated)])
    data = make_synthetic_chains(n, relevant, 100, correlated=correlated, n_gibbs=sweeps, random_state=rng)
    return Chains(Examples.build(data.X, data.y), data.coef, data.groups)


class Letters(NamedTuple):
    """The OCR words and the fold of each."""

    examples: Examples
    folds: np.ndarray


def ocr_place(data: Path | None) -> Path | None:
    """Where the letters are under the user's data path: ``ocr_letters`` in it, or the path itself."""
    if data is None:
        return None
    inside = data / "ocr_letters"
    return inside if inside.exists() else data


@lru_cache(maxsize=1)
def letters(data: Path | None) -> Letters:
    """All words."""
    found = fetch_ocr_letters(ocr_place(data))
    return Letters(Examples.build(found.X, found.y), np.asarray(found.folds))


def letters_missing(data: Path | None) -> str:
    """Why the letters cannot be had; empty when they can."""
    try:
        letters(data)
    except (OSError, ValueError) as error:
        return f"the OCR letters are not at hand ({str(error).splitlines()[0]}) Give their folder with --data."
    return ""


def some_words(found: Letters, seed: int, words: int | None) -> tuple[Examples, np.ndarray]:
    """OCR100 and its like: ``words`` words out of every fold at random (None: all), and the fold of each."""
    if words is None:
        return found.examples, found.folds
    rng = np.random.default_rng([seed, words])
    chosen = [rng.permutation(np.flatnonzero(found.folds == fold))[:words] for fold in range(10)]
    index = np.sort(np.concatenate(chosen))
    return found.examples[index], found.folds[index]


READINGS = ("one", "nine")
"""The protocol reads two ways: train on one fold and test on nine (as Taskar et al. do), or the other way round."""


def split(found: Letters, seed: int, words: int | None, fold: int, reading: str) -> tuple[Examples, Examples]:
    """Training and test words."""
    examples, folds = some_words(found, seed, words)
    inside = (folds == fold) == (reading == "one")
    return examples[inside], examples[~inside]

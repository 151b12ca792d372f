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
    transitions: np.ndarray
    groups: np.ndarray


@lru_cache(maxsize=4)
def chains(seed: int, draw: int, n: int, relevant: int, correlated: bool = False, sweeps: int = 5000) -> Chains:
    """Sample ``n`` chains from random CRF number ``draw``; all systems get the same chains."""
    rng = np.random.default_rng([seed, draw, relevant, int(correlated)])
    data = make_synthetic_chains(n, relevant, 100, correlated=correlated, n_gibbs=sweeps, random_state=rng)
    return Chains(Examples.build(data.X, data.y), data.coef, data.transitions, data.groups)


def best_labels(drawn: Chains, examples: Examples) -> list[np.ndarray]:
    """Return the most probable labels of each chain under the CRF that generated it (Viterbi algorithm)."""
    labellings = []
    for x in examples.split(examples.X @ drawn.coef):
        best, back = x[0], []
        for node in x[1:]:
            through = best[:, None] + drawn.transitions
            back.append(through.argmax(axis=0))
            best = through.max(axis=0) + node
        labels = [int(best.argmax())]
        for pointers in reversed(back):
            labels.append(int(pointers[labels[-1]]))
        labellings.append(np.array(labels[::-1]))
    return labellings


class Letters(NamedTuple):
    """The OCR words with their folds and the number of each distinct word."""

    examples: Examples
    folds: np.ndarray
    words: np.ndarray


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
    words = np.unique(dataset.words, return_inverse=True)[1]
    return Letters(Examples.build(dataset.X, dataset.y), np.asarray(dataset.folds), words)


def letters_missing(data: Path | None) -> str:
    """Return the reason why the OCR letters are unavailable, or an empty string."""
    try:
        letters(data)
    except (OSError, ValueError) as error:
        return f"the OCR letters are not available ({str(error).splitlines()[0]}) Pass their folder with --data."
    return ""


def sample_words(letters: Letters, seed: int, words: int | None) -> Letters:
    """Sample ``words`` words of every fold; None for all."""
    if words is None:
        return letters
    rng = np.random.default_rng([seed, words])
    chosen = [rng.permutation(np.flatnonzero(letters.folds == fold))[:words] for fold in range(10)]
    index = np.sort(np.concatenate(chosen))
    return Letters(letters.examples[index], letters.folds[index], letters.words[index])


READINGS = ("nine", "one")
"""Two readings of the protocol: train on nine folds and test on one, or the reverse (as Taskar et al.)."""


class Split(NamedTuple):
    """Training and test words, and the number of the distinct word of each test word."""

    train: Examples
    test: Examples
    words: np.ndarray


def split(letters: Letters, seed: int, words: int | None, fold: int, reading: str) -> Split:
    """Return training and test words."""
    sample = sample_words(letters, seed, words)
    inside = (sample.folds == fold) == (reading == "one")
    return Split(sample.examples[inside], sample.examples[~inside], sample.words[~inside])

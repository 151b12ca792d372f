"""Claim: with high probability, the error is at most a bound computed from the training examples (Theorem 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxendnet import Examples, MaxEnDNet, Uniform, certificates
from maxendnet.certificates.inequalities import margin_bound
from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.data import letters, letters_missing, split
from maxendnet.experiments.engine.experiment import (
    INFORMATIVE,
    VACUOUS,
    VIOLATED,
    Card,
    Estimate,
    Experiment,
    Row,
    Settings,
)
from maxendnet.experiments.engine.systems import FINAL_PASSES, FINAL_TOL, METHOD, make
from maxendnet.experiments.engine.table import distinct, select, values

CONSTANTS = {"LapMEDN": {"lam": 36.0, "C": 2.4}, "M3N": {"C": 0.1}, "Uniform": {"a": 1.0, "C": 0.1}}
SIZES: dict[str, Any] = {"full": (10, [100, 250, None], 1000), "quick": (1, [60], 100), "tiny": (1, [6], 10)}
DELTA = 0.05
THEOREM = "theorem 8"
"""Name of the bound on the 0/1 loss of whole words; the other bounds apply to the share of wrong letters."""


def cells(scale: str) -> list[Settings]:
    folds, sizes, draws = SIZES[scale]
    return [
        {"words": words, "fold": fold, "reading": "nine", "system": system, "draws": draws}
        for fold in range(folds) for words in sizes for system in CONSTANTS
    ]  # fmt: skip


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    train, test, _ = split(letters(data), seed, settings["words"], settings["fold"], settings["reading"])
    options: dict[str, Any] = {"tol": FINAL_TOL, "max_passes": FINAL_PASSES, "random_state": seed}
    constants = CONSTANTS[settings["system"]]
    if settings["system"] == "Uniform":
        model: Any = MaxEnDNet(prior=Uniform(a=constants["a"]), C=constants["C"], **options).fit(train)
    else:
        model = make(settings["system"], constants, **options).fit(train)
    report = certificates.pac_bayes(model, train, n_draws=settings["draws"], delta=DELTA, random_state=seed)
    # the bounds apply to the mean over words of the share of wrong letters
    truth = test.split(np.asarray(test.y))
    shares = [np.mean(p != t) for p, t in zip(model.predict(test), truth)]
    numbers: Row = {"n_train": len(train), "error": float(np.mean(shares)),
                    "word_error": float(np.mean(np.array(shares) > 0)), "gap": model.gap_,
                    "converged": bool(model.converged_)}  # fmt: skip
    for row in report:
        if row.loss == "share" or row.name == THEOREM:
            numbers |= {f"bound, {row.name}": row.bound, f"seen, {row.name}": row.empirical}
    if settings["system"] == "Uniform":
        numbers[f"bound, {THEOREM}"] = certified_theorem_8(model, train, constants["a"])
    return numbers


def certified_theorem_8(model: Any, train: Examples, a: float) -> float:
    """Return the bound of Theorem 8 under a uniform prior on [-a, a], whose scores are bounded as it assumes.

    The features of a word are its pixels, between 0 and 1, at the label of each letter, and a 1 for each pair of
    neighbours. So no weights in the box give a score above a times their sum.
    """
    longest = int(np.diff(train.offsets).max())
    c = a * (longest * train.n_features + longest - 1)
    truth = train.split(np.asarray(train.y))
    margins = [
        top[0][0] - top[1][0] if np.array_equal(top[0][1], y) else 0.0
        for top, y in zip(model.predict_top(train, 2), truth)
    ]
    log_labellings = longest * np.log(len(model.classes_))
    return margin_bound(np.array(margins), float(model.posterior_.kl), log_labellings, c, DELTA)[0]


def cards(rows: list[Row]) -> list[Card]:
    names = [n.removeprefix("bound, ") for n in rows[0] if n.startswith("bound, ")] if rows else []
    conclusions = []
    for name in names:
        theorem = name == THEOREM
        measured = "word_error" if theorem else "error"
        bound, error = values(rows, f"bound, {name}"), values(rows, measured)
        vacuous = float(np.mean(bound >= 1))
        broken = int(np.sum(bound < error))
        verdict = VIOLATED if broken > max(1, 2 * DELTA * len(rows)) else VACUOUS if vacuous > 0.5 else INFORMATIVE
        conclusions.append(
            Card(name.replace(",", "").replace(" ", "_"),
                 "Theorem 8 bounds the share of new words with an error." if theorem else
                 f"The bound '{name}' is below 1 and above the error.", verdict,
                 [Estimate("median and range", *map(float, (np.median(bound), bound.min(), bound.max())))], "of 1",
                 numbers=[f"{s}, {int(n)} training words: bound {np.mean(values(part, f'bound, {name}')):.3f}, error "
                          f"of predict on new words {np.mean(values(part, measured)):.3f}"
                          for s in CONSTANTS for n in sorted({round(r["n_train"], -2) for r in rows})
                          if (part := [r for r in rows if r["system"] == s and round(r["n_train"], -2) == n])],
                 test=f"{broken} of {len(rows)} bounds are below the test error; at most {100 * DELTA:g} % may be."
                 + (" It assumes bounded scores: certified under the Uniform prior, an illustration for the other two."
                    if theorem else ""),
                 beyond=not theorem)
        )  # fmt: skip
    return conclusions


def draw(figure: Any, rows: list[Row]) -> None:
    axes = figure.subplots(1, len(CONSTANTS), sharey=True)
    names = [n for n in rows[0] if n.startswith("bound, ")] if rows else []
    for axis, system in zip(axes, CONSTANTS):
        part = select(rows, system=system)
        sizes = distinct(part, "words")
        x = [np.mean(values(select(part, words=w), "n_train")) for w in sizes]
        for k, name in enumerate(names):
            groups = [np.minimum(values(select(part, words=w), name), 10.0) for w in sizes]
            label = name.removeprefix("bound, ")
            figures.curve(axis, x, groups, label + (" (whole words, cut off at 10)" if label == THEOREM else ""), k + 1)
        figures.curve(axis, x, [values(select(part, words=w), "error") for w in sizes], "error on new words", 0)
        axis.axhline(1, color="0.4", linewidth=0.9, linestyle="--")
        axis.annotate("bounds above this line are vacuous", (0.98, 1), (0, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", fontsize=8.5)  # fmt: skip
        axis.set(title=system, xlabel="training words", yscale="log")
    axes[0].set_ylabel("share of wrong letters in a word")
    figures.legend(figure, axes[0], 3)


EXPERIMENT = Experiment(
    name="bound",
    title="What do generalisation bounds say on real data?",
    paper="Section 6, Theorem 8 (no figure)",
    method="OCR100, OCR250 and all words, trained on nine folds, constants fixed beforehand: LapMEDN lam 36, C 2.4; "
    "M3N C 0.1; MaxEnDNet with a uniform prior on [-1, 1], C 0.1. Bounds of the library at level "
    f"{DELTA:g} for the share of wrong letters of a word, beside that share on the words of the tenth fold. " + METHOD,
    cells=cells, run=run, cards=cards, draw=draw, size=(10.0, 4.4), needs=letters_missing,
)  # fmt: skip

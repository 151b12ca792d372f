"""Demonstration: the six models on synthetic chains and OCR letters, with tables and a figure."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet.datasets import SyntheticChains, fetch_ocr_letters, make_synthetic_chains
from maxendnet.estimators import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.utils.atomic_write import write_whole
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.scikit_learn import clone

# Constants were chosen from a coarse grid, on five seeds of the synthetic chains (including the one shown), and on the
# split of the letters that is shown. So this is a demonstration, not a fair comparison of the models.
SYNTHETIC: tuple[MarkovNetwork, ...] = (
    LapMEDN(C=5, lam=25_000),
    M3N(C=0.1),
    L1M3N(C=0.015),
    CRF(),
    L1CRF(lam=15),
    L2CRF(lam=3),
)
LETTERS: tuple[MarkovNetwork, ...] = (
    LapMEDN(C=2, lam=40),
    M3N(C=0.1),
    L1M3N(C=0.3),
    CRF(),
    L1CRF(lam=1.5),
    L2CRF(lam=2),
)
TOL = 1e-2
SMALL = 1e-3


@dataclass
class Row:
    """One row of a table."""

    system: str
    settings: str
    error: float
    """Share of wrong labels on the test set."""
    seconds: float
    gap: float
    converged: bool
    above: float
    """Share of weights whose absolute value exceeds `SMALL`."""


@dataclass
class Split:
    """Training and test examples with their labels."""

    train: tuple[Sequence[Any], Sequence[Any]]
    test: tuple[Sequence[Any], Sequence[Any]]


def demo(
    out: str | Path = ".",
    *,
    quick: bool = False,
    ocr: bool = True,
    ocr_data: str | Path | None = None,
    n_jobs: int | None = None,
    echo: Callable[[str], object] = print,
) -> dict[str, list[Row]]:
    """Fit the six models to two data sets, print tables, and write a figure and the numbers.

    Parameters
    ----------
    out : str or path-like
        Folder for ``weights.png`` and ``demo.json``; created if missing.
    quick : bool
        Use fewer examples and a looser tolerance, for a run of a few seconds.
    ocr : bool
        Include the OCR letters, which may have to be downloaded.
    ocr_data : str or path-like, optional
        Path of the letters; see `maxendnet.datasets.fetch_ocr_letters`.
    n_jobs : int or None
        Number of threads.
    echo : callable
        Called with each line of output.

    Returns
    -------
    dict of str to list of Row
        The table of each data set.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tol = 10 * TOL if quick else TOL
    tables: dict[str, list[Row]] = {}
    with progress_bar(total=(2 if ocr else 1) * len(SYNTHETIC), unit=" fits", leave=False) as bar:

        def say(text: str) -> None:
            bar.clear()
            echo(text)

        bar.set_description_str("synthetic chains: drawing")
        chains, split = _chains(quick)
        fitted, tables["synthetic chains"] = _fit_all(SYNTHETIC, split, tol, n_jobs, bar, "synthetic chains")
        matter = f"{np.count_nonzero(chains.groups >= 0)} of {len(chains.coef)} features are relevant"
        caption = f"Synthetic chains: {_sizes(split, 'chains')}, 2 labels, {matter}"
        say(_table(caption, tables["synthetic chains"], tol))
        if ocr:
            bar.set_description_str("OCR letters: fetching")
            try:
                split = _letters(quick, ocr_data)
            except (OSError, ValueError) as error:
                say(f"\nOCR letters: skipped. {str(error).splitlines()[0]}")
            else:
                _, tables["OCR letters"] = _fit_all(LETTERS, split, tol, n_jobs, bar, "OCR letters")
                caption = f"OCR letters: {_sizes(split, 'words')}, 26 labels, 128 pixels"
                say(_table(caption, tables["OCR letters"], tol))
    echo("")
    try:
        _figure(chains, fitted, tables["synthetic chains"], out / "weights.png")
        echo(f"Figure of true and learned weights: {out / 'weights.png'}")
    except ImportError as error:
        echo(f"No figure: {error}. It needs matplotlib; install it with: pip install 'maxendnet[plot]'")
    numbers = {
        name: [asdict(row) | {"gap": None if np.isnan(row.gap) else row.gap} for row in rows]
        for name, rows in tables.items()
    }
    text = json.dumps(numbers, indent=1, allow_nan=False) + "\n"
    write_whole(out / "demo.json", lambda file: file.write(text.encode()))
    echo(f"Numbers of the tables: {out / 'demo.json'}")
    return tables


# ---- data -----------------------------------------------------------------------------------------------------------


def _chains(quick: bool) -> tuple[SyntheticChains, Split]:
    n_train, n_test, n_gibbs = (30, 100, 100) if quick else (100, 900, 1000)
    data = make_synthetic_chains(n_train + n_test, n_relevant=10, n_features=100, n_gibbs=n_gibbs, random_state=0)
    return data, Split((data.X[:n_train], data.y[:n_train]), (data.X[n_train:], data.y[n_train:]))


def _letters(quick: bool, path: str | Path | None) -> Split:
    data = fetch_ocr_letters(path)
    # train on fold 0, as in the literature; test on every fifth word of the other folds
    train, test = np.flatnonzero(data.folds == 0), np.flatnonzero(data.folds != 0)[::5]
    if quick:
        train, test = train[::8], test[::8]
    return Split(*(([data.X[i] for i in part], [data.y[i] for i in part]) for part in (train, test)))


def _sizes(split: Split, word: str) -> str:
    return f"{len(split.train[0])} training {word}, {len(split.test[0])} test {word}"


# ---- fits and tables ------------------------------------------------------------------------------------------------


def _fit_all(
    systems: Sequence[MarkovNetwork], split: Split, tol: float, n_jobs: int | None, bar: Any, data: str
) -> tuple[list[MarkovNetwork], list[Row]]:
    models, rows = [], []
    for system in systems:
        name = type(system).__name__
        bar.set_description_str(f"{data}: {name}")
        bar.refresh()
        model: Any = clone(system).set_params(tol=tol, n_jobs=n_jobs, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # such fits are marked in the table
            model.fit(*split.train)
        seconds = time.perf_counter() - began
        settings = ", ".join(f"{key}={value}" for key, value in system.get_params().items() if key in ("C", "lam"))
        above = float(np.mean(np.abs(model.posterior_.mean) > SMALL))
        error = 1.0 - model.score(*split.test)
        rows.append(Row(name, settings, error, seconds, float(model.gap_), bool(model.converged_), above))
        models.append(model)
        bar.update()
    return models, rows


def _table(caption: str, rows: Sequence[Row], tol: float) -> str:
    head = ("system", "constants", "error %", "seconds", "gap", f"|weight| > {SMALL:g}")
    lines = [head]
    for row in rows:
        gap = "none" if np.isnan(row.gap) else f"{row.gap:.1e}"
        lines.append((
            row.system, row.settings or "-", f"{100 * row.error:.1f}", f"{row.seconds:.2f}",
            gap + ("" if row.converged else " *"), f"{100 * row.above:.0f} %",
        ))  # fmt: skip
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if k < 2 else cell.rjust(width) for k, (cell, width) in enumerate(zip(line, widths))
        )
        for line in lines
    ]
    rule = "-" * len(text[0])
    notes = [f"Constants from a coarse grid. Fits stop at a relative duality gap of {tol:g} (CRF: relative gradient)."]
    if not all(row.converged for row in rows):
        notes.append("* stopped at max_passes with a larger gap.")
    return "\n".join(["", caption, rule, text[0], rule, *text[1:], rule, *notes])


# ---- figure ---------------------------------------------------------------------------------------------------------

# colour-blind safe colours of Okabe and Ito; markers differ as well
RELEVANT, IRRELEVANT = "#0072B2", "#D55E00"


def _figure(chains: SyntheticChains, models: Sequence[Any], rows: Sequence[Row], path: Path) -> None:
    """Plot learned against true weights, one panel per model."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("matplotlib is not installed") from error

    # Only the difference between the weights of the two labels is identified, up to scale: compare directions.
    true = _direction(chains.coef)
    relevant = chains.groups >= 0
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for axis, model, row in zip(axes.flat, models, rows):
        learned = _direction(model.coef_)
        axis.axline((0, 0), slope=1, color="0.7", linewidth=1, zorder=0)
        axis.plot(true[~relevant], learned[~relevant], "x", color=IRRELEVANT, markersize=5, label="irrelevant features")
        axis.plot(true[relevant], learned[relevant], "o", color=RELEVANT, markersize=6, label="relevant features")
        settings = f"  ({row.settings})" if row.settings else ""
        axis.set_title(f"{row.system}{settings}\nerror {100 * row.error:.1f} %", fontsize=10)
        axis.grid(alpha=0.25)
        axis.label_outer()
    figure.supxlabel("true weight (label 1 minus label 0, normalised to length 1)", fontsize=10)
    figure.supylabel("learned weight (label 1 minus label 0, normalised)", fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=120))


def _direction(coef: np.ndarray) -> np.ndarray:
    difference = coef[:, 1] - coef[:, 0]
    values: np.ndarray = difference / max(float(np.linalg.norm(difference)), 1e-300)
    return values

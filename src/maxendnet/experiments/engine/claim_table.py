"""The table of claims: a line per claim with its verdict, a number and a small picture, for pages of results."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxendnet.experiments.engine import statistics

# claims of the paper in its order, and the cards that test them: (label of the line, experiment, key)
CLAIMS: list[tuple[str, list[tuple[str, str, str]]]] = [
    ("A Laplace prior shrinks small posterior means", [("", "shrinkage", "shrinks")]),
    ("The larger lam, the stronger", [("", "shrinkage", "larger_lam")]),
    ("No weight is set to zero", [("", "shrinkage", "none_zero")]),
    ("The KL-norm ball tends to the L1 ball as lam grows", [("", "norms", "towards_l1")]),
    ("Its boundary is smooth on the axes", [("", "norms", "smooth")]),
    ("Three iterations of Algorithm 1 are enough", [("", "exact_vs_variational", "three_suffice")]),
    ("Theorem 8 bounds the error on new words", [("", "bound", "theorem_8")]),
    ("LapMEDN outperforms M3N on synthetic chains",
     [("i.i.d.", "iid", "beats_m3n"), ("i.i.d., the paper's procedure", "iid", "beats_m3n_paper"),
      ("correlated", "correlated", "beats_m3n"),
      ("correlated, the paper's procedure", "correlated", "beats_m3n_paper")]),
    ("It performs comparably with L1-CRF and L1-M3N",
     [("i.i.d.", "iid", "like_l1"), ("i.i.d., the paper's procedure", "iid", "like_l1_paper"),
      ("correlated", "correlated", "like_l1")]),
    ("L1-M3N is best with few relevant features", [("", "iid", "l1_best_few")]),
    ("LapMEDN is better than L1-M3N with more", [("", "iid", "lap_best_many")]),
    ("Regularised CRFs beat the unregularised one",
     [("i.i.d.", "iid", "regularised"), ("correlated", "correlated", "regularised")]),
    ("M3N and L2-CRF perform comparably",
     [("i.i.d.", "iid", "m3n_like_l2crf"), ("correlated", "correlated", "m3n_like_l2crf"),
      ("OCR, nine folds", "ocr", "m3n_like_l2crf_nine"), ("OCR, one fold", "ocr", "m3n_like_l2crf_one")]),
    ("Projected subgradient is worse than the exact L1-M3N", [("", "iid", "projected")]),
    ("The generating model mislabels half of the chains", [("", "correlated", "generator")]),
    ("Weights of irrelevant features are extremely small", [("", "weights", "irrelevant_shrink")]),
    ("LapMEDN shrinks relevant weights more", [("", "weights", "relevant_shrink")]),
    ("Posterior variances show groups of features", [("", "variances", "groups")]),
    ("Variances of irrelevant features vanish", [("", "variances", "vanish")]),
    ("LapMEDN is best on OCR",
     [("nine folds", "ocr", "lap_best_nine"), ("one fold", "ocr", "lap_best_one"),
      ("the paper's procedure", "ocr", "paper_constants_nine")]),
    ("M3N beats CRF and L1-CRF on OCR",
     [("nine folds", "ocr", "m3n_beats_nine"), ("one fold", "ocr", "m3n_beats_one")]),
    ("L1-M3N beats L1-CRF on OCR",
     [("nine folds", "ocr", "l1m3n_beats_l1crf_nine"), ("one fold", "ocr", "l1m3n_beats_l1crf_one")]),
    ("With more words errors vary less",
     [("nine folds", "ocr", "steadier_nine"), ("one fold", "ocr", "steadier_one")]),
    ("Margin models are dual sparse",
     [("nine folds", "ocr", "dual_sparse_nine"), ("one fold", "ocr", "dual_sparse_one")]),
    ("CRF and L1-CRF overfit, L2-CRF does not", [("", "overfitting", "overfit")]),
    ("L1-CRF is sensitive to its constant",
     [("nine folds", "sensitivity", "l1crf_sensitive_nine"), ("one fold", "sensitivity", "l1crf_sensitive_one")]),
    ("LapMEDN and L1-M3N are the most stable",
     [("nine folds", "sensitivity", "lap_stable_nine"), ("one fold", "sensitivity", "lap_stable_one")]),
    ("Regularised models beat the CRF on web pages", [("", "web", "regularised")]),
    ("Max-margin models beat likelihood there", [("", "web", "margin_beats_likelihood")]),
    ("LapMEDN performs comparably with L1-M3N there", [("", "web", "lap_like_l1m3n")]),
    ("LapMEDN beats the others there with few pages", [("", "web", "lap_best_few")]),
    ("L1-M3N beats L1-CRF there", [("", "web", "l1m3n_beats_l1crf")]),
    ("A hierarchical model is better than flat ones", [("", "web", "tree_beats_flat_lapmedn")]),
]  # fmt: skip
SYMBOLS = {True: "✓", False: "✗", None: "?"}
BLUE, GREY = "#3a86c8", "#8a8a8a"
"""Colours that are visible on light and on dark pages."""


class Line(NamedTuple):
    """A line of the table; ``card`` is None if the claim was not tested yet."""

    claim: str
    label: str
    experiment: str
    key: str
    card: dict[str, Any] | None

    @property
    def name(self) -> str:
        """Name of the picture."""
        return f"{self.experiment}-{self.key}"


def paper_lines(runs: dict[str, dict[str, Any]]) -> list[Line]:
    """Return the claims of the paper."""
    cards = {(name, card["key"]): card for name, run in runs.items() for card in run["cards"]}
    return [
        Line(claim, label, name, key, cards.get((name, key)))
        for claim, keys in CLAIMS
        for label, name, key in keys
    ]  # fmt: skip


def further_lines(runs: dict[str, dict[str, Any]]) -> list[Line]:
    """Return the cards that are not in the table of the paper's claims."""
    listed = {(name, key) for _, keys in CLAIMS for _, name, key in keys}
    return [
        Line(card["claim"], "", name, card["key"], card)
        for name, run in runs.items() for card in run["cards"] if (name, card["key"]) not in listed
    ]  # fmt: skip


def verdict_text(card: dict[str, Any]) -> str:
    """Return the symbol and the word of a verdict.

    >>> verdict_text({"verdict": {"word": "not better", "agrees": False}})
    '✗ not better'
    """
    return f"{SYMBOLS[card['verdict']['agrees']]} {card['verdict']['word']}"


def decisive(card: dict[str, Any]) -> dict[str, Any] | None:
    """Return the estimate that agrees least with the claim."""
    estimates = [e for e in card["estimates"] if e["value"] is not None]
    if not estimates:
        return None
    if card["margin"] is not None and card["verdict"]["word"] == "comparable":
        largest: dict[str, Any] = max(estimates, key=lambda e: abs(e["value"]))
        return largest
    lowest: dict[str, Any] = min(estimates, key=lambda e: _number(e["low"]))
    return lowest


def _number(value: Any) -> float:
    return float(value) if value is not None else -np.inf


def number_text(card: dict[str, Any], label: bool = True) -> str:
    """Return the decisive number with its interval, by default after the label of the comparison.

    >>> estimate = {"label": "A over B", "value": 0.394, "low": 0.29, "high": 0.5}
    >>> number_text({"estimates": [estimate], "margin": None, "unit": "points", "verdict": {"word": "better"}})
    'A over B: +0.39 [+0.29, +0.50] points'
    """
    estimate = decisive(card)
    if estimate is None:
        return ""
    value, low, high = (_number(estimate[name]) for name in ("value", "low", "high"))
    numbers = f"{value:.3g}" if low == high else f"{_signed(value)} [{_signed(low)}, {_signed(high)}]"
    unit = "" if card["unit"] == "points" and not label else card["unit"]
    prefix = f"{estimate['label']}: " if label else ""
    return f"{prefix}{numbers} {unit}".strip()


def _signed(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 100 else f"{value:+.3g}"


def forest(card: dict[str, Any], width: int = 130) -> str:
    """Return a forest plot as inline SVG: a dot and an interval per estimate, the zero line, and the margin."""
    estimates = [e for e in card["estimates"] if e["value"] is not None]
    if not estimates:
        return ""
    intervals = np.array([[_number(e[name]) for name in ("low", "value", "high")] for e in estimates])
    finite = intervals[np.isfinite(intervals)]
    margin = card["margin"] or 0.0
    left, right = min(0.0, -margin, finite.min()), max(0.0, margin, finite.max())
    room = 0.04 * (right - left) or 1.0
    left, right = left - room, right + room
    pitch = 6 if len(estimates) > 3 else 8
    height = max(18, pitch * len(estimates) + 4)

    def x(value: float) -> str:
        return f"{width * (np.clip(value, left, right) - left) / (right - left):.1f}"

    parts = []
    if margin:
        parts.append(f'<rect x="{x(-margin)}" y="0" width="{float(x(margin)) - float(x(-margin)):.1f}" '
                     f'height="{height}" fill="{GREY}" fill-opacity=".25"/>')  # fmt: skip
    parts.append(f'<path d="M{x(0)} 0V{height}" stroke="{GREY}"/>')
    for k, (low, value, high) in enumerate(intervals):
        y = height / 2 + pitch * (k - (len(intervals) - 1) / 2)
        parts.append(f'<path d="M{x(low)} {y:g}H{x(high)}" stroke="{BLUE}" stroke-width="2"/>'
                     f'<circle cx="{x(value)}" cy="{y:g}" r="2.6" fill="{BLUE}"/>')  # fmt: skip
    names = "; ".join(f"{e['label']} {_signed(_number(e['value']))}" for e in estimates)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(names)}</title>{"".join(parts)}</svg>'
    )


def correction(runs: Iterable[dict[str, Any]]) -> str:
    """Describe which verdicts remain after correction for the number of cards."""
    tested = [card for run in runs for card in run["cards"] if card["p"] is not None and card["verdict"]["agrees"]
              and card["margin"] is None]  # fmt: skip
    n_tests = sum(card["p"] is not None for run in runs for card in run["cards"])
    if not n_tests:
        return "Intervals are 95 % intervals of paired tests, without a correction for the number of cards."
    significant = statistics.holm([card["p"] for card in tested])
    return (
        f"Intervals are 95 % intervals of paired tests, without a correction for the number of cards ({n_tests} with a "
        f"test). A card with several comparisons agrees with its claim only if each of them does. Of the "
        f"{len(tested)} cards that found a difference, {sum(significant)} remain significant at a familywise level of "
        "5 % (Holm)."
    )


def write_forests(lines: Iterable[Line], folder: Path, write: Any) -> None:
    """Write the pictures of the lines as SVG files."""
    for line in lines:
        if line.card is not None and (picture := forest(line.card)):
            folder.mkdir(parents=True, exist_ok=True)
            file = picture.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
            write(folder / f"{line.name}.svg", file + "\n")

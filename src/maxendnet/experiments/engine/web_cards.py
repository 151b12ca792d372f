"""Conclusions and figure of the web experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxendnet.experiments.engine import figures
from maxendnet.experiments.engine.comparison import better, compare, similar, unconverged
from maxendnet.experiments.engine.experiment import FAILS, HOLDS, OPEN, Card, Estimate, Row, Verdict
from maxendnet.experiments.engine.statistics import Paired, paired
from maxendnet.experiments.engine.systems import SYSTEMS
from maxendnet.experiments.engine.table import differences, distinct, select, values

FEW = 7
"""Largest number of pages that counts as a *small* training set of the paper: 20 %."""
LIKELIHOOD = ("CRF", "L2-CRF", "L1-CRF")


def by_site(rows: list[Row], value: str = "site_f1") -> list[Row]:
    """One row per test site, with error 1 - F1 (or 1 - the share of pages with all fields right)."""
    return [
        {"site": f"{row['vertical']}/{site}", "error": 1.0 - number}
        | {name: row[name] for name in ("system", "draw", "pages")}
        for row in rows
        for site, number in zip(row["test_sites"], row[value])
        if np.isfinite(number)
    ]


def cards(rows: list[Row]) -> list[Card]:
    few_pages = select(rows, part="few pages")
    small = [row for row in few_pages if row["pages"] <= max(FEW, min((r["pages"] for r in few_pages), default=0))]
    new = select(rows, part="new sites")
    conclusions: list[Card] = []
    if few_pages:
        conclusions += [
            _compare("regularised", "Regularised models outperform the unregularised CRF.", few_pages,
                     [(s, "CRF") for s in SYSTEMS if s != "CRF"], better,
                     [*table(few_pages, "f1"), *table(few_pages, "all_right"), unconverged(few_pages)]),
            _compare("margin_beats_likelihood", "Max-margin models outperform those of the conditional likelihood with "
                     f"few pages (read: M3N above L2-CRF, L1-M3N above L1-CRF; up to {FEW} pages).", small,
                     [("M3N", "L2-CRF"), ("L1-M3N", "L1-CRF")], better, by_vertical(small)),
            _compare("lap_like_l1m3n", "LapMEDN performs comparably with L1-M3N (read: within half a point).",
                     few_pages, [("LapMEDN", "L1-M3N")], similar),
            _compare("lap_best_few", f"LapMEDN outperforms all models but L1-M3N with few pages (up to {FEW}).",
                     small, [("LapMEDN", s) for s in SYSTEMS if s not in ("LapMEDN", "L1-M3N")], better,
                     [over_draws(small, s) for s in ("L2-CRF", "L1-CRF")]),
            _compare("l1m3n_beats_l1crf", "L1-M3N generally outperforms L1-CRF.", few_pages,
                     [("L1-M3N", "L1-CRF")], better),
            sparse_card(small),
        ]  # fmt: skip
    if new:
        conclusions.append(
            _compare("lap_best_new_sites", "LapMEDN is the best of the six on new sites.", new,
                     [("LapMEDN", s) for s in SYSTEMS if s != "LapMEDN"], better,
                     [*table(new, "f1", "seed sites"), *table(new, "f1_agreed", "seed sites, agreement")], beyond=True)
        )  # fmt: skip
    conclusions += model_cards(select(rows, part="models")) + layout_cards(select(rows, part="layout"))
    shops = select(rows, part="generated")
    if shops:
        conclusions.append(
            _compare("generated", "LapMEDN beats the unregularised CRF on generated shops.", shops,
                     [("LapMEDN", "CRF")], better, [*table(shops, "f1"), *table(shops, "all_right")], beyond=True)
        )  # fmt: skip
    for name in distinct(select(rows, part="other pages"), "vertical"):
        conclusions.append(other_card(name, select(rows, part="other pages", vertical=name)))
    return conclusions


def _compare(
    key: str, claim: str, rows: list[Row], pairs: Sequence[tuple[str, str]], verdict: Callable[[Paired], Verdict],
    numbers: Sequence[str] = (), beyond: bool = False,
) -> Card:  # fmt: skip
    """Card for a test paired by site; its numbers include the same test for pages with all fields right."""
    how: dict[str, Any] = {"pair": ["site"], "within": ["draw", "pages"]}
    whole = compare(key, claim, by_site(rows, "site_right"), pairs, verdict, **how)
    lines = [*numbers, f"Pages with all fields right: {whole.verdict.word}; {whole.test}"]
    return compare(key, claim, by_site(rows), pairs, verdict, **how, numbers=lines, beyond=beyond)


def mean_of(rows: list[Row], value: str) -> float:
    """Mean over verticals of the mean over draws, so that each vertical counts equally."""
    return float(np.mean([np.mean(values(select(rows, vertical=v), value)) for v in distinct(rows, "vertical")]))


def by_draw(rows: list[Row], value: str) -> np.ndarray:
    """One value per draw: the mean over verticals plus the average deviation of the draw."""
    means = {v: np.mean(values(select(rows, vertical=v), value)) for v in distinct(rows, "vertical")}
    return np.array([
        np.mean(list(means.values())) + np.mean([row[value] - means[row["vertical"]] for row in select(rows, draw=d)])
        for d in distinct(rows, "draw")
    ])  # fmt: skip


WORDS = {"f1": "average F1", "all_right": "block instance accuracy", "f1_agreed": "average F1"}


def table(rows: list[Row], value: str, unit: str = "pages") -> list[str]:
    """Lines with the mean of each system, one per size."""
    verticals = len(distinct(rows, "vertical"))
    return [
        f"{WORDS[value]}, {n} {unit} (mean of {verticals} vertical{'s' * (verticals != 1)}): "
        + ", ".join(f"{s} {mean_of(part, value):.3f}" for s in SYSTEMS if (part := select(rows, pages=n, system=s)))
        for n in sorted(distinct(rows, "pages"))
    ]


def by_vertical(rows: list[Row]) -> list[str]:
    """Lines with the mean of each system, one per vertical."""
    return [
        f"{v}, {len(distinct(select(rows, vertical=v), 'draw'))} draws, average F1 / block instance accuracy: "
        + ", ".join(
            f"{s} {np.mean(values(part, 'f1')):.3f} / {np.mean(values(part, 'all_right')):.3f}"
            for s in SYSTEMS
            if (part := select(rows, vertical=v, system=s))
        )
        for v in distinct(rows, "vertical")
    ]


def over_draws(rows: list[Row], rival: str) -> str:
    """Test of LapMEDN against a rival for each number of pages, paired by draw and vertical."""
    lines = []
    for n in sorted(distinct(rows, "pages")):
        part = [row | {"error": 1.0 - row["f1"]} for row in select(rows, pages=n)]
        test = paired(differences(part, "system", "LapMEDN", rival, ["draw", "vertical"]))
        lines.append(f"{n} pages {test.text()}")
    return f"Pairs by draw and vertical, {rival} minus LapMEDN: " + "; ".join(lines)


def sparse_card(rows: list[Row]) -> Card:
    """Card on the number of weights of LapMEDN compared with L2-CRF."""
    pair = ["vertical", "draw", "pages"]
    logs = [row | {"error": np.log(max(row["n_large"], 1))} for row in rows]
    test = paired(differences(logs, "system", "L2-CRF", "LapMEDN", pair))
    counts = ", ".join(
        f"{s} {np.mean(values(part, 'n_large')):,.0f}" for s in SYSTEMS if (part := select(rows, system=s))
    )
    shares = [100 * float(np.exp(value)) for value in (test.mean, test.low, test.high)]
    return Card(
        "lap_sparse", "LapMEDN has under 5 % as many weights above 1e-3 as L2-CRF.",
        HOLDS if shares[2] < 5 else FAILS if shares[1] > 5 else OPEN,
        [Estimate("LapMEDN / L2-CRF", *shares)], "%", numbers=[f"Weights above 1e-3: {counts}."],
        test=f"Geometric mean over {test.n} fits.", p=test.p, beyond=True,
    )  # fmt: skip


def model_cards(rows: list[Row]) -> list[Card]:
    """Cards that compare page models: competing leaves, independent leaves, chain, vision tree."""
    conclusions = []
    for system in ("LapMEDN", "L2-CRF"):
        part = [row | {"system": row["model"]} for row in select(rows, system=system)]
        models = distinct(part, "system")
        if not part:
            continue
        lines = [
            f"{WORDS[value]}: " + ", ".join(f"{m} {mean_of(select(part, system=m), value):.3f}" for m in models)
            for value in ("f1", "all_right")
        ]
        conclusions.append(
            _compare(f"tree_beats_flat_{system.lower().replace('-', '')}",
                     f"The hierarchical model is better than flat ones ({system}, {part[0]['pages']} pages).", part,
                     [("hierarchical", "chain"), ("hierarchical", "independent")], better,
                     [*lines, unconverged(part)])
        )  # fmt: skip
        conclusions.append(
            _compare(f"choice_beats_leaves_{system.lower().replace('-', '')}",
                     "Leaves that compete for a field are better than each by itself, in a row or "
                     f"in the tree ({system}, {part[0]['pages']} pages).", part,
                     [("choice", m) for m in models if m != "choice"], better, beyond=True)
        )  # fmt: skip
    return conclusions


def layout_cards(rows: list[Row]) -> list[Card]:
    conclusions = []
    for system in distinct(rows, "system"):
        part = [row | {"system": "with" if row["layout"] else "without"} for row in select(rows, system=system)]
        lines = [
            f"{n} seed sites, average F1: "
            + ", ".join(f"{v} {o} {np.mean(values(select(part, pages=n, system=o, vertical=v), 'f1')):.3f}"
                        for v in distinct(part, "vertical") for o in ("without", "with"))
            for n in sorted(distinct(part, "pages"))
        ]  # fmt: skip
        conclusions.append(
            _compare(f"layout_{system.lower().replace('-', '')}",
                     f"Boxes and fonts help on new sites ({system}).", part, [("with", "without")],
                     better, lines, beyond=True)
        )  # fmt: skip
    return conclusions


def other_card(name: str, rows: list[Row]) -> Card:
    """Card for pages of many templates, paired by site."""
    return _compare(
        f"lap_best_{name}", f"LapMEDN is the best of the six on {name}, on sites never seen.", rows,
        [("LapMEDN", s) for s in SYSTEMS if s != "LapMEDN"], better, [*table(rows, "f1"), *table(rows, "all_right")],
        beyond=True,
    )  # fmt: skip


def draw(figure: Any, rows: list[Row]) -> None:
    axes = figure.subplots(2, 2).ravel()
    few_pages, new = select(rows, part="few pages"), select(rows, part="new sites")
    panels = ((axes[0], few_pages, "f1", "labelled pages", "average F1"),
              (axes[1], few_pages, "all_right", "labelled pages", "block instance accuracy"),
              (axes[2], new, "f1", "labelled sites", "average F1 on other sites"))  # fmt: skip
    for axis, part, value, unit, what in panels:
        sizes = sorted(distinct(part, "pages"))
        for k, system in enumerate(SYSTEMS):
            groups = [by_draw(select(part, pages=n, system=system), value) for n in sizes]
            figures.curve(axis, sizes, groups, system, shift=0.06 * (k - 2.5))
        axis.set(xlabel=unit, ylabel=what)
    models = select(rows, part="models")
    names = distinct(models, "model")
    for k, system in enumerate(s for s in SYSTEMS if select(models, system=s)):
        means = [mean_of(select(models, system=system, model=m), "f1") for m in names]
        axes[3].bar(np.arange(len(names)) + 0.13 * (k - 2.5), means, 0.12, color=figures.STYLES[system][0])
    axes[3].set_xticks(range(len(names)), names)
    axes[3].set(ylabel="average F1", title=f"{models[0]['pages']} labelled pages" if models else "")
    axes[3].grid(axis="x", visible=False)
    if few_pages:
        figures.legend(figure, axes[0], 6)

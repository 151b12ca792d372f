"""Order of labelling: simulations on the SWDE sample.

    python benchmarks/web_order.py --data FOLDER
    python benchmarks/web_order.py --data FOLDER --quick

The data are those of ``web_swde.py``. The pool is the 35 training pages of a vertical (five of each of seven sites).
Pages are labelled one at a time; after each, a model is trained on all labelled pages and evaluated on the 70 test
pages, until all fields are correct on 98 % of them or `MAX_LABELLED` pages are labelled. The result is the number of
labelled pages until 90, 95 and 98 % of the test pages are correct.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, say, table

from maxendnet.experiments.engine.web_data import WebPages, web_pages
from maxendnet.experiments.engine.web_systems import KNOWN, Fit, chosen, fit, margins
from maxendnet.web.fields.leaf_labels import fields_of
from maxendnet.web.labelling.order import next_page, page_certainty
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.decode import best_leaves, scale_of
from maxendnet.web.model.site_votes import vote_by_site

VERTICALS = ("camera", "book", "auto")
SYSTEM, MODEL = "LapMEDN", "choice"
MAX_LABELLED = 16
SHARES = (0.9, 0.95, 0.98)
CURVE = Calibration()


class Simulation:
    """Simulation on one vertical; models are cached by their training pages."""

    def __init__(self, data: WebPages) -> None:
        self.data = data
        self.pool = data.rows("train")
        self.test = data.rows("test")
        self.models: dict[frozenset[int], tuple[Fit, float]] = {}
        self.shares: dict[frozenset[int], float] = {}
        self.rules: dict[frozenset[int], dict[str, list[float]]] = {}

    def train(self, labelled: list[int]) -> float:
        """Return the share of test pages with all fields correct."""
        key = frozenset(labelled)
        if key not in self.models:
            rows = np.sort(self.pool[labelled])
            fitted = fit(self.data, rows, SYSTEM, chosen(SYSTEM, MODEL, KNOWN), MODEL, KNOWN)
            self.models[key] = fitted, scale_of(margins(self.data, rows, fitted, MODEL))
            self.shares[key] = float(np.mean(self.correct(self.answers(self.test, *self.models[key]))))
        return self.shares[key]

    def certainty(self, labelled: list[int], rule: str) -> list[float]:
        """Return the certainty of each page of the pool."""
        key = frozenset(labelled)
        if not labelled:
            return [0.0] * len(self.pool)
        if key not in self.rules:
            self.rules[key] = rules(self.answers(self.pool, *self.models[key]))
        return self.rules[key][rule]

    def answers(self, rows: Any, fitted: Fit, scale: float) -> list[Any]:
        data = self.data
        scaled = [scale * m for m in margins(data, rows, fitted, MODEL)]
        voted = vote_by_site([data.views[i] for i in rows], scaled)
        return [best_leaves(m, data.views[i].texts, together=data.together) for i, m in zip(rows, voted)]

    def correct(self, answers: list[Any]) -> list[bool]:
        data, all_correct = self.data, []
        for i, best in zip(self.test, answers):
            hits = [c is not None and name in fields_of(data.labels[i][c.leaf]) for name, c in zip(data.fields, best)]
            all_correct.append(all(hit or name not in data.has[i] for name, hit in zip(data.fields, hits)))
        return all_correct

    def label(self, order: str, rule: str, seed: int) -> list[float]:
        """Return the share of correct test pages after 1, 2, ... labelled pages."""
        shuffled = np.random.default_rng(seed).permutation(len(self.pool)).tolist()
        sites = self.data.site[self.pool].tolist()
        labelled: list[int] = []
        curve: list[float] = []
        while len(labelled) < min(MAX_LABELLED, len(self.pool)) and (not curve or curve[-1] < SHARES[-1]):
            all_sites = len({sites[i] for i in labelled}) == len(set(sites))
            uses_model = order == "least" or (order == "sites-least" and all_sites)
            certainty = self.certainty(labelled, rule) if uses_model else [0.0] * len(self.pool)
            labelled.append(next_in_order(order, sites, labelled, certainty, shuffled))
            curve.append(self.train(labelled))
        return curve


def next_in_order(order: str, sites: list[str], done: list[int], certainty: list[float], shuffled: list[int]) -> int:
    """Return a random page, one of the site with fewest pages, the least certain, or the choice of the library."""
    waiting = [i for i in shuffled if i not in done]
    if order == "random":
        return waiting[0]
    if order == "sites":
        counts = Counter(sites[i] for i in done)
        return min(waiting, key=lambda i: counts[sites[i]])
    if order == "least":
        return min(waiting, key=lambda i: certainty[i])
    page = next_page(sites, done, certainty, shuffled)
    assert page is not None
    return page


def rules(answers: list[Any]) -> dict[str, list[float]]:
    """Return the certainty of each page by two rules."""
    return {
        "mean": [float(np.mean([0.0 if c is None else CURVE(c) for c in best])) for best in answers],
        "lead": [page_certainty(best) for best in answers],
    }


# name in the table, order, rule
WAYS = (
    ("random", "random", "lead"),
    ("site by site", "sites", "lead"),
    ("lowest mean confidence first", "least", "mean"),
    ("smallest lead first", "least", "lead"),
    ("one page per site, then lowest mean confidence", "sites-least", "mean"),
    ("one page per site, then smallest lead", "sites-least", "lead"),
)


def needed(curve: list[float], share: float) -> int:
    """Return the number of labelled pages until a share of test pages is correct; MAX_LABELLED + 1 if never."""
    return next((n for n, correct in enumerate(curve, 1) if correct >= share), MAX_LABELLED + 1)


def pages(curves: list[list[float]], share: float) -> str:
    """Return the mean number of labelled pages."""
    return f"{np.mean([needed(curve, share) for curve in curves]):.1f}"


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--verticals", default=",".join(VERTICALS))
    options.add_argument("--runs", type=int, default=8)
    given = options.parse_args()
    names = given.verticals.split(",")[: 1 if given.quick else None]
    curves: dict[str, dict[str, list[list[float]]]] = {way: {name: [] for name in names} for way, *_ in WAYS}
    for name in names:
        say(f"reading {name}")
        simulation = Simulation(web_pages(given.data, "swde", (name,), 3 if given.quick else None))
        for seed in range(1 if given.quick else given.runs):
            for way, order, rule in WAYS:
                curve = simulation.label(order, rule, seed)
                curves[way][name].append(curve)
                n_pages = [needed(curve, share) for share in SHARES]
                say(f"{name}, run {seed}, {way}: {n_pages} ({len(simulation.models)} models)")
            for cache in (simulation.models, simulation.shares, simulation.rules):
                cache.clear()
    rows = []
    for way, of_verticals in curves.items():
        cells = [" / ".join(pages(of_vertical, share) for share in SHARES) for of_vertical in of_verticals.values()]
        all_curves = [curve for of_vertical in of_verticals.values() for curve in of_vertical]
        rows.append([way, *cells, *[f"**{pages(all_curves, share)}**" for share in SHARES]])
    head = ["order", *names, *[f"all, {share:.0%}" for share in SHARES]]
    sys.stdout.write(table(head, rows))


if __name__ == "__main__":
    main()

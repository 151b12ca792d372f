"""In which order to label pages: simulated labelling on the SWDE sample.

    python benchmarks/web_order.py --data FOLDER
    python benchmarks/web_order.py --data FOLDER --quick

The data are as for ``web_swde.py``. The 35 training pages of a vertical (five of each of seven sites) wait to be
labelled. A page is asked for, its labels are told, a model is trained on all that was told, and asked about the 70 test
pages, until 98 % of them are right, or MOST are told. How many pages until the test pages are right (all attributes of
a page, on 90, 95 and 98 % of the pages)?
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
MOST = 16
SHARES = (0.9, 0.95, 0.98)
CURVE = Calibration()


class Simulation:
    """One vertical; models are kept by the pages they were trained on, since orders begin alike."""

    def __init__(self, data: WebPages) -> None:
        self.data = data
        self.pool = data.rows("train")
        self.test = data.rows("test")
        self.models: dict[frozenset[int], tuple[Fit, float]] = {}
        self.shares: dict[frozenset[int], float] = {}
        self.rules: dict[frozenset[int], dict[str, list[float]]] = {}

    def learn(self, told: list[int]) -> float:
        """Share of test pages that are all right."""
        key = frozenset(told)
        if key not in self.models:
            rows = np.sort(self.pool[told])
            fitted = fit(self.data, rows, SYSTEM, chosen(SYSTEM, MODEL, KNOWN), MODEL, KNOWN)
            self.models[key] = fitted, scale_of(margins(self.data, rows, fitted, MODEL))
            self.shares[key] = float(np.mean(self.right(self.answers(self.test, *self.models[key]))))
        return self.shares[key]

    def certainty(self, told: list[int], rule: str) -> list[float]:
        """Of the pages that wait."""
        key = frozenset(told)
        if not told:
            return [0.0] * len(self.pool)
        if key not in self.rules:
            self.rules[key] = rules(self.answers(self.pool, *self.models[key]))
        return self.rules[key][rule]

    def answers(self, rows: Any, fitted: Fit, scale: float) -> list[Any]:
        data = self.data
        plain = [scale * m for m in margins(data, rows, fitted, MODEL)]
        found = vote_by_site([data.views[i] for i in rows], plain)
        return [best_leaves(m, data.views[i].texts, together=data.together) for i, m in zip(rows, found)]

    def right(self, answers: list[Any]) -> list[bool]:
        data, out = self.data, []
        for i, found in zip(self.test, answers):
            hits = [c is not None and name in fields_of(data.labels[i][c.leaf]) for name, c in zip(data.fields, found)]
            out.append(all(hit or name not in data.has[i] for name, hit in zip(data.fields, hits)))
        return out

    def label(self, order: str, rule: str, seed: int) -> list[float]:
        """Share of test pages that are right after 1, 2, ... pages, until nearly all are."""
        shuffled = np.random.default_rng(seed).permutation(len(self.pool)).tolist()
        sites = self.data.site[self.pool].tolist()
        told: list[int] = []
        curve: list[float] = []
        while len(told) < min(MOST, len(self.pool)) and (not curve or curve[-1] < SHARES[-1]):
            asks = order == "least" or (order == "sites-least" and len({sites[i] for i in told}) == len(set(sites)))
            certainty = self.certainty(told, rule) if asks else [0.0] * len(self.pool)
            told.append(next_in_order(order, sites, told, certainty, shuffled))
            curve.append(self.learn(told))
        return curve


def next_in_order(order: str, sites: list[str], done: list[int], certainty: list[float], shuffled: list[int]) -> int:
    """Next page: by chance; from the site with the fewest pages; the least certain; or as the library orders them."""
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
    """How certain a model is of each page, by several rules."""
    return {
        "mean": [float(np.mean([0.0 if c is None else CURVE(c) for c in found])) for found in answers],
        "lead": [page_certainty(found) for found in answers],
    }


# name in the table, order, rule
WAYS = (
    ("random", "random", "lead"),
    ("site by site", "sites", "lead"),
    ("least mean confidence first", "least", "mean"),
    ("least lead first", "least", "lead"),
    ("one of each site, then least mean confidence", "sites-least", "mean"),
    ("one of each site, then least lead", "sites-least", "lead"),
)


def needed(curve: list[float], share: float) -> int:
    """Pages until a share of the test pages is right; one more than MOST if it is not reached."""
    return next((n for n, right in enumerate(curve, 1) if right >= share), MOST + 1)


def pages(curves: list[list[float]], share: float) -> str:
    """Mean number of pages needed."""
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
                found = [needed(curve, share) for share in SHARES]
                say(f"{name}, run {seed}, {way}: {found} ({len(simulation.models)} models)")
            for known in (simulation.models, simulation.shares, simulation.rules):
                known.clear()
    rows = []
    for way, of_verticals in curves.items():
        cells = [" / ".join(pages(some, share) for share in SHARES) for some in of_verticals.values()]
        every = [curve for some in of_verticals.values() for curve in some]
        rows.append([way, *cells, *[f"**{pages(every, share)}**" for share in SHARES]])
    head = ["order", *names, *[f"all, {share:.0%}" for share in SHARES]]
    sys.stdout.write(table(head, rows))


if __name__ == "__main__":
    main()

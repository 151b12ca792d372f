"""Claim: with few labelled pages, max-margin models and LapMEDN extract records best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxendnet.experiments.engine.experiment import Experiment, Row, Settings
from maxendnet.experiments.engine.systems import SYSTEMS
from maxendnet.experiments.engine.web_cards import cards, draw
from maxendnet.experiments.engine.web_data import VERTICALS, WebPages, generated_pages, web_pages
from maxendnet.experiments.engine.web_systems import GRIDS, KNOWN, MANY, METHOD, NEW, Protocol, chosen, measure
from maxendnet.web.model.dataset import MODELS

PERCENTS = (5, 10, 15, 20, 30, 40, 50)
SIZES: dict[str, dict[str, Any]] = {
    "full": {"verticals": VERTICALS, "sites": None, "draws": 10, "percents": PERCENTS, "seeds": (1, 3, 5),
             "rotations": 7, "model_draws": 5, "visual": ("auto", "job"), "sets": ("products", "recipes"),
             "set_draws": 5, "shops": (7, 5)},
    "quick": {"verticals": ("camera",), "sites": 2, "draws": 2, "percents": (20,), "seeds": (1,), "rotations": 2,
              "model_draws": 1, "visual": (), "sets": (), "set_draws": 0, "shops": (3, 1)},
    "tiny": {"verticals": ("camera",), "sites": 2, "draws": 1, "percents": (20,), "seeds": (1,), "rotations": 1,
             "model_draws": 1, "visual": (), "sets": (), "set_draws": 0, "shops": (3, 1)},
}  # fmt: skip
MODEL_PERCENT = {"full": 10, "quick": 10, "tiny": 20}
SET_PAGES = {"products": 40, "recipes": 20}
"""Number of training pages, each from a different site. A recipe has about fifty values, a product four."""
PAGE_MODELS = {model: (model, False) for model in MODELS} | {"siblings": ("hierarchical", True)}
"""Page models by name: the model of the library, and whether sibling blocks are scored together."""


FIRST = VERTICALS[:3]
"""Product pages, as in the paper; computed first."""


def cells(scale: str) -> list[Settings]:
    s = SIZES[scale]
    percents, at = list(s["percents"]), [MODEL_PERCENT[scale]]
    first = [name for name in s["verticals"] if name in FIRST]
    others = [name for name in s["verticals"] if name not in FIRST]

    def part_settings(part: str, names: Sequence[str], draws: range, **more: Any) -> list[Settings]:
        # grouped by vertical, so that its pages are read and featurised only once
        return [
            {"part": part, "set": "swde", "vertical": name, "sites": s["sites"], "draw": k} | more
            for name in names for k in draws
        ]  # fmt: skip

    small, large = [p for p in percents if p <= 20], [p for p in percents if p > 20]
    n_shops, shop_draws = s["shops"]
    generated: list[Settings] = [
        {"part": "generated", "set": "generated", "vertical": "shops", "sites": n_shops, "draw": k,
         "percents": small or at}
        for k in range(shop_draws)
    ]  # fmt: skip
    # ordered so that an interrupted run contains results of every part, the most informative ones first
    rotations, seeds = range(s["rotations"]), list(s["seeds"])
    draws, early = range(s["draws"]), range(min(3, s["draws"]))
    models, every = range(s["model_draws"]), {"percents": at, "models": list(PAGE_MODELS)}
    groups = [
        generated,
        part_settings("few pages", first, draws, percents=small),
        part_settings("few pages", others, early[:1], percents=small),
        part_settings("new sites", first, rotations, seeds=seeds),
        part_settings("models", first, models[:1], **every),
        part_settings("few pages", others, early[1:], percents=small),
    ]
    for name in s["visual"]:
        layout = part_settings("layout", [name], rotations, seeds=[1, 3, 5])
        groups.append([row | {"set": "swde_visual"} for row in layout])
    for name in s["sets"]:
        more: dict[str, Any] = {"set": name, "pages": SET_PAGES[name], "constants": "many sites"}
        groups.append([row | more for row in part_settings("other pages", [name], range(s["set_draws"]))])
    if large:
        groups.append(part_settings("few pages", first, early, percents=large))
        groups.append(part_settings("few pages", others, early, percents=large))
    groups.append(part_settings("new sites", others, rotations, seeds=seeds))
    groups.append(part_settings("few pages", others, draws[3:], percents=small))
    if large:
        groups.append(part_settings("few pages", [*first, *others], draws[3:], percents=large))
    groups.append(part_settings("models", first, models[1:], **every))
    groups.append(part_settings("models", others, models, **every))
    return [settings for group in groups for settings in group]


def run(settings: Settings, seed: int, data: Path | None) -> Row:
    kind, where, name = settings["part"], settings["set"], settings["vertical"]
    names = ("train", "test") if kind == "other pages" else (name,)
    rows: list[Row] = []
    if kind == "generated":
        pages = generated_pages(settings["sites"])
    elif data is None or not all((data / where / f"{n}.jsonl.gz").exists() for n in names):
        return {}
    else:
        pages = web_pages(data, where, names, settings["sites"])
    if kind in ("few pages", "models", "generated"):
        train = pages.rows("train")
        order = np.random.default_rng([seed, settings["draw"]]).permutation(train)
        for percent in settings["percents"]:
            n = max(1, int(len(train) * percent / 100 + 0.5))
            labelled = np.sort(order[:n])
            for model in settings.get("models", ["choice"]):
                rows += _all_systems(pages, labelled, pages.rows("test"), KNOWN, {"pages": n, "model": model})
    elif kind in ("new sites", "layout"):
        drawn = [pages] if kind == "new sites" else [pages, web_pages(data, where, names, settings["sites"], True)]
        for layout, page_set in enumerate(drawn):
            systems = SYSTEMS if kind == "new sites" else ("LapMEDN", "L2-CRF")
            for k in settings["seeds"]:
                seeds = [page_set.sites[(settings["draw"] + j) % len(page_set.sites)] for j in range(k)]
                known = np.sort(np.concatenate([page_set.rows("train", seeds), page_set.rows("dev", seeds)]))
                others = [site for site in page_set.sites if site not in seeds]
                about = {"pages": k, "model": "choice", "layout": layout}
                rows += _all_systems(page_set, known, page_set.rows("test", others), NEW, about, systems)
    else:
        rng = np.random.default_rng([seed, settings["draw"]])
        first_of_site = {str(pages.site[i]): int(i) for i in rng.permutation(pages.rows("train"))}
        train = np.sort(rng.permutation(sorted(first_of_site.values()))[: settings["pages"]])
        test = pages.rows("test")
        about = {"pages": len(train), "model": "choice"}
        rows += _all_systems(pages, train, test, MANY, about)
    return {name: [row[name] for row in rows] for name in rows[0]}


def _all_systems(
    pages: WebPages, train: Any, test: Any, protocol: Protocol, about: Row, systems: Sequence[str] = SYSTEMS
) -> list[Row]:
    model, siblings = PAGE_MODELS[about["model"]]
    return [
        about
        | {"system": s}
        | measure(pages, train, test, s, chosen(s, model, protocol), model, protocol, protocol is NEW, siblings)
        for s in systems
    ]


def rows_of(settings: Settings, numbers: Row) -> list[Row]:
    about = {name: settings[name] for name in ("part", "set", "vertical", "draw")}
    return [about | dict(zip(numbers, row)) for row in zip(*numbers.values())]


EXPERIMENT = Experiment(
    name="web",
    title="Who finds records on web pages with few labels?",
    paper="Section 7.3, figure of average F1 and block instance accuracy",
    method="SWDE, eight verticals, seven sites each with 5 pages to learn from, 5 to choose constants and 10 to test. "
    "*Few pages*: 5, 10, 15, 20, 30, 40 and 50 % of a vertical's 35 training pages (2 to 18 pages), ten draws, tested "
    "on its 70 test pages; the leaves of a page compete for every field. *New sites*: the train and dev pages of 1, 3 "
    "or 5 sites, in rotation, tested on the other sites, with features that occur on two of the labelled sites. "
    "*Models*: 10 % of the pages, five draws, leaves that compete, alone, in a row, in the vision tree, and in the "
    "vision tree with neighbouring blocks scored together (siblings). *Layout*: new sites of auto and job, without and "
    f"with the boxes of a browser. *Other pages*: {SET_PAGES['products']} pages of products and "
    f"{SET_PAGES['recipes']} of recipes, each of another site, tested on other sites, five draws. For every field the "
    "leaf with the largest max-marginal over none is the answer, and "
    "there is always one. F1 is averaged over fields (on new sites: over site and field); block instance accuracy is "
    "the share of pages with name, image and price right, or all fields where pages have no names and prices. "
    "*Generated*: few pages of seven generated shops, which need no data. "
    "Pairs of the tests are the sites of the test pages, each with its mean "
    "over draws and sizes. " + METHOD + " Candidates: "
    + "; ".join(f"{s} {', '.join(' '.join(f'{k} {v:g}' for k, v in c.items()) for c in grid)}"
                for s, grid in GRIDS["choice"].items() if grid[0])
    + ".",
    cells=cells, run=run, cards=cards, draw=draw, size=(10.5, 7.5), rows=rows_of,
)  # fmt: skip

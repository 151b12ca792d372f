"""Extraction from web pages on the SWDE sample: few labelled pages, and new sites.

    python benchmarks/web_swde.py --data FOLDER                      # on the test pages
    python benchmarks/web_swde.py --data FOLDER --split dev          # to choose settings
    python benchmarks/web_swde.py --data FOLDER --quick

FOLDER contains the files ``swde/<vertical>.jsonl.gz``, see `experiments.engine.web_data`. Few pages: n of the 35
training pages of a vertical, several draws, evaluated on all sites; average F1 over fields, and the share of pages with
all fields correct. New sites: the train and dev pages of k sites, in rotation, evaluated on the other sites; F1 is
averaged over sites and fields. Every page gets an answer for each field. The common properties of the pages of a site
are learned from all its pages without labels; "agreement" adds the votes between the pages of a site. `maxendnet
reproduce web` runs this and more for all six estimators, with significance tests.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, say, table
from sklearn.exceptions import ConvergenceWarning

from maxendnet.experiments.engine.systems import SYSTEMS
from maxendnet.experiments.engine.web_data import WebPages, web_pages
from maxendnet.experiments.engine.web_systems import KNOWN, NEW, chosen, measure
from maxendnet.web.model.dataset import MODELS

VERTICALS = ("camera", "book", "auto")
N_PAGES, N_SEED_SITES = (2, 4, 7), (1, 3, 5)


def few_pages(pages: WebPages, n: int, draws: int, split: str, system: str, model: str) -> list[dict[str, Any]]:
    train, test = pages.rows("train"), pages.rows(split)
    rows = [np.sort(np.random.default_rng([0, draw]).permutation(train)[:n]) for draw in range(draws)]
    return [measure(pages, draw, test, system, chosen(system, model, KNOWN), model, KNOWN) for draw in rows]


def new_sites(pages: WebPages, k: int, split: str, system: str, model: str) -> list[dict[str, Any]]:
    scores = []
    for first in range(len(pages.sites)):
        seeds = [pages.sites[(first + j) % len(pages.sites)] for j in range(k)]
        # when constants are chosen on the dev pages of other sites, train on train pages only
        parts = ("train", "dev") if split == "test" else ("train",)
        rows = np.sort(np.concatenate([pages.rows(part, seeds) for part in parts]))
        test = pages.rows(split, [site for site in pages.sites if site not in seeds])
        scores.append(measure(pages, rows, test, system, chosen(system, model, NEW), model, NEW, by_site=True))
    return scores


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--split", choices=["test", "dev"], default="test")
    options.add_argument("--verticals", default=",".join(VERTICALS))
    options.add_argument("--systems", default="LapMEDN", help=f"comma-separated names among {', '.join(SYSTEMS)}")
    options.add_argument("--draws", type=int, default=10)
    options.add_argument("--model", choices=MODELS, default="choice")
    given = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    page_counts, site_counts, draws = (N_PAGES, N_SEED_SITES, given.draws) if not given.quick else ((2,), (1,), 2)
    names = given.verticals.split(",")
    results: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for name in names:  # one vertical at a time: its pages are read and featurised once
        say(f"reading {name}")
        pages = web_pages(given.data, "swde", (name,), 3 if given.quick else None)
        for system in given.systems.split(","):
            for n in page_counts:
                results.setdefault((system, f"{n} pages"), []).append(
                    few_pages(pages, n, draws, given.split, system, given.model)
                )
            for k in site_counts:
                results.setdefault((system, f"{k} seed sites"), []).append(
                    new_sites(pages, k, given.split, system, given.model)
                )
            say(f"{system} on {name} is done")
    rows = []
    for (system, task), of_verticals in results.items():
        for suffix, words in (("", ""), ("_agreed", ", agreement")):
            means = [
                [np.mean([row[key + suffix] for row in scores]) for key in ("f1", "all_right")]
                for scores in of_verticals
            ]
            mean = np.mean(means, axis=0)
            cells = [f"{f1:.3f} / {correct:.3f}" for f1, correct in means]
            rows.append([system, task + words, *cells, f"**{mean[0]:.3f}** / {mean[1]:.3f}"])
    sys.stdout.write(table(["system", "labelled", *[f"{name} F1 / all correct" for name in names], "mean"], rows))


if __name__ == "__main__":
    main()

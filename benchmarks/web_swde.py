"""Records from web pages: few labelled pages, and new sites, on the SWDE sample.

    python benchmarks/web_swde.py --data FOLDER                      # on the test pages
    python benchmarks/web_swde.py --data FOLDER --split dev          # for choosing settings
    python benchmarks/web_swde.py --data FOLDER --quick

FOLDER has the files ``swde/<vertical>.jsonl.gz``, see `experiments.engine.web_data`. Few pages: n of the 35 training
pages of a vertical, several draws, all sites tested; average F1 over fields, and the share of pages with every field
right. New sites: the train and dev pages of k sites, in rotation, tested on the other sites; F1 averaged over site and
field. A page is always answered. What the pages of a site have in common is learned from all its pages, without labels;
"agreement" is the second pass over the pages of a site. `maxendnet reproduce web` runs the same and more, for all six
systems, with tests.
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
FEW, SEEDS = (2, 4, 7), (1, 3, 5)


def few_pages(pages: WebPages, n: int, draws: int, split: str, system: str, model: str) -> list[dict[str, Any]]:
    train, test = pages.rows("train"), pages.rows(split)
    rows = [np.sort(np.random.default_rng([0, draw]).permutation(train)[:n]) for draw in range(draws)]
    return [measure(pages, some, test, system, chosen(system, model, KNOWN), model, KNOWN) for some in rows]


def new_sites(pages: WebPages, k: int, split: str, system: str, model: str) -> list[dict[str, Any]]:
    found = []
    for first in range(len(pages.sites)):
        seeds = [pages.sites[(first + j) % len(pages.sites)] for j in range(k)]
        # where constants are chosen on the dev pages of other sites, models learn from train pages alone
        parts = ("train", "dev") if split == "test" else ("train",)
        rows = np.sort(np.concatenate([pages.rows(part, seeds) for part in parts]))
        test = pages.rows(split, [site for site in pages.sites if site not in seeds])
        found.append(measure(pages, rows, test, system, chosen(system, model, NEW), model, NEW, by_site=True))
    return found


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--split", choices=["test", "dev"], default="test")
    options.add_argument("--verticals", default=",".join(VERTICALS))
    options.add_argument("--systems", default="LapMEDN", help=f"of {', '.join(SYSTEMS)}")
    options.add_argument("--draws", type=int, default=10)
    options.add_argument("--model", choices=MODELS, default="choice")
    given = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    few, seeds, draws = (FEW, SEEDS, given.draws) if not given.quick else ((2,), (1,), 2)
    names = given.verticals.split(",")
    found: dict[tuple[str, str], list[list[dict[str, Any]]]] = {}
    for name in names:  # a vertical at a time: its pages are read and featurised once
        say(f"reading {name}")
        pages = web_pages(given.data, "swde", (name,), 3 if given.quick else None)
        for system in given.systems.split(","):
            for n in few:
                found.setdefault((system, f"{n} pages"), []).append(
                    few_pages(pages, n, draws, given.split, system, given.model)
                )
            for k in seeds:
                found.setdefault((system, f"{k} seed sites"), []).append(
                    new_sites(pages, k, given.split, system, given.model)
                )
            say(f"{system} on {name} is done")
    rows = []
    for (system, task), of_verticals in found.items():
        for end, words in (("", ""), ("_agreed", ", agreement")):
            means = [
                [np.mean([row[key + end] for row in some]) for key in ("f1", "all_right")] for some in of_verticals
            ]
            mean = np.mean(means, axis=0)
            cells = [f"{f1:.3f} / {right:.3f}" for f1, right in means]
            rows.append([system, task + words, *cells, f"**{mean[0]:.3f}** / {mean[1]:.3f}"])
    sys.stdout.write(table(["system", "labelled", *[f"{name} F1 / all right" for name in names], "mean"], rows))


if __name__ == "__main__":
    main()

"""Constants of the six estimators on web pages: F1 on dev pages and number of weights of every candidate.

    python benchmarks/web_constants.py --data FOLDER                        # few pages of labelled sites
    python benchmarks/web_constants.py --data FOLDER --part new --systems LapMEDN,M3N
    python benchmarks/web_constants.py --data FOLDER --part many            # product pages
    python benchmarks/web_constants.py --data FOLDER --quick

FOLDER contains the files ``swde/<vertical>.jsonl.gz`` and for ``many`` ``products/train.jsonl.gz``, see
`experiments.engine.web_data`. Models are trained on train pages and evaluated on dev pages; test pages are not used.
``few``: 2, 4 and 7 of the 35 training pages, with separate draws. ``new``: 1, 3 and 5 sites, in rotation, evaluated on
the other sites. ``many``: one page of each of 40 product sites, evaluated on the train pages of the other sites, 3
draws. A row is the mean over verticals and draws; the best row of each estimator is bold. The library uses
`maxendnet.web.model.systems.CONSTANTS`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from common import parser, say, table
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from maxendnet.experiments.engine.web_data import WebPages, web_pages
from maxendnet.experiments.engine.web_systems import GRIDS, KNOWN, MANY, NEW, fit, margins, score
from maxendnet.web.model.dataset import MODELS

VERTICALS = "camera,book,auto"
FIRST_SEED = 1000
"""Differs from the seeds of the experiment."""
N_SITES = 40
Draw = tuple[int, NDArray[np.int64], NDArray[np.int64]]
"""Number of labelled pages or sites, training pages, and test pages."""


def few_pages(pages: WebPages, draws: int) -> Iterator[Draw]:
    for draw in range(draws):
        order = np.random.default_rng([FIRST_SEED, draw]).permutation(pages.rows("train"))
        for n in (2, 4, 7):
            yield n, np.sort(order[:n]), pages.rows("dev")


def new_sites(pages: WebPages, draws: int) -> Iterator[Draw]:
    for first in range(min(draws, len(pages.sites))):
        for k in (1, 3, 5):
            if k < len(pages.sites):
                seeds = [pages.sites[(first + j) % len(pages.sites)] for j in range(k)]
                others = [site for site in pages.sites if site not in seeds]
                yield k, pages.rows("train", seeds), pages.rows("dev", others)


def many_sites(pages: WebPages, draws: int) -> Iterator[Draw]:
    for draw in range(min(draws, 3)):
        order = np.random.default_rng([FIRST_SEED, draw]).permutation(pages.rows("train"))
        first_of_site = {str(pages.site[i]): int(i) for i in order}
        sites = list(first_of_site)
        n = min(N_SITES, len(sites) - 1)
        yield n, np.sort([first_of_site[site] for site in sites[:n]]), pages.rows("train", sites[n:])


DRAWS = {"few": few_pages, "new": new_sites, "many": many_sites}
PROTOCOLS = {"few": KNOWN, "new": NEW, "many": MANY}
UNITS = {"few": "pages", "new": "sites", "many": "sites"}


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument(
        "--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz, products/train.jsonl.gz"
    )
    options.add_argument("--part", choices=PROTOCOLS, default="few", help="situation of the constants")
    options.add_argument("--verticals", default=VERTICALS, help="ignored for --part many, which uses products")
    options.add_argument("--systems", default=",".join(GRIDS["choice"]))
    options.add_argument("--draws", type=int, default=7)
    options.add_argument("--model", choices=MODELS, default="choice")
    given = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    grids = GRIDS["choice" if given.model == "choice" else "other models"]
    protocol, unit = PROTOCOLS[given.part], UNITS[given.part]
    # estimator and constants -> pages or sites -> vertical -> F1 and number of weights of each draw
    results: dict[str, dict[str, dict[int, dict[str, list[tuple[float, int]]]]]] = {}
    for name in ["products"] if given.part == "many" else given.verticals.split(","):
        say(f"reading {name}")
        where = ("products", ("train",)) if given.part == "many" else ("swde", (name,))
        pages = web_pages(given.data, *where, 6 if given.quick else None)
        for n, train, test in DRAWS[given.part](pages, 1 if given.quick else given.draws):
            for system in given.systems.split(","):
                for constants in grids[system][:: 4 if given.quick else 1]:
                    fitted = fit(pages, train, system, constants, given.model, protocol)
                    f1 = score(pages, test, margins(pages, test, fitted, given.model), given.part == "new")["f1"]
                    large = int((np.abs(fitted.weights[fitted.columns]) > 1e-3).sum())
                    text = ", ".join(f"{k}={v:g}" for k, v in constants.items())
                    by_size = results.setdefault(system, {}).setdefault(text, {})
                    by_size.setdefault(n, {}).setdefault(name, []).append((f1, large))
            say(f"{name}, {n} {unit}: done")
    rows = []
    for system, candidates in results.items():
        means = {
            text: [np.mean([np.mean(draws, axis=0) for draws in by.values()], axis=0) for by in by_size.values()]
            for text, by_size in candidates.items()
        }
        overall = {text: np.mean(of_sizes, axis=0) for text, of_sizes in means.items()}
        best = max(overall, key=lambda text: float(overall[text][0]))
        for text, (f1, large) in overall.items():
            mark = "**" if text == best else ""
            sizes = [f"{m[0]:.3f}" for m in means[text]]
            rows.append([f"{system}({text})", *sizes, f"{mark}{f1:.4f}{mark}", f"{large:.0f}"])
    sizes = [f"{n} {unit}" for n in next(iter(next(iter(results.values())).values()))]
    sys.stdout.write(table(["F1", *sizes, "mean", "weights above 1e-3"], rows))


if __name__ == "__main__":
    main()

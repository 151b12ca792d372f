"""Vision trees with labels for leaves only: the paper's partially observed models, on SWDE.

A page is a vision tree with labelled leaves. The labels of inner blocks are derived from the leaves, or are unknown.
For comparison: flat models with competing leaves (choice) and independent leaves. Few pages: trained on 10 % of a
vertical's training pages, in several draws, and tested on its test pages. New sites: trained on the pages of one site
and tested on the others. Results are appended to the file of --out, from which an interrupted run resumes.

    python benchmarks/web_unknown_blocks.py --data FOLDER --out web_unknown_blocks.jsonl
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet.experiments.engine.web_data import web_pages
from maxendnet.experiments.engine.web_systems import KNOWN, NEW, chosen, measure

SYSTEMS = ("LapMEDN", "M3N", "L2-CRF")
MODELS = {
    "choice": ("choice", False),
    "leaves alone": ("independent", False),
    "tree, blocks labelled": ("hierarchical", False),
    "tree, blocks unknown": ("hierarchical", True),
}


def cells(data: Path, verticals: list[str], draws: int, done: set[tuple]):
    """Yield the key and scores of every combination that is not in ``done``."""
    for vertical in verticals:
        pages = web_pages(data, "swde", (vertical,), None)
        train, test = pages.rows("train"), pages.rows("test")
        for draw in range(draws):
            order = np.random.default_rng([0, draw]).permutation(train)
            tenth = np.sort(order[: max(1, round(len(train) / 10))])
            site = pages.sites[draw % len(pages.sites)]
            of_site = np.sort(np.concatenate([pages.rows("train", [site]), pages.rows("dev", [site])]))
            rest = pages.rows("test", [name for name in pages.sites if name != site])
            for setting, trained, tested, protocol in (
                ("few pages", tenth, test, KNOWN),
                ("new sites", of_site, rest, NEW),
            ):
                for about, (model, unknown) in MODELS.items():
                    for system in SYSTEMS:
                        key = (setting, vertical, draw, about, system)
                        if key in done:
                            continue
                        scores = measure(
                            pages, trained, tested, system, chosen(system, model, protocol), model, protocol,
                            protocol is NEW, unknown_blocks=unknown,
                        )  # fmt: skip
                        yield key, {n: scores[n] for n in ("f1", "all_right", "fit_seconds")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with swde/*.jsonl.gz")
    parser.add_argument("--verticals", nargs="+", default=["camera", "book", "auto"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("web_unknown_blocks.jsonl"))
    options = parser.parse_args()
    results = {}
    if options.out.exists():
        for line in options.out.read_text().splitlines():
            entry = json.loads(line)
            results[tuple(entry["key"])] = entry["cell"]
    with warnings.catch_warnings(), options.out.open("a") as file:
        warnings.simplefilter("ignore", ConvergenceWarning)
        for key, cell in cells(options.data, options.verticals, options.draws, set(results)):
            results[key] = cell
            print(json.dumps({"key": key, "cell": cell}), file=file, flush=True)
            common.say(f"{key} {cell}")
    rows = []
    for setting in ("few pages", "new sites"):
        for about in MODELS:
            row = [f"{setting}: {about}"]
            for system in SYSTEMS:
                f1 = [
                    100 * cell["f1"] for key, cell in results.items() if (key[0], *key[3:]) == (setting, about, system)
                ]
                half = 2 * np.std(f1, ddof=1) / np.sqrt(len(f1)) if len(f1) > 1 else np.nan
                row.append(f"{np.mean(f1):.1f} ± {half:.1f}" if f1 else "")
            rows.append(row)
    print(common.table(["F1, mean over verticals and draws", *SYSTEMS], rows))


if __name__ == "__main__":
    main()

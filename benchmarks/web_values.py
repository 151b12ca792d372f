"""Exact values from web pages: what is extracted, against the truth as it is written.

    python benchmarks/web_values.py --data FOLDER --part one        # one labelled page a site, all verticals
    python benchmarks/web_values.py --data FOLDER --part clicks     # the same by clicks, on camera
    python benchmarks/web_values.py --data FOLDER --part new        # 5 sites labelled, 2 held out, 10 draws
    python benchmarks/web_values.py --data FOLDER --part variants   # values inside of longer texts, 1 to 7 pages a site
    python benchmarks/web_values.py --data FOLDER --part sure       # how often sure cells are right

FOLDER has the files ``swde/<vertical>.jsonl.gz``, see `experiments.engine.web_data`. Pages are read as HTML, as a
user would save them. A value is right if it is one of those of the ground truth, letter by letter, but for case and
white space; a value that is not on its page counts as missed. F1 is averaged over the fields of a vertical, then over
draws, then over verticals. A page is always answered, unless --min-confidence says otherwise. Test pages are those of
the split ``test``; labelled pages come from ``train``.

Variants are made by `maxendnet.experiments.engine.web_variants`, with a fixed seed.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, say, table
from sklearn.exceptions import ConvergenceWarning

from maxendnet.experiments.engine.web_data import VERTICALS
from maxendnet.experiments.engine.web_variants import Variant, swde_rows, variant_of
from maxendnet.web import Extractor, Page, PageLabels, Record, evaluate

SURE = (0.5, 0.8, 0.9, 0.95, 0.99)


class Rows:
    """Pages with the truth as it is written."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.pages = [
            Page.from_html(row["html"], name=f"{row['site']}/{row['page']}", site=row["site"]) for row in rows
        ]
        self.truth = [PageLabels(p.name, p.site, values=row["values"]) for p, row in zip(self.pages, rows)]
        self.site = np.array([row["site"] for row in rows])
        self.split = np.array([row["split"] for row in rows])
        self.sites = sorted(set(self.site.tolist()))
        self.fields = sorted({name for row in rows for name, values in row["values"].items() if values})

    def labels(self, chosen: set[int], clicks: bool = False) -> list[PageLabels | None]:
        """Labels of the chosen pages: by values, or by the nodes that a person would click."""
        out: list[PageLabels | None] = []
        for i, truth in enumerate(self.truth):
            given = None
            if i in chosen:
                given = self.clicked(i) if clicks else truth
            out.append(given)
        return out

    def clicked(self, i: int) -> PageLabels:
        from maxendnet.web.fields.labels import labels_on_page
        from maxendnet.web.views.view import View

        pairs, _ = labels_on_page(View(self.pages[i]), self.truth[i])
        once = {name: span for span, name in sorted(pairs, reverse=True)}  # a person clicks once: at the first place
        return PageLabels(self.truth[i].page, self.truth[i].site, labels=[(span, name) for name, span in once.items()])

    def scores(self, test: np.ndarray, records: list[Record]) -> Any:
        return evaluate([self.pages[i] for i in test], [self.truth[i] for i in test], records, self.fields)


def one_page(rows: Rows, draw: int, n: int = 1) -> set[int]:
    """n of the training pages of every site."""
    out: set[int] = set()
    for site in rows.sites:
        some = np.flatnonzero((rows.site == site) & (rows.split == "train"))
        out |= set(np.random.default_rng([draw, 7]).permutation(some)[:n].tolist())
    return out


def part_one(given: Any, clicks: bool) -> None:
    names = given.verticals
    out, means = [], []
    for name in names:
        rows = Rows(swde_rows(given.data, name, given.sites))
        test = np.flatnonzero(rows.split == "test")
        found = []
        for draw in range(given.draws):
            least = given.min_confidence
            extractor = Extractor(calibrate=least > 0)
            extractor.fit(rows.pages, rows.labels(one_page(rows, draw), clicks), skip_unmatched=True)
            scores = rows.scores(test, extractor.extract([rows.pages[i] for i in test], min_confidence=least))
            found.append((scores.average_f1, scores.all_right, len(scores.problems)))
            if given.wrong:
                for page, field, answer, truth in scores.wrong[: given.wrong]:
                    say(f"  {page} {field}: {answer[:60]!r} for {truth[0][:60]!r}")
        f1, right, _ = np.mean(found, axis=0)
        means.append(f1)
        out.append([name, f"{f1:.3f}", f"{min(x[0] for x in found):.3f}", f"{right:.3f}", int(found[0][2])])
        say(f"{name} {f1:.3f} not on the page: {scores.problems[:3]}")
    out.append(["mean", f"**{np.mean(means):.3f}**", "", "", ""])
    sys.stdout.write(table(["vertical", "exact F1", "worst draw", "all right", "values not on the page"], out))


def part_new(given: Any) -> None:
    out, means = [], []
    for name in given.verticals:
        rows = Rows(swde_rows(given.data, name, given.sites))
        found = []
        for draw in range(given.draws):
            held = np.random.default_rng([draw, 11]).permutation(rows.sites)[:2].tolist()
            known = np.flatnonzero(~np.isin(rows.site, held) & (rows.split != "test"))
            test = np.flatnonzero(np.isin(rows.site, held) & (rows.split == "test"))
            extractor = Extractor(features="new", calibrate=False)
            extractor.fit(rows.pages, rows.labels(set(known.tolist())), skip_unmatched=True)
            scores = rows.scores(test, extractor.extract([rows.pages[i] for i in test]))
            found.append((scores.average_f1, scores.all_right))
            if given.wrong:
                for page, field, answer, truth in scores.wrong[: given.wrong]:
                    say(f"  {page} {field}: {answer[:60]!r} for {truth[0][:60]!r}")
        f1, right = np.mean(found, axis=0)
        means.append(f1)
        out.append([name, f"{f1:.3f}", f"{np.std([x[0] for x in found]) / len(found) ** 0.5:.3f}", f"{right:.3f}"])
        say(f"{name} {f1:.3f}")
    out.append(["mean", f"**{np.mean(means):.3f}**", "", ""])
    sys.stdout.write(table(["vertical", "exact F1", "standard error", "all right"], out))


def part_variants(given: Any) -> None:
    """Every site by itself: n labelled pages, tested on the pages of its test split."""
    counts = given.counts if not given.quick else (1,)
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for name in given.verticals:
        for kind in given.kinds:
            rows = Rows([variant_of(row, kind) for row in swde_rows(given.data, name, given.sites)])
            for site in rows.sites:
                own = np.flatnonzero(rows.site == site)
                test, others = own[rows.split[own] == "test"], own[rows.split[own] != "test"]
                for n in counts:
                    chosen = set(np.random.default_rng([n, 13]).permutation(others)[:n].tolist())
                    pages = [rows.pages[i] for i in own]
                    labels = [rows.truth[i] if i in chosen else None for i in own]
                    extractor = Extractor(calibrate=False).fit(pages, labels, skip_unmatched=True)
                    scores = rows.scores(test, extractor.extract([rows.pages[i] for i in test]))
                    found[kind.value, n].append(scores.average_f1)
                    if given.wrong:
                        for page, field, answer, truth in scores.wrong[: given.wrong]:
                            say(f"  {kind.value} {n} {page} {field}: {answer[:60]!r} for {truth[0][:60]!r}")
            say(f"{name} {kind.value}: " + ", ".join(f"{n}: {np.mean(found[kind.value, n]):.3f}" for n in counts))
    head = ["variant", *(f"{n} pages" if n > 1 else "1 page" for n in counts)]
    out = [[kind.value, *(f"{np.mean(found[kind.value, n]):.3f}" for n in counts)] for kind in given.kinds]
    out.append(
        ["mean", *(f"**{np.mean([np.mean(found[kind.value, n]) for kind in given.kinds]):.3f}**" for n in counts)]
    )
    sys.stdout.write(table(head, out))


def part_sure(given: Any) -> None:
    """All cells of models from 1 and 5 pages a site, with confidences learned: how often are sure ones right?"""
    cells: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for name in given.verticals:
        plain = swde_rows(given.data, name, given.sites)
        for kind in (None, *given.kinds):
            rows = Rows(plain if kind is None else [variant_of(row, kind) for row in plain])
            test = np.flatnonzero(rows.split == "test")
            for n in (1, 5):
                extractor = Extractor()
                extractor.fit(rows.pages, rows.labels(one_page(rows, 0, n)), skip_unmatched=True)
                cells[f"{n} a site, {'as it is' if kind is None else 'variants'}"] += _cells(rows, test, extractor)
        held = rows.sites[:2]
        rows = Rows(plain)
        known = np.flatnonzero(~np.isin(rows.site, held) & (rows.split != "test"))
        test = np.flatnonzero(np.isin(rows.site, held) & (rows.split == "test"))
        extractor = Extractor(features="new")
        extractor.fit(rows.pages, rows.labels(set(known.tolist())), skip_unmatched=True)
        cells["new sites"] += _cells(rows, test, extractor)
        say(f"{name} is done")
    out = []
    everything = [cell for some in cells.values() for cell in some]
    for what, some in [*cells.items(), ("all", everything)]:
        line = [what, len(some)]
        for least in SURE:
            right = [ok for confidence, ok in some if confidence >= least]
            line.append(f"{np.mean(right):.3f} ({len(right)})" if right else "-")
        out.append(line)
    sys.stdout.write(table(["learned from", "cells", *(f"at least {x:g}" for x in SURE)], out))
    if given.figure:
        draw_reliability(everything, given.figure)
    bins = np.linspace(0, 1, 11)
    rows_ = []
    for a, b in pairwise(bins):
        some = [(c, ok) for c, ok in everything if a <= c < b or (b == 1 and c == 1)]
        if some:
            rows_.append(
                [
                    f"{a:.1f}-{b:.1f}",
                    len(some),
                    f"{np.mean([c for c, _ in some]):.3f}",
                    f"{np.mean([ok for _, ok in some]):.3f}",
                ]
            )
    sys.stdout.write("\n" + table(["confidence", "cells", "mean confidence", "share right"], rows_))


def draw_reliability(cells: list[tuple[float, bool]], path: Path) -> None:
    """Confidence of values against the share that is exact."""
    from matplotlib.figure import Figure

    from maxendnet.text.fitting.calibration import reliability

    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    reliability([min(c, 1.0) for c, _ in cells], [ok for _, ok in cells]).plot(figure.add_subplot())
    figure.savefig(path, dpi=110)


def _cells(rows: Rows, test: np.ndarray, extractor: Extractor) -> list[tuple[float, bool]]:
    from maxendnet.web.fields.spans import normalise_text

    out = []
    for i, record in zip(test, extractor.extract([rows.pages[i] for i in test])):
        for name, cell in record.fields.items():
            if cell is not None:
                out.append(
                    (
                        cell.confidence,
                        normalise_text(cell.value) in map(normalise_text, rows.rows[i]["values"].get(name, [])),
                    )
                )
    return out


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--part", choices=["one", "clicks", "new", "variants", "sure"], required=True)
    options.add_argument("--verticals", default=",".join(VERTICALS), type=lambda text: text.split(","))
    options.add_argument("--all-verticals", action="store_true", help="clicks on all, not on camera alone")
    options.add_argument("--draws", type=int)
    options.add_argument("--kinds", default="", help=f"variants, of {', '.join(kind.name for kind in Variant)}")
    options.add_argument("--figure", type=Path, help="for sure: write a reliability diagram")
    options.add_argument("--min-confidence", type=float, default=0.0,
                         help="for one and clicks: cells below are not found; 0.2 in the command")  # fmt: skip
    options.add_argument("--counts", default=(1, 2, 4, 7), type=lambda text: tuple(map(int, text.split(","))),
                         help="labelled pages of a site, for variants")  # fmt: skip
    options.add_argument("--wrong", type=int, default=0, help="name so many wrong cells of every run")
    given = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    given.kinds = [Variant[name] for name in given.kinds.split(",")] if given.kinds else list(Variant)
    given.sites = 3 if given.quick else None
    given.draws = given.draws or (1 if given.quick else 10 if given.part == "new" else 5)
    if given.part == "clicks":
        given.verticals = given.verticals if given.all_verticals else ["camera"]
    if given.part in ("one", "clicks"):
        part_one(given, given.part == "clicks")
    else:
        {"new": part_new, "variants": part_variants, "sure": part_sure}[given.part](given)


if __name__ == "__main__":
    main()

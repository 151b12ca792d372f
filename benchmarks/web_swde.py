"""Records from web pages: few labelled pages, and new sites, on the SWDE sample.

The data are files ``<vertical>.jsonl.gz``, a page a line, with the keys html (well-formed, root body), title, site,
labels (pairs of node and attribute) and split (5 train, 5 dev, 10 test pages a site). SWDE itself (Hao, Cai, Pang and
Zhang, SIGIR 2011) is public; its pages are here reduced to their bodies.

    python benchmarks/web_swde.py --data FOLDER                      # on the test pages
    python benchmarks/web_swde.py --data FOLDER --split dev          # for choosing settings
    python benchmarks/web_swde.py --data FOLDER --quick

Few pages: n of the 35 training pages of a vertical, several draws, all sites tested; average F1 over attributes, and
the share of pages with every attribute right. New sites: the train and dev pages of k sites, in rotation, tested on the
other sites; F1 averaged over site and attribute. A page is always answered. What the pages of a site have in common is
learned from all its pages, without labels; "agreement" is the second pass over the pages of a site.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from common import parser, say, table
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxendnet.data.examples import Examples
from maxendnet.web.agreement import agree
from maxendnet.web.blocks import fields_of, leaf_labels, miss_cost
from maxendnet.web.decode import choose, field_margins, fields_together
from maxendnet.web.features import KNOWN_SITES, NEW_SITES, leaf_features
from maxendnet.web.page import Page
from maxendnet.web.systems import estimator
from maxendnet.web.view import make_views

VERTICALS = ("camera", "book", "auto")
FEW, SEEDS = (2, 4, 7), (1, 3, 5)


class Vertical:
    """All pages of a vertical with their features, made once."""

    def __init__(self, path: Path, groups: tuple[str, ...] = KNOWN_SITES, most: int | None = None) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        if most:
            sites = sorted({row["site"] for row in rows})[:most]
            rows = [row for row in rows if row["site"] in sites]
        pages = [Page.from_canonical(r["html"], title=r["title"], name=r["page"], site=r["site"]) for r in rows]
        for page, row in zip(pages, rows):
            if "vis" in row:
                page.layout = _layout(page, row["vis"])
        self.views = make_views(pages)
        self.site = np.array([row["site"] for row in rows])
        self.split = np.array([row["split"] for row in rows])
        self.sites = sorted(set(self.site.tolist()))
        self.fields = sorted({name for row in rows for _, name in row["labels"]})
        self.y = [leaf_labels(v.leaves, [(n, name) for n, name in r["labels"]]) for v, r in zip(self.views, rows)]
        self.has = [{name for label in y for name in fields_of(label)} for y in self.y]
        self.together = fields_together({label for y in self.y for label in y}, self.fields)
        self._encode(groups)

    def _encode(self, groups: tuple[str, ...]) -> None:
        number: dict[str, int] = {}
        self.X = []
        for view in self.views:
            indptr, indices = [0], []
            for names in leaf_features(view, groups):
                indices += sorted({number.setdefault(name, len(number)) for name in names})
                indptr.append(len(indices))
            self.X.append((np.array(indices, dtype=np.int32), np.array(indptr)))
        self.group = np.array([name.split(":", 1)[0] for name in number])
        self.X = [
            sparse.csr_array((np.ones(len(i)), i, p), shape=(len(p) - 1, len(number))) for i, p in self.X
        ]  # fmt: skip
        self.names = list(number)
        self.on_page = sparse.csr_array(np.stack([np.asarray(x.sum(axis=0) > 0).ravel() for x in self.X]))

    def columns(self, rows: Any, groups: tuple[str, ...], min_sites: int) -> Any:
        """Features of some pages, in the groups, on enough of their sites."""
        sites = self.site[rows]
        support = sum((self.on_page[rows[sites == s]].sum(axis=0) > 0).astype(int) for s in set(sites.tolist()))
        enough = np.asarray(support).ravel() >= min(min_sites, len(set(sites.tolist())))
        return np.flatnonzero(enough & np.isin(self.group, groups))

    def examples(self, rows: Any, columns: Any, labels: bool, model: str) -> Examples:
        X = [self.X[i][:, columns] for i in rows]
        y = [self.y[i] for i in rows] if labels else None
        if model == "independent":
            return Examples.build(
                sparse.csr_array(sparse.vstack(X, format="csr")), None if y is None else [l for some in y for l in some]
            )
        return Examples.build(X, y)


def _layout(page: Page, rows: list[list[float]]) -> Any:
    """Rows of elements to rows of nodes; texts have their parent's."""
    out = np.zeros((len(page), 11))
    given = iter(rows)
    for t, tag in enumerate(page.tags):
        out[t] = out[page.parents[t]] if tag == "#text" else next(given)
    return out


def fit(
    data: Vertical, rows: Any, system: Any, groups: tuple[str, ...], min_sites: int, model: str, miss: float
) -> Any:
    """A fitted estimator, and its columns."""
    columns = data.columns(rows, groups, min_sites)
    examples = data.examples(rows, columns, True, model)
    system.set_params(structure=model)
    if "cost" in system.get_params():
        system.set_params(cost=miss_cost(sorted(set(examples.y.tolist())), miss))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return system.fit(examples), columns


def margins(data: Vertical, rows: Any, system: Any, columns: Any, model: str) -> list[Any]:
    values = system.predict_max_marginals(data.examples(rows, columns, False, model))
    if model == "independent":
        values = np.split(values, np.cumsum([len(data.views[i]) for i in rows])[:-1])
    return [field_margins(v, system.classes_.tolist(), data.fields) for v in values]


def score(data: Vertical, rows: Any, found: list[Any], by_site: bool) -> tuple[float, float]:
    """Average F1, and the share of pages with all attributes right."""
    hits: dict[Any, int] = defaultdict(int)
    answers: dict[Any, int] = defaultdict(int)
    true: dict[Any, int] = defaultdict(int)
    right = []
    for i, m in zip(rows, found):
        complete = True
        for name, choice in zip(data.fields, choose(m, data.views[i].texts, together=data.together)):
            key = (data.site[i], name) if by_site else name
            hit = choice is not None and name in fields_of(data.y[i][choice.leaf])
            hits[key] += hit
            answers[key] += choice is not None
            true[key] += name in data.has[i]
            complete &= hit or name not in data.has[i]
        right.append(complete)
    f1 = [2 * hits[key] / (answers[key] + n) for key, n in true.items() if n]
    return float(np.mean(f1)), float(np.mean(right))


def few_pages(data: Vertical, n: int, draws: int, split: str, **settings: Any) -> tuple[Any, Any]:
    """(F1, all right) of every draw of n training pages, one page at a time, and with agreement."""
    train, test = np.flatnonzero(data.split == "train"), np.flatnonzero(data.split == split)
    out = []
    for draw in range(draws):
        rows = np.sort(np.random.default_rng(draw).permutation(train)[:n])
        out.append(run(data, rows, test, by_site=False, **settings))
    return np.array([plain for plain, _ in out]), np.array([agreed for _, agreed in out])


def new_sites(data: Vertical, k: int, split: str, **settings: Any) -> tuple[Any, Any]:
    """(F1, all right) of every rotation, one page at a time, and with agreement."""
    plain, agreed = [], []
    for s in range(len(data.sites)):
        seeds = [data.sites[(s + j) % len(data.sites)] for j in range(k)]
        inside = np.isin(data.site, seeds)
        rows = np.flatnonzero(inside & np.isin(data.split, ["train", "dev"]))
        test = np.flatnonzero(~inside & (data.split == split))
        one, both = run(data, rows, test, by_site=True, **settings)
        plain.append(one)
        agreed.append(both)
    return np.array(plain), np.array(agreed)


def run(data: Vertical, rows: Any, test: Any, by_site: bool, make: Any, groups: Any, min_sites: int, model: str,
        miss: float = 5.0) -> tuple[Any, Any]:  # fmt: skip
    system, columns = fit(data, rows, make(), groups, min_sites, model, miss)
    found = margins(data, test, system, columns, model)
    agreed = agree([data.views[i] for i in test], found)
    return score(data, test, found, by_site), score(data, test, agreed, by_site)


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with the files of the verticals")
    options.add_argument("--split", choices=["test", "dev"], default="test")
    options.add_argument("--verticals", default=",".join(VERTICALS))
    options.add_argument("--systems", default="l2crf")
    options.add_argument("--draws", type=int, default=10)
    options.add_argument("--model", choices=["independent", "chain"], default="independent")
    given = options.parse_args()
    few, seeds, draws = (FEW, SEEDS, given.draws) if not given.quick else ((2,), (1,), 2)
    names = given.verticals.split(",")
    data = {}
    for name in names:
        say(f"reading {name}")
        data[name] = Vertical(given.data / f"{name}.jsonl.gz", most=3 if given.quick else None)
    rows = []
    for system in given.systems.split(","):
        known = {"make": lambda s=system: estimator(s), "groups": KNOWN_SITES, "min_sites": 1, "model": given.model}
        new = {
            "make": lambda s=system: estimator(s, None, True),
            "groups": NEW_SITES,
            "min_sites": 2,
            "model": given.model,
        }
        for n in few:
            both = []
            for name in names:
                both.append(few_pages(data[name], n, draws, given.split, **known))
                say(f"{system}, {n} pages, {name}: {[x.mean(axis=0).round(3).tolist() for x in both[-1]]}")
            rows.append(_row(system, f"{n} pages", [plain for plain, _ in both]))
            rows.append(_row(system, f"{n} pages, agreement", [agreed for _, agreed in both]))
        for k in seeds:
            both = []
            for name in names:
                both.append(new_sites(data[name], k, given.split, **new))
                say(f"{system}, {k} seed sites, {name}: {[x.mean(axis=0).round(3).tolist() for x in both[-1]]}")
            rows.append(_row(system, f"{k} seed sites", [plain for plain, _ in both]))
            rows.append(_row(system, f"{k} seed sites, agreement", [agreed for _, agreed in both]))
    head = ["system", "labelled", *[f"{name} F1 / all right" for name in names], "mean"]
    sys.stdout.write(table(head, rows))


def _row(system: str, task: str, found: list[Any]) -> list[str]:
    means = [x.mean(axis=0) for x in found]
    cells = [f"{f1:.3f} / {right:.3f}" for f1, right in means]
    mean = np.mean(means, axis=0)
    return [system, task, *cells, f"**{mean[0]:.3f}** / {mean[1]:.3f}"]


if __name__ == "__main__":
    main()

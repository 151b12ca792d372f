"""Labelled pages of the web experiment, read and featurised once.

The data are files ``FOLDER/swde/<vertical>.jsonl.gz`` (and ``swde_visual``, ``products``, ``recipes``) with one page
per line:

- ``html``, ``title``, ``site``, ``page`` (its name) and ``split`` (``train``, ``dev`` or ``test``);
- ``labels``, pairs ``[node, field]``, if ``html`` is well-formed with the root ``body`` (what `Page.canonical` writes);
- or ``values``, such as ``{"price": ["$12"]}``, with any HTML: each text with such a value is labelled;
- ``vis``, if known: ``[x, y, width, height, font, bold, italic, pointer, colour, background, align]`` per element.

SWDE (Hao, Cai, Pang and Zhang, *From one tree to a forest*, SIGIR 2011) is public (search for
"SWDE dataset"). Its archive has folders ``<vertical>/<vertical>-<site>(n)/0000.htm`` and ``groundtruth/<vertical>/``.
`convert_swde` converts it to the files above: 20 evenly spaced pages per site, 5 for training, 5 for the choice of
constants and 10 for testing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.web.features.groups import KNOWN_SITES
from maxendnet.web.fields.labels import PageLabels, labelled_leaves, labels_on_page
from maxendnet.web.fields.leaf_labels import fields_of, leaf_labels
from maxendnet.web.model.dataset import INNER_GROUP, Featurised, featurise, frequent_features, page_matrix
from maxendnet.web.model.decode import fields_together
from maxendnet.web.model.numbering import Numbering
from maxendnet.web.pages.page import Page
from maxendnet.web.tool.toy import toy_pages
from maxendnet.web.views.view import View, make_views

IntArray = NDArray[np.int64]
VERTICALS = ("camera", "book", "auto", "job", "movie", "nbaplayer", "restaurant", "university")


class WebPages:
    """Pages with their features and labels.

    Parameters
    ----------
    rows : list of dict
        Lines of the files.
    layout : bool
        Use layout boxes where available.
    """

    def __init__(self, rows: list[dict[str, Any]], layout: bool = False) -> None:
        pages = [_page(row, layout) for row in rows]
        given = [
            PageLabels(p.name, p.site, [(n, name) for n, name in row["labels"]])
            if "labels" in row
            else PageLabels(p.name, p.site, values=row["values"])
            for p, row in zip(pages, rows)
        ]
        nodes = [[place for place, _ in page_labels.labels if isinstance(place, int)] for page_labels in given]
        images = any(page.tags[node] == "img" for page, page_labels in zip(pages, nodes) for node in page_labels)
        self.views: list[View] = make_views(pages, images)
        self.labels: list[list[str]] = [
            leaf_labels(len(v), labelled_leaves(v, labels_on_page(v, page_labels)[0]))
            for v, page_labels in zip(self.views, given)
        ]
        self.site: NDArray[np.str_] = np.array([row["site"] for row in rows])
        self.split: NDArray[Any] = np.array([row["split"] for row in rows])
        self.sites: list[str] = sorted(set(self.site.tolist()))
        self.has: list[set[str]] = [
            {name for label in leaf_sets for name in fields_of(label)} for leaf_sets in self.labels
        ]
        self.fields: list[str] = sorted(set().union(*self.has))
        self.together: set[tuple[int, int]] = fields_together(
            {label for leaf_sets in self.labels for label in leaf_sets}, self.fields
        )
        self._featurised: dict[str, list[Featurised]] = {}
        self._matrices: dict[str, list[sparse.csr_array]] = {}

    def rows(self, split: str, sites: Sequence[str] | None = None) -> IntArray:
        """Return the indices of the pages of a split, optionally of given sites."""
        inside = self.split == split
        return np.flatnonzero(inside if sites is None else inside & np.isin(self.site, sites))

    def featurised(self, model: str) -> list[Featurised]:
        """Nodes and features of all pages; leaves alone and leaves in a row have the same."""
        kind = "hierarchical" if model == "hierarchical" else "leaves"
        if kind not in self._featurised:
            numbering = Numbering()
            self._featurised[kind] = [featurise(view, KNOWN_SITES, model, numbering) for view in self.views]
        return self._featurised[kind]

    def matrices(self, model: str) -> list[sparse.csr_array]:
        """Features of the nodes of every page, a column for every number."""
        kind = "hierarchical" if model == "hierarchical" else "leaves"
        if kind not in self._matrices:
            featurised = self.featurised(model)
            n = len(featurised[0].numbering)
            self._matrices[kind] = [page_matrix(page, np.arange(n), n) for page in featurised]
        return self._matrices[kind]

    def columns(self, rows: IntArray, groups: Sequence[str], min_sites: int, model: str) -> IntArray:
        """Return the features of the given groups that occur on at least ``min_sites`` sites of the pages."""
        featurised = self.featurised(model)
        inside = featurised[0].numbering.in_groups([*groups, INNER_GROUP])
        numbers = frequent_features([featurised[i] for i in rows], self.site[rows].tolist(), min_sites)
        return numbers[inside[numbers]]


def _page(row: dict[str, Any], layout: bool) -> Page:
    names = {"name": row["page"], "site": row["site"]}
    if "labels" not in row:
        return Page.from_html(row["html"], **names)
    page = Page.from_canonical(row["html"], title=row.get("title", ""), **names)
    if layout and "vis" in row:
        boxes, given = np.zeros((len(page), 11)), iter(row["vis"])
        for t, tag in enumerate(page.tags):  # a text has its parent's
            boxes[t] = boxes[page.parents[t]] if tag == "#text" else next(given)
        page.layout = boxes
    return page


def read_rows(path: Path, split: str = "") -> list[dict[str, Any]]:
    """Lines of a file; its name is the split, where lines do not say."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [{"split": split} | json.loads(line) for line in file]


@lru_cache(maxsize=2)
def web_pages(
    data: Path, folder: str, names: tuple[str, ...], n_sites: int | None = None, layout: bool = False
) -> WebPages:
    """Read the pages of one or more files, optionally of the first sites only and with layout boxes."""
    rows = [row for name in names for row in read_rows(data / folder / f"{name}.jsonl.gz", name)]
    if n_sites is not None:
        kept_sites = sorted({row["site"] for row in rows})[:n_sites]
        rows = [row for row in rows if row["site"] in kept_sites]
    return WebPages(rows, layout)


@lru_cache(maxsize=1)
def generated_pages(n_sites: int) -> WebPages:
    """Generate pages of shops, 20 per site: a quarter to learn from, a quarter to choose constants, half to test."""
    shops = toy_pages(n_sites=n_sites, n_pages=20)
    splits = ("train", "dev", "test", "test")
    return WebPages([
        {"page": page.name, "site": page.site, "html": shops.html[page.name], "values": given.values,
         "split": splits[i % 4]}
        for i, (page, given) in enumerate(zip(shops.pages, shops.labels))
    ])  # fmt: skip


def convert_swde(source: Path, target: Path, verticals: Sequence[str] = VERTICALS, n_pages: int = 20) -> list[Path]:
    """Make the files of the experiment from the unpacked archive of SWDE.

    Parameters
    ----------
    source : Path
        With the folders ``<vertical>/<vertical>-<site>(n)`` and ``groundtruth/<vertical>``, whose files
        ``<vertical>-<site>-<field>.txt`` have two lines of heading and then lines ``page, number of values, values``.
    target : Path
        Gets ``swde/<vertical>.jsonl.gz``.
    verticals : sequence of str
    n_pages : int
        Of each site, evenly spread: a quarter to learn from, a quarter to choose constants, half to test.

    Returns
    -------
    list of Path
        The files that were written.
    """
    written = []
    for name in verticals:
        truth = _swde_values(source / "groundtruth" / name)
        if not truth:
            raise FileNotFoundError(
                f"{source / 'groundtruth' / name} has no file {name}-SITE-FIELD.txt; give the folder that the archive "
                "of SWDE was unpacked to."
            )
        path = target / "swde" / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8") as file:
            for site, pages in sorted(truth.items()):
                folder = next((source / name).glob(f"{name}-{site}(*)"))
                names = sorted(pages)
                for i, k in enumerate(np.linspace(0, len(names) - 1, min(n_pages, len(names))).astype(int).tolist()):
                    html = (folder / f"{names[k]}.htm").read_bytes().decode("utf-8", "replace")
                    split = ("train", "dev", "test", "test")[i % 4]
                    row = {"page": f"{site}/{names[k]}", "site": site, "split": split, "html": html,
                           "values": pages[names[k]]}  # fmt: skip
                    file.write(json.dumps(row) + "\n")
        written.append(path)
    return written


def _swde_values(folder: Path) -> dict[str, dict[str, dict[str, list[str]]]]:
    """For site, page and field the values of the ground truth."""
    values_by_site: dict[str, dict[str, dict[str, list[str]]]] = {}
    for path in sorted(folder.glob("*.txt")):
        _, site, field = path.stem.split("-", 2)
        for line in path.read_text(encoding="utf-8").splitlines()[2:]:
            page, _, *values = line.split("\t")
            page_values = values_by_site.setdefault(site, {}).setdefault(page, {})
            page_values[field] = [unescape(value) for value in values if value and value != "<NULL>"]
    return values_by_site

"""Recipes from 60 sites: lists of ingredients from schema.org data and, without scripts, with one labelled page a site.

    python benchmarks/web_recipes.py --data FOLDER                 # maxendnet, and extruct and autoscraper if installed
    python benchmarks/web_recipes.py --data FOLDER --wrong 3       # also prints wrong items

FOLDER has the file ``recipes_raw/pages.jsonl.gz``: two pages of each site as saved, one of them to label from. These
pages have labels for the values of the file that occur on them. Two ingredients are equal if their words are, ignoring
case and punctuation. F1 is computed from the items of all test pages. "Complete" pages have all their ingredients and
no others. Without scripts, pages have neither JSON-LD nor other scripts; elements with microdata remain.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from common import parser, say, table
from sklearn.exceptions import ConvergenceWarning

from maxendnet.web import Extractor, Page, PageLabels, SchemaExtractor

SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
FRACTIONS = str.maketrans({"½": " 1/2", "¼": " 1/4", "¾": " 3/4", "⅓": " 1/3", "⅔": " 2/3", "⅛": " 1/8", "⁄": "/"})


def folded(text: str) -> str:
    """Return the words of a text in lower case, with fractions as numbers."""
    return " ".join(re.findall(r"\w+", text.translate(FRACTIONS).lower()))


class Score:
    """Counts of correct, wrong and missed items of all pages."""

    def __init__(self) -> None:
        self.correct = self.wrong = self.missed = self.complete = self.n_pages = 0

    def add(self, items: list[str], truth: list[str]) -> bool:
        """Count the items of a page; return whether they are complete."""
        answer, true = set(map(folded, items)) - {""}, set(map(folded, truth))
        self.correct += len(answer & true)
        self.wrong += len(answer - true)
        self.missed += len(true - answer)
        self.complete += answer == true
        self.n_pages += 1
        return answer == true

    def row(self, name: str, seconds: float) -> list[str]:
        """Return precision, recall, F1, the number of complete pages, and the seconds per page."""
        precision = self.correct / max(1, self.correct + self.wrong)
        recall = self.correct / max(1, self.correct + self.missed)
        f1 = 2 * self.correct / max(1, 2 * self.correct + self.wrong + self.missed)
        complete = f"{self.complete} of {self.n_pages}"
        return [name, f"{precision:.3f}", f"{recall:.3f}", f"**{f1:.3f}**", complete, f"{seconds / self.n_pages:.3f}"]


def schema(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Read JSON-LD and microdata, without labels."""
    extractor = SchemaExtractor(["ingredients"], several=["ingredients"])
    items = []
    for row in rows:
        cell = extractor.extract(row["html"])[0].fields["ingredients"]
        items.append(list(cell.values) if cell is not None else [])
    return items


def extruct_items(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Read JSON-LD and microdata with extruct; the first recipe of a page counts."""
    import extruct

    out = []
    for row in rows:
        try:
            data = extruct.extract(row["html"], syntaxes=["json-ld", "microdata"], uniform=True, errors="ignore")
        except Exception as error:  # a page that it cannot read has no items
            say(f"extruct: {row['page']}: {error}")
            data = {}
        out.append(next((items for items in map(_ingredients, [*data.values()]) if items), []))
    return out


def _ingredients(data: Any) -> list[str]:
    """Return the ingredients of the first recipe in nested data."""
    if isinstance(data, dict):
        items = data.get("recipeIngredient") or data.get("ingredients") or []
        if items and "Recipe" in str(data.get("@type", "")):
            return [str(item) for item in (items if isinstance(items, list) else [items])]
        data = list(data.values())
    return next((items for value in data if (items := _ingredients(value))), []) if isinstance(data, list) else []


def labelled(rows: list[dict[str, Any]], tests: list[dict[str, Any]]) -> list[list[str]]:
    """Train a model for each site on one page without scripts, and extract the ingredients of the other."""
    out = []
    for row, test in zip(rows, tests):
        pages = [Page.from_html(SCRIPT.sub("", r["html"]), name=r["page"], site=r["site"]) for r in (row, test)]
        values: Any = {name: row["values"].get(name) for name in ("title", "ingredients")}
        labels = PageLabels(row["page"], row["site"], values={
            name: [value] if isinstance(value, str) else value for name, value in values.items() if value
        })  # fmt: skip
        try:
            extractor = Extractor(calibrate=False, several=["ingredients"])
            extractor.fit(pages, [labels, None], skip_unmatched=True)
            cell = extractor.extract(pages[1])[0].fields.get("ingredients")
        except ValueError as error:  # no label occurs on its page
            say(f"{row['page']}: {error}")
            cell = None
        out.append(list(cell.values) if cell is not None else [])
    return out


def autoscraper_items(rows: list[dict[str, Any]], tests: list[dict[str, Any]]) -> list[list[str]]:
    """Learn rules of autoscraper from the ingredients of one page without scripts."""
    from autoscraper import AutoScraper

    out = []
    for row, test in zip(rows, tests):
        scraper = AutoScraper()
        scraper.build(html=SCRIPT.sub("", row["html"]), wanted_list=row["values"]["ingredients"])
        out.append(scraper.get_result_similar(html=SCRIPT.sub("", test["html"])) or [])
    return out


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with recipes_raw/pages.jsonl.gz")
    options.add_argument("--wrong", type=int, default=0, help="number of wrong items to print for each page")
    options.add_argument("--only", default="", help="comma-separated words of the systems to run")
    args = options.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with gzip.open(args.data / "recipes_raw" / "pages.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    sites = sorted({row["site"] for row in rows})[: 6 if args.quick else None]
    label = {row["site"]: row for row in rows if row["split"] == "label"}
    test = {row["site"]: row for row in rows if row["split"] == "test"}
    labels, tests = [label[site] for site in sites], [test[site] for site in sites]
    bare = [{**row, "html": SCRIPT.sub("", row["html"])} for row in tests]
    systems = {
        "maxendnet --schema": lambda: schema(tests),
        "extruct": lambda: extruct_items(tests),
        "maxendnet --schema, without scripts": lambda: schema(bare),
        "extruct, without scripts": lambda: extruct_items(bare),
        "maxendnet, one labelled page, without scripts": lambda: labelled(labels, tests),
        "autoscraper, one labelled page, without scripts": lambda: autoscraper_items(labels, tests),
    }
    out = []
    for name, system in systems.items():
        if args.only and not any(word in name for word in args.only.split(",")):
            continue
        start = time.perf_counter()
        try:
            items = system()
        except ModuleNotFoundError as error:
            say(f"{name}: {error.name} is not installed")
            continue
        score, seconds = Score(), time.perf_counter() - start
        for row, of_page in zip(tests, items):
            truth = row["values"]["ingredients"]
            if not score.add(of_page, truth) and args.wrong:
                true = set(map(folded, truth))
                answer = set(map(folded, of_page))
                say(f"  {row['page']} {len(answer & true)} of {len(true)}: not true "
                    f"{[x for x in of_page if folded(x) not in true][: args.wrong]}, missed "
                    f"{[x for x in truth if folded(x) not in answer][: args.wrong]}")  # fmt: skip
        out.append(score.row(name, seconds))
        say(" ".join(out[-1]))
    head = ["ingredients of 60 sites", "precision", "recall", "F1", "complete pages", "seconds a page"]
    sys.stdout.write(table(head, out))


if __name__ == "__main__":
    main()

"""Listings: what is found of all records when one or two of them are labelled.

    python benchmarks/web_listings.py                 # 12 templates, a model for each, 1 and 2 labelled records
    python benchmarks/web_listings.py --other         # 12 other templates
    python benchmarks/web_listings.py --staff         # 8 staff directories, with other fields
    python benchmarks/web_listings.py --together      # one model for all templates

Pages are made by `listing_pages` of the web tests, with a fixed seed: 5 pages a template with 10 to 50 records.
Records are labelled on the first page of a template only. A record is right if a row has all of its values, letter by
letter, and nothing where it has none; a row is mixed if it has values of records, but not all of one record; it is
foreign if it has no value of a record. A value that is cut short ("Town Hall" of "Town Hall, Hall 1") is wrong, and
still one of its own record, even if another record has it as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common import parser, say, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from listing_pages.events import EVENT_TEMPLATES
from listing_pages.items import Item
from listing_pages.more_events import MORE_EVENT_TEMPLATES
from listing_pages.pages import ListedPages, make_listings
from listing_pages.staff import STAFF_TEMPLATES

from maxendnet.web import Extractor, Record


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--other", action="store_true", help="12 other templates")
    options.add_argument("--staff", action="store_true", help="staff directories")
    options.add_argument("--together", action="store_true", help="one model for all templates")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--records", default="many", choices=["many", "auto"])
    options.add_argument("--only", default="", help="a template")
    options.add_argument("--wrong", type=int, default=0, help="show so many wrong records a template")
    given = options.parse_args()
    templates = STAFF_TEMPLATES if given.staff else MORE_EVENT_TEMPLATES if given.other else EVENT_TEMPLATES
    names = [given.only] if given.only else list(templates)
    counts: dict[tuple[str, int], list[int]] = {}
    started = time.process_time()
    for seed in range(1 if given.quick else given.seeds):
        for n_labelled in (1, 2):
            for group in [names] if given.together else [[name] for name in names]:
                listed = make_listings(group, random_state=seed)
                records = extract(listed, n_labelled, seed, given.records)
                for name in group:
                    found = compare(listed, records, f"{name}.example", given.wrong)
                    total = counts.setdefault((name, n_labelled), [0] * 4)
                    counts[name, n_labelled] = [a + b for a, b in zip(total, found)]
        say(f"seed {seed}: {time.process_time() - started:.0f} s of processor time")
    rows = []
    for n_labelled in (1, 2):
        total = [0] * 4
        for name in names:
            some = counts[name, n_labelled]
            total = [a + b for a, b in zip(total, some)]
            rows.append([n_labelled, name, some[0], f"{some[1] / some[0]:.3f}", some[2], some[3]])
        rows.append([n_labelled, "all", total[0], f"{total[1] / total[0]:.3f}", total[2], total[3]])
    sys.stdout.write(table(["labelled", "template", "records", "right", "mixed rows", "foreign rows"], rows))


def extract(listed: ListedPages, n_labelled: int, seed: int, mode: str) -> list[Record]:
    """Rows of all pages, by a model of so many labelled records a template."""
    extractor = Extractor(records=mode).fit(listed.pages, listed.labels(n_labelled, seed))
    return extractor.extract(listed.pages, min_confidence=0.2)


def compare(listed: ListedPages, records: Sequence[Record], site: str, wrong: int = 0) -> list[int]:
    """Records of a site, how many of them are right, mixed rows, and foreign rows."""
    counts = [0] * 4
    for page, items in zip(listed.pages, listed.items):
        if page.site != site:
            continue
        rows = [
            {name: None if cell is None else cell.value for name, cell in record.fields.items()}
            for record in records
            if record.page == page.name
        ]
        right = [item for item in items if item in rows]
        counts[0] += len(items)
        counts[1] += len(right)
        for row in rows:
            state = kind_of_row(row, items)
            counts[2] += state == "mixed"
            counts[3] += state == "foreign"
            if state in ("mixed", "foreign") and wrong > 0:
                say(f"{page.name} {state}: {row}")
        for item in items:
            if item not in rows and wrong > 0:
                near = max(rows, key=lambda row: sum(row[name] == item[name] for name in item), default=None)
                say(f"{page.name}: {item}\n    {near}")
                wrong -= 1
    return counts


def kind_of_row(row: Item, items: Sequence[Item]) -> str:
    """Whether the values of a row are of one record, of several, of none, or not all of them values."""
    having = [
        {k for k, item in enumerate(items) if any(value in other for other in item.values() if other is not None)}
        for value in row.values()
        if value is not None
    ]
    known = [some for some in having if some]
    if not known:
        return "foreign"
    return "one" if set.intersection(*known) else "mixed"


if __name__ == "__main__":
    main()

"""Web pages: seconds a page, seconds to train, a page of 50,000 nodes, and pages made to be bad.

python benchmarks/web_speed.py --data FOLDER       # with swde/<vertical>.jsonl.gz
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import machine, parser, say, table, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from hostile_pages import hostile_pages

from maxendnet.web import Extractor, PageError, PageLabels, RenderError, read_page, render_pages
from maxendnet.web.labelling.learner import Learner


@contextmanager
def clock(rows: list[list[str]], what: str, limit: float | None, n: int = 1) -> Iterator[None]:
    """Times a block, and adds a row: seconds of wall clock and of the processor for each of n, and the limit."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = (time.perf_counter() - wall) / n, (time.process_time() - cpu) / n
    rows.append([what, f"{wall:.3f}", f"{cpu:.3f}", verdict(wall, limit) if limit else ""])


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, required=True, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--vertical", default="camera")
    given = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, labels, split = [], [], []
        with gzip.open(given.data / "swde" / f"{given.vertical}.jsonl.gz", "rt", encoding="utf-8") as file:
            for i, line in enumerate(file):
                row = json.loads(line)
                path = folder / f"{i}.html"
                path.write_text(row["html"], encoding="utf-8")
                files.append((path, row["site"]))
                pairs = [(n, field) for n, field in row.get("labels", [])]
                labels.append(PageLabels(path.name, row["site"], pairs, values=row.get("values", {})))
                split.append(row["split"])
        train = [i for i, s in enumerate(split) if s == "train"][: 5 if given.quick else None]
        test = [i for i, s in enumerate(split) if s == "test"][: 5 if given.quick else None]

        def read(some: list[int]) -> list:
            return [read_page(files[i][0], site=files[i][1]) for i in some]

        say("training")
        pages, given_labels = read(train), [labels[i] for i in train]
        for what, calibrate in (("train", False), ("train again", False), ("train with confidences", True)):
            with clock(rows, f"{what}: {len(train)} pages, s", None if calibrate else 2):
                extractor = Extractor(calibrate=calibrate).fit(pages, given_labels)
        learner, fields = Learner(pages, Extractor()), extractor.fields_
        learner.fit(given_labels, fields, False, lambda items, _: items)  # as while labelling: features are made once
        with clock(rows, f"learn again while labelling: {len(train)} pages, s", 2):
            learner.fit(given_labels, fields, False, lambda items, _: items)
        say("extracting")
        with clock(rows, "read, featurise, extract: s a page", 0.1, len(test)):
            extractor.extract(read(test))
        some = test[:20]
        try:
            with clock(rows, "the same with the browser (outside this process): s a page", 0.5, len(some)):
                drawn, _ = render_pages([(page, files[i][0]) for i, page in zip(some, read(some))])
                extractor.extract([page.with_layout(None) for page in drawn])
        except RenderError as error:
            rows.append(["the same with the browser", str(error), "", ""])
        say("a page of 50,000 nodes")
        large = ("<div><p class=a>hello <b>x</b></p></div>" * 10_000).encode()
        with clock(rows, "a page of 50,001 nodes, s", 5):
            page = read_page(large)
            extractor.extract([page])
        assert len(page) == 50_001
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(
            ["largest memory of the process, with 140 other pages, MB", f"{memory:.0f}", "", verdict(memory, 500)]
        )
        say("bad pages")
        slowest, errors, n_pages = (0.0, ""), 0, 0
        for size in (10, 1000) if given.quick else (10, 300, 3_000, 10_000):
            for name_, data in hostile_pages(size, seed=size):
                began = time.perf_counter()
                try:
                    extractor.extract([read_page(data, name=name_)])
                except PageError:
                    errors += 1
                slowest = max(slowest, (time.perf_counter() - began, f"{name_}, {size}"))
                n_pages += 1
        rows.append(
            [f"{n_pages} bad pages, the slowest ({slowest[1]}), s", f"{slowest[0]:.2f}", "", verdict(slowest[0], 5)]
        )
        rows.append(["of these refused with an error", str(errors), "", ""])
    sys.stdout.write(f"{machine()}\n\n" + table(["what", "wall clock", "processor", "limit"], rows))


if __name__ == "__main__":
    main()

"""Web pages: time of training and extraction, of a page with 50,000 nodes, and of hostile pages.

python benchmarks/web_speed.py --data FOLDER       # with swde/<vertical>.jsonl.gz
python benchmarks/web_speed.py --part label        # open a page of 9 MB in the labelling page, in Chromium; no data
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common import machine, parser, say, table, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from hostile_pages import hostile_pages
from labelling_browser import Browser

from maxendnet.web import Extractor, PageError, PageLabels, RenderError, read_page, render_pages
from maxendnet.web.labelling.learner import Learner


@contextmanager
def clock(rows: list[list[str]], what: str, limit: float | None, n: int = 1) -> Iterator[None]:
    """Time a block, and add a row with the wall-clock and processor seconds per item and the limit."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = (time.perf_counter() - wall) / n, (time.process_time() - cpu) / n
    rows.append([what, f"{wall:.3f}", f"{cpu:.3f}", verdict(wall, limit) if limit else ""])


def large_page(n_things: int) -> str:
    """Return a page with many products, each with about 870 characters and ten elements and texts."""
    about = " ".join(["wooden", "with", "a", "glass", "top", "for", "kitchen", "and", "garden"] * 14)
    things = (
        f'<div class="card" id="item-{i}"><a href="/things/{i}.html"><h3 class="name">Thing {i}</h3></a>'
        f'<span class="price">${i}.99</span><p class="description">{i}: {about}</p>In stock</div>'
        for i in range(n_things)
    )
    style = ".card { border: 1px solid #ccc; margin: 4px; padding: 4px } .price { color: #a00 }"
    return f"<!doctype html><title>Shop</title><style>{style}</style><h1>All things</h1>" + "".join(things)


# time of a click on a leaf until the page is drawn again
CLICK = """(() => {
    const box = boxOf(page.leaves[%d][0]);
    bring(box);
    const corner = frame.getBoundingClientRect();
    const [x, y] = [corner.left + (box.left + box.right) / 2 * scale, corner.top + (box.top + box.bottom) / 2 * scale];
    const begin = performance.now();
    overlay.dispatchEvent(new MouseEvent("click", {clientX: x, clientY: y, bubbles: true, detail: 1}));
    return new Promise((resolve) => requestAnimationFrame(() => setTimeout(() =>
      resolve((performance.now() - begin) / 1000), 0)));
})()"""


def open_large_page(quick: bool) -> list[list[str]]:
    """Measure the time from opening the address of a new server until nodes can be labelled."""
    with tempfile.TemporaryDirectory() as name:
        pages = Path(name, "pages")
        pages.mkdir()
        file = pages / "large.html"
        file.write_text(large_page(500 if quick else 10_700), encoding="utf-8")
        size = f"a page of {file.stat().st_size / 1e6:.1f} MB"
        command = [
            sys.executable,
            "-m",
            "maxendnet",
            "web",
            "label",
            f"{name}/shop",
            str(pages),
            "--fields",
            "name,price",
        ]
        server = subprocess.Popen(
            [*command, "--fields", "name,price"], stdout=subprocess.PIPE, text=True, process_group=0
        )
        assert server.stdout is not None
        try:
            address = next(match.group() for line in server.stdout if (match := re.search(r"http://\S+", line)))
            with Browser(address.rsplit("/", 2)[0], seconds=60) as browser:
                browser.begin("about:blank")
                began, of_server, of_browser = time.perf_counter(), _cpu_seconds(server.pid), _cpu_seconds(browser._pid)
                browser.load(address)
                browser.wait("page !== null", 60)
                of_server = _cpu_seconds(server.pid) - of_server
                browser.wait("page && shown === page && !busy", 60)
                seconds, of_browser = time.perf_counter() - began, _cpu_seconds(browser._pid) - of_browser
                what = f"{size}, {browser.run('page.leaves.length'):,} texts, until they can be labelled, s"
                cpu = f"{of_server:.2f} + {of_browser:.2f} (server and browser)"
                rows = [[what, f"{seconds:.2f}", cpu, verdict(seconds, 3)]]
                began = time.perf_counter()
                browser.wait("complete === page", 60)
                rows.append(
                    ["until it is completely displayed, further s", f"{time.perf_counter() - began:.2f}", "", ""]
                )
                slowest = max(browser.run(CLICK % k) for k in range(10, 60, 5))
                rows.append(["the slowest of 10 clicks on it, s", f"{slowest:.3f}", "", verdict(slowest, 0.3)])
                return rows
        finally:
            server.terminate()
            server.wait()


def _cpu_seconds(group: int) -> float:
    """Return the processor time of a process group; 0 without /proc."""
    total = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            values = file.read_text().rsplit(")", 1)[1].split()
            total += sum(map(int, values[11:13])) if int(values[2]) == group else 0
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--data", type=Path, help="folder with swde/<vertical>.jsonl.gz")
    options.add_argument("--part", choices=["all", "label"], default="all")
    options.add_argument("--vertical", default="camera")
    given = options.parse_args()
    if given.part == "label":
        rows = open_large_page(given.quick)
        sys.stdout.write(f"{machine()}\n\n" + table(["what", "wall clock", "processor", "limit"], rows))
        return
    if given.data is None:
        options.error("give --data, or --part label")
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

        def read(rows: list[int]) -> list:
            return [read_page(files[i][0], site=files[i][1]) for i in rows]

        say("training")
        pages, given_labels = read(train), [labels[i] for i in train]
        for what, calibrate in (("train", False), ("train again", False), ("train with confidences", True)):
            with clock(rows, f"{what}: {len(train)} pages, s", None if calibrate else 2):
                extractor = Extractor(calibrate=calibrate).fit(pages, given_labels, skip_unmatched=True)
        learner, fields = Learner(pages, Extractor()), extractor.fields_
        learner.fit(given_labels, fields, False, lambda items, _: items)  # compute the features, which are cached
        with clock(rows, f"retrain while labelling: {len(train)} pages, s", 2):
            learner.fit(given_labels, fields, False, lambda items, _: items)
        say("extracting")
        with clock(rows, "read, featurise, extract: s per page", 0.1, len(test)):
            extractor.extract(read(test))
        rendered_rows = test[:20]
        try:
            with clock(rows, "the same with the browser (outside this process): s per page", 0.5, len(rendered_rows)):
                rendered, _ = render_pages([(page, files[i][0]) for i, page in zip(rendered_rows, read(rendered_rows))])
                extractor.extract([page.with_layout(None) for page in rendered])
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
        say("hostile pages")
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
            [f"{n_pages} hostile pages, the slowest ({slowest[1]}), s", f"{slowest[0]:.2f}", "", verdict(slowest[0], 5)]
        )
        rows.append(["rejected with an error", str(errors), "", ""])
    rows += open_large_page(given.quick)
    sys.stdout.write(f"{machine()}\n\n" + table(["what", "wall clock", "processor", "limit"], rows))


if __name__ == "__main__":
    main()

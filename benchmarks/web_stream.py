"""Extraction from many pages: memory, and speed-up by a second process.

    python benchmarks/web_stream.py --pages 10000

The pages are copies of toy shops (200 folders of 50 pages) in a temporary folder. Each run is a separate process of
``maxendnet web extract``. Memory is the largest resident set of the process and its children. Processor time is the sum
over these, sampled every 0.2 s; on a shared machine it indicates the speed-up on two free processors. One run is killed
half-way and resumed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import machine, parser, say, table

from maxendnet.web import Extractor, toy_pages


def main() -> None:
    options = parser(__doc__, letters=False)
    options.add_argument("--pages", type=int, default=10_000)
    given = options.parse_args()
    n_pages = 400 if given.quick else given.pages
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        toy = toy_pages(n_sites=5, n_pages=8, random_state=0)
        Extractor().fit(toy.pages, toy.labels).save(folder / "m.medn")
        texts = list(toy.html.items())
        for k in range(n_pages):
            path = folder / "pages" / f"{k // 50}.example" / f"{k}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[k % len(texts)][1], encoding="utf-8")
        say(f"wrote {n_pages} pages")
        rows = []
        seconds, processor_seconds = {}, {}
        for jobs in (1, 2):
            took, memory, processor_seconds[jobs] = run(folder, f"{jobs}.jsonl", jobs)
            seconds[jobs] = took
            name = f"{jobs} process{'es' if jobs > 1 else ''}"
            rows.append(
                [name, f"{took:.0f}", f"{processor_seconds[jobs]:.0f}", f"{n_pages / took:.0f}", f"{memory:.0f}"]
            )
        run(folder, "stopped.jsonl", 1, kill_after=seconds[1] / 2)
        took, memory, rest = run(folder, "stopped.jsonl", 1)
        rows.append(["resumed after a kill half-way", f"{took:.0f}", f"{rest:.0f}", "", f"{memory:.0f}"])
        is_identical = len({(folder / f"{x}.jsonl").read_bytes() for x in ("1", "2", "stopped")}) == 1
    sys.stdout.write(table(["run", "seconds", "processor seconds", "pages per second", "largest process, MB"], rows))
    sys.stdout.write(f"\nTwo processes are {seconds[1] / seconds[2]:.2f} times as fast as one, ")
    ratio = 2 * processor_seconds[1] / processor_seconds[2]
    sys.stdout.write(f"{ratio:.2f} times by processor time; ")
    sys.stdout.write(f"the three files are {'identical' if is_identical else 'NOT identical'}. {machine()}\n")


def run(folder: Path, out: str, jobs: int, kill_after: float | None = None) -> tuple[float, float, float]:
    """Run a command, and return its seconds, megabytes and processor seconds."""
    code = "from maxendnet.cli import main; main()"
    command = [sys.executable, "-c", code, "web", "extract", "m.medn", "pages", "-o", out, "--jobs", str(jobs)]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0.0
    used: dict[int, float] = {}
    while process.poll() is None:
        running = family(process.pid)
        peak = max([peak, *map(resident, running)])
        used |= {pid: max(used.get(pid, 0.0), processor_time(pid)) for pid in running}
        if kill_after is not None and time.monotonic() - started > kill_after:
            process.kill()
        time.sleep(0.2)
    if process.returncode and kill_after is None:
        raise RuntimeError(f"{' '.join(command)} exited with code {process.returncode}")
    return time.monotonic() - started, peak, sum(used.values())


def processor_time(pid: int) -> float:
    """Return the processor seconds of a process on Linux; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """Return a process and its descendants on Linux."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(p for child in children for p in family(int(child)))]


def resident(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()

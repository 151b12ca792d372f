"""Extraction from many pages: memory, and how much a second process gains.

    python benchmarks/web_stream.py --pages 10000

The pages are repeats of toy shops (200 folders of 50), written to a temporary folder. Every run is a process of its own
that runs ``maxendnet web extract``; its memory is the largest resident set of it and of its children. Processor time is
that of all of them, looked at every 0.2 s: on a machine that others use it says what two free processors would gain.
One run is stopped by a kill after some seconds and goes on.
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
        say(f"{n_pages} pages are written")
        rows = []
        seconds, work = {}, {}
        for jobs in (1, 2):
            took, memory, work[jobs] = run(folder, f"{jobs}.jsonl", jobs)
            seconds[jobs] = took
            name = f"{jobs} process{'es' if jobs > 1 else ''}"
            rows.append([name, f"{took:.0f}", f"{work[jobs]:.0f}", f"{n_pages / took:.0f}", f"{memory:.0f}"])
        run(folder, "stopped.jsonl", 1, kill_after=seconds[1] / 2)
        took, memory, rest = run(folder, "stopped.jsonl", 1)
        rows.append(["killed half-way, the rest", f"{took:.0f}", f"{rest:.0f}", "", f"{memory:.0f}"])
        same = len({(folder / f"{x}.jsonl").read_bytes() for x in ("1", "2", "stopped")}) == 1
    sys.stdout.write(table(["run", "seconds", "processor seconds", "pages a second", "largest process, MB"], rows))
    sys.stdout.write(f"\nTwo processes are {seconds[1] / seconds[2]:.2f} times as fast as one, ")
    sys.stdout.write(f"and would be {2 * work[1] / work[2]:.2f} times as fast by their processor time; ")
    sys.stdout.write(f"the three files are {'the same' if same else 'NOT the same'}. {machine()}\n")


def run(folder: Path, out: str, jobs: int, kill_after: float | None = None) -> tuple[float, float, float]:
    """Seconds, megabytes and processor seconds of one command."""
    code = "from maxendnet.cli import main; main()"
    command = [sys.executable, "-c", code, "web", "extract", "m.medn", "pages", "-o", out, "--jobs", str(jobs)]
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0.0
    used: dict[int, float] = {}
    while process.poll() is None:
        running = family(process.pid)
        most = max([most, *map(resident, running)])
        used |= {pid: max(used.get(pid, 0.0), processor_time(pid)) for pid in running}
        if kill_after is not None and time.monotonic() - started > kill_after:
            process.kill()
        time.sleep(0.2)
    if process.returncode and kill_after is None:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - started, most, sum(used.values())


def processor_time(pid: int) -> float:
    """Seconds that a process has used, on Linux; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and its children, on Linux."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(p for child in children for p in family(int(child)))]


def resident(pid: int) -> float:
    """Megabytes of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()

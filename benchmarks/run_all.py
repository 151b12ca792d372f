"""Run all benchmarks, one after the other, and write their tables to RESULTS.md.

The letters come as in the single benchmarks. Leave the machine alone meanwhile; a full run takes about an hour, most of
it for CRFsuite and for the cross-validation of ocr_accuracy.py, which stores its cells in a file and resumes from it.

    python benchmarks/run_all.py            # what `make bench` calls
"""

from __future__ import annotations

import datetime
import shlex
import subprocess
import sys
import time
from pathlib import Path

import common

HERE = Path(__file__).resolve().parent
QUESTIONS = {
    "kernels": "Kernels, threads, import, growth",
    "ocr_likelihood": "Likelihood models: CPU until CRFsuite's objective",
    "ocr_margin": "Margin models: CPU to a proven gap",
    "sparse_text": "Sparse text: memory and time",
    "solvers": "Every solver, side by side",
    "paths": "Warm starts along a path of constants",
    "bounds": "Bounds of the error on new examples",
    "ocr_accuracy": "Letter error",
}


def main() -> int:
    arguments = common.parser(__doc__)
    arguments.add_argument("--only", default=",".join(QUESTIONS), help="which, in this order (default: %(default)s)")
    arguments.add_argument("--write", metavar="FILE", help="where to (default: RESULTS.md here; with --quick: nowhere)")
    arguments.add_argument("--cells", metavar="FILE", help="finished cells of ocr_accuracy.py (default: start afresh)")
    given = arguments.parse_args()
    target = given.write or (None if given.quick else str(HERE / "RESULTS.md"))

    text = [
        "# Benchmarks\n",
        "Ours beside the peers, in the same run, on the same data. Times are CPU seconds of one thread unless said "
        "otherwise. Every section gives the command that made it; `make bench` runs them all.\n",
        f"- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- Machine: {common.machine()}\n",
    ]
    failed = []
    for name in given.only.split(","):
        # the path of the data is this machine's own affair and stays out of the results
        shown = ["python", f"benchmarks/{name}.py"] + ["--quick"] * given.quick
        command = [sys.executable, str(HERE / f"{name}.py")] + ["--quick"] * given.quick
        if given.data and name != "sparse_text":
            command += ["--data", given.data]
        if given.cells and name == "ocr_accuracy":
            command += ["--out", given.cells]
        common.say(f"--- {shlex.join(shown)}")
        began = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - began
        text.append(f"## {QUESTIONS[name]}\n\n`{shlex.join(shown)}` ({seconds:.0f} s)\n")
        if done.returncode:
            failed.append(name)
            text.append(f"Failed with status {done.returncode}.\n")
        text.append(done.stdout)
    result = "\n".join(text).rstrip() + "\n"
    print(result)
    if target:
        Path(target).write_text(result)
    if failed:
        common.say(f"Failed: {', '.join(failed)}; what they said is above.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

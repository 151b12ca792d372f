"""Comparison of two versions: ratios of the CPU times of fits and predictions.

Pass the Python interpreter of an environment with the other version. Runs of the two versions alternate, so that other
load on the machine affects both equally; the medians of every task are compared. The data are generated: words of 4 to
12 letters with 128 pixels and 26 labels. Only calls that both versions support are used.

    python benchmarks/before_after.py ../before/.venv/bin/python --runs 15
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

WORK = """
import sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Examples, LapMEDN, solvers

rng = np.random.default_rng(0)
y = [rng.integers(26, size=rng.integers(4, 13)) for _ in range(600)]
pixels = rng.random((26, 128)) < 0.25
X = [(pixels[labels] ^ (rng.random((len(labels), 128)) < 0.12)) * 1.0 for labels in y]
examples = Examples.build(X, [labels.tolist() for labels in y])
block, fixed = solvers.BlockFrankWolfe(), {"tol": 1e-14, "random_state": 0}
FITS = {
    "M3N, 10 passes": M3N(max_passes=10, solver=block, **fixed),
    "LapMEDN, 10 passes": LapMEDN(C=5, lam=25, max_passes=10, solver=block, **fixed),
    "L1M3N, 9 passes": L1M3N(C=0.5, max_passes=9, **fixed),
    "M3N by Smoothing, 20 passes": M3N(max_passes=20, solver=solvers.Smoothing(), **fixed),
    "M3N by Subgradient, 20 passes": M3N(max_passes=20, solver=solvers.Subgradient(), **fixed),
    "L2CRF, 20 passes": L2CRF(max_passes=20, **fixed),
    "L1CRF, 20 passes": L1CRF(max_passes=20, **fixed),
}
model = M3N(max_passes=1, random_state=0).fit(examples)
TASKS = {name: (lambda fit=fit: fit.fit(examples)) for name, fit in FITS.items()}
TASKS["predict, 10 times"] = lambda: [model.predict(examples) for _ in range(10)]
TASKS["predict_marginals, 10 times"] = lambda: [model.predict_marginals(examples) for _ in range(10)]
for name, task in TASKS.items():
    began = time.process_time()
    task()
    print(name, time.process_time() - began, sep="=")
"""


def seconds(python: str) -> dict[str, float]:
    """Return the CPU seconds of every task, in a new process."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([python, "-c", WORK], capture_output=True, text=True, check=True, env=environment)
    return {name: float(value) for name, value in (line.split("=") for line in done.stdout.splitlines())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="Python of the environment with the other version")
    parser.add_argument("--runs", type=int, default=15, help="number of runs of each version (default: %(default)s)")
    args = parser.parse_args()
    before, now = [], []
    for _ in range(args.runs):
        before.append(seconds(args.other))
        now.append(seconds(sys.executable))
    print("| task | other, s | this, s | this / other |\n|---|---|---|---|")
    for name in now[0]:
        theirs, ours = (statistics.median(run[name] for run in runs) for runs in (before, now))
        print(f"| {name} | {theirs:.3f} | {ours:.3f} | {ours / theirs:.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

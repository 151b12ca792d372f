"""Memory and time of fits with many sparse features, compared with CRFsuite.

The default data are synthetic: 200,000 nodes in chains of 1 to 49, 22 labels, and 300,000 binary features with Zipf
frequencies, up to 20 per node. Every feature votes for one label. With --conll the data are the CoNLL-2000 chunks:
words, parts of speech and pairs of them in a window of five, from a file with a word, its part of speech and chunk
label a line.

Every model is trained in its own process. Peak memory is the highest resident set minus the resident set before the
data were read. All models have weights for all pairs of a feature and a label. They make only a few passes: the
benchmark measures the cost of a sweep, not the number of sweeps to converge. A sweep is one visit of every example; a
pass with a line search or an evaluation of the gap has more than one.

    python benchmarks/sparse_text.py
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import common
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, M3N, LapMEDN
from maxendnet.data.examples import Examples, as_examples
from maxendnet.solvers import LBFGS

N_NODES, N_FEATURES, N_LABELS, N_PER_NODE = 200_000, 300_000, 22, 20
MODELS = {
    "L2CRF (default)": lambda passes: L2CRF(lam=1.0, max_passes=passes, random_state=0),
    "L2CRF (L-BFGS)": lambda passes: L2CRF(lam=1.0, tol=1e-12, max_passes=passes, solver=LBFGS()),
    "M3N (block Frank-Wolfe)": lambda passes: M3N(C=0.1, tol=1e-12, max_passes=passes, random_state=0),
    "LapMEDN (block Frank-Wolfe)": lambda passes: LapMEDN(
        C=1.0, lam=10.0, tol=1e-12, max_passes=passes, random_state=0
    ),
}
PEERS = {
    "CRFsuite (L-BFGS)": ("lbfgs", {"c1": 0.0, "c2": 0.5}),
    "CRFsuite (averaged perceptron)": ("ap", {"epsilon": 0.0}),
}


def synthetic(n_nodes: int, n_features: int, seed: int = 0) -> Examples:
    """Generate chains with Zipf-distributed binary features."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 50, size=n_nodes)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.append(offsets[offsets < n_nodes], n_nodes)
    weights = 1.0 / np.arange(1, n_features + 1)
    columns = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random((n_nodes, N_PER_NODE)))
    rows = np.repeat(np.arange(n_nodes), N_PER_NODE)
    X = sparse.csr_array((np.ones(rows.size), (rows, columns.ravel())), shape=(n_nodes, n_features))
    X.data[:] = 1.0  # features that were drawn twice
    # votes of rare features count more
    votes = sparse.csr_array(
        (np.log1p(np.arange(n_features)), rng.integers(N_LABELS, size=n_features), np.arange(n_features + 1)),
        shape=(n_features, N_LABELS),
    )
    scores = (X @ votes).toarray() + 5.0 * rng.gumbel(size=(n_nodes, N_LABELS))
    labels = np.array([f"label{k:02d}" for k in range(N_LABELS)])
    starts = offsets[1:-1]
    bounds = list(pairwise(offsets.tolist()))
    return as_examples([X[a:b] for a, b in bounds], np.split(labels[scores.argmax(axis=1)], starts))


def conll(path: str) -> Examples:
    """Read sentences, with words, parts of speech and pairs of them in a window of five."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        blocks = [block.splitlines() for block in file.read().strip().split("\n\n")]
    sentences, chunks = [], []
    for lines in blocks:
        words, tags, labels = zip(*(line.split() for line in lines))
        padded = {"w": ("", "", *words, "", ""), "p": ("", "", *tags, "", "")}
        nodes = []
        for t in range(len(words)):
            node = [f"{kind}{d}={row[t + 2 + d]}" for kind, row in padded.items() for d in range(-2, 3)]
            node += [
                f"{kind}{d},{d + 1}={row[t + 2 + d]} {row[t + 3 + d]}" for kind, row in padded.items() for d in (-1, 0)
            ]
            nodes.append(node)
        sentences.append(nodes)
        chunks.append(list(labels))
    return as_examples(sentences, chunks)


def peak() -> float:
    """Return the highest resident set of this process so far, in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes


def resident() -> float:
    """Return the current resident set of this process in MB; the highest so far if the system does not report it."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20 if statm.exists() else peak()


def read(path: Path) -> Examples:
    """Read examples that `write` wrote."""
    with np.load(path) as arrays:
        a = {name: arrays[name] for name in arrays.files}
    X = sparse.csr_array((a["data"], a["indices"], a["indptr"]), shape=tuple(a["shape"]))
    return Examples(X, a["offsets"], a["y"])


def write(examples: Examples, path: Path) -> None:
    X = examples.X
    labels = examples.y.astype(str)
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, offsets=examples.offsets, y=labels)


def measure(name: str, path: Path, passes: int) -> dict[str, Any]:
    """Train one model in this process, and return its time and memory."""
    before = resident()
    examples = read(path)
    with_data = resident() - before
    n = len(examples.y)
    if name in MODELS:
        model = MODELS[name](passes)
        warnings.simplefilter("ignore", ConvergenceWarning)  # short fits are intended
        seconds = common.cpu(lambda: model.fit(examples))[0]
        sweeps = model.trace_[-1].n_oracle / len(examples)
        per_sweep, n_passes = seconds / sweeps, model.n_passes_
    else:
        algorithm, settings = PEERS[name]
        peer = common.CRFsuite(examples, algorithm, max_iterations=passes, **settings)
        seconds = peer.train()
        log = peer.trainer.logparser.iterations
        # CRFsuite's time of each pass, without feature generation
        n_passes, sweeps = len(log), sum(row.get("linesearch_trials", 1) for row in log)
        per_sweep = sum(row["time"] for row in log) / sweeps
    return {
        "seconds": seconds,
        "n_passes": n_passes,
        "sweeps": sweeps,
        "per_sweep": per_sweep,
        "ns": 1e9 * per_sweep / n,
        "data": with_data,
        "peak": peak() - before,
    }


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--conll", metavar="FILE", help="training file of CoNLL-2000")
    arguments.add_argument("--passes", type=int, default=10, help="passes of each model (default: %(default)s)")
    arguments.add_argument("--models", help="models, separated by ';' (default: all)")
    arguments.add_argument(
        "--one", nargs=2, metavar=("MODEL", "FILE"), help="train one model on prepared data, and exit"
    )
    args = arguments.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], Path(args.one[1]), args.passes)))
        return

    if args.conll:
        seconds, examples = common.cpu(lambda: conll(args.conll))
        common.say(f"CoNLL-2000 read, with feature strings: {seconds:.1f} CPU s")
    else:
        divisor = 20 if args.quick else 1
        examples = synthetic(N_NODES // divisor, N_FEATURES // divisor)
    n_examples, (n_nodes, n_features) = len(examples), examples.X.shape
    n_labels = len(np.unique(examples.y.astype(str)))
    n_weights = n_features * n_labels + n_labels**2
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.npz"
        write(examples, path)
        csr = examples.X.data.nbytes + examples.X.indices.nbytes + examples.X.indptr.nbytes
        n_entries = examples.X.nnz
        del examples
        for name in args.models.split(";") if args.models else [*MODELS, *PEERS]:
            command = [sys.executable, __file__, "--one", name, str(path), "--passes", str(args.passes)]
            process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            result = json.loads(process.stdout)
            common.say(f"{name}: {result}")
            rows.append(
                (
                    name, str(result["n_passes"]), f"{result['seconds']:.1f}", f"{result['sweeps']:.0f}",
                    f"{result['per_sweep']:.3f}", f"**{result['ns']:.0f}**", f"**{result['peak']:.0f}**",
                )
            )  # fmt: skip

    if args.quick and not args.conll:
        print("(--quick: a twentieth of the data; not a measurement)\n")
    source = "CoNLL-2000" if args.conll else "Synthetic text"
    print(
        f"{source}: {n_examples:,} chains, {n_nodes:,} nodes, {n_features:,} features, {n_labels} labels, "
        f"{n_entries:,} non-zeros. The features take {csr / 2**20:.0f} MB, one float64 vector of the {n_weights:,} "
        f"weights {8 * n_weights / 2**20:.0f} MB. CPU seconds of one thread.\n"
    )
    head = ("", "passes", "CPU s in all", "sweeps", "CPU s a sweep", "ns a node and sweep", "peak memory, MB")
    print(common.table(head, rows))
    print("Peak memory includes the data, and not the imported libraries.\n")


if __name__ == "__main__":
    main()

"""How does it carry text: many sparse features, in memory and time, beside CRFsuite.

By default synthetic text: 200,000 nodes in chains of 1 to 49, 22 labels, 300,000 binary features of which a node has
up to 20, drawn with probabilities that fall as 1/rank (Zipf); every feature votes for one label, so that there is
something to learn. With --conll the CoNLL-2000 chunks instead: words, parts of speech and pairs of them in a window of
five, read from a file with word, part of speech and chunk label a line and a blank line between sentences (.gz or not).

Every model trains in a process of its own, so that the peak of its memory is its own: the highest resident set, less
the resident set before the data was there. All have a weight for every feature and label. They make a few passes only:
what is asked is what a sweep costs, not how many are needed. A sweep is one look at every example; a pass with a line
search or a look at the gap has more than one.

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
    """Chains with Zipf-like binary features."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 50, size=n_nodes)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.append(offsets[offsets < n_nodes], n_nodes)
    chances = 1.0 / np.arange(1, n_features + 1)
    columns = np.searchsorted(np.cumsum(chances) / chances.sum(), rng.random((n_nodes, N_PER_NODE)))
    rows = np.repeat(np.arange(n_nodes), N_PER_NODE)
    X = sparse.csr_array((np.ones(rows.size), (rows, columns.ravel())), shape=(n_nodes, n_features))
    X.data[:] = 1.0  # a feature that was drawn twice
    # the votes of rare features count more, those of the most frequent ones hardly
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
    """Sentences with words and parts of speech in a window of five, and pairs of neighbours."""
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
    """Highest resident set of this process so far, in MB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes


def resident() -> float:
    """Resident set of this process now, in MB; where the system does not tell, its highest so far."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20 if statm.exists() else peak()


def read(path: Path) -> Examples:
    """Examples as `write` left them."""
    with np.load(path) as arrays:
        a = {name: arrays[name] for name in arrays.files}
    X = sparse.csr_array((a["data"], a["indices"], a["indptr"]), shape=tuple(a["shape"]))
    return Examples(X, a["offsets"], a["y"])


def write(examples: Examples, path: Path) -> None:
    X = examples.X
    labels = examples.y.astype(str)
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, offsets=examples.offsets, y=labels)


def measure(name: str, path: Path, passes: int) -> dict[str, Any]:
    """Train one model in this process."""
    before = resident()
    examples = read(path)
    with_data = resident() - before
    n = len(examples.y)
    if name in MODELS:
        model = MODELS[name](passes)
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fits are stopped on purpose
        seconds = common.cpu(lambda: model.fit(examples))[0]
        sweeps = model.trace_[-1].n_oracle / len(examples)
        used, n_passes = seconds / sweeps, model.n_passes_
    else:
        algorithm, settings = PEERS[name]
        peer = common.CRFsuite(examples, algorithm, max_iterations=passes, **settings)
        seconds = peer.train()
        log = peer.trainer.logparser.iterations
        # its own clock for each pass, which leaves out the making of features
        n_passes, sweeps = len(log), sum(row.get("linesearch_trials", 1) for row in log)
        used = sum(row["time"] for row in log) / sweeps
    return {
        "seconds": seconds,
        "n_passes": n_passes,
        "sweeps": sweeps,
        "per_pass": used,
        "ns": 1e9 * used / n,
        "data": with_data,
        "peak": peak() - before,
    }


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--conll", metavar="FILE", help="training file of CoNLL-2000")
    arguments.add_argument("--passes", type=int, default=10, help="of every model (default: %(default)s)")
    arguments.add_argument("--models", help="which, separated by ';' (default: all)")
    arguments.add_argument(
        "--one", nargs=2, metavar=("MODEL", "FILE"), help="train one model on prepared data, and stop"
    )
    given = arguments.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], Path(given.one[1]), given.passes)))
        return

    if given.conll:
        seconds, examples = common.cpu(lambda: conll(given.conll))
        common.say(f"CoNLL-2000 in, with its feature strings made: {seconds:.1f} CPU s")
    else:
        small = 20 if given.quick else 1
        examples = synthetic(N_NODES // small, N_FEATURES // small)
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
        for name in given.models.split(";") if given.models else [*MODELS, *PEERS]:
            command = [sys.executable, __file__, "--one", name, str(path), "--passes", str(given.passes)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            common.say(f"{name}: {found}")
            rows.append(
                (
                    name, str(found["n_passes"]), f"{found['seconds']:.1f}", f"{found['sweeps']:.0f}",
                    f"{found['per_pass']:.3f}", f"**{found['ns']:.0f}**", f"**{found['peak']:.0f}**",
                )
            )  # fmt: skip

    if given.quick and not given.conll:
        print("(--quick: a twentieth of the data; not a measurement)\n")
    source = "CoNLL-2000" if given.conll else "Synthetic text"
    print(
        f"{source}: {n_examples:,} chains, {n_nodes:,} nodes, {n_features:,} features, {n_labels} labels, "
        f"{n_entries:,} non-zeros. The features take {csr / 2**20:.0f} MB, one float64 vector of the {n_weights:,} "
        f"weights {8 * n_weights / 2**20:.0f} MB. CPU seconds of one thread.\n"
    )
    head = ("", "passes", "CPU s in all", "sweeps", "CPU s a sweep", "ns a node and sweep", "peak memory, MB")
    print(common.table(head, rows))
    print("Peak memory is above that of the libraries, and includes the data.\n")


if __name__ == "__main__":
    main()

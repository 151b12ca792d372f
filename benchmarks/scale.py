"""Benchmarks of memory-mapped examples, parts, checkpoints, and sums on a Dask cluster.

Prints Markdown for benchmarks/SCALE.md. Values of ``--part``: ``mapped`` (examples in a folder with a memory limit,
compared with examples in memory), ``parts`` (passes of CoCoA), ``checkpoint`` (time to write a checkpoint), ``rounds``
(overhead of a sum on Dask), ``workers`` (two workers compared with two plain processes).

    python benchmarks/scale.py --part mapped --nodes 20000000 --small 4000000 --limit 1500
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import common
import numpy as np

from maxendnet import L2CRF, M3N, Examples
from maxendnet.backends import Partial
from maxendnet.data.ragged import csr
from maxendnet.losses.base import loss_oracle
from maxendnet.solvers import LBFGS, BlockFrankWolfe, PotentialAscent

LENGTH, ENTRIES, COLUMNS, LABELS = 20, 30, 1 << 15, 10


def chunks(n_nodes: int, at_once: int = 2000) -> Iterator[Examples]:
    """Yield sentences of 20 words with 30 features each, whose labels depend on the first feature."""
    rng = np.random.default_rng(0)
    for _ in range(max(1, n_nodes // (LENGTH * at_once))):
        n = at_once * LENGTH
        label = rng.integers(LABELS, size=n)
        columns = np.sort(
            rng.integers(COLUMNS // ENTRIES - 1, size=(n, ENTRIES)) + np.arange(ENTRIES) * (COLUMNS // ENTRIES)
        )
        columns[:, 0] = np.where(rng.random(n) < 0.7, label, columns[:, 0])
        X = csr(np.ones(n * ENTRIES), columns.astype(np.int32).ravel(), np.arange(n + 1) * ENTRIES, COLUMNS)
        yield Examples(X=X, offsets=np.arange(at_once + 1, dtype=np.int64) * LENGTH, y=label)


def anonymous() -> float:
    """Return the anonymous memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1000


def fit(folder: str, how: str, limit: float, passes: int) -> None:
    """Fit a model in a child process, and print its time and memory as JSON."""
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (int(limit * 1e6), int(limit * 1e6)))
    examples = Examples.open(folder, check=False)
    if how == "memory":
        X = examples.X
        examples = Examples(csr(X.data.copy(), X.indices.copy(), X.indptr, COLUMNS), examples.offsets, examples.y)
    began, cpu, memory = time.perf_counter(), time.process_time(), []
    model = L2CRF(solver=LBFGS(), tol=1e-12, max_passes=passes, callback=lambda progress: memory.append(anonymous()))
    import warnings

    warnings.simplefilter("ignore")
    model.fit(examples)
    report = {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "anonymous": max(*memory, anonymous()),
        "sums": model.trace_[-1].n_oracle / len(examples),
        "hash": hash_of(model),
    }
    print(json.dumps(report))


def hash_of(model: object) -> str:
    import hashlib

    return hashlib.blake2b(model.model_.weights.tobytes(), digest_size=8).hexdigest()  # type: ignore[attr-defined]


def mapped(n_nodes: int, limit: float, passes: int, folder: str | None, n_small: int) -> None:
    """Compare fits to folders with fits in memory, without a memory limit and with one."""
    rows: list[list[str]] = []
    for n, ways in ((n_small, (("memory", 0.0), ("folder", 0.0))), (n_nodes, (("memory", limit), ("folder", limit)))):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            target, began = os.path.join(place, "examples"), time.perf_counter()
            examples = Examples.write(target, chunks(n))
            written = time.perf_counter() - began
            size = sum(path.stat().st_size for path in Path(target).iterdir()) / 1e6
            began = time.perf_counter()
            Examples.open(target)
            checked = time.perf_counter() - began
            print(f"{examples.n_nodes} nodes, {size:.0f} MB in files; written in {written:.0f} s, "
                  f"checked in {checked:.1f} s.\n", flush=True)  # fmt: skip
            for how, most in ways:
                command = [sys.executable, __file__, "--child", target, how, str(most), str(passes)]
                done = subprocess.run(command, capture_output=True, text=True)
                row = [how, f"{examples.n_nodes:,}", f"{most:.0f}" if most else "none"]
                if done.returncode:
                    rows.append([*row, "failed: " + done.stderr.strip().splitlines()[-1], *[""] * 4])
                else:
                    report = json.loads(done.stdout)
                    microseconds = 1e6 * report["seconds"] / report["sums"] / examples.n_nodes
                    rows.append([*row, f"{report['seconds']:.0f}", f"{report['cpu']:.0f}", f"{microseconds:.2f}",
                                 f"{report['anonymous']:.0f}", report["hash"]])  # fmt: skip
                common.say(str(rows[-1]))
    head = ["examples in", "nodes", "limit, MB", f"seconds, {passes} passes", "CPU seconds", "us per node and sum",
            "anonymous memory, MB", "weights"]  # fmt: skip
    print(table(head, rows))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def parts(data: str | None, quick: bool) -> None:
    """Count the passes to a gap by the number of parts."""
    from maxendnet.datasets import fetch_ocr_letters

    letters = fetch_ocr_letters(data) if data else fetch_ocr_letters()
    chosen = np.flatnonzero(np.asarray(letters.folds) == 0)[: 100 if quick else None]
    X, y = [letters.X[i] for i in chosen], [letters.y[i] for i in chosen]
    rows = []
    for name, make in (("M3N, BlockFrankWolfe", lambda k: M3N(C=0.1, solver=BlockFrankWolfe(parts=k))),):
        for k in (1, 2, 4):
            n_passes: dict[float, int] = {}

            def watch(progress, n_passes=n_passes):
                for gap in (1e-2, 1e-3):
                    if progress.row.gap <= gap:
                        n_passes.setdefault(gap, progress.row.n_pass)

            model = make(k).set_params(tol=1e-3, max_passes=400, random_state=0, callback=watch)
            began = time.process_time()
            model.fit(X, y)
            seconds = time.process_time() - began
            rows.append([name, k, n_passes.get(1e-2, "-"), n_passes.get(1e-3, "-"), f"{seconds:.1f}"])
            common.say(str(rows[-1]))
    print(table(["model", "parts", "passes to 1e-2", "passes to 1e-3", "CPU seconds"], rows))


def checkpoint() -> None:
    """Measure the time to write a checkpoint."""
    from maxendnet.models import checkpoint

    examples = next(chunks(40_000))
    rows = []
    for name, solver in (("LBFGS", LBFGS()), ("PotentialAscent", PotentialAscent())):
        times, sizes, write = [], [], checkpoint.write_sealed

        def timed(path, *rest, times=times, sizes=sizes, write=write):
            began = time.perf_counter()
            write(path, *rest)
            times.append(time.perf_counter() - began)
            sizes.append(os.path.getsize(path) / 1e6)

        checkpoint.write_sealed = timed
        with tempfile.TemporaryDirectory() as folder:
            import warnings

            warnings.simplefilter("ignore")
            L2CRF(solver=solver, tol=1e-9, max_passes=6, random_state=0).fit(
                examples, checkpoint=os.path.join(folder, "c"), checkpoint_every=0
            )
        checkpoint.write_sealed = write
        rows.append([name, f"{max(sizes):.0f}", f"{1e3 * float(np.median(times)):.0f}"])
    print(table(["solver", "MB", "ms to write, median"], rows))


def rounds() -> None:
    """Measure the overhead of sums on Dask."""
    from distributed import Client, LocalCluster

    from maxendnet import _kernels
    from maxendnet.backends import Dask
    from maxendnet.backends.dask import pack, unpack

    rows = []
    for n_workers in (1, 2, 4):
        options = dict(n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            backend = Dask(client)
            slots = backend._slots()
            shards = backend._send(unpack, [(pack(k), _kernels.level()) for k in range(16)], "shard", slots)
            for size in (1000, 100_000, 1_000_000):
                w, times = np.zeros(size), []
                for _ in range(22):
                    began = time.perf_counter()
                    backend.sum(echo, shards, w)
                    times.append(time.perf_counter() - began)
                median, minimum = 1e3 * float(np.median(times[2:])), 1e3 * min(times)
                rows.append([n_workers, f"{size:,}", f"{median:.0f}", f"{minimum:.0f}"])
    print(table(["workers", "weights", "ms, median", "ms, minimum"], rows))


def two_data_sets(data: str | None, quick: bool) -> Iterator[tuple[str, object]]:
    """Yield chains of the OCR letters of folds 1-9, eight times, and of the chunks of CoNLL-2000, four times."""
    from maxendnet.data.labels import distinct_labels
    from maxendnet.datasets import fetch_ocr_letters
    from maxendnet.structures import Chain
    from maxendnet.text import TokenFeatures, read_columns

    letters = fetch_ocr_letters(data) if data else fetch_ocr_letters()
    chosen = np.flatnonzero(np.asarray(letters.folds) != 0)
    times = 1 if quick else 8
    examples = Examples.build([letters.X[i] for i in chosen] * times, [letters.y[i] for i in chosen] * times)
    yield f"OCR folds 1-9, {times} times", Chain().bind(examples, distinct_labels(examples.y))
    words, labels = read_columns(Path(data or ".") / "conll2000" / "train.tsv.gz").split()
    examples, times = TokenFeatures("chunks").fit_transform(words, labels), 1 if quick else 4
    examples = examples[np.tile(np.arange(len(examples)), times)]
    yield f"CoNLL-2000, {times} times", Chain(pairs="seen").bind(examples, distinct_labels(examples.y))


def plain(packed: list[bytes], packed_arguments: bytes, pipe) -> None:  # type: ignore[no-untyped-def]
    """Run the oracle on shards in a plain process, and send the time that it took."""
    import pickle

    shards, arguments = [pickle.loads(shard) for shard in packed], pickle.loads(packed_arguments)
    while True:
        n_rounds = pipe.recv()
        if not n_rounds:
            return
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(n_rounds):
            for shard in shards:
                loss_oracle(shard, *arguments)
        pipe.send((time.perf_counter() - began, time.process_time() - cpu))


def memory_of_worker() -> tuple[float, float]:
    status = Path("/proc/self/status").read_text()
    return tuple(int(status.split(name)[1].split()[0]) / 1000 for name in ("VmRSS:", "RssAnon:"))  # type: ignore[return-value]


def workers(data: str | None, quick: bool, repeats: int = 7, n_rounds: int = 2) -> None:
    """Compare two workers with two plain processes that run the kernels, in turns."""
    import multiprocessing
    import pickle

    from distributed import Client, LocalCluster

    from maxendnet.backends import Dask, Threads
    from maxendnet.backends.dask import pack
    from maxendnet.losses import Log

    rows = []
    spawn = multiprocessing.get_context("spawn")
    options = dict(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    for name, structure in two_data_sets(data, quick):
        w = 0.01 * np.random.default_rng(0).normal(size=structure.layout.n_weights)  # type: ignore[attr-defined]
        n_labels = structure.n_labels  # type: ignore[attr-defined]
        arguments = (w, Log(), 1.0, np.zeros((n_labels, n_labels)))
        shards = [pack(shard) for shard in Threads().place(structure)]
        pipes = []
        for half in (shards[: len(shards) // 2], shards[len(shards) // 2 :]):
            ours, theirs = spawn.Pipe()
            spawn.Process(target=plain, args=(half, pickle.dumps(arguments), theirs), daemon=True).start()
            pipes.append(ours)
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            backend = Dask(client)
            placed = backend.place(structure)
            ratios, seconds, controls, cpu_ratios = [], [], [], []
            for turn in range(repeats + 1):
                for pipe in pipes:
                    pipe.send(n_rounds)
                times = [pipe.recv() for pipe in pipes]
                control, control_cpu = max(wall for wall, _ in times), sum(cpu for _, cpu in times)
                before = sum(client.run(time.process_time).values()) + time.process_time()
                began = time.perf_counter()
                for _ in range(n_rounds):
                    backend.sum(loss_oracle, placed, *arguments)
                elapsed = time.perf_counter() - began
                cpu = sum(client.run(time.process_time).values()) + time.process_time() - before
                common.say(
                    f"{name}: plain {control:.2f} s (CPU {control_cpu:.2f}), Dask {elapsed:.2f} s (CPU {cpu:.2f})"
                )
                if turn:  # the first one fills caches
                    ratios.append(control / elapsed)
                    cpu_ratios.append(control_cpu / cpu)
                    seconds.append(elapsed / n_rounds)
                    controls.append(control / n_rounds)
            used = list(client.run(memory_of_worker).values())
        for pipe in pipes:
            pipe.send(0)
        rows.append(
            [name, f"{int(structure.offsets[-1]):,}", f"{len(w):,}", len(shards), f"{np.median(controls):.2f}",  # type: ignore[attr-defined]
             f"{np.median(seconds):.2f}", f"{np.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}",
             f"{np.median(cpu_ratios):.2f}", ", ".join(f"{rss:.0f}" for rss, _ in used)]
        )  # fmt: skip
    head = ["data", "nodes", "weights", "shards", "s per sum, two processes", "s per sum, two workers", "ratio, median",
            "ratio, range", "ratio of CPU seconds, median", "MB of each worker"]  # fmt: skip
    print(table(head, rows))


def echo(shard: object, w: np.ndarray) -> Partial:
    return Partial(0.0, w.copy())


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        folder, how, limit, passes = sys.argv[2:]
        return fit(folder, how, float(limit), int(passes))
    options = common.parser(__doc__)
    options.add_argument("--part", choices=["mapped", "parts", "checkpoint", "rounds", "workers"], default="mapped")
    options.add_argument("--nodes", type=int, default=4_000_000)
    options.add_argument("--small", type=int, default=1_000_000, help="number of nodes that fit in memory")
    options.add_argument("--limit", type=float, default=700.0, help="limit of anonymous memory in MB")
    options.add_argument("--passes", type=int, default=5)
    options.add_argument("--folder", help="folder for examples (default: the temporary folder of the system)")
    given = options.parse_args()
    if given.part == "mapped":
        nodes, small = (100_000, 40_000) if given.quick else (given.nodes, given.small)
        mapped(nodes, given.limit, given.passes, given.folder, small)
    elif given.part in ("parts", "workers"):
        (parts if given.part == "parts" else workers)(given.data, given.quick)
    else:
        {"checkpoint": checkpoint, "rounds": rounds}[given.part]()


if __name__ == "__main__":
    main()

"""Chunks of CoNLL-2000, compared with CRFsuite: CPU time to its objective, and to a proven gap.

The features are those of the CRF++ template, with weights for seen pairs of a feature and a label (``pairs="seen"``),
as in CRFsuite. CRFsuite runs to its own stopping rule: L-BFGS with c2 = 1, OWL-QN with c1 = 1, and both with
c1 = c2 = 0.1, its usual setting. maxendnet runs with the default solver. The table shows the CPU seconds of the whole
fit until the objective is at most that of CRFsuite, and until the gap is 1e-3, and the F1 on the test part. (maxendnet
has weights for all pairs of neighbouring labels, CRFsuite for those that occur.)

    python benchmarks/conll.py --data conll2000
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import common
from text import read_lines, strings

from maxendnet import L1CRF, L2CRF, Chain, ElasticNet, Log, MaxEnDNet
from maxendnet.text import TokenFeatures, read_columns, span_scores

SEEN = Chain(pairs="seen")
ROWS: dict[str, tuple[dict[str, float], Any]] = {
    "L2": ({"c1": 0.0, "c2": 1.0}, L2CRF(lam=2.0, structure=SEEN, random_state=0)),
    "L1": ({"c1": 1.0, "c2": 0.0}, L1CRF(lam=1.0, structure=SEEN, random_state=0)),
    "both": ({"c1": 0.1, "c2": 0.1},
             MaxEnDNet(ElasticNet(l1=0.1, l2=0.2), Log(), structure=SEEN, random_state=0)),
}  # fmt: skip


def crfsuite(folder: Path, settings: dict[str, float], n: int | None, iterations: int) -> dict[str, float]:
    """Train CRFsuite to its own stopping rule, and score it."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer("lbfgs", {**settings, "max_iterations": iterations}, verbose=False)
    for rows, labels in list(zip(*read_lines(str(folder / "train.tsv.gz"))))[:n]:
        trainer.append(strings(rows), labels)
    with tempfile.TemporaryDirectory() as out:
        file = str(Path(out) / "model")
        seconds = common.cpu(lambda: trainer.train(file))[0]
        tagger = pycrfsuite.Tagger()
        tagger.open(file)
        sentences, truth = read_lines(str(folder / "test.tsv.gz"))
        f1 = span_scores(truth, [tagger.tag(strings(rows)) for rows in sentences]).f1
        info = tagger.info()
        weights = [*info.state_features.values(), *info.transitions.values()]
    log = trainer.logparser.last_iteration
    return {"seconds": seconds, "loss": log["loss"], "passes": log["num"], "f1": f1, "weights": len(weights)}


class Until:
    """Callback that stops a fit once the objective is at most the target."""

    def __init__(self, target: float) -> None:
        self.target = target

    def __call__(self, progress: Any) -> bool:
        return progress.row.primal <= self.target


def fit_seconds(model: Any, examples: Any) -> float:
    return common.cpu(lambda: model.fit(examples))[0]


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with train.tsv.gz and test.tsv.gz")
    arguments.add_argument(
        "--rows", default=",".join(ROWS), help="rows of the table, separated by commas (default: %(default)s)"
    )
    args = arguments.parse_args()
    folder, n = Path(args.data), 500 if args.quick else None
    features = TokenFeatures("chunks")
    X, y = read_columns(folder / "train.tsv.gz").split()
    examples = features.fit_transform(X if n is None else X[:n], y[:n])
    test, truth = read_columns(folder / "test.tsv.gz").split()
    prepared = features.transform(test)
    rows = []
    for name in args.rows.split(","):
        settings, model = ROWS[name]
        peer = crfsuite(folder, settings, n, 2000)
        common.say(f"{name}: CRFsuite {peer}")
        until = Until(peer["loss"])
        to_objective = fit_seconds(model.set_params(callback=until, tol=1e-3), examples)
        solver, objective, n_nonzero = model.solver_, model.objective_, model.trace_[-1].n_nonzero
        f1 = span_scores(truth, model.predict(prepared)).f1
        common.say(f"{name}: {to_objective:.1f} CPU s to {objective:.1f}, F1 {100 * f1:.2f}; {solver}")
        to_gap = fit_seconds(model.set_params(callback=None, tol=1e-3), examples)
        common.say(f"{name}: {to_gap:.1f} CPU s to gap {model.gap_:.1e}")
        rows.append(
            (
                f"c1={settings['c1']:g}, c2={settings['c2']:g}", f"{peer['seconds']:.1f}", f"{peer['loss']:.1f}",
                f"{100 * peer['f1']:.2f}", f"{to_objective:.1f}", f"{objective:.1f}", f"{100 * f1:.2f}",
                f"{n_nonzero:,}", f"**{peer['seconds'] / to_objective:.1f}**", f"{to_gap:.1f}",
            )
        )  # fmt: skip
    print(
        f"{len(examples):,} sentences, {examples.n_nodes:,} tokens, {examples.n_features:,} features, "
        f"{model.model_.layout.n_weights:,} weights. CPU seconds of one thread.\n"
    )
    head = ("", "CRFsuite, CPU s", "its objective", "F1", "maxendnet to this objective, CPU s", "objective", "F1",
            "non-zero weights", "speed-up", "maxendnet to gap 1e-3, CPU s")  # fmt: skip
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()

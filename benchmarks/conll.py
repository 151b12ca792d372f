"""Chunks of CoNLL-2000 beside CRFsuite: CPU until its objective, and until a proven gap.

The features are those of the template that CRF++ has for these data; weights are those of pairs of a feature and a
label that occur (``pairs="seen"``), as CRFsuite has them. It runs to its own stop: L-BFGS with c2 = 1, OWL-QN with
c1 = 1, and both with c1 = c2 = 0.1, its usual setting. Ours run with the default solver; the table shows the CPU
seconds of the whole fit until a look finds an objective that is not above CRFsuite's, and until the gap that is the
default of the estimators. (Ours has weights for all pairs of neighbouring labels, CRFsuite for those that occur.) F1 is
that of the test part.

    python benchmarks/conll.py --data conll2000

With ``--jobs 2`` the L2-CRF is fitted once more with two examples at once on two threads, and its wall time is shown.
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
    """One fit of CRFsuite to its own stop."""
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
    """Stop a fit at the first look with an objective that is low enough, and keep the time of it."""

    def __init__(self, target: float) -> None:
        self.target, self.passes = target, 0

    def __call__(self, progress: Any) -> bool:
        self.passes = progress.row.n_pass
        return progress.row.primal <= self.target


def fit_seconds(model: Any, examples: Any) -> float:
    return common.cpu(lambda: model.fit(examples))[0]


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="with train.tsv.gz and test.tsv.gz")
    arguments.add_argument("--rows", default=",".join(ROWS), help="which, separated by commas (default: %(default)s)")
    given = arguments.parse_args()
    folder, n = Path(given.data), 500 if given.quick else None
    features = TokenFeatures("chunks")
    X, y = read_columns(folder / "train.tsv.gz").split()
    examples = features.fit_transform(X if n is None else X[:n], y[:n])
    test, truth = read_columns(folder / "test.tsv.gz").split()
    prepared = features.transform(test)
    rows = []
    for name in given.rows.split(","):
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
    head = ("", "CRFsuite, CPU s", "its objective", "F1", "ours to that, CPU s", "objective", "F1", "weights not 0",
            "times less", "ours to gap 1e-3, CPU s")  # fmt: skip
    print(common.table(head, rows))
    print(common.machine())


if __name__ == "__main__":
    main()

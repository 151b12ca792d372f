"""How fast are margin models and sparse ones: CPU to a proven gap, beside CRFsuite's averaged perceptron and OWL-QN.

All train on folds 1-9 of the OCR letters, pixels, a bias and transitions, CPU seconds of one thread, with the solver
that is the default. The averaged perceptron (`max_iterations=20`, `epsilon=0`) makes 20 passes and proves nothing; it
is run before every model, and a model's share is that of the perceptron beside it. The data is ready on both sides.

    python benchmarks/ocr_margin.py
"""

from __future__ import annotations

import warnings
from typing import Any

import common
import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1CRF, L1M3N, M3N, Chain, LapMEDN
from maxendnet.data.examples import Examples

# name, model, tol, and target: share of the time of 20 perceptron passes
MODELS: tuple[tuple[str, Any, float, float], ...] = (
    ("M3N, C=2", M3N(2.0), 1e-2, 1.0),
    ("M3N, C=1", M3N(1.0), 1e-3, 3.0),
    ("LapMEDN, C=5, lam=25", LapMEDN(5.0, 25.0), 1e-2, 2.5),
    ("LapMEDN, C=5, lam=100", LapMEDN(5.0, 100.0), 1e-1, 2.0),
    ("L1M3N, C=0.5", L1M3N(0.5), 1e-2, 5.0),
)
L1_TIMES = 15.0
"""Target ratio: time of CRFsuite's OWL-QN to its stop, over the time of an L1-CRF to a gap of 1e-3."""


def with_bias(examples: Examples) -> Examples:
    """The same with a feature that is always 1, for CRFsuite."""
    X = sparse.hstack([examples.X, np.ones((examples.n_nodes, 1))], format="csr")
    lengths = np.cumsum(np.diff(examples.offsets))[:-1]
    return Examples.build(np.split(X.toarray(), lengths), np.split(examples.y, lengths))


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--repeat", type=int, default=1, help="times that all train in turn (default: %(default)s)")
    arguments.add_argument("--no-l1-crf", action="store_true", help="leave out the L1-CRF, which takes two minutes")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the gap reached is in the table

    raw, examples = common.letters(given.data)
    train, test = common.subset(examples[raw.folds != 0], 200 if given.quick else None), examples[raw.folds == 0]
    biased = with_bias(train)
    perceptron = common.CRFsuite(biased, "ap", max_iterations=20, epsilon=0.0)
    rows: dict[str, list[tuple[float, float]]] = {}
    reached: dict[str, tuple[int, float, float, str]] = {}
    for _ in range(given.repeat):
        for name, model, tol, _ in MODELS:
            beside = perceptron.train()
            fitted = model.set_params(tol=tol, structure=Chain(bias=True), random_state=0)
            used, _ = common.cpu(lambda: fitted.fit(train))  # noqa: B023 called here
            rows.setdefault(name, []).append((used, beside))
            error = 100 * (1 - fitted.score(test))
            reached[name] = (fitted.n_passes_, fitted.gap_, error, fitted.solver_.split(":")[0])
            common.say(f"{name}: {used:.2f} CPU s, perceptron {beside:.2f}, gap {fitted.gap_:.1e}, {error:.2f} %")

    if given.quick:
        print("(--quick: 200 words; not a measurement)\n")
    print(f"{len(train):,} words, {len(train.y):,} letters. CPU seconds of one thread, median of {given.repeat}:\n")
    lines = []
    for name, _, tol, target in MODELS:
        used, beside = np.median(rows[name], axis=0)
        share = float(np.median([a / b for a, b in rows[name]]))
        n_passes, gap, error, solver = reached[name]
        proven = "" if gap <= tol else " (gap NOT reached)"
        lines.append(
            (
                name, f"{tol:g}", solver, f"{used:.2f}", f"{beside:.2f}", str(n_passes), f"{gap:.1e}", f"{error:.2f}",
                f"**{share:.2f}**", common.verdict(share, target) + proven,
            )
        )  # fmt: skip
    head = ("", "tol", "solver", "CPU s", "perceptron, CPU s", "passes", "gap", "error on fold 0, %", "share", "target")
    print(common.table(head, lines))
    if given.no_l1_crf:
        return
    peer = common.CRFsuite(biased, "lbfgs", c1=1.0, c2=0.0, max_iterations=2000)
    beside = peer.train()
    model = L1CRF(1.0, tol=1e-3, structure=Chain(bias=True), random_state=0)
    used, _ = common.cpu(lambda: model.fit(train))
    print(
        f"L1-CRF, lam=1: CRFsuite's OWL-QN {beside:.1f} CPU s to {peer.loss:.1f}; ours {used:.1f} to a gap of "
        f"{model.gap_:.1e} ({model.objective_:.1f}, {model.solver_.split(':')[0]}), **{beside / used:.1f}** times less "
        f"({common.verdict(beside / used, L1_TIMES, least=True)}).\n"
    )


if __name__ == "__main__":
    main()

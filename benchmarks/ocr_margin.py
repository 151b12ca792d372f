"""How fast are margin models: M3N and LapMEDN to a proven gap, beside CRFsuite's averaged perceptron.

All train on folds 1-9 of the OCR letters, pixels and transitions, CPU seconds of one thread. M3N and LapMEDN stand at
their cross-validated constants (see ocr_accuracy.py) and stop at relative duality gaps of 1e-2 and 1e-3; the averaged
perceptron (`max_iterations`, `epsilon=0`) makes 20 and 100 passes and proves nothing. The data is ready on both sides.

    python benchmarks/ocr_margin.py
"""

from __future__ import annotations

import warnings
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import M3N, LapMEDN
from maxendnet.losses import Hinge
from maxendnet.priors import Gaussian

# cross-validated on folds 1-9 by ocr_accuracy.py, pixels and transitions
M3N_C = 2.0
LAPMEDN_C, LAPMEDN_LAM = 5.0, 25.0


def main() -> None:
    arguments = common.parser(__doc__)
    arguments.add_argument("--repeat", type=int, default=3, help="times that all train in turn (default: %(default)s)")
    arguments.add_argument("--m3n-c", type=float, default=M3N_C, help="C of M3N (default: %(default)s)")
    arguments.add_argument("--lapmedn-c", type=float, default=LAPMEDN_C, help="C of LapMEDN (default: %(default)s)")
    arguments.add_argument("--lapmedn-lam", type=float, default=LAPMEDN_LAM, help="its lam (default: %(default)s)")
    given = arguments.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the gap reached is in the table

    raw, examples = common.letters(given.data)
    n_words = 200 if given.quick else None
    train, test = common.subset(examples[raw.folds != 0], n_words), examples[raw.folds == 0]
    peers = {passes: common.CRFsuite(train, "ap", max_iterations=passes, epsilon=0.0) for passes in (20, 100)}
    models: dict[str, Any] = {
        f"M3N, C={given.m3n_c:g}": M3N(given.m3n_c, random_state=0),
        f"LapMEDN, C={given.lapmedn_c:g}, lam={given.lapmedn_lam:g}": LapMEDN(
            given.lapmedn_c, given.lapmedn_lam, random_state=0
        ),
    }
    check = common.problem_of(test, Hinge(), Gaussian())
    classes = np.unique(test.y)
    if not np.array_equal(classes, np.unique(train.y)):
        raise SystemExit("The training words lack a letter of the test words; take more of them.")
    errors: dict[int, float] = {}
    seconds: dict[Any, list[float]] = {}
    reached: dict[Any, tuple[int, float, float]] = {}
    for turn in range(given.repeat):
        for passes, peer in peers.items():
            seconds.setdefault(passes, []).append(peer.train())
            if peer.n_passes != passes:
                raise SystemExit(f"CRFsuite made {peer.n_passes} passes where {passes} were asked for.")
            w = peer.weights(check.structure.layout, classes)
            wrong = check.structure.decode(w) != check.structure.y
            errors[passes] = 100 * float(wrong.mean())
            common.say(f"averaged perceptron, {passes} passes: {seconds[passes][-1]:.2f} CPU s")
        for name, model in models.items():
            for tol in (1e-2, 1e-3):
                used, _ = common.cpu(lambda: model.set_params(tol=tol).fit(train))  # noqa: B023 called here
                seconds.setdefault((name, tol), []).append(used)
                common.say(f"{name}, tol {tol:g}: {used:.2f} CPU s, {model.n_passes_} passes, gap {model.gap_:.1e}")
                if not turn:
                    reached[name, tol] = (model.n_passes_, model.gap_, 100 * (1 - model.score(test)))

    perceptron = {passes: float(np.median(seconds[passes])) for passes in peers}
    rows: list[tuple[str, ...]] = [
        (
            f"CRFsuite, averaged perceptron, {passes} passes",
            "-",
            f"{used:.2f}",
            str(passes),
            "none",
            f"{errors[passes]:.2f}",
            "-",
        )
        for passes, used in perceptron.items()
    ]
    for (name, tol), (n_passes, gap, error) in reached.items():
        used = float(np.median(seconds[name, tol]))
        rows.append(
            (
                name, f"{tol:g}", f"{used:.2f}", str(n_passes), f"{gap:.1e}", f"{error:.2f}",
                f"{used / perceptron[20]:.2f} / {used / perceptron[100]:.2f}",
            )
        )  # fmt: skip

    if given.quick:
        print("(--quick: 200 words; not a measurement)\n")
    times = f"median of {given.repeat}" if given.repeat > 1 else "one run"
    print(f"{len(train):,} words, {len(train.y):,} letters. CPU seconds of one thread, {times}, in turn:\n")
    head = ("", "tol", "CPU s", "passes", "gap", "error on fold 0, %", "share of the perceptron's 20 / 100 passes")
    print(common.table(head, rows))
    m3n, lapmedn = models
    asked = []
    for name, tol, passes, limit in ((m3n, 1e-2, 20, 1.0), (m3n, 1e-3, 100, 1.0), (lapmedn, 1e-2, 20, 3.0)):
        share = float(np.median(seconds[name, tol])) / perceptron[passes]
        proven = "" if reached[name, tol][1] <= tol else " (gap NOT reached)"
        what = f"{name}, to {tol:g}, over {passes} passes of the perceptron"
        asked.append((what, f"**{share:.2f}**", common.verdict(share, limit) + proven))
    print(common.table(("CPU of", "share", "asked"), asked))


if __name__ == "__main__":
    main()

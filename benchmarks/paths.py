"""What warm starts save along a path of constants: passes and CPU seconds, against fits that each start from nothing.

On words of fold 0 of the OCR letters, to a relative gap of 1e-2, from more regularisation to less.

    python benchmarks/paths.py --data PATH
"""

from __future__ import annotations

from typing import Any

import common
import numpy as np
from sklearn.base import clone

from maxendnet import L1CRF, L1M3N, L2CRF, M3N, LapMEDN, path

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "M3N, C from 0.05, doubled": (M3N(), {"C": 0.05 * 2.0 ** np.arange(4)}),
    "M3N, C from 0.05, times 1.2": (M3N(), {"C": 0.05 * 1.2 ** np.arange(11)}),
    "LapMEDN, C = 1, lam halved from 200": (LapMEDN(C=1.0), {"lam": 200 / 2.0 ** np.arange(5)}),
    "LapMEDN, lam = 50, C doubled from 0.5": (LapMEDN(lam=50.0), {"C": 0.5 * 2.0 ** np.arange(4)}),
    "L1M3N, C from 0.1, times 1.2": (L1M3N(), {"C": 0.1 * 1.2 ** np.arange(6)}),
    "L1CRF, lam halved from 8": (L1CRF(), {"lam": 8 / 2.0 ** np.arange(5)}),
    "L2CRF, lam halved from 8": (L2CRF(), {"lam": 8 / 2.0 ** np.arange(6)}),
}


def compare(model: Any, grid: dict[str, Any], words: Any) -> tuple[Any, ...]:
    """Passes and CPU seconds without and with warm starts."""
    ((constant, values),) = grid.items()
    cold_seconds, cold = common.cpu(
        lambda: [clone(model).set_params(**{constant: value}).fit(words) for value in values]
    )
    warm_seconds, warm = common.cpu(lambda: path(model, words, grid=grid))
    passes = sum(fit.n_passes_ for fit in cold), sum(point.n_passes for point in warm)
    return *passes, f"{cold_seconds:.1f}", f"{warm_seconds:.1f}", f"{1 - warm_seconds / cold_seconds:.0%}"


def main() -> None:
    options = common.parser(__doc__).parse_args()
    raw, examples = common.letters(options.data)
    words = common.subset(examples[np.flatnonzero(np.asarray(raw.folds) == 0)], 40 if options.quick else 300)
    rows = []
    for name, (model, grid) in CASES.items():
        rows.append((name, *compare(model.set_params(tol=1e-2, random_state=0), grid, words)))
        common.say(str(rows[-1]))
    print(f"{len(words)} words.\n")
    print(common.table(("path", "passes, cold", "passes, warm", "CPU s, cold", "CPU s, warm", "saved"), rows))


if __name__ == "__main__":
    main()

"""Bounds on the error on new examples: whether they hold, and how tight they are on the OCR letters.

Part 1 draws samples from a finite population of chains, for which the risk of every predictor is known, and counts the
samples in which a bound is below the risk. Part 2 fits M3N to folds 1-9 of the letters (6,251 words) and prints its
bounds, and the held-out bound from the 626 words of fold 0.

    python benchmarks/bounds.py --data PATH
"""

from __future__ import annotations

import time

import common
import numpy as np
from scipy.stats import binom

from maxendnet import M3N, Examples, LapMEDN
from maxendnet.certificates import held_out_bound, pac_bayes
from maxendnet.certificates.generalisation import LOSSES, _Losses


def population(n: int = 500, seed: int = 1) -> Examples:
    """Return chains of three nodes with noisy labels."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    return Examples.build(X, [(x[:, 0] + 0.8 * rng.normal(size=3) > 0).astype(int) for x in X])


def simulate(model: M3N | LapMEDN, n_trials: int, n_examples: int = 100, delta: float = 0.1) -> str:
    """Return a table with the failures of every bound in independent samples."""
    all_chains = population()
    failed: dict[tuple[str, str], int] = {}
    bounds: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for trial in range(n_trials):
        rng = np.random.default_rng(trial)
        sample = all_chains[rng.integers(len(all_chains), size=n_examples)]
        model.fit(sample)
        for row in pac_bayes(model, sample, delta=delta, n_draws=100, random_state=rng):
            k = LOSSES.index(row.loss)
            if row.name.startswith("PAC-Bayes"):
                risk = _Losses(model, all_chains).gibbs(row.predictor, 100, rng)[:, k].mean()
            else:
                risk = _Losses(row.predictor, all_chains)(row.predictor.model_.weights)[k].mean()
            key = row.name, row.loss
            failed[key] = failed.get(key, 0) + int(risk > row.bound)
            bounds.setdefault(key, []).append((row.bound, float(risk)))
        common.say(f"sample {trial + 1} of {n_trials}")
    most = int(binom.ppf(0.999, n_trials, delta))
    lines = []
    for key in failed:
        bound, risk = np.mean(bounds[key], axis=0)
        lines.append(
            (*key, f"{bound:.3f}", f"{risk:.3f}", f"{failed[key]} of {n_trials}", common.verdict(failed[key], most))
        )
    return common.table(("bound", "loss", "mean bound", "mean risk", "failures", "allowed"), lines)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--only", choices=["simulation", "letters"], help="run only one of the two parts")
    parser.add_argument("--draws", type=int, default=1000, help="weight vectors drawn for each row of the letters")
    options = parser.parse_args()
    if options.only != "letters":
        n_trials = 20 if options.quick else 200
        print(f"Simulation: {n_trials} samples of 100 chains, delta = 0.1, M3N(C=0.3).\n")
        print(simulate(M3N(C=0.3, tol=0.01, random_state=0), n_trials), flush=True)
    if options.only == "simulation":
        return
    raw, examples = common.letters(options.data)
    fold = np.asarray(raw.folds)
    train, test = examples[np.flatnonzero(fold != 0)], examples[np.flatnonzero(fold == 0)]
    if options.quick:
        train = common.subset(train, 500)
    for model in (M3N(C=0.1), M3N(C=1.0), LapMEDN(C=1.0, lam=10.0)):
        began = time.perf_counter()
        model.set_params(tol=0.01, random_state=0).fit(train)
        report = pac_bayes(model, train, n_draws=20 if options.quick else options.draws, random_state=0)
        setting = ", ".join(f"{k}={v}" for k, v in model.get_params().items() if k in ("C", "lam"))
        print(
            f"Letters, {type(model).__name__}({setting}), {len(train):,} words, {time.perf_counter() - began:.0f} s:\n"
        )
        print(f"```\n{report}\n\nFold 0, {len(test)} words:\n{held_out_bound(model, test)}\n```\n", flush=True)


if __name__ == "__main__":
    main()

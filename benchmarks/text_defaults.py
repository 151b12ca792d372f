"""Default constants of the tagger: F1 on folds of training parts, then one evaluation on test parts.

The data sets are names in tweets (WNUT-17), Portuguese names (UNER), US addresses, Chinese word segmentation and chunks
(CoNLL-2000), each with a built-in template. Candidates are fitted to folds of the training part, and scored by the F1
of spans on the held-out fold. With --dev they are fitted to the whole training part and scored on the dev part, if
there is one. With --test, the default `Tagger` and CRFsuite with c1 = c2 = 0.1, on the same features, are fitted to the
whole training part and scored on the test part, with a bootstrap interval over sentences.

    python benchmarks/text_defaults.py --data DATA
    python benchmarks/text_defaults.py --data DATA --test
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from maxendnet import L2CRF, M3N, Chain, ElasticNet, Log, MaxEnDNet
from maxendnet.text import Tagger, TokenFeatures, read_columns, span_scores
from maxendnet.text.reading.tag_schemes import detect_scheme

SETS = {"wnut17": "words", "uner_pt": "words", "usaddress": "words", "zh_seg": "characters", "conll2000": "chunks"}
SEEN, ALL = Chain(pairs="seen"), Chain()


def l2(lam: float, structure: Any, margin: float = 0.0) -> Any:
    return L2CRF(lam=lam, margin=margin, structure=structure, tol=1e-2, max_passes=200, random_state=0)


def net(l1: float, l2: float) -> Any:
    return MaxEnDNet(ElasticNet(l1, l2), Log(), structure=SEEN, tol=1e-2, random_state=0)


CANDIDATES = {
    "L2 0.1, seen": l2(0.1, SEEN), "L2 0.2, seen": l2(0.2, SEEN), "L2 0.3, seen": l2(0.3, SEEN),
    "L2 1, seen": l2(1.0, SEEN),
    "L2 0.1, all": l2(0.1, ALL), "L2 0.3, all": l2(0.3, ALL), "L2 1, all": l2(1.0, ALL),
    "net 0.1 0.2": net(0.1, 0.2), "net 0.05 0.1": net(0.05, 0.1),
    "L2 0.1, margin 1": l2(0.1, SEEN, 1.0), "L2 0.1, margin 3": l2(0.1, SEEN, 3.0),
    "L2 0.1, margin 5": l2(0.1, SEEN, 5.0),
    "L2 0.1, all, margin 3": l2(0.1, ALL, 3.0),
    "Tagger, seen, outside 0": Tagger(pairs="seen", outside=0.0), "Tagger, outside 0": Tagger(outside=0.0),
    "Tagger, seen": Tagger(pairs="seen"), "Tagger": Tagger(),
    "M3N 0.2": M3N(C=0.2, structure=SEEN, tol=5e-2, max_passes=200, random_state=0),
}  # fmt: skip


def read(folder: Path, part: str, n_sentences: int | None) -> tuple[Any, list[list[str]]]:
    """Read a part of a data set; with ``n_sentences``, a random sample of it."""
    X, y = read_columns(folder / f"{part}.tsv.gz").split()
    if n_sentences is None or n_sentences >= len(X):
        return X, y
    sample = np.sort(np.random.default_rng(0).permutation(len(X))[:n_sentences])
    return X[sample], [y[i] for i in sample]


Split = tuple[Any, list[list[str]], Any, list[list[str]]]
"""Training sentences with labels, and held-out sentences with labels."""


def splits_of(folder: Path, n_sentences: int | None, n_folds: int, dev: bool) -> list[Split]:
    """Return folds of the training part, or the training and dev parts."""
    X, y = read(folder, "train", n_sentences)
    if dev:
        return [(X, y, *read(folder, "dev", None))] if (folder / "dev.tsv.gz").exists() else []
    splits = list(KFold(3, shuffle=True, random_state=0).split(np.arange(len(X))))[:n_folds]
    return [(X[train], [y[i] for i in train], X[held], [y[i] for i in held]) for train, held in splits]


def compare(name: str, splits: list[Split], candidates: list[str]) -> dict[str, tuple[float, float]]:
    """Return the mean F1 and the mean CPU seconds of a fit, for each candidate."""
    results: dict[str, list[tuple[float, float]]] = {}
    for X, y, new, truth in splits:
        scheme, features = detect_scheme(y), TokenFeatures(SETS[name])
        examples = features.fit_transform(X, y)
        prepared = features.transform(new)
        for label in candidates:
            fitted = clone(CANDIDATES[label])
            if isinstance(fitted, Tagger):
                fitted.set_params(features=SETS[name])
                seconds, _ = common.cpu(lambda: fitted.fit(X, y))  # noqa: B023
                labels, details = fitted.predict(new), f"outside {fitted.outside_:.2f} T {fitted.temperature_:.2f}"
            else:
                seconds, _ = common.cpu(lambda: fitted.fit(examples))  # noqa: B023
                labels, details = fitted.predict(prepared), f"gap {fitted.gap_:.1e}"
            f1 = span_scores(truth, labels, scheme=scheme).f1
            results.setdefault(label, []).append((f1, seconds))
            common.say(f"{name} {label}: F1 {100 * f1:.2f}, {seconds:.1f} CPU s, {details}")
    return {label: tuple(np.mean(rows, axis=0)) for label, rows in results.items()}  # type: ignore[misc]


def interval(truth: list[Any], labels: list[Any], scheme: str, n: int = 500) -> str:
    """Return the F1 with a 95 % bootstrap interval over sentences."""
    counts = np.array([counts_of(a, b, scheme) for a, b in zip(truth, labels)], dtype=float)
    f1 = lambda rows: 200 * rows[:, 0].sum() / max(rows[:, 1].sum() + rows[:, 2].sum(), 1)  # noqa: E731
    rng = np.random.default_rng(0)
    samples = [f1(counts[rng.integers(len(counts), size=len(counts))]) for _ in range(n)]
    low, high = np.percentile(samples, [2.5, 97.5])
    return f"{f1(counts):.2f} ({low:.1f} to {high:.1f})"


def counts_of(truth: list[Any], labels: list[Any], scheme: str) -> tuple[int, int, int]:
    """Return the numbers of correct, true and predicted spans of a sentence."""
    from maxendnet.text import find_spans

    a, b = (set(find_spans(tags, scheme)) for tags in (truth, labels))
    return len(a & b), len(a), len(b)


def crfsuite(
    constants: dict[str, float], features: TokenFeatures, train: tuple[Any, list[list[str]]], new: Any,
    model: str | None = None,
) -> tuple[float, list[list[str]]]:  # fmt: skip
    """Train CRFsuite on the same features; return its CPU seconds and its labels of new examples.

    ``model`` is the file of the model, by default a temporary one.
    """
    import pycrfsuite

    def strings(examples: Any) -> list[list[list[str]]]:
        names = features.feature_names_
        nodes = [[names[j] for j in examples.X.indices[a:b]] for a, b in pairwise(examples.X.indptr)]
        return [nodes[a:b] for a, b in pairwise(examples.offsets)]

    trainer = pycrfsuite.Trainer("lbfgs", constants, verbose=False)
    for x, labels in zip(strings(train[0]), train[1]):
        trainer.append(x, labels)
    with tempfile.TemporaryDirectory() as out:
        file = model or str(Path(out) / "model")
        seconds = common.cpu(lambda: trainer.train(file))[0]
        peer = pycrfsuite.Tagger()
        peer.open(file)
        return seconds, [peer.tag(x) for x in strings(new)]


def test(name: str, folder: Path, n_sentences: int | None, alone: bool) -> tuple[str, ...]:
    """Score `Tagger()`, and CRFsuite with c1 = c2 = 0.1 on the same features, on the test part."""
    X, y = read(folder, "train", n_sentences)
    new, truth = read(folder, "test", None)
    scheme = detect_scheme(y)
    tagger = Tagger(SETS[name])
    seconds = common.cpu(lambda: tagger.fit(X, y))[0]
    f1 = interval(truth, tagger.predict(new), scheme)
    details = f"temperature {tagger.temperature_:.3f}, outside {tagger.outside_:.3f}"
    common.say(f"{name}: {f1}, {seconds:.1f} CPU s, {details}")
    if alone:
        return name, f1, f"{seconds:.1f}", "", ""
    features = TokenFeatures(SETS[name])
    reading, examples = common.cpu(lambda: features.fit_transform(X, y))
    peer_seconds, labels = crfsuite({"c1": 0.1, "c2": 0.1}, features, (examples, y), features.transform(new))
    peer_f1 = interval(truth, labels, scheme)
    row = (name, f1, f"{seconds:.1f}", peer_f1, f"{peer_seconds + reading:.1f}")
    common.say(str(row))
    return row


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="folder with a subfolder for each data set")
    arguments.add_argument(
        "--sets", default=",".join(SETS), help="data sets, separated by commas (default: %(default)s)"
    )
    arguments.add_argument("--test", action="store_true", help="score the test parts")
    arguments.add_argument("--dev", action="store_true", help="score the dev parts instead of folds")
    arguments.add_argument("--most", type=int, help="maximum number of training sentences (default: all)")
    arguments.add_argument("--models", help="candidates for folds, separated by semicolons (default: all)")
    arguments.add_argument("--alone", action="store_true", help="with --test: leave out CRFsuite")
    arguments.add_argument(
        "--folds", type=int, default=3, help="number of the three folds to use (default: %(default)s)"
    )
    args = arguments.parse_args()
    n_sentences = 200 if args.quick else args.most
    folder, names = Path(args.data), args.sets.split(",")
    if args.test:
        rows = [test(name, folder / name, n_sentences, args.alone) for name in names]
        head = ("", "Tagger(), F1 of the test part", "CPU s", "CRFsuite c1=c2=0.1, F1", "CPU s")
        print(common.table(head, rows))
        print("CPU seconds from sentences in memory to a fitted model, one thread.\n")
    else:
        candidates = args.models.split(";") if args.models else list(CANDIDATES)
        splits = {name: splits_of(folder / name, n_sentences, args.folds, args.dev) for name in names}
        results = {name: compare(name, splits[name], candidates) for name in names if splits[name]}
        cells = [
            (label, *(f"{100 * results[name][label][0]:.2f} ({results[name][label][1]:.1f})" for name in results))
            for label in candidates
        ]
        print(common.table(("F1 of held-out sentences (CPU s of a fit)", *results), cells))
    print(common.machine())


if __name__ == "__main__":
    main()

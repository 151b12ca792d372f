"""Which constants do well without tuning: folds of the training parts, then one look at the test parts.

The sets are names in tweets (WNUT-17), Portuguese names (UNER), US addresses, Chinese segmentation and chunks
(CoNLL-2000), each with the ready features for its kind. Every candidate is fitted to folds of the training part alone;
the score is F1 of spans in the held-out fold. With --test the default of `Tagger` and CRFsuite with c1 = c2 = 0.1, on
the same features, are fitted to the whole training part and scored on the test part, with an interval by bootstrap over
sentences.

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
from maxendnet.text.spans import found_scheme

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
    "M3N 0.2": M3N(C=0.2, structure=SEEN, tol=5e-2, max_passes=200, random_state=0),
}  # fmt: skip


def read(folder: Path, part: str, most: int | None) -> tuple[Any, list[list[str]]]:
    X, y = read_columns(folder / f"{part}.tsv.gz").split()
    if most is None or most >= len(X):
        return X, y
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
    return X[some], [y[i] for i in some]


def folds(name: str, folder: Path, most: int | None, n_folds: int, wanted: list[str]) -> dict[str, tuple[float, float]]:
    """Mean F1 over the held-out folds and mean CPU seconds of a fit, for every candidate."""
    X, y = read(folder, "train", most)
    scheme = found_scheme(y)
    found: dict[str, list[tuple[float, float]]] = {}
    for train, held in list(KFold(3, shuffle=True, random_state=0).split(np.arange(len(X))))[:n_folds]:
        features = TokenFeatures(SETS[name])
        examples = features.fit_transform(X[train], [y[i] for i in train])
        new = features.transform(X[held])
        for label, model in CANDIDATES.items():
            if label not in wanted:
                continue
            fitted = clone(model)
            seconds = common.cpu(lambda: fitted.fit(examples))[0]  # noqa: B023
            f1 = span_scores([y[i] for i in held], fitted.predict(new), scheme=scheme).f1
            found.setdefault(label, []).append((f1, seconds))
            common.say(f"{name} {label}: F1 {100 * f1:.2f}, {seconds:.1f} CPU s, gap {fitted.gap_:.1e}")
    return {label: tuple(np.mean(rows, axis=0)) for label, rows in found.items()}  # type: ignore[misc]


def interval(truth: list[Any], labels: list[Any], scheme: str, n: int = 500) -> str:
    """F1 with a 95 % interval by bootstrap over sentences."""
    counts = np.array([counts_of(a, b, scheme) for a, b in zip(truth, labels)], dtype=float)
    f1 = lambda rows: 200 * rows[:, 0].sum() / max(rows[:, 1].sum() + rows[:, 2].sum(), 1)  # noqa: E731
    rng = np.random.default_rng(0)
    drawn = [f1(counts[rng.integers(len(counts), size=len(counts))]) for _ in range(n)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{f1(counts):.2f} ({low:.1f} to {high:.1f})"


def counts_of(truth: list[Any], labels: list[Any], scheme: str) -> tuple[int, int, int]:
    """Of one sentence: spans that are right, that there are, and that were found."""
    from maxendnet.text import find_spans

    a, b = (set(find_spans(tags, scheme)) for tags in (truth, labels))
    return len(a & b), len(a), len(b)


def crfsuite(
    constants: dict[str, float], features: TokenFeatures, train: tuple[Any, list[list[str]]], new: Any
) -> tuple[float, list[list[str]]]:
    """CPU seconds of CRFsuite's training on the same features, and the labels that it finds for new examples."""
    import pycrfsuite

    def strings(examples: Any) -> list[list[list[str]]]:
        names = features.feature_names_
        nodes = [[names[j] for j in examples.X.indices[a:b]] for a, b in pairwise(examples.X.indptr)]
        return [nodes[a:b] for a, b in pairwise(examples.offsets)]

    trainer = pycrfsuite.Trainer("lbfgs", constants, verbose=False)
    for x, labels in zip(strings(train[0]), train[1]):
        trainer.append(x, labels)
    with tempfile.TemporaryDirectory() as out:
        file = str(Path(out) / "model")
        seconds = common.cpu(lambda: trainer.train(file))[0]
        peer = pycrfsuite.Tagger()
        peer.open(file)
        return seconds, [peer.tag(x) for x in strings(new)]


def test(name: str, folder: Path, most: int | None, alone: bool) -> tuple[str, ...]:
    """Ours without any setting, and CRFsuite with c1 = c2 = 0.1 on the same features."""
    X, y = read(folder, "train", most)
    new, truth = read(folder, "test", None)
    scheme = found_scheme(y)
    tagger = Tagger(SETS[name])
    seconds = common.cpu(lambda: tagger.fit(X, y))[0]
    ours = interval(truth, tagger.predict(new), scheme)
    common.say(f"{name}: {ours}, {seconds:.1f} CPU s, temperature {tagger.temperature_:.3f}")
    if alone:
        return name, ours, f"{seconds:.1f}", "", ""
    features = TokenFeatures(SETS[name])
    door, examples = common.cpu(lambda: features.fit_transform(X, y))
    peer_seconds, labels = crfsuite({"c1": 0.1, "c2": 0.1}, features, (examples, y), features.transform(new))
    theirs = interval(truth, labels, scheme)
    row = (name, ours, f"{seconds:.1f}", theirs, f"{peer_seconds + door:.1f}")
    common.say(str(row))
    return row


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--data", required=True, metavar="FOLDER", help="with a folder for every set")
    arguments.add_argument("--sets", default=",".join(SETS), help="which, separated by commas (default: %(default)s)")
    arguments.add_argument("--test", action="store_true", help="the one look at the test parts")
    arguments.add_argument("--most", type=int, help="sentences of the training part at most (default: all)")
    arguments.add_argument("--models", help="candidates for folds, separated by semicolons (default: all)")
    arguments.add_argument("--alone", action="store_true", help="with --test: without CRFsuite")
    arguments.add_argument("--folds", type=int, default=3, help="of three folds, how many (default: %(default)s)")
    given = arguments.parse_args()
    most = 200 if given.quick else given.most
    folder, names = Path(given.data), given.sets.split(",")
    if given.test:
        rows = [test(name, folder / name, most, given.alone) for name in names]
        head = ("", "Tagger(), F1 of the test part", "CPU s", "CRFsuite c1=c2=0.1, F1", "CPU s")
        print(common.table(head, rows))
        print("CPU seconds from sentences in memory to a fitted model, one thread.\n")
    else:
        wanted = given.models.split(";") if given.models else list(CANDIDATES)
        found = {name: folds(name, folder / name, most, given.folds, wanted) for name in names}
        cells = [
            (label, *(f"{100 * found[name][label][0]:.2f} ({found[name][label][1]:.1f})" for name in names))
            for label in wanted
        ]
        print(common.table(("F1 of held-out folds (CPU s of a fit)", *names), cells))
    print(common.machine())


if __name__ == "__main__":
    main()

"""Time to read text and to label it, compared with CRFsuite.

The data are CoNLL-2000 (a word, its part of speech and chunk label a line), with the features of the CRF++ template:
words and parts of speech in a window of five, 19 features per token. For python-crfsuite, a Python function builds the
same feature strings, as in its tutorials.

- column file to `Examples`, and to the trainer of CRFsuite (CPU seconds);
- column file to labels, with models trained for a few passes (CPU seconds);
- single sentences: wall time of ``Tagger.predict``, ``predict`` with feature strings, and ``tag`` of CRFsuite.

    python benchmarks/text.py --train conll2000/train.tsv.gz --test conll2000/test.tsv.gz
"""

from __future__ import annotations

import gzip
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L2CRF, Chain
from maxendnet.text import Tagger, TokenFeatures, read_columns
from maxendnet.text.features.templates import CHUNKS, Template

PATTERNS = Template.parse(CHUNKS).patterns


def read_lines(path: str) -> tuple[list[list[list[str]]], list[list[str]]]:
    """Read sentences and labels in plain Python."""
    opener: Any = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        blocks = [[line.split() for line in block.split("\n")] for block in file.read().strip().split("\n\n")]
    return [[row[:2] for row in rows] for rows in blocks], [[row[2] for row in rows] for rows in blocks]


def strings(rows: list[list[str]]) -> list[list[str]]:
    """Return the feature strings of one sentence."""
    padded = [["_B-2", "_B-2"], ["_B-1", "_B-1"], *rows, ["_B+1", "_B+1"], ["_B+2", "_B+2"]]
    features = []
    for t in range(2, len(rows) + 2):
        (w2, p2), (w1, p1), (w, p), (v1, q1), (v2, q2) = padded[t - 2 : t + 3]
        features.append(
            [
                f"U00:{w2}", f"U01:{w1}", f"U02:{w}", f"U03:{v1}", f"U04:{v2}", f"U05:{w1}/{w}", f"U06:{w}/{v1}",
                f"U10:{p2}", f"U11:{p1}", f"U12:{p}", f"U13:{q1}", f"U14:{q2}", f"U15:{p2}/{p1}", f"U16:{p1}/{p}",
                f"U17:{p}/{q1}", f"U18:{q1}/{q2}", f"U20:{p2}/{p1}/{p}", f"U21:{p1}/{p}/{q1}", f"U22:{p}/{q1}/{q2}",
            ]
        )  # fmt: skip
    return features


def crfsuite_trainer(path: str) -> Any:
    import pycrfsuite

    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 1.0, "max_iterations": 5}, verbose=False)
    for rows, labels in zip(*read_lines(path)):
        trainer.append(strings(rows), labels)
    return trainer


def per_sentence(function: Any, sentences: list[Any]) -> str:
    """Return the median (and 99th percentile) of the wall time per sentence, in ms."""
    for sentence in sentences[:20]:
        function(sentence)
    seconds = []
    for sentence in sentences:
        start = time.perf_counter()
        function(sentence)
        seconds.append(time.perf_counter() - start)
    return f"{1e3 * np.median(seconds):.3f} ({1e3 * np.percentile(seconds, 99):.3f})"


def main() -> None:
    arguments = common.parser(__doc__, letters=False)
    arguments.add_argument("--train", required=True, metavar="FILE", help="training file of CoNLL-2000")
    arguments.add_argument("--test", required=True, metavar="FILE", help="test file of CoNLL-2000")
    arguments.add_argument("--repeat", type=int, default=3, help="repetitions; the minimum is reported")
    args = arguments.parse_args()
    import pycrfsuite

    times: list[float] = []
    peer_times: list[float] = []
    for _ in range(1 if args.quick else args.repeat):
        seconds, examples = common.cpu(lambda: TokenFeatures("chunks").fit_transform(*read_columns(args.train).split()))
        times.append(seconds)
        seconds, trainer = common.cpu(lambda: crfsuite_trainer(args.train))
        peer_times.append(seconds)
        common.say(f"reading: maxendnet {times[-1]:.2f} s, CRFsuite {peer_times[-1]:.2f} s")
    print(
        f"CoNLL-2000: {len(examples):,} sentences, {examples.n_nodes:,} tokens, {examples.n_features:,} features, "
        f"{examples.X.nnz:,} entries.\n"
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # short fits are intended
        model = L2CRF(lam=1.0, structure=Chain(pairs="seen"), max_passes=5)
        tagger = Tagger("chunks", model).fit(*read_columns(args.train).split())
        file = str(Path(folder) / "model.crfsuite")
        trainer.train(file)
        del trainer
        peer = pycrfsuite.Tagger()
        peer.open(file)

        def tag_file() -> Any:
            return tagger.predict(read_columns(args.test).split()[0])

        def peer_tag_file() -> Any:
            return [peer.tag(strings(rows)) for rows in read_lines(args.test)[0]]

        tag_time, peer_tag_time = (min(common.cpu(f)[0] for _ in range(args.repeat)) for f in (tag_file, peer_tag_file))
        prepared = tagger.features_.transform(read_columns(args.test).split()[0])
        decode = common.wall(lambda: tagger.estimator_.predict(prepared))

        sentences = [rows for rows in read_lines(args.test)[0] if len(rows) <= 20][:500]
        n_tokens = sum(map(len, sentences)) / len(sentences)
        as_rows = [[tuple(row) for row in rows] for rows in sentences]
        as_strings = list(map(strings, sentences))
        head = ("", "maxendnet", "CRFsuite", "ratio")
        rows = [
            (
                "column file to examples, CPU s",
                f"{min(times):.2f}",
                f"{min(peer_times):.2f}",
                f"{min(peer_times) / min(times):.1f}",
            ),
            (
                "column file to labels (test part), CPU s",
                f"{tag_time:.3f}",
                f"{peer_tag_time:.3f}",
                f"{peer_tag_time / tag_time:.1f}",
            ),
            ("prepared examples to labels, tokens/s", f"{prepared.n_nodes / decode:,.0f}", "", ""),
            (
                f"one sentence of {n_tokens:.0f} tokens from words, ms (99 %)",
                per_sentence(lambda x: tagger.predict([x]), as_rows),
                per_sentence(lambda x: peer.tag(strings(x)), sentences),
                "",
            ),
            (
                "one sentence from feature strings, ms (99 %)",
                per_sentence(lambda x: tagger.estimator_.predict([x]), as_strings),
                per_sentence(peer.tag, as_strings),
                "",
            ),
        ]
        print(common.table(head, rows))
        print(common.machine())


if __name__ == "__main__":
    main()

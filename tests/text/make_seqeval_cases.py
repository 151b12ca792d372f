"""Write seqeval_cases.json: random taggings, with their scores by seqeval 1.2.2.

seqeval is published as sources only and is not installed for the tests. To write the file again:

    pip install seqeval==1.2.2
    python tests/text/make_seqeval_cases.py
"""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

TAGS = {
    "IOB2": ["O", "B-X", "I-X", "B-Y", "I-Y", "B-Y-Z", "I-Y-Z"],
    "BIOES": ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("X", "Y"))],
    "BILOU": ["O", *(f"{letter}-{kind}" for letter in "BILU" for kind in ("X", "Y"))],
}
AVERAGES = ("micro", "macro", "weighted")


def main() -> None:
    import seqeval.metrics as metrics
    from seqeval import scheme as schemes
    from seqeval.metrics.sequence_labeling import get_entities

    theirs = {"IOB2": schemes.IOB2, "BIOES": schemes.IOBES, "BILOU": schemes.BILOU}
    rng, cases = random.Random(0), []
    for scheme, tags in TAGS.items():
        for _ in range(40):
            lengths = [rng.randint(1, 8) for _ in range(rng.randint(1, 4))]
            true = [[rng.choice(tags) for _ in range(n)] for n in lengths]
            predicted = [[tag if rng.random() < 0.6 else rng.choice(tags) for tag in sentence] for sentence in true]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = {
                    average: [
                        float(score(true, predicted, average=average, zero_division=0))
                        for score in (metrics.precision_score, metrics.recall_score, metrics.f1_score)
                    ]
                    for average in AVERAGES
                }
                strict = float(metrics.f1_score(true, predicted, mode="strict", scheme=theirs[scheme], zero_division=0))
            cases.append(
                {
                    "scheme": scheme,
                    "true": [" ".join(sentence) for sentence in true],
                    "predicted": [" ".join(sentence) for sentence in predicted],
                    "scores": scores,
                    "strict_f1": strict,
                    "spans": [[list(span) for span in get_entities(sentence)] for sentence in true],
                }
            )
    path = Path(__file__).with_name("seqeval_cases.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()

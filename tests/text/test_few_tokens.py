"""Single sentences have the same labels as in a batch."""

from __future__ import annotations

import numpy as np
import pytest

import maxendnet as mx
from maxendnet.rules import bio
from maxendnet.text import Tagger, TokenFeatures
from maxendnet.text.features.token_features import FEW_TOKENS

TEMPLATE = "U0=%x[0,0]\nU1=%x[-1,0]/%x[0,0]\nU2=%x[1,0]"
WORDS, TAGS = ["a", "b", "c", "d"], ["B-X", "I-X", "O", "B-Y", "I-Y"]


def noise(n, seed, words=WORDS):
    """Return sentences with random labels that follow the scheme, so that models are uncertain."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = ["O"]
        for _ in range(rng.integers(1, 9)):
            kinds = [tag for tag in TAGS if tag[0] != "I" or tags[-1][1:] == tag[1:]]
            tags.append(str(rng.choice(kinds)))
        y.append(tags[1:])
        X.append(rng.choice(words, len(tags) - 1).tolist())
    return X, y


CASES = {
    "seen": (mx.L2CRF(structure=mx.Chain(pairs="seen"), tol=1e-2), TEMPLATE + "\nB", None),
    "all": (mx.M3N(C=0.1, tol=1e-1, random_state=0), TEMPLATE + "\nB", None),
    "independent": (mx.L2CRF(structure=mx.Independent(), tol=1e-2), TEMPLATE, None),
    "hashed, with two names in a column": (mx.L2CRF(tol=1e-2), TEMPLATE + "\nB", 5),
    "forbidden": (mx.L2CRF(structure=mx.Chain(forbidden=[("O", "I-X")]), tol=1e-2), TEMPLATE + "\nB", None),
    "rules for first tokens": (mx.L2CRF(structure=mx.Chain(rules=bio()), tol=1e-2), TEMPLATE + "\nB", None),
    "bias": (mx.L2CRF(structure=mx.Chain(bias=True), tol=1e-2), TEMPLATE + "\nB", None),
    "durations": (mx.L2CRF(structure=mx.Chain(durations=9), tol=1e-2), TEMPLATE + "\nB", None),
    "order": (mx.L2CRF(structure=mx.Chain(order=2), tol=1e-2), TEMPLATE + "\nB", None),
    "hidden": (mx.M3N(structure=mx.Chain(hidden=2), max_passes=3, tol=0.5, random_state=0), TEMPLATE, None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("outside", [0.0, -0.7])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_single_sentence_has_the_same_labels_as_in_a_batch(case, outside):
    model, template, hashed = CASES[case]
    tagger = Tagger(TokenFeatures(template, n_hashed=hashed), model, calibrate=False, outside=outside)
    tagger.fit(*noise(60, 0))
    X, _ = noise(80, 1, [*WORDS, "new"])
    assert sum(map(len, X)) > FEW_TOKENS
    together = tagger.predict(X)
    assert [tagger.predict([x])[0] for x in X] == together
    assert tagger.predict([X[0], [], X[1]]) == [together[0], [], together[1]]
    assert len({tuple(labels) for labels in together}) > 10
    if outside == 0.0:
        assert together == tagger.estimator_.predict(tagger.examples(X))


def test_empty_input_has_no_labels():
    tagger = Tagger(TEMPLATE, calibrate=False).fit(*noise(10, 0))
    assert tagger.predict([]) == [] and tagger.predict([[]]) == [[]]


@pytest.mark.parametrize("n_sentences", [1, 80])
def test_a_sentence_without_a_valid_labelling_is_an_error(n_sentences):
    X, y = [["a", "b"]] * 10, [["B-X", "I-X"]] * 10  # no single tokens: BIOES has only the labels B and E
    tagger = Tagger(TEMPLATE + "\nB", mx.L2CRF(), inner="BIOES", calibrate=False).fit(X, y)
    assert tagger.predict([["b", "a"]]) == [["B-X", "I-X"]]
    with pytest.raises(ValueError, match=r"X\[0\] node 0 has no possible label"):
        tagger.predict([["a"]] * n_sentences)


@pytest.mark.parametrize("n_sentences", [1, 80])
def test_a_changed_structure_is_an_error(n_sentences):
    tagger = Tagger(TEMPLATE + "\nB", mx.L2CRF(structure=mx.Chain()), calibrate=False).fit(*noise(60, 0))
    tagger.estimator_.structure = mx.Chain(bias=True)
    with pytest.raises(ValueError, match="structure was changed after the fit"):
        tagger.predict([["a"]] * n_sentences)

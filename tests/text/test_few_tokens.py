"""A sentence at a time has the labels of many at once."""

from __future__ import annotations

import numpy as np
import pytest

import maxendnet as mx
from maxendnet.rules import bio, ends_with, starts_with
from maxendnet.text import Columns, Tagger, TokenFeatures
from maxendnet.text.few_tokens import FewTokens
from maxendnet.text.token_features import FEW_TOKENS

TEMPLATE = "U0=%x[0,0]\nU1=%x[-1,0]/%x[0,0]\nU2=%x[1,0]"
WORDS, TAGS = ["a", "b", "c", "d"], ["B-X", "I-X", "O", "B-Y", "I-Y"]


def noise(n, seed, words=WORDS):
    """Sentences with labels that follow no rule but that of the scheme, so that models are not sure of anything."""
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
    "seen": (mx.L2CRF(structure=mx.Chain(pairs="seen"), tol=1e-2), TEMPLATE + "\nB", None, True),
    "all": (mx.M3N(C=0.1, tol=1e-1, random_state=0), TEMPLATE + "\nB", None, True),
    "independent": (mx.L2CRF(structure=mx.Independent(), tol=1e-2), TEMPLATE, None, True),
    "hashed, with two names in a column": (mx.L2CRF(tol=1e-2), TEMPLATE + "\nB", 5, True),
    "forbidden": (mx.L2CRF(structure=mx.Chain(forbidden=[("O", "I-X")]), tol=1e-2), TEMPLATE + "\nB", None, True),
    "rules for first tokens": (mx.L2CRF(structure=mx.Chain(rules=bio()), tol=1e-2), TEMPLATE + "\nB", None, True),
    "bias": (mx.L2CRF(structure=mx.Chain(bias=True), tol=1e-2), TEMPLATE + "\nB", None, False),
    "durations": (mx.L2CRF(structure=mx.Chain(durations=9), tol=1e-2), TEMPLATE + "\nB", None, False),
    "order": (mx.L2CRF(structure=mx.Chain(order=2), tol=1e-2), TEMPLATE + "\nB", None, False),
    "hidden": (mx.M3N(structure=mx.Chain(hidden=2), max_passes=3, tol=0.5, random_state=0), TEMPLATE, None, False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("outside", [0.0, -0.7])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sentence_alone_has_the_labels_that_it_has_among_many(case, outside):
    model, template, hashed, is_quick = CASES[case]
    tagger = Tagger(TokenFeatures(template, n_hashed=hashed), model, calibrate=False, outside=outside)
    tagger.fit(*noise(60, 0))
    X, _ = noise(80, 1, [*WORDS, "new"])
    assert sum(map(len, X)) > FEW_TOKENS
    together = tagger.predict(X)
    assert [tagger.predict([x])[0] for x in X] == together
    assert tagger.predict([X[0], [], X[1]]) == [together[0], [], together[1]]
    assert len({tuple(labels) for labels in together}) > 10
    assert (FewTokens.of(tagger.estimator_.model_) is not None) == is_quick
    if outside == 0.0:
        assert together == tagger.estimator_.predict(tagger.examples(X))


def test_nothing_has_no_labels():
    tagger = Tagger(TEMPLATE, calibrate=False).fit(*noise(10, 0))
    assert tagger.predict([]) == [] and tagger.predict([[]]) == [[]]


@pytest.mark.parametrize("rules", [[starts_with("B-X")], [ends_with("O")], [starts_with("B-X", "O"), ends_with("I-X")]])
def test_rules_for_first_and_last_tokens_are_kept(rules):
    tagger = Tagger(TEMPLATE + "\nB", mx.L2CRF(tol=1e-2)).fit(*noise(60, 0))
    X = [x for x in noise(80, 1)[0] if len(x) > 1]
    expected = tagger.estimator_.predict(tagger.examples(X), rules=rules)
    few = FewTokens.of(tagger.estimator_.model_, rules=rules)
    found = [few.predict(*tagger.features_.entries(Columns.of([x])), np.array([0, len(x)]))[0] for x in X]
    assert found == expected != tagger.predict(X)

"""examples/decoder.py labels as the library does, without importing it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from test_example_scripts import script

from maxendnet import L2CRF, M3N, Chain, Independent, Tree, rules

PATH = Path(__file__).parent.parent / "examples/decoder.py"
decoder = script("decoder")
TAGS = ["B-x", "I-x", "O"]
BIOES = ["B-x", "E-x", "I-x", "O", "S-x"]
PLAIN = ["a", "b", "c"]
RULES = [
    ([], TAGS),
    ([rules.bio()], TAGS),
    ([rules.bioes()], BIOES),
    ([rules.starts_with("a", "b"), rules.ends_with("c", "a")], PLAIN),
    ([rules.never(("a", "b"))], PLAIN),
    ([rules.at_most_once("a", "b")], PLAIN),
    ([rules.at_most_once("a", runs=True)], PLAIN),
    ([rules.regex("(a | b c)* [^ a]{1,2} c? .*")], PLAIN),
    ([rules.regex("a+ (b{2} | 'c'{0,3} [a b])")], PLAIN),
]
CHAINS = [
    {}, {"bias": True, "ends": True}, {"pairs": "seen"}, {"order": 2}, {"order": 2, "ends": True},
    {"order": 3, "ends": True, "ngrams": "all"}, {"order": 2, "ngrams": "seen", "ends": True},
    {"order": 3, "bias": True},
]  # fmt: skip
DURATIONS = [None, 2, {PLAIN[0]: (2, None), PLAIN[2]: (1, 2)}]


def draw_nodes(rng, n):
    return np.round(rng.standard_normal((n, 3)), 2)


def fitted(structure, labels, rng, n_examples=4, trees=False):
    """A model with random weights, in which every label and every option has an effect."""
    X = [draw_nodes(rng, n) for n in (6, *rng.integers(1, 6, n_examples - 1))]
    y = [rng.choice(labels, len(x)).tolist() for x in X]
    y[0] = (labels * 3)[:6]
    edges = [[(int(rng.integers(t)), t) for t in range(1, len(x))] for x in X]
    constraints = [name for name in ("rules", "durations", "forbidden") if hasattr(structure, name)]
    free = clone(structure).set_params(**dict.fromkeys(constraints))  # the labels of y are random
    model = L2CRF(lam=1.0, structure=free, tol=0.1).fit(list(zip(X, edges)) if trees else X, y)
    weights = np.round(rng.standard_normal(len(model.model_.weights)), 2)
    model.set_model(replace(model.model_, weights=weights, structure=structure))
    model.structure = structure
    return model


def agree(model, X, folder):
    """The decoder finds a labelling with the score that the library finds, and scores it as the library does."""
    path = folder / "model.medn"
    model.save(path)
    copy = decoder.Model(path)
    expected = model.decision_function(X)
    for i, example in enumerate(X):
        score, labels = copy.decode(example)
        np.testing.assert_allclose(score, expected[i], rtol=1e-9, atol=1e-9)
        given_score = model.decision_function([example], given=[labels])[0]
        np.testing.assert_allclose(given_score, expected[i], rtol=1e-9, atol=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RULES), st.sampled_from(CHAINS), st.sampled_from(DURATIONS))
def test_chains_with_rules(tmp_path_factory, seed, rules_and_labels, options, durations):
    rng = np.random.default_rng(seed)
    chosen, labels = rules_and_labels
    durations = durations if labels == PLAIN else None
    model = fitted(Chain(rules=chosen, durations=durations, **options), labels, rng)
    X = [draw_nodes(rng, n) for n in (1, 2, 3, 6)]
    X = [x for x in X if np.isfinite(decision(model, x))]
    assume(X)
    agree(model, X, tmp_path_factory.mktemp("models"))


def decision(model, x):
    try:
        return model.decision_function([x])[0]
    except ValueError:  # no labelling satisfies the rules
        return -np.inf


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([{}, {"siblings": True}, {"bias": True, "ends": True}, {"forbidden": [("a", "b")]}]),
    st.booleans(),
)
def test_trees(tmp_path_factory, seed, options, forest):
    rng = np.random.default_rng(seed)
    model = fitted(Tree(**options), PLAIN, rng, trees=True)
    X = []
    for n in (1, 2, 5, 7):
        edges = [(int(rng.integers(t)), t) for t in range(1, n)]
        X.append((draw_nodes(rng, n), edges[1:] if forest else edges))
    agree(model, X, tmp_path_factory.mktemp("models"))


def test_feature_dicts_and_other_estimators(tmp_path):
    X = [
        [{"word": "the", "long": False}, {"word": "dog", "ends": ["g", "og"]}],
        [{"word": "dogs", "next": {"word": "ran"}}, {"length": 3}],
    ]
    y = [["DET", "NOUN"], ["NOUN", "VERB"]]
    for model in (M3N(C=10), M3N(C=1, structure=Independent(bias=True)), L2CRF(structure=Chain(pairs="seen"))):
        agree(model.fit(X, y), X, tmp_path)


def test_the_command_needs_only_numpy(tmp_path):
    X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    M3N(C=10).fit(X, y).save(tmp_path / "model.medn")
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(x) + "\n" for x in X))
    code = (
        "import sys, runpy; sys.modules.update(dict.fromkeys(['maxendnet', 'scipy', 'sklearn', 'safetensors'])); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, PATH, tmp_path / "model.medn", tmp_path / "examples.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [json.loads(line)[1] for line in done.stdout.splitlines()] == y


def test_what_it_does_not_compute_is_refused(tmp_path):
    model = L2CRF(structure=Chain(hidden=2)).fit([[[0.0], [1.0]]], [["a", "b"]])
    model.save(tmp_path / "model.medn")
    with pytest.raises(decoder.Unsupported, match=r"model\.medn has hidden states; this decoder does not compute that"):
        decoder.Model(tmp_path / "model.medn")


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "model.medn"
    M3N().fit([[[0.0], [1.0]]], [["a", "b"]]).save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: its checksum does not match"):
        decoder.Model(path)

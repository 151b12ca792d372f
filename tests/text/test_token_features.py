"""Features of templates, compared with a plain Python implementation."""

from __future__ import annotations

import pickle
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.text import Columns, DictFeatures, TextError, TokenFeatures, read_columns
from maxendnet.text.features import token_features
from maxendnet.text.features.templates import READY
from maxendnet.text.features.word_forms import Gazetteer, case, form_of, read_clusters, read_gazetteer


def plain(template, sentences):
    """Return the feature names of each token, as in CRF++, with word forms."""
    features = []
    for sentence in sentences:
        for t in range(len(sentence)):
            names = []
            for line in template.splitlines():
                if not line.startswith("U"):
                    continue
                missing = False

                def cell(match, t=t, sentence=sentence):
                    nonlocal missing
                    at, column = t + int(match[1]), match[2]
                    if at < 0:
                        return f"_B-{-at}"
                    if at >= len(sentence):
                        return f"_B+{at - len(sentence) + 1}"
                    value = sentence[at][int(column)] if column.isdigit() else form_of(column)(sentence[at][0])
                    missing |= value == ""
                    return value

                name = re.sub(r"%x\[([+-]?\d+),(\w+)\]", cell, line)
                names += [] if missing else [name]
            features.append(Counter(names))
    return features


def rows(examples, names):
    dense = examples.X.toarray()
    return [Counter({name: int(v) for name, v in zip(names, row) if v}) for row in dense]


words = st.sampled_from(["the", "The", "a/b", "a", "b", "12", "x-1", "é", "runs"])
sentences = st.lists(st.lists(st.tuples(words, st.sampled_from("NV")), max_size=5), min_size=1, max_size=4)
lines = st.lists(
    st.sampled_from(
        ["U0:%x[0,0]", "U1:%x[-1,0]", "U2:%x[2,1]", "U3:%x[-1,0]/%x[0,0]", "U3:%x[0,0]/%x[1,0]",
         "U4:%x[-3,0]%x[0,1]/%x[1,0]", "Ubias", "U:%x[0,0]", "U:%x[1,0]", "U5:%x[0,lower]",
         "U6:%x[0,prefix1]/%x[1,suffix2]", "U7:(%x[-1,digits])",
         "U8:%x[0,1]x", "U0:%x[0,0]"],
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@given(lines, sentences.filter(any), sentences, st.sampled_from([0, 60]), st.integers(1, 3))
def test_features_are_those_of_plain_python(template, train, test, few_tokens, min_count):
    text = "\n".join(template)
    features = TokenFeatures(text, min_count=min_count)
    examples = features.fit_transform(train)
    expected = plain(text, train)
    total = sum(expected, Counter())
    frequent = {name for name, n in total.items() if n >= min_count}
    assert set(features.feature_names_) == frequent and len(features.feature_names_) == len(frequent)
    only = lambda names: Counter({name: n for name, n in names.items() if name in frequent})  # noqa: E731
    assert rows(examples, features.feature_names_) == [only(names) for names in expected]
    before = token_features.FEW_TOKENS
    try:
        token_features.FEW_TOKENS = few_tokens  # both lookups of names
        transformed = features.transform(test)
    finally:
        token_features.FEW_TOKENS = before
    assert rows(transformed, features.feature_names_) == [only(names) for names in plain(text, test)]
    for X in (examples.X, transformed.X):
        assert X.has_canonical_format and X.data.all() and X.indices.dtype == np.int32
    assert len(examples) == len(train) and len(transformed) == len(test)


@pytest.mark.parametrize("name", READY)
def test_built_in_templates_are_those_of_plain_python(name):
    train = [[("Ada", "NNP"), ("wrote", "VBD"), ("42", "CD"), ("e-mails", "NNS")], [("No", "UH")]]
    features = TokenFeatures(name)
    examples = features.fit_transform(train)
    assert rows(examples, features.feature_names_) == plain(READY[name], train)
    assert rows(features.transform(train), features.feature_names_) == plain(READY[name], train)


@given(lines, sentences.filter(any))
def test_hashed_features_are_sums_of_the_others(template, train):
    text = "\n".join(template)
    names = TokenFeatures(text)
    examples = names.fit_transform(train)
    hashed = TokenFeatures(text, n_hashed=7)
    transformed = hashed.fit_transform(train)
    assert transformed.X.shape[1] == 7 and transformed.feature_names is None and hashed.feature_names_ is None
    place = [hashed._hash(name) for name in names.feature_names_]
    expected = np.zeros((examples.n_nodes, 7))
    for k, column in enumerate(place):
        expected[:, column] += examples.X.toarray()[:, k]
    assert (transformed.X.toarray() == expected).all() and (hashed.transform(train).X.toarray() == expected).all()


def test_gazetteers_and_clusters(tmp_path):
    (tmp_path / "cities.txt").write_text("New York\n\nRome\n")
    (tmp_path / "brown.txt").write_text("01101\tdog\t5\n0111111\trome\t7\n")
    features = TokenFeatures(
        "U0=%x[0,city]\nU1=%x[0,brown]\nU2=%x[0,brown:3]\nU3=%x[1,city]/%x[0,brown:2]",
        gazetteers={"city": tmp_path / "cities.txt"}, clusters={"brown": str(tmp_path / "brown.txt")},
    )  # fmt: skip
    sentence = ["dog", "new", "YORK", "Rome"]
    expected = [
        {"U1=01101", "U2=011", "U3=B/01"}, {"U0=B"}, {"U0=I"}, {"U0=B", "U1=0111111", "U2=011", "U3=_B+1/01"}
    ]  # fmt: skip
    for examples in (
        features.fit_transform([sentence]),
        features.transform([sentence]),
        features.transform([sentence] * 30),
    ):
        assert [set(row) for row in rows(examples, features.feature_names_)][:4] == expected
    (tmp_path / "cities.txt").unlink()
    assert rows(features.transform([sentence]), features.feature_names_)[1] == {"U0=B": 1}  # the file is read once


def test_built_in_templates_use_gazetteers_and_clusters():
    features = TokenFeatures("words", gazetteers={"city": ["Rome"]}, clusters={"brown": {"Rome": "0110"}}).fit(
        [["Rome"]]
    )
    assert {"Ucity[+0]=B", "Ubrown:4[+0]=0110", "Ubrown[+0]=0110"} <= set(features.feature_names_)


def test_copies_are_the_same():
    features = TokenFeatures("words", gazetteers={"city": ["Rome"]}, clusters={"c": {"a": "x"}})
    train = [["Rome", "is", "A", "city"]]
    expected = features.fit_transform(train).X.toarray()
    again = pickle.loads(pickle.dumps(features))
    from_file = TokenFeatures.from_plain(features.to_plain(), features.feature_names_)
    for copy in (again, from_file):
        assert (copy.transform(train).X.toarray() == expected).all()
    assert not hasattr(clone(features), "template_")


def test_labels_come_along():
    examples = TokenFeatures("U%x[0,0]").fit_transform([["a", "b"], ["a"]], [["N", "V"], ["N"]])
    assert examples.y.tolist() == ["N", "V", "N"]


def test_empty_sentences():
    features = TokenFeatures("U%x[0,0]/%x[1,1]").fit([[("a", "b")], []])
    assert features.transform([]).n_nodes == 0 and len(features.transform([[], []])) == 2
    assert features.transform([[], [("a", "b")]]).offsets.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("options", "sentences", "message"),
    [
        ({"template": "chunks"}, [["a"]], r"the template uses %x\[...,1\], but the sentences have 1 columns"),
        ({"template": "U%x[0,nothing]"}, [["a"]], "'nothing' is not a word form; use one of lower, shape"),
        ({"template": "U%x[0,prefix0]"}, [["a"]], "'prefix0' is not a word form"),
        ({"template": "U%x[0,0.city]"}, [["a"]], "'city' is not a word form"),
        ({"template": "file.txt"}, [["a"]], "template is 'file.txt'; pass words, tagged_words"),
        ({"template": None}, [["a"]], "template must be a name or the text of a template, got None"),
        ({"min_count": 0}, [["a"]], "min_count must be a whole number of at least 1, got 0"),
        ({"n_hashed": 2.5}, [["a"]], "n_hashed must be a whole number of at least 1, got 2.5"),
        ({"gazetteers": {"lower": []}}, [["a"]], "'lower' is not a valid name for a gazetteer"),
        ({"gazetteers": {"x": [3]}}, [["a"]], "gazetteer 'x' has the phrase 3"),
        ({"gazetteers": {"x": []}, "clusters": {"x": {}}}, [["a"]], "'x' names both a gazetteer and clusters"),
        ({"clusters": {"x": {"a": 1}}}, [["a"]], "clusters 'x' map 'a' to 1"),
        ({"clusters": {"x": 3}}, [["a"]], "clusters 'x' are a int"),
        ({}, "a b", "sentences must be a list .* got a str"),
    ],
)
def test_messages(options, sentences, message):
    with pytest.raises(TextError, match=message):
        TokenFeatures(**options).fit(sentences)


def test_different_columns_than_in_the_fit_are_an_error():
    features = TokenFeatures("U%x[0,0]").fit([[("a", "b")]])
    with pytest.raises(TextError, match="have 1 columns, but those of the fit had 2"):
        features.transform([["a"]])


def test_errors_of_cluster_files_have_the_line(tmp_path):
    (tmp_path / "c").write_text("dog A\na b c d\n")
    with pytest.raises(TextError, match=r"c:2: expected a word and its cluster"):
        read_clusters(tmp_path / "c", "x")
    (tmp_path / "c").write_text("dog A\n0110 cat\n1 0110\n")
    assert read_clusters(tmp_path / "c", "x") == {"dog": "A", "cat": "0110", "1": "0110"}


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=4),
    st.lists(st.sampled_from("ABCd"), max_size=8),
)
def test_gazetteers_match_the_longest_phrase_from_the_left(phrases, words):
    tags = Gazetteer(map(" ".join, phrases)).tags(words)
    lower, expected, t = [word.lower() for word in words], [], 0
    while t < len(words):
        n = max((len(phrase) for phrase in phrases if lower[t : t + len(phrase)] == phrase), default=0)
        expected += ["B", *["I"] * (n - 1)] if n else [""]
        t += max(n, 1)
    assert tags == expected
    assert read_gazetteer(iter(["x"]), "g").phrases == ["x"]


def test_case():
    assert [case(word) for word in ("a", "A", "É", "ß", "3.5", "...", "McDonald", "U.S.", "中", "x1")] == [
        "lower", "title", "title", "lower", "number", "sign", "mixed", "upper", "lower", "lower",
    ]  # fmt: skip


def test_feature_dicts_with_a_minimum_count():
    X = [[{"w": "a", "n": 1}, {"w": "b", "n": 0}], [{"w": "a", "n": 2}]]
    features = DictFeatures(min_count=2)
    examples = features.fit_transform(X, [["N", "V"], ["N"]])
    assert features.feature_names_ == ("n", "w=a") and examples.y.tolist() == ["N", "V", "N"]
    assert examples.X.toarray().tolist() == [[1.0, 1.0], [0.0, 0.0], [2.0, 1.0]]
    assert features.transform([[{"w": "b", "n": 5, "m": 1}]]).X.toarray().tolist() == [[5.0, 0.0]]


def test_hashed_feature_dicts():
    X = [[{"w": "a", "n": 1.5}, {}], [["w=a", "w=a"]]]
    examples = DictFeatures(n_hashed=1).fit_transform(X)
    assert examples.X.toarray().tolist() == [[2.5], [0.0], [2.0]]
    wide = DictFeatures(n_hashed=1 << 20)
    assert (wide.fit_transform(X).X.toarray()[0] == wide.transform(X[:1]).X.toarray()[0]).all()
    assert wide.transform(X).X.has_canonical_format


def test_the_kernel_finds_features_by_their_names():
    """Pairs and triples of words, with more combinations than tokens, and of a small column."""
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(40)] + ["a/b", "a", "b/a", "é", "\ud800", "/"]
    template = "U0=%x[0,0]/%x[1,0]/%x[2,0]\nU0=%x[-2,0]/%x[0,0]\nU1=%x[0,1]%x[1,1]\nU2=%x[0,0]\nU3=%x[0,digits]/%x[1,0]"
    draw = lambda: [  # noqa: E731
        [(words[k], "NV"[k % 2]) for k in rng.integers(0, len(words), 7)] for _ in range(150)
    ]
    features = TokenFeatures(template)
    features.fit(draw())
    X = Columns.of(draw())
    names = features.feature_names_
    expected = token_features._codes_by_name(*features._named_codes(X), names.places.__getitem__)
    expected[expected == len(names)] = -1
    codes = features._codes_by_kernel(X, names)
    assert (codes == expected).all() and 0.1 < (codes >= 0).mean() < 0.9


def test_texts_with_equal_hashes_are_distinguished():
    """Thue-Morse words and their complements have the same hash, whatever the base of a polynomial modulo 2**64."""
    word = "a"
    for _ in range(11):
        word += word.translate(str.maketrans("ab", "ba"))
    complement = word.translate(str.maketrans("ab", "ba"))
    X = read_columns([word, complement] * 50)
    assert X.numbered(0).values == [word, complement]
    features = TokenFeatures("U0=%x[0,0]").fit([[word]])
    assert features.transform(X).X.toarray().ravel().tolist() == [1, 0] * 50
    both = TokenFeatures("U0=%x[0,0]").fit([[word, complement]])
    assert both.transform(X).X.indices.tolist() == [0, 1] * 50


def test_duplicate_names_are_an_error():
    features = TokenFeatures("U0=%x[0,0]").fit([["a"]])
    features.feature_names_ = FeatureNames(["U0=a", "U0=a"])
    with pytest.raises(ValueError, match="contains a name twice"):
        features.transform([["a"] * 100])

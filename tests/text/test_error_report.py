"""Errors of predictions: pairs of spans, counts, probabilities, reasons, the page and the learning curve."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from test_inner_tags import threes
from test_tagger import corpus
from test_text_commands import run

from maxendnet.text import Tagger, error_report, find_spans, learning_curve
from maxendnet.text.reading.columns import Columns, columns_text
from maxendnet.text.reading.spans import Span, write_tags
from maxendnet.text.results.span_errors import KINDS, NONE, span_errors

VOID = {"meta"}


def spans_of(text):
    """Read ``0-2 PER, 4-5 LOC``."""
    parts = [part.split() for part in text.split(", ") if part]
    return [Span(*map(int, place.split("-")), kind) for place, kind in parts]


@pytest.mark.parametrize(
    ("truth", "predicted", "expected"),
    [
        ("0-2 PER", "0-2 PER", []),
        ("0-2 PER", "0-2 LOC", [("type", ("PER", "LOC"), (0, 0))]),
        ("0-2 PER", "0-3 PER", [("boundary", ("PER", "PER"), (0, 1))]),
        ("1-3 PER", "0-2 LOC", [("type and boundary", ("PER", "LOC"), (-1, -1))]),
        ("0-2 PER", "", [("missed", ("PER", NONE), None)]),
        ("", "0-2 PER", [("spurious", (NONE, "PER"), None)]),
        # a span that is right is never paired, and the larger overlap wins
        ("0-1 A, 1-4 A", "0-1 A, 2-4 B", [("type and boundary", ("A", "B"), (1, 0))]),
        ("0-3 A", "0-1 A, 1-3 A", [("spurious", (NONE, "A"), None), ("boundary", ("A", "A"), (1, 0))]),
        ("0-1 A, 1-3 B", "0-3 B", [("missed", ("A", NONE), None), ("boundary", ("B", "B"), (-1, 0))]),
    ],
)
def test_pairs_of_spans(truth, predicted, expected):
    pairs = span_errors(spans_of(truth), spans_of(predicted))
    assert sorted((p.kind, p.types, p.shift) for p in pairs) == sorted(expected, key=lambda row: row[:2])


def test_every_wrong_span_is_in_exactly_one_error():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = []
        for _ in range(2):
            cuts = np.sort(rng.choice(12, size=2 * rng.integers(0, 4), replace=False)).tolist()
            rows.append([Span(a, b, str(rng.choice(["A", "B"]))) for a, b in zip(cuts[::2], cuts[1::2])])
        truth, predicted = rows
        pairs = span_errors(truth, predicted)
        right = set(truth) & set(predicted)
        assert sorted(p.truth for p in pairs if p.truth) == sorted(set(truth) - right)
        assert sorted(p.predicted for p in pairs if p.predicted) == sorted(set(predicted) - right)
        assert {p.kind for p in pairs} <= set(KINDS)


def noisy(y, seed, kinds=("PER", "LOC")):
    """Change types and boundaries of a few spans."""
    rng = np.random.default_rng(seed)
    rows = []
    for tags in y:
        spans = []
        for start, end, kind in find_spans(tags):
            chance = rng.random()
            kind = str(rng.choice(kinds)) if chance < 0.3 else kind
            if 0.3 < chance < 0.5 and end - start > 1:
                end -= 1
            if chance < 0.9:
                spans.append((start, end, kind))
        rows.append(write_tags(spans, len(tags)))
    return rows


@pytest.fixture(scope="module")
def cases():
    """A tagger that learned BIO tags and one with BIOES tags inside, and test sentences with changed labels."""
    values = {}
    for name, sentences, inner in (("BIO", corpus, None), ("BIOES", threes, "BIOES")):
        X, y = sentences(40, 0)
        new, truth = sentences(20, 1)
        values[name] = Tagger(inner=inner).fit(X, y), new, noisy(truth, 2)
    return values


@pytest.mark.parametrize("name", ["BIO", "BIOES"])
def test_counts_agree_with_the_scores(cases, name):
    tagger, X, y = cases[name]
    report = error_report(tagger, X, y)
    scores = report.scores
    assert scores.f1 == tagger.score(X, y) < 1 and len(report.errors) > 5
    rows, columns, diagonal = Counter(), Counter(), Counter()
    for (true, predicted), n in report.confusion.items():
        rows[true] += n
        columns[predicted] += n
    for kind, score in scores.by_type.items():
        assert rows[kind] == score.n_true and columns[kind] == score.n_predicted
        assert report.kinds[kind]["right"] == score.n_right
        diagonal[kind] = report.confusion[kind, kind] - score.n_right
        assert report.kinds[kind]["boundary"] == diagonal[kind]
    assert sum(report.boundaries.values()) == report.n_by_kind.get("boundary", 0) + report.n_by_kind.get(
        "type and boundary", 0
    )
    assert sum(report.n_by_kind.values()) == len(report.errors)
    assert report.reliability.count.sum() == scores.overall.n_predicted


@pytest.mark.parametrize("name", ["BIO", "BIOES"])
def test_errors_have_probabilities_and_reasons(cases, name):
    tagger, X, y = cases[name]
    report = error_report(tagger, X, y)
    spans, marginals = tagger.predict_spans(X), tagger.predict_marginals(X)
    names = tagger.labels_.tolist()
    for error in report.errors:
        i, t = numbers_of(error.place)
        assert error.words == list(X[i]) and error.predicted == tagger.predict([X[i]])[0]
        if error.pair.predicted is not None:
            expected = next(span.probability for span in spans[i] if span[:3] == error.pair.predicted)
        else:
            expected = marginals[i][error.token, names.index(error.predicted[error.token])]
        assert t == error.pair.start and abs(error.probability - expected) < 1e-9
        why = report.why(error, top=1000)
        assert why.token == X[i][error.token] and error.truth[error.token] != error.predicted[error.token]
        assert abs(sum(reason.contribution for reason in why.reasons) - why.lead) < 1e-9
        if name == "BIO" and error.truth[error.token] in names:
            assert (why.label, why.runner_up) == (error.predicted[error.token], error.truth[error.token])
    confidences = [error.probability for error in report.by_confidence]
    assert confidences == sorted(confidences, reverse=True)


def numbers_of(place):
    return tuple(map(int, re.fullmatch(r"sentence (\d+) token (\d+)", place).groups()))


def test_parts_add_up(cases):
    tagger, X, y = cases["BIO"]
    whole = error_report(tagger, X, y)
    parts = error_report(tagger, X[:7], y[:7])
    parts.add(tagger.features_.read(X[7:]), y[7:], tagger.predict(X[7:]))
    assert parts.scores == whole.scores and parts.confusion == whole.confusion
    assert [error.pair for error in parts.errors] == [error.pair for error in whole.errors]


def test_labels_that_are_not_span_tags_are_compared_by_token():
    X = [["the", "old", "dog"], ["a", "dog", "barked"]] * 3
    tagger = Tagger(calibrate=False).fit(X, [["DET", "ADJ", "NOUN"], ["DET", "NOUN", "VERB"]] * 3)
    report = error_report(tagger, X[:2], [["DET", "NOUN", "NOUN"], ["DET", "NOUN", "NOUN"]])
    assert [(error.pair.types, error.pair.start) for error in report.errors] == [
        (("NOUN", "ADJ"), 1),
        (("NOUN", "VERB"), 2),
    ]
    assert report.reliability.count.sum() == 6 and report.confusion["NOUN", "NOUN"] == 2
    probability = tagger.predict_confidence(X[:1])[0].tokens[1]
    assert report.errors[0].probability == pytest.approx(probability)
    assert "Confusion of labels" in report.to_html() and "Boundaries" not in report.to_html()


class Page(HTMLParser):
    """Checks that elements are closed in order, and collects texts and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.links, self.tags = [], [], [], Counter()
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.texts.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """train.txt, test.txt with errors, and a model."""
    path = tmp_path_factory.mktemp("errors")
    X, y = corpus(40, 0)
    (path / "train.txt").write_text(columns_text(X, y))
    new, truth = corpus(20, 1)
    new = [["<script>alert(1)</script>", "a&b", *words[2:]] for words in new]
    (path / "test.txt").write_text(columns_text(new, noisy(truth, 2)))
    run("train", path / "train.txt", "-o", path / "names.medn", "--lam", 0.3, "--quiet")
    return path


def test_the_page_is_self_contained_and_escaped(folder, tmp_path):
    model, test = folder / "names.medn", folder / "test.txt"
    shown = run("evaluate", model, test, "--html", tmp_path / "e.html", "--train", folder / "train.txt")
    assert "learning curve, F1" in shown.stdout and "Written: " in shown.stderr
    text = (tmp_path / "e.html").read_text()
    page = Page(text)
    assert page.tags["svg"] == 2 and not page.links and not page.tags["script"] and "url(" not in text
    words = " ".join("".join(page.texts).split())
    for title in ("Errors of names.medn on test.txt", "Reliability", "Learning curve", "Errors by type", "Confusion"):
        assert title in words
    report = json.loads(run("evaluate", model, test, "--errors", "--json").stdout)
    kinds = {error["kind"] for error in report["errors"]}
    assert page.tags["details"] == len(report["errors"]) + len(kinds)
    assert "<script>alert(1)</script>" in words and "a&b" in words


def test_errors_are_printed_after_the_report(folder):
    model, test = folder / "names.medn", folder / "test.txt"
    plain = run("evaluate", model, test).stdout
    shown = run("evaluate", model, test, "--errors").stdout
    assert shown.startswith(plain)
    values = json.loads(run("evaluate", model, test, "--errors", "--json").stdout)
    blocks = shown[len(plain) :].strip().split("\n\n")
    assert (
        len(blocks)
        == len(values["errors"])
        == sum(n for counts in values["kinds"].values() for kind, n in counts.items() if kind != "right")
    )
    assert all(re.match(r".*test.txt:\d+: (type|boundary|missed|spurious)", block) for block in blocks)
    assert all('at "' in block and ", not " in block for block in blocks)
    assert {key: values[key] for key in json.loads(run("evaluate", model, test, "--json").stdout)} == json.loads(
        run("evaluate", model, test, "--json").stdout
    )


def test_predictions_of_other_tools_have_errors_without_probabilities(folder, tmp_path):
    labelled = run("tag", folder / "names.medn", folder / "test.txt").stdout
    values = json.loads(run("evaluate", "-", "--errors", "--json", text=labelled).stdout)
    expected = json.loads(run("evaluate", folder / "names.medn", folder / "test.txt", "--errors", "--json").stdout)
    assert values["confusion"] == expected["confusion"] and values["f1"] == expected["f1"]
    assert {error["probability"] for error in values["errors"]} == {None}
    run("evaluate", "-", "--html", tmp_path / "e.html", text=labelled)
    page = Page((tmp_path / "e.html").read_text())
    assert page.tags["svg"] == 0 and "Errors on <stdin>" in "".join(page.texts)
    message = run("evaluate", folder / "names.medn", folder / "test.txt", "--html", "missing/e.html", code=1)
    assert "missing: The folder does not exist" in message.stderr and not message.stdout
    message = run("evaluate", "-", "--train", folder / "train.txt", text=labelled, code=2).stderr
    assert "--train needs a model before the file." in message


def test_the_learning_curve_ends_with_the_tagger(cases):
    tagger, new, truth = cases["BIO"]
    X, y = corpus(40, 0)
    curve = learning_curve(tagger, Columns.of(X), y, Columns.of(new), truth)
    assert [point.n_sentences for point in curve] == [10, 20, 40]
    assert curve[-1].test == tagger.score(new, truth) and curve[-1].training == tagger.score(X, y)
    inside, new, truth = cases["BIOES"]
    X, y = threes(40, 0)
    assert learning_curve(inside, Columns.of(X), y, Columns.of(new), truth)[-1].test == inside.score(new, truth)


def test_the_curve_of_a_saved_model_ends_with_its_score(folder):
    shown = run(
        "evaluate", folder / "names.medn", folder / "test.txt", "--train", folder / "train.txt", "--json"
    ).stdout
    values = json.loads(shown)
    assert values["learning_curve"][-1]["test"] == values["f1"] and "errors" not in values

"""Messages of the training before its fit, and Ctrl-C during the fit."""

from __future__ import annotations

import re
import signal

import pytest
from test_tagger import corpus
from test_text_commands import run

from maxendnet.text import Tagger, TextError
from maxendnet.text.reading.columns import columns_text
from maxendnet.text.tool.interruptible import InterruptibleTagger, Interrupts, RecordingScorer


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.txt").write_text(columns_text(*corpus(40, 0)))
    return tmp_path / "train.txt"


@pytest.fixture
def no_fit(monkeypatch):
    """Raise an error if a fit begins."""

    def fail(*_):
        raise AssertionError("the fit has begun")

    monkeypatch.setattr(InterruptibleTagger, "fit", fail)


@pytest.mark.parametrize("option", ["--test", "--dev"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "t: No such file or directory."),
        ("Ada B-PER\nmet\n", "t:2: 1 column, but line 1 has 2"),
        ("Ada NN B-PER\n", "t: 2 feature columns, but the training file has 1"),
        ("Ada b-PER\nmet O\nBob B-PER\n", "t:1: 'b-PER' is not a tag of IOB2"),
        ("# sent_id = 1\nAda B-PER\n", "skip them with --comment '# '"),
    ],
)
@pytest.mark.usefixtures("no_fit")
def test_held_out_files_are_checked_before_the_fit(train, tmp_path, option, content, message):
    if content is not None:
        (tmp_path / "t").write_text(content)
    assert message in run("train", train, "-o", tmp_path / "m", option, tmp_path / "t", "-q", code=1).stderr


@pytest.mark.usefixtures("no_fit")
def test_the_folder_of_the_model_is_checked_before_the_fit(train, tmp_path):
    message = run("train", train, "-o", tmp_path / "no" / "m", code=1).stderr
    assert f"{tmp_path / 'no'}: The folder does not exist; create it, or use another path." in message


@pytest.mark.usefixtures("no_fit")
def test_a_file_with_one_label_is_refused(tmp_path):
    (tmp_path / "t").write_text("Ada B-PER O\nmet O O\n\nBob B-PER O\n")
    message = run("train", tmp_path / "t", "-o", tmp_path / "m", code=1).stderr
    assert "all 3 tokens have the label 'O', so there is nothing to learn" in message and "--label" in message


def test_few_sentences_have_fewer_folds(tmp_path):
    (tmp_path / "t").write_text("Ada B-PER\nmet O\n\nBob B-PER\nslept O\n")
    result = run("train", tmp_path / "t", "-o", tmp_path / "m", "-q")
    assert "note: there are only 2 sentences, so cross-validation has 2 folds (--folds)." in result.stderr
    assert "chosen by 2-fold cross-validation" in result.stdout
    (tmp_path / "t").write_text("Ada B-PER\nmet O\n")
    message = run("train", tmp_path / "t", "-o", tmp_path / "m", "-q", code=1).stderr
    assert "the search needs at least 3 sentences for 3 folds, got 1" in message
    assert "--folds" in message and "--no-search" in message
    run("train", tmp_path / "t", "-o", tmp_path / "m", "-q", "--no-search")
    with pytest.raises(TextError, match=r"got 1; use fewer folds \(cv=2, --folds 2\), or no search \(search=False"):
        Tagger(search=True).fit([["Ada", "met"]], [["B-PER", "O"]])


def test_unseen_labels_are_noted(train, tmp_path):
    (tmp_path / "t").write_text("Ada B-PER\nRome B-LOC\n\nRome B-LOC\nUN B-ORG\n")
    expected = (
        "3 tokens have labels that did not occur in training, so the tagger cannot predict them: B-LOC (2), B-ORG"
    )
    result = run("train", train, "-o", tmp_path / "m", "-q", "--lam", 1, "--test", tmp_path / "t")
    assert f"note: {tmp_path / 't'}: {expected} (1)." in result.stderr
    assert expected in run("evaluate", tmp_path / "m", tmp_path / "t").stderr
    assert "did not occur" not in run("evaluate", tmp_path / "m", train).stderr


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupted_at(monkeypatch, owner, name, calls):
    """Send SIGINT to this process at the given calls of a method."""
    method, n_calls = getattr(owner, name), 0

    def replacement(*arguments, **options):
        nonlocal n_calls
        n_calls += 1
        result = method(*arguments, **options)
        if n_calls in calls:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(owner, name, replacement)


def test_an_interrupted_search_uses_its_best_constants(train, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, RecordingScorer, "__call__", {4})
    scores = {}
    monkeypatch.setattr(RecordingScorer, "best", recorded(scores))
    result = run("train", train, "-o", tmp_path / "m", "-q", code=130)
    assert "note: interrupted: the search ends, and the best hyper-parameters so far are used" in result.stderr
    assert f"Interrupted: {tmp_path / 'm'} contains the best model so far, which is complete" in result.stderr
    tagger = Tagger.load(tmp_path / "m")
    assert len(scores) == 4 and scores[(("lam", tagger.estimator_.lam),)] == [max(scores.values())[0]]
    assert "cross-validation that was interrupted" in result.stdout and tagger.estimator_.gap_ <= 1e-2
    assert tagger.predict([["Ada", "met"]]) == [["B-PER", "O"]]


def recorded(scores):
    best = RecordingScorer.best

    def replacement(self):
        scores.update(self.scores)
        return best(self)

    return replacement


def test_an_interrupt_before_the_first_score_uses_the_defaults(train, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, InterruptibleTagger, "_new_model", {1})
    result = run("train", train, "-o", tmp_path / "m", "-q", code=130)
    assert "the search ends, and the default hyper-parameters are used" in result.stderr
    assert result.stdout.startswith("L2CRF(lam=0.1, margin=3)\n")


@pytest.mark.parametrize("options", [["--lam", 0.1], ["--model", "m3n", "--C", 1]])
@pytest.mark.parametrize("dev", [False, True])
def test_an_interrupted_fit_keeps_its_weights(train, tmp_path, monkeypatch, options, dev):
    stage = Interrupts.stage

    def interrupted(self, name):
        context = stage(self, name)

        class Stage:
            def __enter__(self):
                context.__enter__()
                if name == "fit":
                    signal.raise_signal(signal.SIGINT)

            def __exit__(self, *error):
                context.__exit__(*error)

        return Stage()

    monkeypatch.setattr(Interrupts, "stage", interrupted)
    files = [train, "-o", tmp_path / "m", "-q", "--tol", 1e-8, *(["--dev", train] if dev else [])]
    result = run("train", *files, *options, code=130)
    assert "note: interrupted: the fit ends with the weights so far. Press Ctrl-C again" in result.stderr
    gap = float(re.search(r"gap (\S+) after", result.stdout)[1])
    assert gap > 1e-8
    assert Tagger.load(tmp_path / "m").predict([["Ada", "met"]])


def test_a_second_interrupt_writes_nothing(train, tmp_path, monkeypatch):
    (tmp_path / "m").write_text("before")
    interrupted_at(monkeypatch, Interrupts, "add", {1})
    interrupted_at(monkeypatch, RecordingScorer, "__call__", {1})
    result = run("train", train, "-o", tmp_path / "m", "-q", code=130)
    assert "contains the best model" not in result.stderr and result.stdout == ""
    assert (tmp_path / "m").read_text() == "before"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

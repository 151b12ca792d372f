"""The commands train, tag, evaluate and explain, with files and pipes."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from test_inner_tags import threes
from test_tagger import corpus

from maxendnet.cli import main
from maxendnet.text import Tagger, span_scores
from maxendnet.text.reading.columns import columns_text


def runner() -> CliRunner:
    """Return a runner with separate stdout and stderr, which click before 8.2 has as an option."""
    mixes = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**{"mix_stderr": False} if mixes else {})


def run(*arguments, code=0, text=None):
    result = runner().invoke(main, [str(a) for a in arguments], input=text)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """train.txt, test.txt and a model."""
    path = tmp_path_factory.mktemp("text")
    for name, n, seed in (("train.txt", 40, 0), ("test.txt", 10, 1)):
        (path / name).write_text(columns_text(*corpus(n, seed)))
    run("train", path / "train.txt", "-o", path / "names.medn", "--lam", 0.3, "--quiet")
    return path


@pytest.mark.parametrize("command", ["train", "tag", "evaluate", "explain"])
def test_help_has_examples(command):
    assert "Examples:\n    maxendnet " in run(command, "--help").output


def test_one_line_trains_on_column_data(folder, tmp_path):
    result = run("train", folder / "train.txt", "-o", tmp_path / "m", "--test", folder / "test.txt", "-q")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("L2CRF(lam=") and "chosen by 3-fold cross-validation: span F1" in lines[0]
    assert "40 sentences" in lines[1] and "3 labels (IOB2)" in lines[1]
    assert "FB1: 100.00" in lines[4]
    assert Tagger.load(tmp_path / "m").features_.template == "words"


def test_progress_is_on_stderr_and_results_on_stdout(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "maxendnet", "train", folder / "train.txt", "-o", tmp_path / "m", "--model", "m3n",
         "--C", "1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("M3N(C=1)\n") and len(done.stdout.splitlines()) == 3 and "M3N" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "m3n", "--C", 1], ["--model", "lapmedn", "--C", 1, "--lam", 4], ["--model", "l1crf", "--lam", 0.1],
        ["--lam", 1, "--seen"], ["--lam", 1, "--rules"], ["--lam", 1, "--hashed", 500], ["--lam", 1, "--min-count", 2],
        ["--lam", 1, "--margin", 0], ["--lam", 1, "--margin", 5, "--rules"],
        ["--lam", 1, "--columns", "0"], ["--lam", 1, "--scheme", "IOB2", "--jobs", 2, "--tol", 0.1],
    ],
    ids=lambda options: " ".join(map(str, options)),
)  # fmt: skip
def test_options_of_train(folder, tmp_path, options):
    run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", *options)
    assert "FB1: 100.00" in run("evaluate", tmp_path / "m", folder / "test.txt").stdout


def tagged(n, seed):
    """Return sentences of (word, part of speech) tuples where only the second column determines names."""
    _, y = corpus(n, seed)
    return [[("x" + "y" * (k % 3), tag[0]) for k, tag in enumerate(row)] for row in y], y


def characters(n, seed):
    """Return sentences whose tokens are single characters."""
    _, y = corpus(n, seed)
    return [[tag[0] for tag in row] for row in y], y


@pytest.mark.parametrize(
    ("sentences", "template"), [(corpus, "words"), (tagged, "tagged_words"), (characters, "characters")]
)
def test_training_without_search_is_the_default_tagger(sentences, template, tmp_path):
    X, y = sentences(40, 0)
    (tmp_path / "t").write_text(columns_text(X, y))
    shown = run("train", tmp_path / "t", "-o", tmp_path / "m", "-q", "--no-search").stdout
    trained, expected = Tagger.load(tmp_path / "m"), Tagger().fit(X, y)
    assert shown.startswith("L2CRF(lam=0.1, margin=3)\n")
    assert trained.features_.template_name_ == expected.features_.template_name_ == template
    assert trained.features_.feature_names_ == expected.features_.feature_names_
    assert trained.outside_ == expected.outside_ and trained.temperature_ == expected.temperature_
    assert_array_equal(trained.estimator_.model_.weights, expected.estimator_.model_.weights)
    assert trained.predict(X) == expected.predict(X) == y


def test_bioes_is_tried_as_in_the_default_tagger(tmp_path):
    X, y = threes(60, 0)
    (tmp_path / "t").write_text(columns_text(X, y))
    (tmp_path / "template").write_text("U0=%x[0,0]\nB\n")
    files = [tmp_path / "t", "-o", tmp_path / "m", "--features", tmp_path / "template", "-q"]
    run("train", *files, "--lam", 0.2)
    assert Tagger.load(tmp_path / "m").inner_ is not None
    assert "FB1: 100.00" in run("evaluate", tmp_path / "m", tmp_path / "t").stdout
    run("train", *files, "--lam", 0.2, "--rules")
    assert Tagger.load(tmp_path / "m").inner_ is None


@pytest.mark.parametrize(("options", "margin"), [([], 3.0), (["--margin", 0.5], 0.5)])
def test_constants_are_searched_with_the_margin(folder, tmp_path, options, margin):
    run("train", folder / "train.txt", "-o", tmp_path / "m", "-q", *options)
    assert Tagger.load(tmp_path / "m").estimator_.margin == margin


def test_scores_of_a_dev_file_are_on_stderr(folder, tmp_path):
    result = run(
        "train", folder / "train.txt", "-o", tmp_path / "m", "--lam", 1, "--dev", folder / "test.txt", "--patience", 3
    )
    assert "validation F1 100.00" in result.stderr and "validation" not in result.stdout


def test_files_of_templates_gazetteers_and_clusters(folder, tmp_path):
    (tmp_path / "t").write_text("U0=%x[0,0]\nU1=%x[0,people]/%x[0,brown]\nB\n")
    (tmp_path / "people").write_text("Ada\nDan Brown\n")
    (tmp_path / "brown").write_text("Ada 01\nBob 01\n")
    lists = ["--gazetteer", f"people={tmp_path / 'people'}", "--clusters", f"brown={tmp_path / 'brown'}"]
    files = [folder / "train.txt", folder / "train.txt", "-o", tmp_path / "m", "--features", tmp_path / "t"]
    run("train", *files, *lists, "-q", "--lam", 1)
    assert "U1=B/01" in Tagger.load(tmp_path / "m").features_.feature_names_


def test_features_follow_the_columns(tmp_path):
    (tmp_path / "zh").write_text("同 B\n样 E\n\n施 S\n")
    run("train", tmp_path / "zh", "-o", tmp_path / "m", "-q", "--lam", 1)
    assert Tagger.load(tmp_path / "m").features_.template == "characters"
    (tmp_path / "pos").write_text("the DT B-NP\ndog NN I-NP\n\nit PRP B-NP\n")
    run("train", tmp_path / "pos", "-o", tmp_path / "m", "-q", "--lam", 1)
    assert Tagger.load(tmp_path / "m").features_.template == "tagged_words"
    assert "NN" in run("explain", tmp_path / "m", "the/DT dog/NN", "--top", 100).stdout
    assert "does not have 2 columns" in run("explain", tmp_path / "m", "dog", code=1).stderr


def test_misplaced_tags_are_a_note(tmp_path):
    (tmp_path / "t").write_text("a B-X\nb O\nc I-X\n")
    result = run("train", tmp_path / "t", "-o", tmp_path / "m", "-q", "--lam", 1, "--scheme", "IOB2")
    assert f"note: {tmp_path / 't'}:3: I-X starts a span, where IOB2 has B-X; such tags: 1" in result.stderr


def misspelt(tmp_path):
    """Write two files, the second with a misspelt tag in line 2 and a misplaced one in line 4; and a correct copy."""
    lines = columns_text(*corpus(40, 0)).splitlines()
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    (tmp_path / "b").write_text("Ada B-PER\nmet 0\n\nBob I-PER\nslept O\n".replace(" ", "\t"))
    (tmp_path / "fine").write_text("Ada B-PER\nmet O\n\nBob B-PER\nslept O\n".replace(" ", "\t"))
    return [tmp_path / "a", tmp_path / "b"]


def test_misspelt_tags_are_an_error_or_repaired(tmp_path):
    files, out = misspelt(tmp_path), ["-o", tmp_path / "m", "-q", "--lam", 1]
    for options in ([*files], [files[0], "--test", files[1]], [files[0], "--dev", files[1]]):
        message = run("train", *options, *out, code=1).stderr
        assert f"{files[1]}:2: '0' is not a tag of IOB2" in message and "(--repair) to read '0' as 'O'" in message
        run("train", *options, *out, "--repair")
    run("train", *files, *out, "--repair")
    run("train", files[0], tmp_path / "fine", "-o", tmp_path / "n", "-q", "--lam", 1)
    trained, expected = (Tagger.load(tmp_path / name) for name in "mn")
    assert trained.scheme_ == "IOB2"
    assert_array_equal(trained.estimator_.model_.weights, expected.estimator_.model_.weights)
    assert f"{files[1]}:2: '0' is not a tag" in run("evaluate", tmp_path / "m", files[1], code=1).stderr
    shown = run("evaluate", tmp_path / "m", files[1], "--repair").stdout
    assert shown == run("evaluate", tmp_path / "m", tmp_path / "fine").stdout and "FB1: 100.00" in shown
    run("train", *files, *out, "--scheme", "LABELS")
    assert "0" in Tagger.load(tmp_path / "m").classes_


def test_misplaced_tags_of_all_files_are_listed(tmp_path):
    files = misspelt(tmp_path)
    files[1].write_text(files[1].read_text().replace("0", "O"))
    result = run("train", *files, "-o", tmp_path / "m", "-q", "--lam", 1)
    expected = f"{files[1]}:4: I-PER starts a span, where IOB2 has B-PER; such tags: 1, at {files[1]}:4"
    assert f"note: {expected}; repair=True (--repair) rewrites them.\n" in result.stderr
    assert "(IOB2)" in result.stdout
    refused = run("train", *files, "-o", tmp_path / "m", "-q", "--lam", 1, "--rules", code=1).stderr
    assert expected in refused and "which breaks the rule bio()" in refused
    assert "starts a span" not in run("train", *files, "-o", tmp_path / "m", "-q", "--lam", 1, "--repair").stderr


def test_evaluate_repairs_both_columns(tmp_path):
    (tmp_path / "e").write_text("a B_X B_X\nb I_X O\n\nc B_Y B_Y\n")
    assert f"{tmp_path / 'e'}:1: 'B_X' is not a tag of IOB2" in run("evaluate", tmp_path / "e", code=1).stderr
    assert run("evaluate", tmp_path / "e", "--repair").stdout.splitlines()[1].endswith("FB1:  50.00")


def test_files_with_different_columns_are_an_error(tmp_path):
    (tmp_path / "a").write_text("a O\n")
    (tmp_path / "b").write_text("a NN O\n")
    message = f"{tmp_path / 'b'} has 2 columns, but {tmp_path / 'a'} has 1; pass files with the same columns."
    assert message in run("train", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "m", code=1).stderr


def test_tag_writes_columns(folder):
    result = run("tag", folder / "names.medn", folder / "test.txt")
    rows = [line.split("\t") for line in result.stdout.splitlines() if line]
    assert all(len(row) == 3 and row[1] == row[2] for row in rows)
    assert result.stdout.count("\n\n") == 10
    (scores,) = {
        run("evaluate", "-", text=result.stdout).stdout,
        run("evaluate", folder / "names.medn", folder / "test.txt").stdout,
    }
    assert scores.strip() == str(span_scores(corpus(10, 1)[1], corpus(10, 1)[1]))
    sure = run("tag", folder / "names.medn", folder / "test.txt", "--confidence").stdout.splitlines()[0].split("\t")
    assert len(sure) == 4 and 0.5 < float(sure[3]) <= 1


def test_many_sentences_keep_their_blank_lines(folder):
    text = "\n\n".join(["Ada", "met"] * 2500) + "\n"
    result = run("tag", folder / "names.medn", text=text)
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == [*text.splitlines(), ""]


def test_plain_text_json_and_spans(folder, tmp_path):
    model = folder / "names.medn"
    record = json.loads(run("tag", model, "--text", "--format", "json", "--top", 2, text="Dan Brown met Ada\n").stdout)
    assert record["tokens"] == ["Dan", "Brown", "met", "Ada"] and record["labels"] == ["B-PER", "I-PER", "O", "B-PER"]
    assert [span["text"] for span in record["spans"]] == ["Dan Brown", "Ada"] and len(record["top"]) == 2
    assert record["probability"] <= min(span["probability"] for span in record["spans"]) + 1e-6
    run("tag", model, "--text", "--format", "spans", "-o", tmp_path / "out", text="met\n\nDan Brown met\n")
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert line.split("\t")[:4] == ["1", "0", "2", "PER"] and line.endswith("Dan Brown")


def test_all_formats_have_the_same_labels(folder, tmp_path):
    tagger = Tagger.load(folder / "names.medn")
    tagger.outside_ = -20.0
    tagger.save(tmp_path / "m")
    words = "Dan Brown met Ada"
    (labels,) = tagger.predict([words.split()])
    record = json.loads(run("tag", tmp_path / "m", "--text", "--format", "json", "--top", 2, text=words).stdout)
    assert record["labels"] == record["top"][0]["labels"] == labels and "O" not in labels
    assert record["probability"] == record["top"][0]["probability"]
    assert len(record["spans"]) == len(
        run("tag", tmp_path / "m", "--text", "--format", "spans", text=words).stdout.splitlines()
    )
    for options in ([], ["--confidence"]):
        rows = run("tag", tmp_path / "m", "--text", *options, text=words).stdout.splitlines()
        assert [row.split("\t")[1] for row in rows if row] == labels
    why = json.loads(run("explain", tmp_path / "m", words, "--json").stdout)
    assert [token["label"] for token in why["tokens"]] == labels


def test_empty_input_gives_empty_output(folder):
    for options in ([], ["--text"], ["--format", "json"]):
        assert run("tag", folder / "names.medn", *options, text="").stdout == ""


def test_evaluate(folder, tmp_path):
    (tmp_path / "e").write_text("a B-X B-X\nb I-X O\n\nc B-Y B-Y\n")
    assert run("evaluate", tmp_path / "e").stdout.splitlines()[1].endswith("FB1:  50.00")
    scores = json.loads(run("evaluate", tmp_path / "e", "--json").stdout)
    assert scores["f1"] == 0.5 and scores["by_type"]["Y"]["f1"] == 1.0
    assert run("evaluate", tmp_path / "e", "--at-least", 0.5).exit_code == 0
    assert "F1 0.5000 is below 0.51" in run("evaluate", tmp_path / "e", "--at-least", 0.51, code=3).stderr
    assert "2 columns; expected a token, its true label" in run("evaluate", folder / "test.txt", code=1).stderr
    assert "expected a model and a file" in run("evaluate", "a", "b", "c", code=2).stderr


def test_explain(folder, tmp_path):
    model = folder / "names.medn"
    assert "Pairs of labels" in run("explain", model).stdout
    explanation = json.loads(run("explain", model, "Ada", "met", "Bob", "--json").stdout)
    assert [token["label"] for token in explanation["tokens"]] == ["B-PER", "O", "B-PER"]
    run("explain", model, "Ada met", "--html", tmp_path / "x.html")
    assert "Why these labels" in (tmp_path / "x.html").read_text()


def test_info_describes_a_tagger(folder):
    tagger = Tagger.load(folder / "names.medn")
    what = f"scheme IOB2, temperature {tagger.temperature_}, outside {tagger.outside_}"
    assert f"maxendnet.text (template words, {what})" in run("info", folder / "names.medn").stdout
    about = json.loads(run("info", folder / "names.medn", "--json").stdout)["application"]
    assert about == {
        "kind": "text", "template": "words", "scheme": "IOB2", "temperature": tagger.temperature_, "outside": 0.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "none.txt", "-o", "m"], 1, "none.txt: No such file or directory"),
        (["train", "{bad}", "-o", "m"], 1, "bad.txt:2: 1 column, but line 1 has 2: 'b'"),
        (["train", "{train}", "-o", "m", "--C", "1"], 2, "--C is not an option of l2crf, which has --lam"),
        (
            ["train", "{train}", "-o", "m", "--model", "lapmedn", "--C", "1"],
            2,
            "lapmedn has two hyper-parameters; pass --lam",
        ),
        (
            ["train", "{train}", "-o", "m", "--model", "crf", "--C", "1"],
            2,
            "--C is not an option of crf, which has no hyper-parameters",
        ),
        (["train", "{train}", "-o", "m", "--lam", "-1", "-q"], 1, "lam must be"),
        (["train", "{train}", "-o", "m", "--lam", "1", "--margin", "-1", "-q"], 1, "margin must be a number from 0"),
        (["train", "{train}", "-o", "m", "--model", "m3n", "--margin", "1"], 2, "an option of l2crf, not of m3n"),
        (["train", "{train}", "-o", "m", "--jobs", "0"], 2, "expected the number of threads"),
        (["train", "{train}", "-o", "m", "--features", "none"], 1, "none: No such file"),
        (["train", "{train}", "-o", "m", "--features", "{bad}"], 1, "bad.txt:1: 'a O' does not begin with U, B or #"),
        (["train", "{train}", "-o", "m", "--columns", "a"], 2, "'a' is not a list of numbers separated by commas"),
        (["train", "{train}", "-o", "m", "--columns", "7"], 1, "there is no column 7"),
        (["train", "{train}", "-o", "m", "--gazetteer", "x"], 2, "'x' is not NAME=FILE"),
        (["train", "{train}", "-o", "m", "--scheme", "x"], 1, "scheme must be one of"),
        (["tag", "none.medn"], 1, "none.medn: No such file or directory"),
        (["tag", "{train}"], 1, "is not a maxendnet model file"),
        (["explain", "{train}"], 1, "is not a maxendnet model file"),
    ],
)
def test_messages_and_exit_codes(folder, tmp_path, arguments, code, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_text("a O\nb\n")
    places = {"{bad}": tmp_path / "bad.txt", "{train}": folder / "train.txt"}
    result = run(*(places.get(argument, argument) for argument in arguments), code=code)
    assert message in result.stderr and result.stdout == ""
    assert not (tmp_path / "m").exists()

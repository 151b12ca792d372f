import importlib.metadata
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import maxendnet as mx
from maxendnet.cli import main

X = [[{"word": "the"}, {"word": "dog"}], [{"word": "dogs"}]]
Y = [["DET", "NOUN"], ["NOUN"]]


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.medn"
    mx.LapMEDN(C=2, lam=4, structure=mx.Chain(bias=True, ends=True), random_state=0).fit(X, Y).save(path)
    return path


def test_the_version_is_that_of_the_package():
    assert run("--version").strip() == f"maxendnet, version {importlib.metadata.version('maxendnet')}"
    assert importlib.metadata.version("maxendnet") == mx.__version__


@pytest.mark.parametrize("command", [[], ["demo"], ["info"]])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_help_has_examples(command, option):
    assert "Examples:\n    maxendnet" in run(*command, option)


def test_python_m_is_the_command(saved):
    done = subprocess.run(
        [sys.executable, "-m", "maxendnet", "info", saved], capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip() == run("info", saved).rstrip()


def test_the_installed_command(saved):
    script = os.path.join(os.path.dirname(sys.executable), "maxendnet")
    if not os.path.exists(script):
        pytest.skip("needs the installed command (pip install -e .)")
    assert "LapMEDN" in subprocess.run([script, "info", saved], capture_output=True, text=True, check=True).stdout


def test_info_shows_the_content_of_a_file(saved):
    text = run("info", saved)
    for words in (
        "LapMEDN",
        "C=2",
        "lam=4",
        "structure=Chain(bias=True, ends=True)",
        "2 labels",
        "3 features",
        "DET, NOUN",
        "exact under Laplace(lam=4",
        "converged",
    ):
        assert words in text
    assert "  DET   " in text and "word=the" in text and "Largest transitions" in text


def test_info_as_json_has_the_numbers_of_the_model(saved):
    model, summary = mx.load(saved), json.loads(run("info", saved, "--json", "--top", 2))
    assert (
        summary["estimator"] == "LapMEDN" and summary["settings"]["lam"] == 4 and summary["labels"] == ["DET", "NOUN"]
    )
    assert summary["fit"]["gap"] == model.gap_ and summary["fit"]["objective"] == model.objective_
    assert summary["sizes"]["weights"] == len(model.posterior_.mean) and summary["bytes"] == saved.stat().st_size
    assert summary["posterior"]["kl"] == model.posterior_.kl
    table = np.vstack([model.coef_, model.intercept_, model.start_, model.end_])
    names = [*model.feature_names_, "intercept_", "start_", "end_"]
    for a, entry in enumerate(summary["top_weights"]):
        assert len(entry["weights"]) == 2
        best = int(np.argmax(np.abs(table[:, a])))
        assert entry["weights"][0] == {"feature": names[best], "weight": table[best, a]}
    best = np.unravel_index(np.argmax(np.abs(model.transitions_)), (2, 2))
    top = summary["top_transitions"][0]
    assert (top["from"], top["to"]) == tuple(model.classes_[list(best)]) and top["weight"] == model.transitions_[best]


def test_info_of_a_model_without_certificate_and_names(tmp_path):
    mx.CRF(structure="independent").fit(np.array([[1.0, 0.0], [0.0, 1.0]]), [(1, 2), True]).save(tmp_path / "crf")
    text = run("info", tmp_path / "crf")
    assert (
        "none (no certificate)" in text and "point estimate" in text and "numbered" in text and "True, (1, 2)" in text
    )
    summary = json.loads(run("info", tmp_path / "crf", "--json"))
    assert summary["fit"]["gap"] is None and summary["fit"]["dual"] is None and summary["top_transitions"] == []
    assert summary["labels"] == [True, "(1, 2)"]


def test_info_of_several_edge_types_and_array_settings(tmp_path):
    examples = mx.Examples.build([np.eye(3)], [["a", "b", "b"]], edges=[[(0, 1), (0, 2)]], edge_types=[[0, 1]])
    prior = mx.Gaussian(np.ones(14))
    mx.MaxEnDNet(prior, structure="tree", random_state=0).fit(examples).save(tmp_path / "tree")
    assert "(edge type 1)" in run("info", tmp_path / "tree") and "Gaussian" in run("info", tmp_path / "tree")


def test_info_shortens_many_labels(tmp_path):
    mx.L2CRF().fit([np.eye(30)], [list(range(30))]).save(tmp_path / "many")
    text = run("info", tmp_path / "many", "--labels", 3)
    assert "0, 1, 2, ... (30 in all)" in text and "and 27 more labels" in text
    assert "(30 in all)" not in run("info", tmp_path / "many", "--labels", 30)
    assert len(json.loads(run("info", tmp_path / "many", "--json"))["labels"]) == 30


def test_info_of_another_file_is_an_error(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("some notes")
    assert run("info", other, code=1).strip().endswith("expected a file written by estimator.save.")
    assert run("info", tmp_path / "none", code=1).strip() == f"Error: {tmp_path / 'none'}: No such file or directory."
    assert "is a folder" in run("info", tmp_path, code=1)


def test_demo_on_the_command_line(tmp_path):
    text = run("demo", "--quick", "--no-ocr", "--jobs", 1, "--out", tmp_path)
    assert "LapMEDN" in text and "OCR" not in text
    assert (tmp_path / "weights.png").exists()


def test_errors_of_demo(tmp_path):
    assert "number of threads" in run("demo", "--jobs", 0, code=2)
    assert "does not exist" in run("demo", "--ocr-data", tmp_path / "none", code=2)
    (tmp_path / "file").write_text("")
    assert "Error" in run("demo", "--quick", "--no-ocr", "--out", tmp_path / "file" / "below", code=1)


@pytest.mark.parametrize("arguments", [["--help"], ["info", "model.medn"]], ids=" ".join)
def test_an_interrupt_during_imports_is_quiet(arguments):
    script = f"""
import sys
from maxendnet.cli import main

class Interrupt:
    def find_spec(name, path=None, target=None):
        if name in ("sklearn", "maxendnet.text.tool.commands"):
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt)
main({arguments})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

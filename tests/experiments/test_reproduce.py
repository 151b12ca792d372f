"""Every experiment in its smallest form, and what it writes."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import toy
from click.testing import CliRunner
from sklearn.utils import Bunch
from test_engine import alive, wait_for

from maxendnet import experiments
from maxendnet.cli import main
from maxendnet.experiments.engine import cells, experiment, publish, report
from maxendnet.experiments.engine import data as module
from maxendnet.experiments.engine.cells import Outcome, run_cells
from maxendnet.experiments.engine.claim_table import paper_lines
from maxendnet.experiments.engine.experiment import Verdict
from maxendnet.experiments.engine.reproduce import reproduce, table_rows, why_not, write_results
from maxendnet.experiments.engine.results import Done, ResultsTable
from maxendnet.web.tool.toy import toy_pages

WORDS = {verdict.word for verdict in vars(experiment).values() if isinstance(verdict, Verdict)}


def fake_letters(path=None):
    """Words of two letters made of random pixels: the real ones may not be at hand."""
    rng = np.random.default_rng(0)
    words = rng.choice(["on", "no", "noon", "nun"], size=200).tolist()
    dark = [np.array([letter == "n" for letter in word]) for word in words]
    pixels = [(d[:, None] ^ (rng.random((len(d), 128)) < 0.4)).astype(np.uint8) for d in dark]
    return Bunch(X=pixels, y=[np.array(list(w)) for w in words], folds=np.arange(200) % 10, words=words)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Files in the form of the four data sets."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)

    def write(name, text):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(gzip.compress(text.encode()))

    def tagged(n):
        lines = [
            [f"{w}\t{'N' if w.isdigit() else 'O'}" for w in rng.choice(["12", "Main", "St."], 4)] for _ in range(n)
        ]
        return "\n\n".join("\n".join(block) for block in lines) + "\n"

    for task in ("wnut17", "usaddress"):
        write(f"{task}/train.tsv.gz", tagged(20))
        write(f"{task}/test.tsv.gz", tagged(20))
    chords = ["\n".join(f"c{i}\t{'100010010000' if t % 2 else '010000000000'}\tC\t3\t{'C_M' if t % 2 else 'x'}"
                        for t in range(5)) for i in range(10)]  # fmt: skip
    write("bach_chorales/chorales.tsv.gz", "\n\n".join(chords) + "\n")
    proteins = [{"group": i, "fold": i % 2, "seq": "ARND" * 3, "q3": "CHEC" * 3, "q8": "CHEC" * 3,
                 "domain": "1" * 12, "ordered": "0" + "1" * 11} for i in range(8)]  # fmt: skip
    write("cb513/cb513.jsonl.gz", "\n".join(map(json.dumps, proteins)) + "\n")
    shop = toy_pages(n_sites=3, n_pages=6)
    pages = [
        {"page": page.name, "site": page.site, "html": shop.html[page.name], "values": given.values,
         "split": ("train", "train", "dev", "test", "test", "test")[i % 6]}
        for i, (page, given) in enumerate(zip(shop.pages, shop.labels))
    ]  # fmt: skip
    write("swde/camera.jsonl.gz", "\n".join(map(json.dumps, pages)) + "\n")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory, tasks):
    """All experiments, run once."""
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "fetch_ocr_letters", fake_letters)
    module.letters.cache_clear()
    out, said = tmp_path_factory.mktemp("out"), []
    failures = reproduce(experiments.NAMES, out, scale="tiny", data=tasks, progress=False, echo=said.append)
    module.letters.cache_clear()
    patch.undo()
    assert failures == []
    return out, said


def ran(out):
    return [name for name in experiments.NAMES if (out / name).exists()]


def test_every_experiment_runs_or_says_why_not(results):
    out, said = results
    skipped = [line.split(":")[0] for line in said if "skipped" in line]
    assert sorted(ran(out) + skipped) == sorted(experiments.NAMES)
    assert skipped == []


@pytest.mark.parametrize("name", experiments.NAMES)
def test_an_experiment_leaves_numbers_a_figure_and_cards(results, name):
    folder, experiment = results[0] / name, experiments.get(name)
    rows = table_rows(experiment, run_cells(experiment, results[0] / "results", scale="tiny", only_finished=True))
    assert rows
    for row in rows:
        assert 0 <= row.get("error", 0.0) <= 1
        if row.get("gap", np.nan) == row.get("gap"):  # a number, not NaN
            assert row["gap"] >= 0 and row["converged"] in (True, False)
    png = (folder / f"{name}.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 5_000
    assert "<svg" in (folder / f"{name}.svg").read_text()[:1000]
    summary = json.loads((folder / "cards.json").read_text())
    assert (
        summary["n_done"] == summary["n_cells"]
        and summary["missing"] == []
        and summary["scale"] == "tiny"
        and summary["seed"] == 0
    )
    cards = summary["cards"]
    assert cards and len({card["key"] for card in cards}) == len(cards)
    for card in cards:
        assert card["verdict"]["word"] in WORDS and card["claim"] and (card["test"] or not card["estimates"])


def test_what_is_not_a_matter_of_chance_is_decided_even_in_a_tiny_run(results):
    def verdicts(name):
        return {
            c["key"]: c["verdict"]["word"] for c in json.loads((results[0] / name / "cards.json").read_text())["cards"]
        }

    assert verdicts("shrinkage") == {"shrinks": "holds", "larger_lam": "holds", "none_zero": "holds"}
    assert verdicts("norms") == {"towards_l1": "holds", "smooth": "holds"}
    assert verdicts("variances")["vanish"] == "does not hold"
    # one draw allows no test
    assert set(verdicts("iid").values()) == {"undecided"}


def test_every_claim_of_the_paper_has_its_card(results):
    lines = paper_lines(report.summaries(results[0]))
    without = {line.key for line in lines if line.card is None}
    assert without == {"steadier_nine", "steadier_one"}  # these compare sizes, and a tiny run has only one
    assert len(lines) == len({(line.experiment, line.key) for line in lines})


def test_the_report_is_one_page_that_needs_nothing_else(results):
    page = report.page(results[0])
    assert "http://" not in page and "https://" not in page and "<script" not in page and "<link" not in page
    assert page.count("data:image/svg+xml;base64,") == len(ran(results[0]))
    assert "width=device-width" in page and "prefers-color-scheme: dark" in page
    warning = re.search("too small for conclusions: (.*?)\\.", page)[1].split(", ")
    assert set(warning) == set(ran(results[0])) - {"shrinkage", "norms"}  # computations are exact at any size
    for name in experiments.NAMES:
        assert f"id='{name}'" in page
    n_cards = len(re.findall(r"<div class='card ", page))
    assert n_cards > 40 and len(re.findall(r"<td class='verdict", page)) == n_cards + 2
    assert page.count("<svg") > 20


def test_small_runs_are_not_published(results, tmp_path):
    assert publish.publish(results[0], tmp_path) == list(experiments.NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert "| not run |" in (tmp_path / "README.md").read_text()


def test_full_runs_are_published_from_their_table_without_a_run(tmp_path, monkeypatch):
    out, to = tmp_path / "out", tmp_path / "to"
    reproduce(["shrinkage"], out, results=to / "results", progress=False, echo=lambda text: None)

    def fail(*arguments):
        raise AssertionError("a cell was computed")

    monkeypatch.setattr(cells, "compute", fail)
    pages = []
    for folder in ("a", "b"):
        reproduce(
            ["shrinkage"], tmp_path / folder, results=to / "results", only_finished=True, progress=False,
            echo=lambda text: None,
        )  # fmt: skip
        left_out = publish.publish(tmp_path / folder, to)
        pages.append((to / "README.md").read_text())
    assert pages[0] == pages[1]
    assert "shrinkage" not in left_out and (to / "shrinkage.png").exists() and "![" in pages[0]
    assert "8 of 8 cells" in pages[0] and "did not run" not in pages[0]
    assert (to / "forests" / "shrinkage-shrinks.svg").read_text().startswith("<svg")


def test_cells_that_did_not_run_and_earlier_verdicts_are_on_the_page(tmp_path):
    out, to = tmp_path / "out", tmp_path / "to"
    experiment = experiments.get("variances")
    with pytest.raises(KeyboardInterrupt):
        run_cells(replace(experiment, run=toy.interrupted), to / "results", progress=False)
    (to / "results" / publish.EARLIER).write_text("experiment\tkey\tverdict\niid\tbeats_m3n\tholds\n")
    outcome = run_cells(experiment, to / "results", only_finished=True)
    assert len(outcome.missing) == outcome.n_cells == 40
    row = {
        "within_relevant": 0.1, "across_relevant": 1.0, "within_irrelevant": 1.0, "across_irrelevant": 1.0,
        "smallest_times_lam": 1.1, "irrelevant_over_relevant": 0.5, "chosen_lam": 9.0, "values": [1.0] * 100,
    }  # fmt: skip
    done = [Done(settings, row, 1.0, "0.2", "abc") for settings in outcome.missing if settings["draw"] < 3]
    missing = [settings for settings in outcome.missing if settings["draw"] >= 3]
    write_results(experiment, Outcome(done, missing, [], n_older=4), out / "variances", "full", 0, print)
    publish.publish(out, to)
    page = (to / "README.md").read_text()
    assert "28 of 40 cells did not run; draw 3, 4, 5, 6, 7, 8, 9." in page
    assert "4 of them are results of older code" in page and "not run; 0.1.0: holds" in page
    assert "Unfinished: 12 of 40 cells" in report.page(out)


def test_the_same_numbers_from_processes_and_from_here(results, tmp_path, two_processes):
    def numbers(folder):
        rows = ResultsTable(folder / "iid.tsv").read()
        return {name: {k: v for k, v in row.numbers.items() if "seconds" not in k} for name, row in rows.items()}

    run_cells(experiments.get("iid"), tmp_path, scale="tiny", pool=two_processes, progress=False)
    assert numbers(tmp_path) == numbers(results[0] / "results")


def test_conclusions_can_be_drawn_from_some_of_the_cells(results, tmp_path):
    experiment = experiments.get("iid")
    outcome = run_cells(experiment, results[0] / "results", scale="tiny", only_finished=True)
    for n in (1, 3):
        missing = [done.settings for done in outcome.done[n:]]
        write_results(experiment, outcome._replace(done=outcome.done[:n], missing=missing), tmp_path, "full", 0, print)
        summary = json.loads((tmp_path / "cards.json").read_text())
        assert summary["n_done"] == n
        assert summary["missing"][0] == f"{len(missing)} of {len(missing) + n} cells did not run"


def test_without_matplotlib_there_are_numbers_and_advice(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = []
    outcome = run_cells(toy.TOY, tmp_path, scale="tiny", progress=False)
    write_results(toy.TOY, outcome, tmp_path, "tiny", 0, said.append)
    assert "pip install 'maxendnet[plot]'" in said[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cards.json", "toy.tsv"]
    assert toy.cards([{"value": 1.0}])[0].verdict.word == "undecided"


def test_absent_data_costs_a_line(monkeypatch, tmp_path):
    def fail(path):
        raise OSError("no network\nat all")

    monkeypatch.setattr(module, "fetch_ocr_letters", fail)
    module.letters.cache_clear()
    assert "no network" in why_not("ocr", None) and "at all" not in why_not("ocr", None)
    assert "--data" in why_not("other_tasks", None) and "--data" in why_not("other_tasks", tmp_path)
    said = []
    assert reproduce(["ocr"], tmp_path, progress=False, echo=said.append) == []
    assert said[0].startswith("ocr: skipped:")
    module.letters.cache_clear()


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_report(tmp_path):
    result = CliRunner().invoke(main, ["reproduce", "shrinkage", "--quick", "--out", str(tmp_path / "new" / "out")])
    assert result.exit_code == 0, result.output
    assert "holds" in result.output and (tmp_path / "new" / "out" / "report.html").exists()


@pytest.mark.parametrize("arguments, words", [
    (["nothing"], "there is no experiment 'nothing'"),
    ([], "NAME|all"),
    (["norms", "--jobs", "0"], "-1 for all processors"),
])  # fmt: skip
def test_the_command_says_what_it_wants(arguments, words):
    result = CliRunner().invoke(main, ["reproduce", *arguments])
    assert result.exit_code == 2 and words in result.output


@pytest.mark.long
def test_ctrl_c_is_heard_and_said_to_be_harmless(tmp_path):
    command = [sys.executable, "-m", "maxendnet", "reproduce", "iid", "--quick", "--jobs", "2", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for((tmp_path / "results" / "iid.tsv").exists)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and "the same command resumes" in said and "Traceback" not in said
    wait_for(lambda: not alive(process.pid))

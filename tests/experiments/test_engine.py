import csv
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import toy
from toy import TOY

import maxendnet
from maxendnet import experiments
from maxendnet.experiments.engine import systems
from maxendnet.experiments.engine.cells import run_cells, workers
from maxendnet.experiments.engine.code_hash import code_hash
from maxendnet.experiments.engine.results import Done, ResultsTable, identity, plain, restored


def numbers(outcome):
    return [(done.settings["place"], done.numbers["value"], done.numbers["list"]) for done in outcome.done]


def go(folder, **options):
    return run_cells(TOY, folder, progress=False, **options)


def test_the_numbers_do_not_depend_on_the_number_of_processes(tmp_path, two_processes):
    one, two = go(tmp_path / "one"), go(tmp_path / "two", pool=two_processes)
    assert numbers(one) == numbers(two) and len(one.done) == one.n_cells == 12
    assert numbers(one) != numbers(go(tmp_path / "one", seed=1))


def test_what_is_finished_is_not_computed_again(tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.setenv("TOY_LOG", str(log))
    first = go(tmp_path, scale="quick")
    assert go(tmp_path, scale="quick") == first
    assert log.read_text().split() == list("012345")
    assert len(go(tmp_path, scale="full", only_finished=True).done) == 6  # quick cells that are also full ones


def test_results_of_other_code_or_versions_are_computed_again_but_published(tmp_path, monkeypatch):
    first = go(tmp_path, scale="tiny")
    for name, value in (("toy.EXPONENT", 2), ("maxendnet.__version__", "next")):
        monkeypatch.setattr(name, value)
        published = go(tmp_path, scale="tiny", only_finished=True)
        assert (len(published.done), published.n_older) == (3, 3)
        again = go(tmp_path, scale="tiny")
        assert (len(again.done), again.n_older) == (3, 0)
        assert {done.version for done in again.done} == {maxendnet.__version__}
    assert numbers(again) != numbers(first)


def test_the_hash_covers_the_code_of_a_cell_and_nothing_else(monkeypatch):
    before = code_hash(toy.run)
    monkeypatch.setattr(toy, "cards", lambda rows: [])
    assert code_hash(toy.run) == before
    monkeypatch.setattr(toy, "EXPONENT", 2)
    assert code_hash(toy.run) != before

    hashes = {name: code_hash(experiments.get(name).run) for name in experiments.NAMES}
    assert hashes["ocr"] == hashes["ocr_full"] and len(set(hashes.values())) == len(hashes) - 1
    monkeypatch.setattr(systems, "FINAL_TOL", 0.5)  # read by a function that the cells call
    monkeypatch.setitem(systems.GRIDS, "M3N", systems.Grid(()))
    after = {name: code_hash(experiments.get(name).run) for name in experiments.NAMES}
    assert after["iid"] != hashes["iid"] and after["ocr"] != hashes["ocr"] and after["norms"] == hashes["norms"]


def test_a_table_lists_the_cells_that_did_not_run_and_drops_those_of_other_grids(tmp_path):
    go(tmp_path, scale="tiny")
    with pytest.raises(KeyboardInterrupt):
        run_cells(replace(TOY, run=toy.interrupted), tmp_path, scale="quick", progress=False)

    def column(name):
        return [row[name] for row in csv.DictReader((tmp_path / "toy.tsv").open(), delimiter="\t")]

    assert column("settings.place") == list("012345")
    assert [version != "" for version in column("version")] == [True] * 3 + [False] * 3
    narrower = replace(TOY, cells=lambda scale: toy.cells("tiny")[:2])
    run_cells(narrower, tmp_path, progress=False)
    assert column("settings.place") == ["0", "1"]


def test_cells_without_data_are_missing(tmp_path):
    outcome = run_cells(replace(TOY, run=toy.without_data), tmp_path, scale="tiny", progress=False)
    assert not outcome.done and not outcome.failures and len(outcome.missing) == 3


def test_a_line_that_was_cut_off_costs_one_cell(tmp_path):
    whole = go(tmp_path, scale="tiny")
    path = tmp_path / "toy.tsv"
    for n_bytes in (1, 9):
        path.write_bytes(path.read_bytes()[:-n_bytes])
        assert len(ResultsTable(path).read()) == 2
        ResultsTable(path).add(whole.done[0])  # another process may append a row
        assert len(ResultsTable(path).read()) == 2
        assert numbers(go(tmp_path, scale="tiny")) == numbers(whole)
        assert len(path.read_text().splitlines()) == 4


@pytest.mark.long
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    log, gate = tmp_path / "log", tmp_path / "gate"
    monkeypatch.setenv("TOY_GATE", str(gate))  # the first four cells end, the others wait for it
    monkeypatch.setenv("TOY_LOG", str(log))
    process = subprocess.Popen([sys.executable, toy.__file__, tmp_path, "2"], start_new_session=True)
    path = tmp_path / "toy.tsv"
    wait_for(lambda: path.exists() and path.read_text().count("\n") >= 4)
    process.kill()
    process.wait()
    gate.touch()
    wait_for(lambda: not alive(process.pid))  # nobody goes on computing
    stored = ResultsTable(path).read()
    assert 3 <= len(stored) <= 4
    began = len(log.read_text().split())
    assert len(go(tmp_path).done) == 12
    again = log.read_text().split()[began:]
    assert sorted(again) == sorted(
        {str(k) for k in range(12)} - {str(done.settings["place"]) for done in stored.values()}
    )


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cell_that_fails_is_named_and_the_others_are_saved(tmp_path, jobs, two_processes):
    pool = two_processes if jobs == 2 else None
    outcome = run_cells(replace(TOY, run=toy.fail_once), tmp_path, scale="tiny", pool=pool, progress=False)
    (failure,) = outcome.failures
    assert '"place": 1' in failure and "RuntimeError: no luck" in failure
    assert [done.settings["place"] for done in outcome.done] == [0, 2]


def test_numbers_that_json_lacks_come_back(tmp_path):
    value = {"a": [1.0, math.inf, -math.inf], "b": math.nan, "c": True, "d": "text"}
    table = ResultsTable(tmp_path / "x.tsv")
    table.add(Done({"words": None}, value, 1.0, "1", "code"))
    (row,) = table.read().values()
    back = row.numbers
    assert row.settings == {"words": None}
    assert math.isnan(back.pop("b")) and back == {k: v for k, v in value.items() if k != "b"}
    json.dumps(plain(value), allow_nan=False)
    assert restored(plain([1, [2]])) == [1, [2]]


def test_a_cell_is_identified_by_its_content():
    names = {identity(s, seed) for s in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 1}) for seed in (0, 1)}
    assert len(names) == 4


@pytest.mark.long
def test_a_process_that_dies_is_reported(tmp_path):
    with pytest.raises(ChildProcessError, match="fewer --jobs"), workers(2) as pool:
        run_cells(replace(TOY, run=_die, cells=_one_cell), tmp_path, pool=pool, progress=False)


def _one_cell(scale):
    return [{}]


def _die(settings, seed, data):
    os._exit(1)


def test_the_bar_counts_what_was_there(tmp_path, capsys, monkeypatch):
    go(tmp_path, scale="tiny")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run_cells(TOY, tmp_path, scale="quick")
    shown = capsys.readouterr().err
    assert "3/6 cells" in shown and "6/6 cells" in shown and "left" in shown

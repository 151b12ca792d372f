import json
import sys

import numpy as np
import pytest
from sklearn.utils import Bunch

from maxendnet.experiments import demo as module
from maxendnet.experiments.demo import SMALL, Row, _direction, _table, demo

SYSTEMS = ["LapMEDN", "M3N", "L1M3N", "CRF", "L1CRF", "L2CRF"]


@pytest.fixture
def letters(monkeypatch):
    """Words of random pixels instead of the real letters, which may be unavailable."""
    rng = np.random.default_rng(0)
    words = rng.choice(["on", "no", "noon", "nun"], size=2000).tolist()
    dark = [np.array([letter == "n" for letter in word]) for word in words]
    data = Bunch(
        X=[(d[:, None] ^ (rng.random((len(d), 128)) < 0.3)).astype(np.uint8) for d in dark],
        y=[np.array(list(word)) for word in words],
        folds=rng.integers(2, size=len(words)),
        words=words,
    )
    paths = []
    monkeypatch.setattr(module, "fetch_ocr_letters", lambda path: paths.append(path) or data)
    return paths


@pytest.fixture
def output():
    return []


def test_six_systems_on_two_data_sets(tmp_path, letters, output):
    tables = demo(tmp_path / "new" / "folder", quick=True, ocr_data="somewhere", echo=output.append)
    assert letters == ["somewhere"]
    assert list(tables) == ["synthetic chains", "OCR letters"]
    for rows in tables.values():
        assert [row.system for row in rows] == SYSTEMS
        assert all(0 <= row.error < 0.5 and 0 <= row.above <= 1 and row.seconds > 0 for row in rows)
        assert [row.system for row in rows if np.isnan(row.gap)] == ["CRF"]
        assert all(row.gap <= 0.1 for row in rows if row.converged and row.system != "CRF")
    # two letters under noise: guessing errs on nearly half of them
    errors = [row.error for row in tables["OCR letters"]]
    assert max(errors) < 0.25 and np.median(errors) < 0.1
    text = "\n".join(output)
    assert "10 of 100 features are relevant" in text and "OCR letters" in text and "weights.png" in text


def test_the_figure_is_a_picture_and_the_numbers_are_those_of_the_table(tmp_path, output):
    tables = demo(tmp_path, quick=True, ocr=False, echo=output.append)
    png = (tmp_path / "weights.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 10_000
    numbers = json.loads((tmp_path / "demo.json").read_text())
    assert [row["error"] for row in numbers["synthetic chains"]] == [row.error for row in tables["synthetic chains"]]
    assert [row["gap"] for row in numbers["synthetic chains"]][3] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json", "weights.png"]


def test_the_same_for_any_number_of_threads(tmp_path, output):
    one = demo(tmp_path, quick=True, ocr=False, n_jobs=1, echo=output.append)["synthetic chains"]
    two = demo(tmp_path, quick=True, ocr=False, n_jobs=2, echo=output.append)["synthetic chains"]
    assert [(r.error, r.above) for r in one] == [(r.error, r.above) for r in two]


@pytest.mark.parametrize("error", [OSError("no network\nat all"), ValueError("damaged\nfile")])
def test_letters_that_cannot_be_had_cost_one_line(tmp_path, monkeypatch, output, error):
    def fail(path):
        raise error

    monkeypatch.setattr(module, "fetch_ocr_letters", fail)
    assert list(demo(tmp_path, quick=True, echo=output.append)) == ["synthetic chains"]
    (line,) = [text.strip() for text in output if "skipped" in text]
    assert line == f"OCR letters: skipped. {str(error).splitlines()[0]}"
    assert (tmp_path / "weights.png").exists()


def test_without_matplotlib_there_are_tables_and_advice(tmp_path, monkeypatch, output):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    demo(tmp_path, quick=True, ocr=False, echo=output.append)
    assert any("pip install 'maxendnet[plot]'" in text for text in output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo.json"]


def test_a_table_is_aligned_and_marks_fits_that_stopped_early():
    rows = [
        Row("LapMEDN", "C=5, lam=25000", 0.1234, 12.5, 0.5, False, 0.25),
        Row("CRF", "", 0.2, 0.01, float("nan"), True, 1.0),
    ]
    lines = _table("Some data", rows, 0.01).splitlines()
    table = lines[3:7]
    assert len({len(line) for line in lines[2:8]}) == 1
    assert table[0].split() == ["system", "constants", "error", "%", "seconds", "gap", "|weight|", ">", f"{SMALL:g}"]
    assert "12.3" in table[2] and "5.0e-01 *" in table[2] and "none" in table[3]
    assert lines[-1] == "* stopped at max_passes with a larger gap."
    assert "*" not in _table("Some data", rows[1:], 0.01)


def test_weights_are_compared_by_direction():
    coef = np.array([[1.0, 4.0], [0.0, -4.0], [2.0, 2.0]])
    np.testing.assert_allclose(_direction(coef), [0.6, -0.8, 0.0])
    assert not _direction(np.zeros((2, 2))).any()

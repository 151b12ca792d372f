"""The scripts in examples/ run on small data."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from maxendnet import grid_edges

FOLDER = Path(__file__).parent.parent / "examples"


def script(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", [(4, 5), (1, 6), (3, 1)])
def test_a_comb_is_a_tree(shape):
    chosen = script("label_images").comb(shape)
    edges, n = grid_edges(shape)[0][chosen], shape[0] * shape[1]
    assert len(edges) == n - 1
    assert connected_components(coo_array((np.ones(n - 1), edges.T), shape=(n, n)), directed=False)[0] == 1


def test_images_are_labelled_and_drawn(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 4), ("test", 2)):
        y = np.repeat(rng.integers(0, 11, size=(n, 4, 1)), 5, axis=2)  # rows of one class
        arrays[f"X_{split}"] = (20 * y[..., None] + rng.integers(0, 9, size=(n, 4, 5, 12))).astype(np.uint8)
        y[:, 0, 0] = 11
        arrays[f"y_{split}"] = y.astype(np.uint8)
    np.savez(tmp_path / "grids.npz", **arrays)
    path = tmp_path / "images.png"
    monkeypatch.setattr(sys, "argv", ["label_images", str(tmp_path / "grids.npz"), "--show", "0", "1", "-o", str(path)])
    script("label_images").main()
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("accuracy") == 3

"""Advice of the ConvergenceWarning on real data: OCR letters, where a large C never converges and predicts worse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sklearn.exceptions import ConvergenceWarning

from maxendnet import L1M3N, L2CRF, M3N, Examples, LapMEDN
from maxendnet.datasets import fetch_ocr_letters

DATA = Path(os.environ.get("MAXENDNET_DATA") or Path(__file__).parents[2] / "shared" / "data") / "ocr_letters"
pytestmark = pytest.mark.skipif(
    not (DATA / "ocr_letters.npz").exists(), reason="needs data sets (set MAXENDNET_DATA)"
)  # fmt: skip


@pytest.fixture(scope="module")
def letters():
    data = fetch_ocr_letters(DATA)
    first = [i for i, fold in enumerate(data.folds) if fold == 0][:300]
    return Examples.build([data.X[i] for i in first], [data.y[i] for i in first])


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (M3N(C=100, max_passes=60), "nearly separable .*: a smaller C converges faster"),
        (LapMEDN(C=10, lam=1, max_passes=60), "nearly separable .*: a smaller C or a larger lam converges faster"),
        (L2CRF(lam=1e-4, max_passes=30), "nearly separable .*: a larger lam converges faster"),
        (M3N(C=0.1, max_passes=10), "tol 0.01; raise max_passes or tol.$"),
        (LapMEDN(C=1, lam=100, max_passes=10), "tol 0.01; raise max_passes or tol.$"),
        (L1M3N(C=0.1, max_passes=10), "tol 0.01; raise max_passes or tol.$"),
        (L2CRF(lam=1, max_passes=10), "tol 0.01; raise max_passes or tol.$"),
    ],
    ids=repr,
)
def test_more_regularisation_is_advised_where_it_helps(model, advice, letters):
    with pytest.warns(ConvergenceWarning, match=advice):
        model.fit(letters)

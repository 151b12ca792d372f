"""Settings that the estimators share."""

from __future__ import annotations

import pytest

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MaxEnDNet
from maxendnet.estimators.settings import more_regularisation


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (M3N(), "a smaller C"),
        (LapMEDN(), "a smaller C or a larger lam"),
        (L1M3N(), "a smaller C"),
        (L1M3N(radius=3.0), "a smaller radius"),
        (L1CRF(), "a larger lam"),
        (L2CRF(), "a larger lam"),
        (MaxEnDNet(), "a smaller C"),
        (CRF(), "a penalty, as in L2CRF(lam=0.1),"),
    ],
    ids=repr,
)
def test_more_regularisation_by_the_constants_of_an_estimator(model, words):
    assert more_regularisation(model) == words

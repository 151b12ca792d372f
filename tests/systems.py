"""Estimators that cover all systems, and data for tests that do not depend on the optimum itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, LapMEDN, MaxEnDNet, SpikeSlab

SYSTEMS = {
    "LapMEDN": LapMEDN(),
    "LapMEDN variational": LapMEDN(method="variational", iterations=3),
    "M3N": M3N(),
    "L1M3N": L1M3N(C=0.5),
    "L1M3N ball": L1M3N(radius=3.0),
    "CRF": CRF(),
    "L1CRF": L1CRF(),
    "L2CRF": L2CRF(),
    "MaxEnDNet": MaxEnDNet(SpikeSlab()),
}
every_system = pytest.mark.parametrize("model", [clone(m) for m in SYSTEMS.values()], ids=SYSTEMS.keys())


def labelled_chains():
    """Chains whose labels follow the features and the label before, with noise."""
    rng = np.random.default_rng(0)
    weights, X, y = rng.normal(size=(4, 3)), [], []
    for n in rng.integers(1, 7, size=40):
        x = rng.normal(size=(n, 4))
        scores, labels = x @ weights + 0.5 * rng.normal(size=(n, 3)), []
        for row in scores:
            labels.append("abc"[np.argmax(row + (np.array(list("abc")) == labels[-1] if labels else 0.0))])
        X.append(x)
        y.append(labels)
    return X, y


def roughly(model, **more):
    """Return a copy that is quick to fit, for tests that do not depend on the optimum itself."""
    return clone(model).set_params(tol=0.2, random_state=0, **more)


def flat(labellings):
    """Labels of all examples, concatenated."""
    return [label for labels in labellings for label in labels]


def weights_of(model):
    return np.concatenate([np.ravel(part) for part in (model.coef_, model.transitions_, model.intercept_)])

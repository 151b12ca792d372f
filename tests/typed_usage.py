"""What type checkers know about user code; checked by `make lint`, not run.

A line with `type: ignore` is an error that must be reported: an unused one fails the check.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from maxendnet import CRF, L1M3N, L2CRF, M3N, Chain, Examples, Laplace, LapMEDN, MaxEnDNet, Tree
from maxendnet.solvers import LBFGS, BlockFrankWolfe
from maxendnet.structures.base import Structure
from maxendnet.text import Tagger

X = [[[0.0], [1.0]], [[1.0]]]
y = [["a", "b"], ["b"]]

model = M3N(C=1, structure=Chain(bias=True), solver=BlockFrankWolfe(), tol=1e-3, random_state=0)
assert_type(model, M3N)
assert_type(model.fit(X, y), M3N)
assert_type(model.set_params(C=0.5), M3N)
assert_type(model.partial_fit(X, y), M3N)
assert_type(model.tol, float)
assert_type(model.structure, Structure | str)
assert_type(model.gap_, float)
assert_type(model.coef_, NDArray[np.float64])
assert_type(model.predict_proba(X), NDArray[np.float64])
assert_type(model.get_params(), dict[str, Any])

M3N(C="scale", cost={("a", "b"): 2.0}, class_weight="balanced")
L2CRF(lam=0.1, solver=LBFGS(), callback=lambda progress: progress.evaluation.gap < 0.1)
LapMEDN(lam="scale", method="variational", structure=Tree())
MaxEnDNet(prior=Laplace(lam=2.0))
Tagger(model=CRF()).fit(Examples.build(X, y), y)

M3N(lam=1.0)  # type: ignore[call-arg]
M3N(C="large")  # type: ignore[arg-type]
LapMEDN(method="approximate")  # type: ignore[arg-type]
L1M3N(radius="1")  # type: ignore[arg-type]
L2CRF(solver="LBFGS")  # type: ignore[arg-type]
CRF(tol="small")  # type: ignore[arg-type]
print(model.ngap_)  # type: ignore[attr-defined]

"""What priors, losses and solvers have in common: hyper-parameters, and nothing else."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sklearn.base import BaseEstimator


class Piece(BaseEstimator):
    """Base of every prior, loss and solver: a dataclass of hyper-parameters.

    Being a scikit-learn ``BaseEstimator`` gives ``clone``, ``get_params`` and names such as ``prior__lam``
    in a grid search. A piece holds no data and no state; what a fit learns lives in the estimator.
    """

    def check(self) -> None:
        """Raise ``ValueError`` when a hyper-parameter makes no sense; called once, when a problem is posed."""


def options(piece: Any) -> dict[str, Any]:
    """The hyper-parameters by name, without the time that ``get_params`` takes to read a signature.

    Examples
    --------
    >>> from maxendnet import Chain
    >>> options(Chain(bias=True))["bias"]
    True
    """
    if not is_dataclass(piece):
        return piece.get_params(deep=False)
    return {field.name: getattr(piece, field.name) for field in fields(piece)}

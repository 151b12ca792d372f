"""Base class of priors, losses, structures and solvers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from maxendnet.utils.scikit_learn import BaseEstimator


class Piece(BaseEstimator):
    """Base class of priors, losses, structures and solvers: hyper-parameters only.

    As a scikit-learn ``BaseEstimator``, a piece supports ``clone``, ``get_params`` and parameter names such as
    ``prior__lam`` in a grid search. It holds no data and no state; an estimator stores the results of a fit.
    """

    def check(self) -> None:
        """Raise ``ValueError`` for an invalid hyper-parameter.

        It is called once for each problem.
        """


def options(piece: Any) -> dict[str, Any]:
    """Return the hyper-parameters by name. This is faster than ``get_params``.

    Examples
    --------
    >>> from maxendnet import Chain
    >>> options(Chain(bias=True))["bias"]
    True
    """
    if not is_dataclass(piece):
        parameters: dict[str, Any] = piece.get_params(deep=False)
        return parameters
    return {field.name: getattr(piece, field.name) for field in fields(piece)}

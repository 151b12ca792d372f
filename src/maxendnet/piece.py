"""What priors, losses and solvers have in common: hyper-parameters, and nothing else."""

from __future__ import annotations

from sklearn.base import BaseEstimator


class Piece(BaseEstimator):
    """Base of every prior, loss and solver: a dataclass of hyper-parameters.

    Being a scikit-learn ``BaseEstimator`` gives ``clone``, ``get_params`` and names such as ``prior__lam``
    in a grid search. A piece holds no data and no state; what a fit learns lives in the estimator.
    """

    def check(self) -> None:
        """Raise ``ValueError`` when a hyper-parameter makes no sense; called once, when a problem is posed."""

"""Documentation of the settings that all estimators share."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

Scale = Literal["scale"]
"""Value of a hyper-parameter that is computed from the mean squared norm of the features of a node."""
ScaleFunctions = Mapping[str, Callable[[float], float]]
"""Functions that compute values of "scale" from the mean squared norm, by hyper-parameter."""
Seed = int | np.random.Generator | None

COMMON = """\
    structure : a structure or its name, default="chain"
        Dependencies between the labels of an example: `Chain`, `Tree`, `Graph`, `Independent` or `Choice`, with
        options such as ``Chain(bias=True)``. A lower-case name selects the structure with default options.
    solver : Solver or None, default=None
        Optimisation algorithm. None selects the default solver for the model and data.
    tol : float, default=1e-2
        Tolerance: the fit stops when `gap_` is at most this.
    max_passes : int, default=10_000
        Maximum number of passes over the data. A fit that stops there issues a ConvergenceWarning.
    n_jobs : int or None, default=None
        Number of threads for passes over all examples; None is 1, -1 all processors. Results do not depend on it.
    warm_start : bool, default=False
        Whether to start from the last fit of this estimator. This requires the same examples, sample weights and
        costs, or for `LBFGS` and `OWLQN` only a problem of the same shape.
    random_state : int, Generator or None, default=None
        Seed for the order in which examples are visited.
    verbose : int, default=0
        1 shows a progress bar (in a log file: one line per minute), 2 or more prints a line for each evaluation.
    backend : Backend or None, default=None
        Where sums over examples are computed. None is ``Threads(n_jobs)``.
    callback : callable or None, default=None
        Called with a `Progress` after each evaluation. If it returns True, the fit stops.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
    transitions_ : ndarray of shape (n_labels, n_labels), or (n_edge_types, n_labels, n_labels) for several types
        Rows: label of the left node, or of the parent.
    siblings_ : ndarray of shape (n_labels, n_labels, n_labels), or (n_edge_types, n_labels, n_labels, n_labels)
        With ``Tree(siblings=True)``: weights by labels of the parent, the left child and the right child. The edge type
        is that of the right child. Otherwise empty.
    intercept_, start_, end_ : ndarray of shape (n_labels,)
        Weights of the options ``bias`` and ``ends`` of the structure, otherwise zero.
    edge_coef_ : ndarray of shape (n_edge_features, n_labels, n_labels)
    label_coef_ : ndarray of shape (n_label_features,)
    classes_ : ndarray of shape (n_labels,)
    C_, lam_ : float
        Values of the hyper-parameters ``C`` and ``lam`` in the fit: numbers even if the setting is "scale".
    model_ : FittedModel
        Weights, structure, labels and posterior in one object.
    posterior_ : Posterior, VariationalPosterior or PointEstimate
    objective_, dual_, gap_ : float
        Objective at the returned weights, a lower bound of its minimum, and their relative difference.
    converged_ : bool
    which_ : {"last", "average", "best"}
        Which iterate was returned.
    round_gap_ : float
        For margin models with unknown labels, the gap of the last convex problem; `gap_` is nan. Otherwise equal to
        `gap_`.
    n_rounds_ : int
        Number of convex problems that were solved; 1 if all labels are known.
    solver_ : str
        The solver that was used, and why it was chosen.
    trace_ : list of TraceRow
        n_pass, seconds, n_oracle, primal, dual, gap, n_nonzero.
    n_passes_ : int
    n_features_in_ : int
    feature_names_ : tuple of str or None
        Names of feature dicts, or of the columns of DataFrames, which must be the same at prediction.
    feature_names_in_ : ndarray of str
        Feature names as in scikit-learn. It exists only if features have names.
"""

SIGNS = {"C": 1, "radius": 1, "v": 1, "variance": 1, "lam": -1}
"""Effect of a larger value of a hyper-parameter: 1 means less regularisation, -1 more."""


def documented(doc: str | None, shared: str) -> str | None:
    """Insert shared parameters and attributes before the examples of a docstring."""
    # cleandoc is needed because since Python 3.13 the compiler removes the indentation of docstrings
    start, title, examples = inspect.cleandoc(doc or "").partition("\nExamples\n--------\n")
    if not title:
        return doc
    heading = "\n" if "\nParameters\n----------\n" in start else "\n\nParameters\n----------\n"
    return start.rstrip() + heading + textwrap.dedent(shared) + title + examples


def more_regularisation(estimator: Any) -> str:
    """Describe which hyper-parameters to change for more regularisation.

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> more_regularisation(LapMEDN())
    'a smaller C or a larger lam'
    """
    constants = [name for name in ("radius", "C", "lam") if getattr(estimator, name, None) is not None]
    if "radius" in constants:
        constants = ["radius"]  # with a radius, C only scales the objective
    words = [f"a {'smaller' if SIGNS[name] > 0 else 'larger'} {name}" for name in constants]
    return " or ".join(words) or "a penalty, as in L2CRF(lam=0.1),"

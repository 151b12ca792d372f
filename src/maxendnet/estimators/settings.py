"""The settings that all estimators share: their documentation, and checks of their values."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

COMMON = """\
    structure : a structure or its name, default="chain"
        How the labels of one example depend on each other: `Chain`, `Tree`, `Graph`, `Independent` or `Choice`, with
        options such as ``Chain(bias=True)``. A name in small letters is short for the default of one.
    solver : Solver or None, default=None
        None takes the one made for the model.
    tol : float, default=1e-2
        The fit stops when `gap_` is at most this.
    max_passes : int, default=1000
        Passes over the data at most; if they do not suffice there is a ConvergenceWarning.
    n_jobs : int or None, default=None
        Threads for passes over all examples; None is 1, -1 all processors. The result is the same for any number.
    warm_start : bool, default=False
        Start from the last fit of this estimator: where the examples, their sample weights and the cost are the same;
        with `LBFGS` and `OWLQN` where the problem has the same shape.
    random_state : int, Generator or None, default=None
        For the order in which examples are visited.
    verbose : int, default=0
        1 shows a progress bar (in a log file: one line per minute), 2 a line for every look at the gap.
    backend : Backend or None, default=None
        Where sums over all examples are computed. None is ``Threads(n_jobs)``.
    callback : callable or None, default=None
        Called with a `Progress` after every look at the gap. If it returns True the fit stops there.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_labels)
    transitions_ : ndarray of shape (n_labels, n_labels), or (n_edge_types, n_labels, n_labels) for several types
        Row: the left node, or the parent.
    siblings_ : ndarray of shape (n_labels, n_labels, n_labels), or (n_edge_types, n_labels, n_labels, n_labels)
        With ``Tree(siblings=True)``: label of the parent, of the left child, of the right one; its edge has the type.
        Otherwise empty.
    intercept_, start_, end_ : ndarray of shape (n_labels,)
        With the options ``bias`` and ``ends`` of the structure; zero otherwise.
    edge_coef_ : ndarray of shape (n_edge_features, n_labels, n_labels)
    label_coef_ : ndarray of shape (n_label_features,)
    classes_ : ndarray of shape (n_labels,)
    C_, lam_ : float
        The constants of the fit, where the estimator has them; if ``C`` or ``lam`` is "scale", its number.
    model_ : FittedModel
        Weights, structure, labels and posterior in one object.
    posterior_ : Posterior, VariationalPosterior or PointEstimate
    objective_, dual_, gap_ : float
        The objective at the weights returned, a lower bound of its minimum, and their relative difference.
    converged_ : bool
    which_ : {"last", "average", "best"}
        Which iterate was returned.
    round_gap_ : float
        Where labels are not known, the certificate of the last convex problem that a margin model solved: `gap_` is nan
        then. Otherwise the same as `gap_`.
    n_rounds_ : int
        Convex problems solved; 1 where all labels are known.
    solver_ : str
        Which solver ran, and why it was chosen.
    trace_ : list of TraceRow
        n_pass, seconds, n_oracle, primal, dual, gap, n_nonzero.
    n_passes_ : int
    n_features_in_ : int
    feature_names_ : tuple of str or None
        Of feature dicts, or the columns of DataFrames; a DataFrame at prediction must have the same in the same order.
    feature_names_in_ : ndarray of str
        The same, where features have names; as in scikit-learn.
"""

SIGNS = {"C": 1, "radius": 1, "v": 1, "variance": 1, "lam": -1}
"""Constants by what a larger value does: 1 regularises less, -1 more."""


def documented(doc: str | None, shared: str) -> str | None:
    """Docstring of an estimator, with the shared parameters and attributes before its examples."""
    # from Python 3.13 on the compiler takes the indentation out of docstrings; here it is out for all
    start, title, examples = inspect.cleandoc(doc or "").partition("\nExamples\n--------\n")
    if not title:
        return doc
    heading = "\n" if "\nParameters\n----------\n" in start else "\n\nParameters\n----------\n"
    return start.rstrip() + heading + textwrap.dedent(shared) + title + examples


def more_regularisation(estimator: Any) -> str:
    """Change of the constants of an estimator that regularises more, in words.

    Examples
    --------
    >>> from maxendnet import LapMEDN
    >>> more_regularisation(LapMEDN())
    'a smaller C or a larger lam'
    """
    constants = [name for name in ("radius", "C", "lam") if getattr(estimator, name, None) is not None]
    if "radius" in constants:
        constants = ["radius"]  # within a ball, C only scales the objective
    words = [f"a {'smaller' if SIGNS[name] > 0 else 'larger'} {name}" for name in constants]
    return " or ".join(words) or "a penalty, as in L2CRF(lam=0.1),"

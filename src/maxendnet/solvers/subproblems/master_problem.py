"""Master problem of cutting planes: maximisation of the dual over the current cuts."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxendnet.problem import FloatArray


def solve_master(
    gram: FloatArray, gains: FloatArray, groups: NDArray[np.int64], group_weight: FloatArray, C: float, slack: str
) -> FloatArray:
    """Maximise ``gains . alpha - 1/2 alpha' gram alpha - sum_g u_g U*(alpha_g / u_g)`` over ``alpha >= 0``.

    ``alpha_g`` is the sum of alpha over group g, ``u_g`` the weight of the group, and ``U*`` the conjugate of the slack
    function. The linear slack amounts to ``alpha_g <= C u_g``.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
    gains : ndarray of shape (n,)
    groups : ndarray of shape (n,)
        Group of each cut: integers from 0 to ``n_groups - 1``, all of which occur.
    group_weight : ndarray of shape (n_groups,)
        Positive weights.
    C : float
    slack : {"linear", "squared", "kl"}

    Returns
    -------
    ndarray of shape (n,)
        A feasible alpha: exactly or, for the linear slack, up to rounding of the sums.

    Examples
    --------
    >>> alpha = solve_master(np.eye(2), np.array([3.0, 0.5]), np.array([0, 1]), np.ones(2), C=1.0, slack="linear")
    >>> alpha.round(6).tolist()
    [1.0, 0.5]
    """
    n, n_groups, size = len(gains), len(group_weight), C * group_weight
    member: Any = sparse.csr_array((np.ones(n), (groups, np.arange(n))), shape=(n_groups, n))
    P: Any = gram + (member.T @ (member / size[:, None])).toarray() if slack == "squared" else gram
    unit = _units(P.diagonal(), gains, np.inf if slack == "squared" else size[groups])
    scale = max(float(np.abs(gains * unit).max()), 1e-300)
    P, q = P * np.outer(unit, unit) / scale, -gains * unit / scale
    share: Any = member * unit / size[:, None]  # relative to the limit of the group
    A: Any
    A, b, cones = -sparse.eye_array(n), np.zeros(n), [("NonnegativeConeT", n)]
    if slack == "linear":
        A, b, cones = sparse.vstack([A, share]), np.append(b, np.ones(n_groups)), [("NonnegativeConeT", n + n_groups)]
    if slack == "kl":
        # each group has another variable t_g >= -log(1 - share_g), so (-t_g, 1, 1 - share_g) is in the exponential cone
        P, q = sparse.block_diag([P, sparse.csr_array((n_groups, n_groups))]), np.append(q, group_weight / scale)
        first, third = np.array([[1.0], [0.0], [0.0]]), np.array([[0.0], [0.0], [1.0]])
        A = sparse.block_array([[A, None], [sparse.kron(share, third), sparse.kron(sparse.eye_array(n_groups), first)]])
        b, cones = np.append(b, np.tile([0.0, 1.0, 1.0], n_groups)), [*cones, *[("ExponentialConeT", 0)] * n_groups]
    x = _clarabel(P, q, A, b, cones)[:n]
    alpha = np.maximum(x, 0.0)
    if slack != "squared":
        most = 1.0 if slack == "linear" else 1.0 - 1e-12
        total = share @ alpha
        alpha = alpha * np.where(total > most, most / np.maximum(total, 1e-300), 1.0)[groups]
    return alpha * unit


def _units(curvature: FloatArray, gains: FloatArray, limit: FloatArray | float) -> FloatArray:
    """Return units in which each multiplier would be about 1 if it were alone.

    They are needed because the accuracy of Clarabel is absolute.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.minimum(np.maximum(gains, 1e-3 * np.abs(gains).max(initial=0.0)) / curvature, limit)
    return np.where(np.isfinite(unit) & (unit > 0), unit, np.where(np.isfinite(limit), limit, 1.0))


def _clarabel(P: Any, q: FloatArray, A: Any, b: FloatArray, cones: list[tuple[str, int]]) -> FloatArray:
    """Minimise ``1/2 x'Px + q.x`` subject to ``b - Ax`` in the cones, in a thread so that Ctrl-C is handled."""
    import clarabel  # imported here because it takes a tenth of a second

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.static_regularization_constant = 1e-11  # the default 1e-8 causes errors if multipliers differ by 1e6
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solutions: list[tuple[str, FloatArray]] = []
    stop = threading.Event()

    def work() -> None:
        kinds = [getattr(clarabel, name)(*([size] if size else [])) for name, size in cones]
        try:
            solver = clarabel.DefaultSolver(
                sparse.csc_matrix(sparse.triu(sparse.csc_array(P))), q, sparse.csc_matrix(A), b, kinds, settings
            )
            solver.set_termination_callback(lambda info: stop.is_set())
            solution = solver.solve()
            solutions.append((str(solution.status), np.array(solution.x)))
        except BaseException as error:
            solutions.append((repr(error), np.full(len(q), np.nan)))

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()  # inside `try`, because a signal can arrive before this call returns
        while thread.is_alive():
            thread.join(0.1)
    except BaseException:
        stop.set()
        raise
    status, x = solutions[0]
    # a nearly optimal point suffices: its dual value is computed from the point itself
    if not np.all(np.isfinite(x)):
        raise RuntimeError(f"Clarabel failed on the master problem of {len(q)} variables: {status}")
    return x

"""Choice of the default solver by a table of rules; the first rule that applies decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from maxendnet import solvers
from maxendnet.priors.base import capable, offers
from maxendnet.problem import Problem
from maxendnet.solvers.base import Solver, missing
from maxendnet.solvers.curvature.sampled_hessian import (
    full_hessian_worthwhile,
    partial_hessian_worthwhile,
    passes_are_expensive,
)
from maxendnet.solvers.lbfgs import MAX_DENSE_FEATURES, features_of

# Thresholds of the rules; the measurements behind them are in benchmarks/SOLVERS.md.
MIN_NODES = 1000
MIN_NODES_PER_WEIGHT = 20
MIN_NODES_L1 = 10_000
MIN_L1_STRENGTH = 5.0
MAX_DENSITY = 1 / 20
MIN_L1_STRENGTH_LOG_LOSS = 10.0


@dataclass(frozen=True)
class Facts:
    """Properties of a problem that determine its default solver.

    Attributes
    ----------
    prior : {"gaussian", "l1", "l1 ball", "scale mixture", "other"}
        "scale mixture" stands for scale mixtures of Gaussians whose cumulant the kernels do not implement.
    loss : {"log", "hinge", "hinge with another slack"}
    accepts : frozenset of str
        Names of the solvers whose requirements the problem meets.
    n_nodes : int
        Number of nodes; 0 if the examples are distributed.
    n_weights : int
        Number of weights; 0 if the examples are distributed.
    unknown_labels : bool
        Whether the loss is a hinge and some training labels are unknown.
    self_training : bool
        Whether unlabelled examples have a positive weight (``unlabelled > 0``).
    local : bool
        Whether the examples are in this process rather than on workers.
    l1_strength : float
        ``C * largest feature / rho``
    ridge : bool
        Whether the penalty contains a squared penalty with the same factor for all weights; computed for the log loss
        only.
    full_hessian : bool
        Whether computing the Hessian of all weights saves more time than it takes.
    cheap_hessian : bool
        Whether a full or partial Hessian is cheap compared with a pass.
    sparse : bool
        Whether there are many features and each node has few of them.
    dependent : bool
        Whether some features are linear combinations of others; computed for L1-CRFs only.
    """

    prior: str
    loss: str
    accepts: frozenset[str]
    n_nodes: int
    n_weights: int = 0
    unknown_labels: bool = False
    self_training: bool = False
    local: bool = True
    l1_strength: float = 0.0
    ridge: bool = False
    full_hessian: bool = False
    cheap_hessian: bool = False
    sparse: bool = False
    dependent: bool = False


class Rule(NamedTuple):
    """A row of the table: a solver, and the condition under which it is the default."""

    solver: str
    condition: str
    """The condition in words, shown in the documentation and in ``solver_``."""
    applies: Callable[[Facts, float], bool]
    """Whether the condition holds, given the facts and ``tol``. The solver must also accept the problem."""
    reason: str
    """Why this solver is preferred, shown in the documentation."""


class Choice(NamedTuple):
    """A solver, and the condition of the rule that chose it."""

    solver: Solver
    rule: str


def made_for(solver: str, tol: float) -> bool:
    """Whether a solver reaches a gap of ``tol`` in a reasonable number of passes."""
    return bool(tol >= getattr(solvers, solver).accuracy)


def is_l1(facts: Facts) -> bool:
    return facts.prior in ("l1", "l1 ball")


RULES = (
    Rule(
        "SelfTraining", "hinge, unlabelled examples with a weight (`unlabelled > 0`)",
        lambda f, tol: f.unknown_labels and f.self_training,
        "repeatedly trains on its own predictions; each round is a convex problem, solved by its own default solver",
    ),
    Rule(
        "ConcaveConvex", "hinge, unknown labels",
        lambda f, tol: f.unknown_labels,
        "repeatedly completes the labels; each round is a convex problem, solved by its own default solver",
    ),
    Rule(
        "Variational", "hinge, a scale mixture without a known cumulant (Student-t, Jeffreys, squared L1), or Laplace "
        "with squared or KL slack",
        lambda f, tol: f.loss != "log" and (f.prior == "scale mixture" or f.loss == "hinge with another slack"),
        "a sequence of Gaussian problems",
    ),
    Rule(
        "CuttingPlane", "hinge with squared or KL slack, Gaussian prior",
        lambda f, tol: f.loss == "hinge with another slack",
        "approximates the sum of losses by cuts, which works for any slack",
    ),
    Rule(
        "InteriorPoint", f"hinge, L1, at least {MIN_NODES_L1:,} nodes and `C * largest feature / rho >= "
        f"{MIN_L1_STRENGTH:g} tol`, if the full Hessian is worthwhile",
        lambda f, tol: f.loss == "hinge" and f.prior == "l1" and f.n_nodes >= MIN_NODES_L1 and f.full_hessian
        and f.l1_strength >= MIN_L1_STRENGTH * tol,
        "a path of smooth problems with the full Hessian",
    ),
    Rule(
        "Smoothing", f"hinge, another prior, at least {MIN_NODES_PER_WEIGHT} nodes per weight, if the full Hessian is "
        "worthwhile; `tol` of at least 1e-4",
        lambda f, tol: f.loss == "hinge" and not is_l1(f) and f.full_hessian
        and f.n_nodes >= MIN_NODES_PER_WEIGHT * f.n_weights and made_for("Smoothing", tol),
        "L-BFGS on a smoothed hinge, with the full Hessian",
    ),
    Rule(
        "ProximalPoint", "hinge, L1 penalty or ball; Gaussian or Laplace prior, or another scale mixture of Gaussians, "
        "with `tol` of at least 1e-6",
        lambda f, tol: f.loss == "hinge" and (is_l1(f) or made_for("ProximalPoint", tol)),
        "a sequence of easier Gaussian or elastic-net problems, with updates of one example at a time",
    ),
    Rule(
        "Subgradient", "hinge with squared or KL slack, other priors; hinge, L1 ball, structures without block updates",
        lambda f, tol: f.loss == "hinge with another slack" or f.prior == "l1 ball",
        "only needs decoding and the prior's mean or a projection; reaches gaps of about 1 %",
    ),
    Rule(
        "BlockFrankWolfe", "hinge, another prior or a smaller `tol`, examples in this process",
        lambda f, tol: f.loss == "hinge" and f.local,
        "updates of one example at a time; linear convergence to very small gaps",
    ),
    Rule(
        "Smoothing", "hinge, distributed examples or structures without block updates",
        lambda f, tol: f.loss == "hinge",
        "L-BFGS on a smoothed hinge, which only needs sums over all examples",
    ),
    Rule(
        "ProximalAscent",
        f"log loss, at least {MIN_NODES:,} nodes with more than {MAX_DENSE_FEATURES} sparse features; "
        "without a squared penalty `tol` of at least 1e-3",
        lambda f, tol: f.loss == "log" and f.sparse and (f.ridge or made_for("ProximalAscent", tol)),
        "updates one example at a time: 10 passes on CoNLL-2000 chunks, where L-BFGS takes 161",
    ),
    Rule(
        "InteriorPoint", f"log loss, L1, at least {MIN_NODES:,} nodes, if a Hessian is cheap compared with a pass, "
        "features are linearly dependent, or the full Hessian is worthwhile and `C * largest feature / rho >= "
        f"{MIN_L1_STRENGTH_LOG_LOSS:g}`; `tol` of at least 1e-4",
        lambda f, tol: f.loss == "log" and f.prior == "l1" and f.n_nodes >= MIN_NODES
        and (f.cheap_hessian or f.dependent or (f.full_hessian and f.l1_strength >= MIN_L1_STRENGTH_LOG_LOSS))
        and made_for("InteriorPoint", tol),
        "finds a certificate where OWL-QN finds no dual point",
    ),
    Rule(
        "OWLQN", "log loss, L1 or elastic net",
        lambda f, tol: f.loss == "log",
        "quasi-Newton steps with exact zeros",
    ),
    Rule(
        "LBFGS", "log loss",
        lambda f, tol: f.loss == "log",
        "quasi-Newton steps, each with a gradient over all examples",
    ),
)  # fmt: skip
"""The rules, in order: the first that applies, and whose solver accepts the problem, decides."""


def choose(facts: Facts, tol: float = 1e-3) -> Choice:
    """Return the default solver for a problem with these facts."""
    for rule in RULES:
        # With unknown labels the solver is returned even if it does not accept the problem: its error message is
        # better than silently ignoring a requested weight of unlabelled examples.
        if rule.applies(facts, tol) and (rule.solver in facts.accepts or facts.unknown_labels):
            return Choice(getattr(solvers, rule.solver)(), rule.condition)
    # No solver accepts this combination; the error message of the usual solver names the missing requirements.
    return Choice(solvers.LBFGS() if facts.loss == "log" else solvers.BlockFrankWolfe(), "no rule applies")


def default_solver(problem: Problem, tol: float = 1e-3, unlabelled: float = 0.0) -> Choice:
    """Return the default solver for a problem; ``unlabelled`` is the weight of unlabelled examples in self-training."""
    return choose(facts_of(problem, unlabelled), tol)


def solver_of_round(completed: Problem, tol: float) -> Solver:
    """Return the default solver for a round of `ConcaveConvex`, in which a completion of the labels is the target."""
    return choose(replace(facts_of(completed), unknown_labels=False), tol).solver


def facts_of(problem: Problem, unlabelled: float = 0.0) -> Facts:
    """Return the properties of a problem that determine its default solver."""
    prior, C = problem.prior, problem.C
    local = problem.backend.local
    n_nodes = problem.data.n_nodes if local else 0
    linear = problem.loss.smooth or problem.hinge.linear_slack
    loss = "log" if problem.loss.smooth else "hinge" if linear else "hinge with another slack"
    facts = Facts(
        prior_kind(problem),
        loss,
        frozenset(kind.__name__ for kind in solvers.ALL if not missing(kind, problem)),
        n_nodes,
        problem.n_weights if local else 0,
        unknown_labels=loss != "log" and not problem.label_sets.all_known,
        self_training=unlabelled > 0,
        local=local,
    )
    if not local:  # sizes may be unknown in this process, and the rules for distributed examples do not need them
        return facts
    details: dict[str, Any] = {}
    if loss == "hinge" or facts.prior == "l1":
        details["full_hessian"] = full_hessian_worthwhile(problem)
    if facts.prior == "l1" and "InteriorPoint" in facts.accepts:
        details["l1_strength"] = C * problem.batch.largest / capable(prior, "l1").rho
        details["cheap_hessian"] = partial_hessian_worthwhile(problem) or (
            details["full_hessian"] and passes_are_expensive(problem)
        )
        details["dependent"] = loss == "log" and n_nodes >= MIN_NODES and has_dependent_features(problem)
    if loss == "log":
        details["ridge"] = bool(getattr(prior, "ridge", None) or getattr(prior, "l2", None))
    return replace(facts, sparse=has_sparse_features(problem), **details)


def prior_kind(problem: Problem) -> str:
    """Return the category of the prior, as in `Facts`."""
    prior = problem.prior
    if offers(prior, "l1_ball"):
        return "l1 ball"
    if offers(prior, "l1"):
        return "l1"
    if offers(prior, "scale_mixture") and not offers(prior, "kernel"):
        return "scale mixture"
    return "gaussian" if offers(prior, "gram") else "other"


def has_sparse_features(problem: Problem) -> bool:
    """Whether nodes have a small share of many features, as in text, so that updating one example is cheap."""
    if not problem.structure.capabilities.pairwise:
        return False
    batch, layout = problem.batch, problem.structure.layout
    n_nodes, n_features = len(batch.parent), layout.n_features
    few_features = layout.seen is None and n_features <= MAX_DENSE_FEATURES
    return n_nodes >= MIN_NODES and not few_features and len(batch.indices) < MAX_DENSITY * n_nodes * n_features


def has_dependent_features(problem: Problem) -> bool:
    """Whether the features are linearly dependent.

    This is the case if several attributes are one-hot encoded.

    Checked only for at most `MAX_DENSE_FEATURES` features with weights for every label.
    """
    layout = problem.structure.layout
    if not problem.structure.capabilities.linear_nodes or layout.seen is not None:
        return False
    if layout.n_features > MAX_DENSE_FEATURES:
        return False
    X = features_of(problem)
    with np.errstate(over="ignore"):
        gram = np.asarray((X.T @ X).toarray())
    size = np.sqrt(np.diag(gram))
    used = size > 0
    if not (used.any() and np.isfinite(gram).all()):
        return False
    unit = (gram / np.outer(size, size).clip(min=np.finfo(float).tiny))[np.ix_(used, used)]
    return bool(np.linalg.eigvalsh(unit)[0] < 1e-9)


def rules_table() -> str:
    """Return the rules as the Markdown table in docs/solvers.md."""
    lines = ["| problem | default solver | why |", "|---|---|---|"]
    lines += [f"| {rule.condition} | `{rule.solver}` | {rule.reason} |" for rule in RULES]
    return "\n".join(lines)

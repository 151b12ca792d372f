"""Bounds on the error on new examples: held-out and PAC-Bayes bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from maxendnet.certificates.inequalities import clopper_pearson, margin_bound, mean_upper, pac_bayes_kl
from maxendnet.certificates.report import BoundReport, BoundRow
from maxendnet.posterior import NoPosteriorError, Posterior
from maxendnet.priors import Gaussian
from maxendnet.problem import FloatArray
from maxendnet.structures.base import decode
from maxendnet.structures.weights.layout import Layout
from maxendnet.utils.checks import is_number, require_count
from maxendnet.utils.progress import progress_bar
from maxendnet.utils.scikit_learn import clone

LOSSES = ("share", "0/1")
"""Losses of an example: its share of wrong nodes; 0/1, which is 1 if any node is wrong."""

# Distances of candidate posteriors from the prior, in units of the distance of the fitted posterior: 2^-2 to 2^7.
SCALES = 2.0 ** np.arange(-2.0, 8.0)
# For a prior learned on a split: standard deviations in units of the root mean square of the weights, and positions of
# the posterior mean between the prior mean (0) and the fitted weights (1).
SPREADS = 2.0 ** np.arange(-6.0, 1.0)
STEPS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
PILOT_DRAWS = 16


class Candidate(NamedTuple):
    """Candidate posterior, with its exact KL divergence to a prior."""

    scale: float
    kl: float
    posterior: Any
    n_priors: int = 1
    """Number of priors from which the prior was selected, for the union bound."""


def held_out_bound(estimator: Any, X: Any, y: Any = None, *, delta: float = 0.05) -> BoundReport:
    """Bound the risk of ``estimator.predict``, using held-out examples.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator.
    X, y
        As for ``estimator.score``. The examples must not have been used for the fit or to choose hyper-parameters.
    delta : float, default=0.05
        Probability that a bound fails.

    Returns
    -------
    BoundReport
        The row for the 0/1 loss is the exact binomial bound (Clopper-Pearson). The row for the share of wrong nodes
        is the smaller of the Chernoff (kl) bound and the empirical Bernstein bound, each with half of ``delta``.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> X, y = [[[0.0], [1.0]], [[1.0]]] * 30, [["a", "b"], ["b"]] * 30
    >>> report = held_out_bound(L2CRF(lam=0.1).fit(X[:20], y[:20]), X[20:], y[20:])
    >>> [(row.loss, round(row.bound, 3)) for row in report]
    [('share', 0.088), ('0/1', 0.072)]
    """
    _check_delta(delta)
    return BoundReport(_held_out_rows(_Losses(estimator, X, y), delta, "predict"), delta)


def pac_bayes(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    delta: float = 0.05,
    n_draws: int = 1000,
    prior_share: float | None = 0.5,
    random_state: Any = None,
    verbose: int = 0,
) -> BoundReport:
    """Compute PAC-Bayes bounds on the risk of a model from its training examples.

    The rows of the report are for the losses "share" (share of wrong nodes of an example) and "0/1" (any node wrong):

    - ``theorem 8``: the margin bound of Zhu & Xing with the constants of its proof. It assumes bounded scores, which
      Gaussian and Laplace posteriors do not have, so it is only an illustration. On real data it is also vacuous.
    - ``PAC-Bayes-kl``: ``kl(empirical || true) <= (KL + log(2 sqrt(N)/delta)) / N`` for the Gibbs predictor, which
      draws new weights from the posterior for every prediction. N is the number of examples, not nodes.
    - ``PAC-Bayes-kl, split prior``: the same with a Gaussian prior whose mean is learned on a first part of the
      examples; the bound is computed on the rest.
    - ``held out``: not a PAC-Bayes bound. A model is fitted to the first part, and ``predict`` is evaluated on the
      rest.

    Parameters
    ----------
    estimator : M3N, LapMEDN or MaxEnDNet
        Fitted estimator with a posterior.
    X, y
        The training examples, which must be independent draws from one distribution. Sample weights are not used.
    delta : float, default=0.05
        Probability that a row fails. A tenth of it is spent on the estimation of the Gibbs risk from draws.
    n_draws : int, default=1000
        Number of weight vectors drawn for each row. More draws give tighter bounds, but each takes one prediction.
    prior_share : float or None, default=0.5
        Share of the examples on which a clone of the estimator learns the split prior; None omits its rows.
    random_state : int, Generator or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    BoundReport

    Notes
    -----
    *Choice of the posterior.* The theorem holds simultaneously for all posteriors of one prior, so the scale of the
    posterior can be chosen freely. It is chosen from a grid by a few draws for each point, and the risk of the best
    candidate is then estimated by new draws. For a Gaussian prior N(0, S) the candidates are N(t mu, r S) with the best
    r for each ratio of mean to deviation, since predictions do not change when all weights are multiplied by a
    constant. For other priors they are the posteriors with mean m + t (mu - m), where m is the mean of the prior; their
    KL is the penalty of the mean. For a variational posterior the only candidate is the posterior, with the bound of
    its KL. *Choice of the prior.* The split prior N(w, v I) has w from the first part and v from a grid, so ``delta``
    is divided by the size of the grid. Its posteriors are N(w + t (mu - w), v I).

    *Assumptions.* The prior (up to its scale), the labels and the features must not depend on these examples. For the
    split rows this also holds for the hyper-parameters of the estimator. With feature dicts, the bounds are for a
    predictor that draws the weights of unseen features from the prior.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> X, y = [[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0]]] * 100, [["a", "b"], ["b"]] * 100
    >>> report = pac_bayes(M3N(random_state=0).fit(X, y), X, y, random_state=0, n_draws=200)
    >>> bool(report.row("PAC-Bayes-kl", "share").bound < 0.2)
    True
    """
    _check_delta(delta)
    require_count("n_draws", n_draws)
    if prior_share is not None and not (is_number(prior_share) and 0 < prior_share < 1):
        raise ValueError(f"prior_share must be between 0 and 1 or None, got {prior_share!r}.")
    losses = _Losses(estimator, X, y)
    posterior = estimator.posterior_
    if posterior.kind == "point":
        raise NoPosteriorError(
            f"{type(estimator).__name__} is a point estimate, and a PAC-Bayes bound needs a posterior; M3N, LapMEDN "
            "and MaxEnDNet (hinge loss, prior with a cumulant) have one. certificates.held_out_bound accepts any model."
        )
    rng = np.random.default_rng(random_state)
    split = prior_share is not None and losses.n >= 2
    bar = progress_bar(total=2 * n_draws * (1 + split), desc="draws", show=verbose)
    rows = [_theorem_8(estimator, losses, delta)]
    rows += _gibbs_rows(
        "PAC-Bayes-kl",
        "risk of the Gibbs predictor (weights drawn from a scaled posterior), with the prior of the estimator.",
        losses, _scaled_posteriors(posterior), delta, n_draws, rng, bar,
    )  # fmt: skip
    if split:
        assert prior_share is not None
        order = rng.permutation(losses.n)
        first = int(np.clip(round(prior_share * losses.n), 1, losses.n - 1))
        part, rest = np.sort(order[:first]), np.sort(order[first:])
        first_model = clone(estimator).set_params(verbose=0).fit(losses.examples[part])
        start = _aligned_weights(estimator, first_model)
        rows += _gibbs_rows(
            "PAC-Bayes-kl, split prior",
            "risk of the Gibbs predictor with Gaussian weights; their mean is between the weights of a model of the "
            f"first part ({first} examples; scale 0) and the fitted weights (scale 1); computed on the rest.",
            losses.take(rest), _split_posteriors(start, posterior.mean), delta, n_draws, rng, bar,
        )  # fmt: skip
        rows += _held_out_rows(
            _Losses(first_model, losses.examples[rest]),
            delta,
            f"predict of a model of the first part ({first} examples)",
        )
    bar.close()
    return BoundReport(tuple(rows), delta)


# ---- the rows --------------------------------------------------------------------------------------------------------


def _held_out_rows(losses: _Losses, delta: float, predictor: str) -> tuple[BoundRow, ...]:
    """Return held-out bounds, one for each loss."""
    model = losses.estimator
    share, wrong = losses(model.model_.weights)
    statement = f"risk of {predictor}, from held-out examples."
    bounds = mean_upper(share, delta), clopper_pearson(int(wrong.sum()), losses.n, delta)
    return tuple(
        BoundRow("held out", loss, bound, float(values.mean()), losses.n, statement=statement, predictor=model)
        for loss, bound, values in zip(LOSSES, bounds, (share, wrong))
    )


def _theorem_8(estimator: Any, losses: _Losses, delta: float) -> BoundRow:
    structure, w = losses.structure, estimator.model_.weights
    # for a wrong prediction any margin that is not positive will do
    values, _ = structure.top(w, 2)
    wrong = losses(w)[1]
    with np.errstate(invalid="ignore"):
        margins = np.where(wrong > 0, 0.0, values[:, 0] - values[:, 1])
    size = max(float(np.abs(structure.maximum(sign * w)[0]).max()) for sign in (1.0, -1.0))
    longest = int(np.diff(structure.offsets).max())
    kl = float(estimator.posterior_.kl)
    c = max(size, np.finfo(float).tiny)
    bound, gamma = margin_bound(margins, kl, longest * np.log(structure.n_labels), c, delta)
    statement = (
        f"risk of predict, assuming that no weights give a score above {c:.3g} in size (the largest observed) and that "
        f"all examples have at most {longest} nodes; margin threshold {gamma:.3g}."
    )
    return BoundRow(
        "theorem 8", "0/1", bound, float(wrong.mean()), losses.n, kl=kl, certified=False, statement=statement,
        predictor=estimator,
    )  # fmt: skip


def _gibbs_rows(
    name: str,
    statement: str,
    losses: _Losses,
    candidates: list[Candidate],
    delta: float,
    n_draws: int,
    rng: np.random.Generator,
    bar: Any,
) -> list[BoundRow]:
    """Return PAC-Bayes-kl rows for both losses.

    A few draws select the best candidate; new draws estimate its risk.
    """
    for_draws, for_examples = 0.1 * delta, 0.9 * delta

    def bound(gibbs: float, candidate: Candidate) -> float:
        return pac_bayes_kl(gibbs, candidate.kl, losses.n, for_examples / candidate.n_priors)

    # skip candidates whose bound would be worse even with a Gibbs risk of zero
    pilots = []
    best = [np.inf, np.inf]
    for candidate in sorted(candidates, key=lambda c: c.kl):
        if bound(0.0, candidate) >= max(best):
            break
        pilots.append((candidate, losses.gibbs(candidate.posterior, PILOT_DRAWS, rng).mean(axis=0)))
        best = [min(old, bound(risk, candidate)) for old, risk in zip(best, pilots[-1][1])]
    rows, draws = [], {}
    for k, loss in enumerate(LOSSES):
        number = min(range(len(pilots)), key=lambda j: bound(pilots[j][1][k], pilots[j][0]))
        chosen = pilots[number][0]
        if number not in draws:  # both losses share the draws if they select the same candidate
            draws[number] = losses.gibbs(chosen.posterior, n_draws, rng, bar)
        risks = draws[number][:, k]
        value, empirical = bound(mean_upper(risks, for_draws), chosen), float(risks.mean())
        rows.append(
            BoundRow(name, loss, value, empirical, losses.n, chosen.kl, chosen.scale, True, statement, chosen.posterior)
        )
    bar.update(n_draws * (len(LOSSES) - len(draws)))
    return rows


def _scaled_posteriors(posterior: Any) -> list[Candidate]:
    """Return candidate posteriors, closer to the prior and farther from it than the fitted posterior."""
    fitted = Candidate(1.0, float(posterior.kl), posterior)
    if not isinstance(posterior, Posterior):
        return [fitted]
    prior, mu, K = posterior.prior, posterior.mean, len(posterior.eta)
    candidates = []
    if isinstance(prior, Gaussian) and not np.any(prior.prior_mean):
        for ratio in SCALES:
            # N(t mu, r S) with t = ratio sqrt(r) makes the same predictions as N(ratio mu, S); r minimises the KL
            # divergence
            r = 1.0 / (1.0 + 2 * ratio**2 * posterior.kl / K)
            kl = ratio**2 * r * posterior.kl + 0.5 * K * (r - 1.0 - np.log(r))
            candidates.append(Candidate(float(ratio), float(kl), Posterior(prior, ratio * posterior.eta)))
        return candidates
    start = prior.mean(np.zeros(K))
    for scale in SCALES:
        with np.errstate(all="ignore"):
            scaled = posterior if scale == 1.0 else Posterior(prior, prior.gradient(start + scale * (mu - start)))
        if np.all(np.isfinite(scaled.eta)) and np.isfinite(scaled.kl):
            candidates.append(Candidate(float(scale), float(scaled.kl), scaled))
    return candidates or [fitted]


def _split_posteriors(start: FloatArray, end: FloatArray) -> list[Candidate]:
    """Return Gaussian candidate posteriors with means between ``start`` and ``end``."""
    size = float(np.sqrt(np.mean(start**2))) or 1.0
    away = end - start
    candidates = []
    for spread in SPREADS:
        prior = Gaussian((spread * size) ** 2, start)
        for step in STEPS:
            posterior = Posterior(prior, prior.gradient(start + step * away))
            candidates.append(Candidate(step, posterior.kl, posterior, n_priors=len(SPREADS)))
    return candidates


def _aligned_weights(estimator: Any, first_model: Any) -> FloatArray:
    """Return the weights of a model in the layout of an estimator.

    The estimator was fitted to more examples, and may have more labels and edge types.
    """
    full, small = estimator.model_.layout, first_model.model_.layout
    place = {label: k for k, label in enumerate(estimator.classes_.tolist())}
    at = np.array([place[label] for label in first_model.classes_.tolist()])
    segments, out = small.segments(first_model.model_.weights), full.segments(np.zeros(full.n_weights))
    out.node[:] = _moved(small, full, segments.node, at)
    for source, target in ((segments.transitions, out.transitions), (segments.edge, out.edge)):
        target[np.ix_(np.arange(len(source)), at, at)] = source
    if small.n_siblings:
        out.siblings[np.ix_(np.arange(len(segments.siblings)), at, at, at)] = segments.siblings
    out.label_features[:] = segments.label_features
    values: FloatArray = full.join(out)
    return values


def _moved(small: Layout, full: Layout, node: FloatArray, at: NDArray[Any]) -> FloatArray:
    """Return node weights in another layout, where label k becomes ``at[k]``."""
    if small.seen is None:
        out = np.zeros((full.n_features, full.n_labels))
        out[:, at] = node
        return out
    moved = np.zeros(full.n_node_weights)
    moved[full.node_places(small.seen.features, at[small.seen.labels])] = node
    return moved


# ---- the losses of examples ------------------------------------------------------------------------------------------


class _Losses:
    """Losses of all examples as a function of the weights.

    A call returns shape (2, n_examples): the share of wrong nodes, and the 0/1 loss.
    """

    def __init__(self, estimator: Any, X: Any, y: Any = None) -> None:
        check_is_fitted(estimator, "model_")
        examples = estimator.model_.read(X, y, needs_y=True)
        if len(examples) == 0:
            raise ValueError("X has no examples; a bound needs at least one.")
        self.estimator, self.examples = estimator, examples
        self.structure = estimator.model_.bind(examples)
        place = {label: k for k, label in enumerate(estimator.classes_.tolist())}
        labels = np.asarray(examples.y).tolist()
        # labels that the model does not know are -1, so they always count as wrong
        self.truth: NDArray[Any] = np.fromiter(
            (place.get(label, -1) for label in labels), dtype=np.int32, count=len(labels)
        )

    @property
    def n(self) -> int:
        return len(self.examples)

    def take(self, rows: NDArray[np.int64]) -> _Losses:
        return _Losses(self.estimator, self.examples[rows])

    def __call__(self, w: FloatArray) -> FloatArray:
        wrong = decode(self.structure, w) != self.truth
        offsets = self.structure.offsets
        count = np.diff(np.concatenate([[0], np.cumsum(wrong)])[offsets])
        return np.stack([count / np.maximum(np.diff(offsets), 1), count > 0])

    def gibbs(self, posterior: Any, n: int, rng: np.random.Generator, bar: Any = None) -> FloatArray:
        """Return the mean losses of ``n`` draws of the weights, shape (n, 2)."""
        risks: list[FloatArray] = []
        while len(risks) < n:
            size = int(min(n - len(risks), max(1, 2e6 // self.structure.layout.n_weights)))  # 16 MB at a time
            for w in posterior.sample(size, rng):
                risks.append(self(w).mean(axis=1))
                if bar is not None:
                    bar.update()
        return np.array(risks)


def _check_delta(delta: Any) -> None:
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}; it is the probability that a bound fails.")

"""Bounds of the error on new examples, each with the statement that it makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
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

LOSSES = ("share", "0/1")
"""Loss of an example: its share of wrong nodes; or 1 unless all nodes are right."""

# How far a posterior goes from its prior, as a multiple of the fitted one: 2^-2 to 2^7.
SCALES = 2.0 ** np.arange(-2.0, 8.0)
# For a prior learnt on a split: standard deviation in units of the root mean square of its weights, and how far the
# posterior mean goes from the prior's to the fitted one.
SPREADS = 2.0 ** np.arange(-6.0, 1.0)
STEPS = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0)
PILOT_DRAWS = 16


class Candidate(NamedTuple):
    """A posterior to choose from, with its exact KL divergence to a prior."""

    scale: float
    kl: float
    posterior: Any
    n_priors: int = 1
    """Among how many priors its own is chosen: the union bound pays for these, not for posteriors."""


def held_out_bound(estimator: Any, X: Any, y: Any = None, *, delta: float = 0.05) -> BoundReport:
    """Bounds of the risk of ``estimator.predict`` from examples that took no part in its making.

    Parameters
    ----------
    estimator : a fitted estimator of any kind
    X, y : as for ``estimator.score``
        Neither the fit nor the choice of its constants may have seen them.
    delta : float, default=0.05
        The chance that a bound fails.

    Returns
    -------
    BoundReport
        For the 0/1 loss of an example the exact binomial bound (Clopper-Pearson); for its share of wrong nodes the
        smaller of the Chernoff (kl) bound and the empirical Bernstein bound, each with half of ``delta``.

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
    """What the examples of a fit say about its error on new ones: PAC-Bayes bounds, next to a held-out one.

    Rows, for the loss "share" (share of wrong nodes of an example) and "0/1" (any node wrong):

    - ``theorem 8``: the margin bound of Zhu & Xing with the constants of its proof. It assumes bounded scores, which
      no Gaussian or Laplace posterior gives, so it is an illustration; on real data it is vacuous too.
    - ``PAC-Bayes-kl``: ``kl(empirical || true) <= (KL + log(2 sqrt(N)/delta)) / N`` for the Gibbs predictor, which
      draws new weights from the posterior for every prediction. N counts examples, never nodes.
    - ``PAC-Bayes-kl, split prior``: the same with a Gaussian prior whose mean is learnt on one part of the examples;
      the bound is computed on the rest.
    - ``held out``: not PAC-Bayes; ``predict`` of the model of the first part, on the rest.

    Parameters
    ----------
    estimator : a fitted M3N, LapMEDN or MaxEnDNet with a posterior
    X, y : the examples that it was fitted to
        Independent draws of one distribution. Sample weights are not used here.
    delta : float, default=0.05
        The chance that a row fails. A tenth of it pays for estimating the Gibbs risk by draws.
    n_draws : int, default=1000
        Weight vectors drawn for every row; more make it tighter. The time is that of so many predictions.
    prior_share : float or None, default=0.5
        Part of the examples that the prior is learnt on, by a clone of the estimator; None leaves these rows out.
    random_state : int, Generator or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    BoundReport

    Notes
    -----
    *Choice of the posterior.* The theorem covers all posteriors of one prior at once, so their scale is chosen freely:
    by a few draws of each on a grid; the risk of the winner is then estimated by new draws. Under a Gaussian prior
    N(0, S) candidates are N(t mu, r S), where r is the best one for each ratio of mean to deviation (predictions do
    not change when all weights are multiplied); under other priors the posterior with the mean m + t (mu - m), m the
    mean of the prior, whose KL is the prior's penalty. A variational posterior is taken as it is, with the bound of
    its KL. *Choice of the prior.* The split prior N(w, v I) has its w from the first part and its v from a grid, which
    costs ``delta`` divided by the size of the grid; its posteriors are N(w + t (mu - w), v I).

    *What has to be fixed beforehand.* The prior, up to its scale, and for the split rows also the constants of the
    estimator must not have been chosen on these examples; neither must labels and features (with feature dicts the
    statement is about a predictor that draws the weights of features not seen here from the prior).

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
        raise ValueError(f"prior_share must be None or between 0 and 1, got {prior_share!r}.")
    losses = _Losses(estimator, X, y)
    posterior = estimator.posterior_
    if posterior.kind == "point":
        raise NoPosteriorError(
            f"{type(estimator).__name__} is a point estimate, and a PAC-Bayes bound needs a posterior; M3N, LapMEDN "
            "and MaxEnDNet (hinge loss, prior with a cumulant) have one. certificates.held_out_bound takes any model."
        )
    rng = np.random.default_rng(random_state)
    split = prior_share is not None and losses.n >= 2
    bar = progress_bar(total=2 * n_draws * (1 + split), desc="draws", show=verbose)
    rows = [_theorem_8(estimator, losses, delta)]
    rows += _gibbs_rows(
        "PAC-Bayes-kl",
        "risk of the Gibbs predictor (weights drawn from a scaled posterior), under the prior of the estimator.",
        losses, _own_prior(posterior), delta, n_draws, rng, bar,
    )  # fmt: skip
    if split:
        assert prior_share is not None
        order = rng.permutation(losses.n)
        first = int(np.clip(round(prior_share * losses.n), 1, losses.n - 1))
        part, rest = np.sort(order[:first]), np.sort(order[first:])
        learnt = clone(estimator).set_params(verbose=0).fit(losses.examples[part])
        start = _in_the_labels_of(estimator, learnt)
        rows += _gibbs_rows(
            "PAC-Bayes-kl, split prior",
            "risk of the Gibbs predictor with Gaussian weights around a mean between that of a model of the first "
            f"part ({first} examples) and the fitted one (scale 0 and 1), computed on the rest.",
            losses.take(rest), _split_prior(start, posterior.mean), delta, n_draws, rng, bar,
        )  # fmt: skip
        fresh = _Losses(learnt, losses.examples[rest])
        rows += _held_out_rows(fresh, delta, f"predict of a model of the first part ({first} examples)")
    bar.close()
    return BoundReport(tuple(rows), delta)


# ---- the rows --------------------------------------------------------------------------------------------------------


def _held_out_rows(losses: _Losses, delta: float, whose: str) -> tuple[BoundRow, ...]:
    """Test-set bounds of the model that the losses belong to."""
    model = losses.estimator
    share, wrong = losses(model.model_.weights)
    statement = f"risk of {whose}, from examples that it has not seen."
    bounds = mean_upper(share, delta), clopper_pearson(int(wrong.sum()), losses.n, delta)
    return tuple(
        BoundRow("held out", loss, bound, float(seen.mean()), losses.n, statement=statement, predictor=model)
        for loss, bound, seen in zip(LOSSES, bounds, (share, wrong))
    )


def _theorem_8(estimator: Any, losses: _Losses, delta: float) -> BoundRow:
    bound, w = losses.bound, estimator.model_.weights
    # The margin of a wrong prediction is never positive, which is all that the bound asks of it.
    values, _ = bound.top(w, 2)
    wrong = losses(w)[1]
    with np.errstate(invalid="ignore"):
        margins = np.where(wrong > 0, 0.0, values[:, 0] - values[:, 1])
    size = max(float(np.abs(bound.maximum(sign * w)[0]).max()) for sign in (1.0, -1.0))
    longest = int(np.diff(bound.offsets).max())
    kl = float(estimator.posterior_.kl)
    c = max(size, np.finfo(float).tiny)
    bound, gamma = margin_bound(margins, kl, longest * np.log(bound.n_labels), c, delta)
    statement = (
        f"risk of predict, if all scores of all weights were within {c:.3g} (the largest score seen) and all examples "
        f"had at most {longest} nodes; margin threshold {gamma:.3g}."
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
    """PAC-Bayes-kl for both losses: the best candidate by a few draws, its risk by new ones."""
    for_draws, for_examples = 0.1 * delta, 0.9 * delta

    def bound(gibbs: float, candidate: Candidate) -> float:
        return pac_bayes_kl(gibbs, candidate.kl, losses.n, for_examples / candidate.n_priors)

    # the best that a candidate can do is a Gibbs risk of zero: those that are hopeless even then are not tried
    pilots = []
    best = [np.inf, np.inf]
    for candidate in sorted(candidates, key=lambda c: c.kl):
        if bound(0.0, candidate) >= max(best):
            break
        pilots.append((candidate, losses.gibbs(candidate.posterior, PILOT_DRAWS, rng).mean(axis=0)))
        best = [min(old, bound(risk, candidate)) for old, risk in zip(best, pilots[-1][1])]
    rows, drawn = [], {}
    for k, loss in enumerate(LOSSES):
        number = min(range(len(pilots)), key=lambda j: bound(pilots[j][1][k], pilots[j][0]))
        chosen = pilots[number][0]
        if number not in drawn:  # two losses may choose alike, and then share the draws
            drawn[number] = losses.gibbs(chosen.posterior, n_draws, rng, bar)
        risks = drawn[number][:, k]
        sure = bound(mean_upper(risks, for_draws), chosen)
        seen = float(risks.mean())
        rows.append(
            BoundRow(name, loss, sure, seen, losses.n, chosen.kl, chosen.scale, True, statement, chosen.posterior)
        )
    bar.update(n_draws * (len(LOSSES) - len(drawn)))
    return rows


def _own_prior(posterior: Any) -> list[Candidate]:
    """Posteriors nearer to the prior and farther from it than the fitted one."""
    as_fitted = Candidate(1.0, float(posterior.kl), posterior)
    if not isinstance(posterior, Posterior):
        return [as_fitted]
    prior, mu, K = posterior.prior, posterior.mean, len(posterior.eta)
    found = []
    if isinstance(prior, Gaussian) and not np.any(prior.prior_mean):
        for ratio in SCALES:
            # N(t mu, r S) with t = ratio sqrt(r) labels as N(ratio mu, S) does; of these the one with the least KL
            r = 1.0 / (1.0 + 2 * ratio**2 * posterior.kl / K)
            kl = ratio**2 * r * posterior.kl + 0.5 * K * (r - 1.0 - np.log(r))
            found.append(Candidate(float(ratio), float(kl), Posterior(prior, ratio * posterior.eta)))
        return found
    start = prior.mean(np.zeros(K))
    for scale in SCALES:
        with np.errstate(all="ignore"):
            other = posterior if scale == 1.0 else Posterior(prior, prior.gradient(start + scale * (mu - start)))
        if np.all(np.isfinite(other.eta)) and np.isfinite(other.kl):
            found.append(Candidate(float(scale), float(other.kl), other))
    return found or [as_fitted]


def _split_prior(start: FloatArray, end: FloatArray) -> list[Candidate]:
    """Gaussians around points between two weight vectors; priors are those around the first."""
    size = float(np.sqrt(np.mean(start**2))) or 1.0
    away = end - start
    found = []
    for spread in SPREADS:
        prior = Gaussian((spread * size) ** 2, start)
        for step in STEPS:
            posterior = Posterior(prior, prior.gradient(start + step * away))
            found.append(Candidate(step, posterior.kl, posterior, n_priors=len(SPREADS)))
    return found


def _in_the_labels_of(estimator: Any, learnt: Any) -> FloatArray:
    """Weights of a model of fewer examples as those of one that may know more labels and types of edges."""
    full, small = estimator.model_.layout, learnt.model_.layout
    place = {label: k for k, label in enumerate(estimator.classes_.tolist())}
    at = np.array([place[label] for label in learnt.classes_.tolist()])
    segments, out = small.segments(learnt.model_.weights), full.segments(np.zeros(full.n_weights))
    out.node[:] = _moved(small, full, segments.node, at)
    for source, target in ((segments.transitions, out.transitions), (segments.edge, out.edge)):
        target[np.ix_(np.arange(len(source)), at, at)] = source
    if small.n_siblings:
        out.siblings[np.ix_(np.arange(len(segments.siblings)), at, at, at)] = segments.siblings
    out.label_features[:] = segments.label_features
    return full.join(out)


def _moved(small: Layout, full: Layout, node: FloatArray, at: NDArray) -> FloatArray:
    """Weights of nodes in another layout: label k becomes ``at[k]``."""
    if small.seen is None:
        out = np.zeros((full.n_features, full.n_labels))
        out[:, at] = node
        return out
    moved = np.zeros(full.n_node_weights)
    # all pairs that some examples have, all examples have
    moved[full.node_places(small.seen.features, at[small.seen.labels])] = node
    return moved


# ---- the losses of examples ------------------------------------------------------------------------------------------


class _Losses:
    """Losses of all examples as a function of the weights, shape (2, n_examples): share of wrong nodes, and 0/1."""

    def __init__(self, estimator: Any, X: Any, y: Any = None) -> None:
        check_is_fitted(estimator, "model_")
        examples = estimator.model_.read(X, y, needs_y=True)
        if len(examples) == 0:
            raise ValueError("X has no examples; a bound needs some.")
        self.estimator, self.examples = estimator, examples
        self.bound = estimator.model_.bind(examples)
        place = {label: k for k, label in enumerate(estimator.classes_.tolist())}
        labels = np.asarray(examples.y).tolist()
        # a label that the model does not know is -1: always wrong
        self.truth: NDArray = np.fromiter((place.get(label, -1) for label in labels), dtype=np.int32, count=len(labels))

    @property
    def n(self) -> int:
        return len(self.examples)

    def take(self, rows: NDArray[np.int64]) -> _Losses:
        return _Losses(self.estimator, self.examples[rows])

    def __call__(self, w: FloatArray) -> FloatArray:
        wrong = decode(self.bound, w) != self.truth
        offsets = self.bound.offsets
        count = np.diff(np.concatenate([[0], np.cumsum(wrong)])[offsets])
        return np.stack([count / np.maximum(np.diff(offsets), 1), count > 0])

    def gibbs(self, posterior: Any, n: int, rng: np.random.Generator, bar: Any = None) -> FloatArray:
        """Mean losses over the examples, for each of ``n`` draws of the weights: shape (n, 2)."""
        risks: list[FloatArray] = []
        while len(risks) < n:
            size = int(min(n - len(risks), max(1, 2e6 // self.bound.layout.n_weights)))  # 16 MB at a time
            for w in posterior.sample(size, rng):
                risks.append(self(w).mean(axis=1))
                if bar is not None:
                    bar.update()
        return np.array(risks)


def _check_delta(delta: Any) -> None:
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}; it is the chance that a bound fails.")

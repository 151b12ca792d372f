"""Laws of every structure, checked by enumeration of all labellings.

A law takes a bound structure with a few small examples and a predicate of valid labellings (`possible`). It uses no
formula of the structure. `tests/test_structure_laws.py` runs all laws on every structure of the library,
`tests/test_extend.py` on the structure of the documentation.
"""

from __future__ import annotations

import itertools
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from maxendnet import L2CRF, M3N, Examples, load
from maxendnet.estimators.info import describe
from maxendnet.losses import Hinge, Log
from maxendnet.losses.soft_hinge import SoftHinge
from maxendnet.priors import Gaussian
from maxendnet.problem import Problem
from maxendnet.structures import Table
from maxendnet.structures.base import ExcessOptions, decode

LABELS = np.array(["p", "q", "r"])
SIZES = (3, 1, 0, 4)


@dataclass
class Subject:
    """Structure with examples, and a predicate of valid labellings."""

    piece: Any
    examples: Examples
    possible: Any = lambda bound, labels: True

    @property
    def bound(self) -> Any:
        return self.piece.bind(self.examples, LABELS)

    def labellings(self, bound: Any, i: int) -> list[np.ndarray]:
        """Return all valid labellings of an example."""
        begin, end = bound.offsets[i : i + 2]
        allowed = getattr(bound, "batch", None)
        allowed = None if allowed is None or not allowed.allowed.size else allowed.allowed[begin:end]
        choices = [[a for a in range(3) if allowed is None or allowed[t, a]] for t in range(end - begin)]
        labellings = [np.array(y, dtype=np.int32) for y in itertools.product(*choices)]
        example = bound.take(i, i + 1)
        return [y for y in labellings if self.possible(example, y)]


def make_examples(seed: int, edges: Any = False, allowed: bool = False, y: Any = None, **options: Any) -> Examples:
    """Build four small examples, one of them empty."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, 2)) for n in SIZES]
    labels = [rng.choice(LABELS, size=n).tolist() for n in SIZES] if y is None else y
    if edges:
        options["edges"] = [[(0, 1), (0, 2)], [], [], [(1, 0), (1, 2), (0, 3)]] if edges is True else edges
    if allowed:
        masks = [rng.random((n, 3)) < 0.6 for n in SIZES]
        for mask, truth in zip(masks, labels):
            mask[np.arange(len(truth)), np.searchsorted(LABELS, truth)] = True
        options |= {"allowed": masks, "labels": LABELS.tolist()}
    sample_weight = rng.uniform(0.5, 2.0, size=len(SIZES))
    return Examples.build(X, labels, sample_weight=sample_weight, **options)


def weights_for(bound: Any, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=bound.layout.n_weights)


def table_for(bound: Any, seed: int) -> Table:
    return Table(np.random.default_rng(seed).normal(size=(4, 3)), np.arange(len(bound.y), dtype=np.int32) % 4)


def scores_of(subject: Subject, bound: Any, w: np.ndarray, table: Table | None = None):
    """Yield every example with its labellings and their scores."""
    for i in range(len(bound.sample_weight)):
        example, (begin, end) = bound.take(i, i + 1), bound.offsets[i : i + 2]
        labellings = subject.labellings(bound, i)
        scores = np.array([example.score(w, y)[0] for y in labellings])
        if table is not None:
            at = table.at_nodes()[begin:end]
            scores += [at[np.arange(end - begin), y].sum() for y in labellings]
        yield i, example, labellings, scores


def law_score_and_features_are_adjoint(subject: Subject) -> None:
    bound, rng = subject.bound, np.random.default_rng(1)
    w, weight = weights_for(bound, 2), rng.normal(size=len(bound.sample_weight))
    for q in (bound.y, bound.logsum(w, cliques=True)[1]):
        assert_allclose(w @ bound.features(q, weight), weight @ bound.score(w, q), rtol=1e-10, atol=1e-10)
        v = weights_for(bound, 3)
        assert_allclose(v @ bound.features(q), bound.score(v, q).sum(), rtol=1e-10, atol=1e-10)


def law_maximum_is_enumeration(subject: Subject) -> None:
    bound = subject.bound
    w = weights_for(bound, 4)
    for table in (None, table_for(bound, 5)):
        values, labels = bound.maximum(w, table)
        for i, _, labellings, scores in scores_of(subject, bound, w, table):
            assert_allclose(values[i], scores.max(), rtol=1e-10, atol=1e-10)
            best = labels[bound.offsets[i] : bound.offsets[i + 1]]
            places = [k for k, y in enumerate(labellings) if np.array_equal(y, best)]
            assert places, "the labelling is not valid"
            assert_allclose(scores[places[0]], scores.max(), rtol=1e-10, atol=1e-10)
    assert_allclose(bound.score(w, decode(bound, w)), bound.maximum(w)[0], rtol=1e-6, atol=1e-6)


def law_logsum_is_enumeration(subject: Subject) -> None:
    bound = subject.bound
    w = weights_for(bound, 6)
    for table in (None, table_for(bound, 7)):
        values, q = bound.logsum(w, table, cliques=True)
        expected_node, expected_features = np.zeros((len(bound.y), 3)), np.zeros(len(w))
        for i, example, labellings, scores in scores_of(subject, bound, w, table):
            assert_allclose(values[i], logsumexp(scores), rtol=1e-10, atol=1e-10)
            for y, p in zip(labellings, np.exp(scores - logsumexp(scores))):
                expected_node[np.arange(bound.offsets[i], bound.offsets[i + 1]), y] += p
                expected_features += p * example.features(y)
        assert_allclose(q.node, expected_node, atol=1e-10)
        assert_allclose(bound.features(q), expected_features, atol=1e-10)


def law_losses_and_gradients_are_enumeration(subject: Subject) -> None:
    bound, rng = subject.bound, np.random.default_rng(8)
    cost = rng.uniform(0.5, 2.0, size=(3, 3)) * (1 - np.eye(3))
    w = weights_for(bound, 9)
    for loss, T in ((Hinge(cost), 0.0), (Log(), 1.0), (SoftHinge(cost, temperature=0.3), 0.3)):
        total = Problem.pose(bound, loss, Gaussian()).loss_and_gradient(w, values=True)
        value, slope, expected_cost = 0.0, np.zeros(len(w)), 0.0
        for i, example, labellings, scores in scores_of(subject, bound, w):
            u, truth = bound.sample_weight[i], example.features(example.y)
            price = np.array([0.0 if isinstance(loss, Log) else cost[example.y, y].sum() for y in labellings])
            above = price + scores - example.score(w, example.y)[0]
            loss_i = above.max() if T == 0 else T * logsumexp(above / T)
            p = (above == above.max()).astype(float) if T == 0 else np.exp((above - loss_i) / T)
            assert_allclose(total.values[i], loss_i, rtol=1e-9, atol=1e-9)
            value += u * loss_i
            slope += u * sum(share * (example.features(y) - truth) for y, share in zip(labellings, p))
            expected_cost += u * (p @ price)
        assert_allclose(total.loss, value, rtol=1e-9, atol=1e-9)
        assert_allclose(total.gradient, slope, rtol=1e-8, atol=1e-8)
        if isinstance(loss, SoftHinge):
            assert_allclose(total.cost, expected_cost, rtol=1e-8, atol=1e-8)


def law_counted_tables_are_expectations(subject: Subject) -> None:
    bound = subject.bound
    w, rng = weights_for(bound, 10), np.random.default_rng(11)
    added, counted = rng.normal(size=(2, 3, 3))
    excess = bound.excess("logsum", w, Table(added, bound.y), ExcessOptions(expected_table=Table(counted, bound.y)))
    node = bound.logsum(w, Table(added, bound.y))[1].node
    per_node = (node * counted[bound.y]).sum(axis=1)
    expected = [per_node[a:b].sum() for a, b in zip(bound.offsets[:-1], bound.offsets[1:])]
    assert_allclose(excess.expected_table, expected, atol=1e-10)


def law_ranges_of_examples_are_structures(subject: Subject) -> None:
    bound = subject.bound
    w = weights_for(bound, 12)
    for copy in (bound, pickle.loads(pickle.dumps(bound))):
        shards = [copy.take(0, 2), copy.take(2, 2), copy.take(2, 4)]
        assert_allclose(np.concatenate([shard.logsum(w)[0] for shard in shards]), bound.logsum(w)[0], atol=1e-12)
        assert_array_equal(np.concatenate([shard.maximum(w)[1] for shard in shards]), bound.maximum(w)[1])
        assert_allclose(sum(shard.features(shard.y) for shard in shards), bound.features(bound.y), atol=1e-12)


def law_differences_are_those_of_the_features(subject: Subject) -> None:
    bound = subject.bound
    i = len(SIZES) - 1
    example, labels = bound.take(i, i + 1), subject.labellings(bound, i)[-1]
    rows = bound.differences(np.array([i, i]), np.concatenate([labels, example.y]))
    assert_allclose(rows.toarray()[0], example.features(example.y) - example.features(labels), atol=1e-12)
    assert not rows.toarray()[1].any()


def law_fits_have_a_certificate(subject: Subject) -> None:
    for estimator in (M3N(C=0.5, structure=subject.piece), L2CRF(structure=subject.piece)):
        fitted = estimator.set_params(tol=1e-4, random_state=0).fit(subject.examples)
        assert fitted.converged_ and fitted.gap_ <= 1e-4 and fitted.dual_ <= fitted.objective_
        predicted = fitted.predict(subject.examples)
        assert [len(labels) for labels in predicted] == list(SIZES)
        again = fitted.model_.bind(subject.examples)
        assert again.layout == fitted.model_.layout and len(again.y) == 0


def law_clones_are_equal(subject: Subject) -> None:
    copy = clone(subject.piece)
    assert copy is not subject.piece and type(copy) is type(subject.piece) and repr(copy) == repr(subject.piece)
    bound, again = subject.bound, copy.bind(subject.examples, LABELS)
    w = weights_for(bound, 13)
    assert again.layout == bound.layout
    assert_array_equal(again.score(w, again.y), bound.score(w, bound.y))


def law_models_are_saved_and_loaded(subject: Subject) -> None:
    fitted = L2CRF(structure=subject.piece, random_state=0, tol=1e-2).fit(subject.examples)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.medn"
        fitted.save(path)
        loaded = load(path)
        assert describe(path)["sizes"]["weights"] == len(fitted.model_.weights)
    assert repr(loaded.structure) == repr(fitted.structure) and loaded.model_.layout == fitted.model_.layout
    assert_array_equal(loaded.model_.weights, fitted.model_.weights)
    assert loaded.predict(subject.examples) == fitted.predict(subject.examples)


def law_a_grid_search_finds_a_model(subject: Subject) -> None:
    twice = subject.examples[np.tile(np.arange(len(SIZES)), 2)]
    model = M3N(structure=subject.piece, random_state=0, tol=1e-2)
    search = GridSearchCV(model, {"C": [1e-3, 1.0]}, cv=2, error_score="raise").fit(twice)
    assert repr(search.best_estimator_.structure) == repr(subject.piece)
    assert [len(labels) for labels in search.predict(twice)] == [*SIZES, *SIZES]


LAWS = [law for name, law in sorted(globals().items()) if name.startswith("law_")]

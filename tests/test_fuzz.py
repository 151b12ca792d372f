"""Random bad input: each call returns finite results, or raises a ValueError or TypeError with a reason.

Everything is drawn from a seeded generator, so that a case that fails is found again by its number.
"""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pytest
from scipy import sparse

from maxendnet import CRF, L1CRF, L1M3N, L2CRF, M3N, Chain, Examples, LapMEDN, rules, structures
from maxendnet.backends import Threads

NUMBERS = [0.0, 1.0, -1.0, 0.5, 1e-300, 1e99, 1e101, 1e308, np.inf, -np.inf, np.nan, 10**400, -(10**400), 2**63, True,
           1 + 2j, "1", b"1", None, [], [1.0], (1, 2), {"a": 1}, np.float32(3.0), np.int8(-3),
           np.datetime64("2020-01-01"), np.timedelta64(1, "s"),
           np.ma.masked, object(), np.array(2.0), np.array([1.0, 2.0])]  # fmt: skip
LABELS = ["a", "b", "c", 1, 2, 1.0, 0.5, True, None, np.nan, np.inf, 10**400, (1, 2), [1], {"a": 1}, b"a", "",
          np.datetime64("NaT"), np.datetime64("2020-01-01"), datetime.date(2020, 1, 1), frozenset([1]), object,
          np.str_("a"), 1j, np.ma.masked]  # fmt: skip
SETTINGS = {
    "C": NUMBERS, "lam": NUMBERS, "tol": NUMBERS, "max_passes": NUMBERS, "n_jobs": [*NUMBERS[7:], 1, 2, -1, 0],
    "random_state": NUMBERS, "verbose": ["x", None, 1.5, -1, [], 0],
    "structure": ["chain", "tree", "independent", "choice", None, "x", 3, [], Chain, L2CRF()],
    "solver": [None, "lbfgs", 3, L2CRF], "radius": NUMBERS, "method": ["exact", "variational", "x", None, 3],
    "cost": [None, "x", 3, [[0, 1], [1, 0]], [[0, -1], [1, 0]], np.array([[0, 1j], [1, 0]]), [[0, [1]], [1, 0]]],
    "warm_start": [True, False, "x", None], "iterations": NUMBERS, "backend": [None, Threads(2), Threads, 3, "x"],
    "callback": [None, len, 3, "x", lambda progress: True],
}  # fmt: skip
OPTIONS = {
    "bias": [True, False, 1, "yes", None, np.nan], "ends": [True, False, -4, "no", None],
    "rest": ["a", None, 7, []], "forbidden": [None, [("a", "b")], [("a",)], "ab", 3, [("x", "y")], [([], [])]],
    "siblings": [True, False, "x", None, 2], "pairs": ["seen", "all", "x", None, []],
    "order": [2, 1, 3, 0, -1, True, 1.5, "x", None, np.nan, 10**6], "ngrams": ["seen", "all", None, "x", 3, []],
    "rules": [
        rules.never(("a", "b")), [rules.at_most_once("a")], rules.regex(". *"), rules.regex("(a"), rules.bio(), "x", 3,
        [None],
    ],
    "durations": [3, {"a": (None, 2)}, 0, -1, True, "x", [], {"z": (1, 2)}, {"a": 2}, {"a": (2, 1)}, np.nan],
}  # fmt: skip


KINDS = ["array", "list", "sparse", "dicts", "names", "float32", "int", "object"]


class Draw:
    """One case: examples that are mostly right, with a few parts replaced by something bad."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self, p):
        return self.rng.random() < p

    def one(self, pool):
        return pool[int(self.rng.integers(len(pool)))]

    def table(self, n_nodes, n_features, kind):
        rng = self.rng
        dense = rng.normal(size=(n_nodes, n_features)) * 10.0 ** rng.integers(-3, 4)
        if kind == "array":
            if self.chance(0.2):
                dense[tuple(rng.integers(s) for s in dense.shape)] = self.one([np.nan, np.inf, 1e101, 1e99, 1e50, -0.0])
            return np.ma.masked_array(dense, mask=rng.random(dense.shape) < 0.2) if self.chance(0.1) else dense
        if kind in ("list", "object"):
            rows = dense.tolist()
            if self.chance(0.2):
                rows[int(rng.integers(n_nodes))][int(rng.integers(n_features))] = self.one(NUMBERS)
            if self.chance(0.1):
                rows[int(rng.integers(n_nodes))] = self.one([[], [1.0], None, 3.0, "abc", {"a": 1}, {"b"}, ["x", "y"]])
            if kind == "object":
                try:
                    return np.array(rows, dtype=object)
                except ValueError:
                    return rows
            return rows
        if kind == "sparse":
            matrix = sparse.coo_array(dense * (rng.random(dense.shape) < 0.6)).asformat(
                self.one(["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
            )
            if self.chance(0.3):
                self.corrupt(matrix)
            return matrix
        if kind == "dicts":
            names, values = ["a", "b", "c", 3, None, ""], [1, 2.0, "x", True, *NUMBERS]
            pick = 3 if self.chance(0.7) else 6
            last = 4 if self.chance(0.7) else len(values)
            return [{self.one(names[:pick]): self.one(values[:last]) for _ in range(2)} for _ in range(n_nodes)]
        if kind == "names":
            names = ["a", "b", "c"] if self.chance(0.8) else ["a", "b", 3, None, ("x",)]
            return [[self.one(names) for _ in range(2)] for _ in range(n_nodes)]
        return dense.astype(np.float32 if kind == "float32" else int)

    def corrupt(self, matrix):
        if matrix.format == "dok":
            return
        name = self.one(
            [n for n in ("data", "indices", "indptr", "row", "col", "offsets", "rows") if hasattr(matrix, n)]
        )
        try:
            array = getattr(matrix, name)
            if self.chance(0.3):
                setattr(matrix, name, array[: len(array) // 2])
            elif len(array):
                array[int(self.rng.integers(len(array)))] = self.one([-1, 1, 7, 10**6, 2**30])
        except (AttributeError, TypeError, ValueError):  # numpy or scipy would not have it: not ours to judge
            pass

    def case(self):
        rng = self.rng
        lengths = [int(rng.integers(1, 4)) for _ in range(rng.integers(1, 4))]
        n_features = int(rng.integers(1, 4))
        kind = self.one(KINDS)  # mostly one for all examples, which is what users have
        X = [self.table(n, n_features, self.one(KINDS) if self.chance(0.1) else kind) for n in lengths]
        labels = LABELS[:2] if self.chance(0.7) else LABELS
        y = [[self.one(labels) for _ in range(n)] for n in lengths]
        if self.chance(0.1):
            y[0] = self.one(["ab", None, 3, [], np.array([["a"]]), np.ma.masked_array([1] * lengths[0], mask=True)])
        more = {}
        if self.chance(0.2):
            more["sample_weight"] = [self.one(NUMBERS if self.chance(0.3) else [1.0, 0.5, 0.0]) for _ in lengths]
        if self.chance(0.2):
            node = [0, 1, 2, -1, 99, 2**40, 0.5, None, "0"]
            last = 2 if self.chance(0.6) else len(node)
            more["edges"] = [[(self.one(node[:last]), self.one(node[:last])) for _ in range(n - 1)] for n in lengths]
        if self.chance(0.2):
            kinds = [0, 1, 2, -1, 10**6, 2**31 - 1, 2**63, 10**400, 0.5, None]
            last = 3 if self.chance(0.6) else len(kinds)
            more["edge_types"] = [[self.one(kinds[:last]) for _ in range(n - 1)] for n in lengths]
        if self.chance(0.2):
            pool = [0.13, 1.0, -2.0] if self.chance(0.6) else NUMBERS
            more["edge_features"] = [[[self.one(pool)] for _ in range(n - 1)] for n in lengths]
        if self.chance(0.1):
            pool = [0, 1] if self.chance(0.6) else [0, -1, 10**6, None, 2**40]
            more["node_types"] = [[self.one(pool) for _ in range(n)] for n in lengths]
        if self.chance(0.1):
            more |= {
                "labels": ["a", "b"],
                "allowed": [self.one([None, [["a"]] * n, [["z"]] * n, "a", 3]) for n in lengths],
            }
        return X, y, more

    def model(self):
        kind = self.one([CRF, L1CRF, L2CRF, M3N, LapMEDN, L1M3N])
        model = kind(max_passes=5)
        names = [name for name in SETTINGS if name in model.get_params()]
        for _ in range(int(self.chance(0.4)) + int(self.chance(0.2))):
            name = self.one(names)
            model.set_params(**{name: self.one(SETTINGS[name])})
        if self.chance(0.4):
            kind = self.one(structures.ALL)
            options = [name for name in OPTIONS if name in kind().get_params()]
            names = [self.one(options) for _ in range(1 + int(self.chance(0.3)))] if options else []
            # mostly one that can be, so that fits are reached
            chosen = {name: OPTIONS[name][0] if self.chance(0.6) else self.one(OPTIONS[name]) for name in names}
            model.set_params(structure=kind(**chosen))
        return model


def check_case(seed):
    """The law of this file for one case; what it was ends up in the message."""
    draw = Draw(seed)
    X, y, more = draw.case()
    model, what = draw.model(), f"case {seed}"
    if "edges" in more and model.structure == "chain" and draw.chance(0.9):
        model.structure = "tree"
    if type(model.max_passes) is not int or model.max_passes > 100:
        model.tol = 0.5  # the setting is what is tried here, not patience
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(Examples.build(X, y, **more)) if more else model.fit(X, y)
        except (ValueError, TypeError) as error:
            assert len(str(error)) > 10, f"{what}: {error!r} says nothing"
            return False
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        assert np.isfinite(model.objective_), what
        assert np.all(np.isfinite(model.model_.weights)), what
        assert not model.gap_ < 0, what
        assert np.isnan(model.dual_) or model.dual_ <= model.objective_ + 1e-6 * abs(model.objective_), what
        X, _, more = draw.case()
        for ask in (model.predict, lambda X: model.predict_top(X, draw.one([1, 3, 10**9])), model.predict_marginals):
            try:
                ask(X)
            except (ValueError, TypeError) as error:
                assert len(str(error)) > 10, f"{what}: {error!r} says nothing"
            except Exception as error:
                raise AssertionError(f"{what}, at prediction: {type(error).__name__}: {error}") from error
    return True


def test_a_sample_of_bad_input():
    fitted = [check_case(seed) for seed in range(150)]
    assert 0.1 < np.mean(fitted) < 0.9  # neither all of it is bad, nor none


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_bad_input_of_many_kinds(block):
    for seed in range(1000 + 250 * block, 1250 + 250 * block):
        check_case(seed)

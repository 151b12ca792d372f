import dataclasses
import datetime
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import tracemalloc
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxendnet as mx
from maxendnet.backends import Threads
from maxendnet.estimators import file as model_file
from maxendnet.estimators.fitted import FittedModel
from maxendnet.models.json_values import FromPlain, ToPlain, pieces
from maxendnet.solvers import LBFGS, OWLQN, BlockFrankWolfe, ProximalPoint, Variational
from maxendnet.structures import Layout
from maxendnet.utils import memory

# Files can store models that have not converged, so convergence warnings are ignored here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 3)) for n in (4, 1, 6, 3, 5, 4)]
Y = [np.where(x[:, 0] + 0.5 * RNG.normal(size=len(x)) > 0, "yes", "no") for x in X]
K = 3 * 2 + 2 * 2


def tree_examples():
    """Trees with all optional arrays of `Examples`."""
    rng = np.random.default_rng(1)
    labels = ["a", "b", "c"]
    nodes, y, edges, kinds, features, node_types, allowed, label_features = [], [], [], [], [], [], [], []
    for n in (3, 5, 1, 4, 6, 2):
        nodes.append(rng.normal(size=(n, 4)))
        types = rng.integers(2, size=n)
        truth = np.where(types == 0, rng.integers(2, size=n), rng.integers(1, 3, size=n))
        y.append([labels[k] for k in truth])
        edges.append([(int(rng.integers(t)), t) for t in range(1, n)])
        kinds.append(rng.integers(2, size=n - 1))
        features.append(rng.normal(size=(n - 1, 2)))
        node_types.append(types)
        mask = rng.random((n, 3)) < 0.7
        mask[np.arange(n), truth] = True
        allowed.append(mask)
        label_features.append(rng.normal(size=(n, 3, 2)))
    return mx.Examples.build(
        nodes, y, edges=edges, edge_types=kinds, edge_features=features, node_types=node_types, allowed=allowed,
        label_features=label_features, labels=labels, sample_weight=rng.uniform(0.5, 2, size=len(nodes)),
    )  # fmt: skip


def hierarchy():
    """Options of `Tree` under which no label pair of the training trees is forbidden."""
    examples = tree_examples()
    parents = [(examples.y[a + p], examples.y[a + t]) for a, p, t in
               ((examples.offsets[i], *edge) for i in range(len(examples))
                for edge in examples.edges[examples.edge_offsets[i] : examples.edge_offsets[i + 1]])]  # fmt: skip
    return {"siblings": True, "forbidden": [(a, b) for a in "abc" for b in "abc" if (a, b) not in parents]}


def choice_examples():
    y = [["-"] * len(x) for x in X]
    for k, labels in enumerate(y):
        labels[k % len(labels)] = "here" if k % 3 else "there"
    return X, y


def never_neighbours():
    return [("D", "D"), ("N", "D"), ("V", "N")]


def dict_examples():
    words = [["the", "dog", "ran"], ["a", "dog"], ["the", "cat", "sat"]]
    tags = [["D", "N", "V"], ["D", "N"], ["D", "N", "V"]]
    nodes = [[{"word": w, "first": t == 0, "length": len(w), 'é\n"': 1.0} for t, w in enumerate(s)] for s in words]
    return nodes, tags


COVARIANCE = np.eye(K) + 0.1
MODELS = {
    "LapMEDN": lambda: mx.LapMEDN(C=2.0, lam=3.0, random_state=0).fit(X, Y),
    "LapMEDN-variational": lambda: mx.LapMEDN(C=2.0, method="variational", iterations=3, tol=0.5).fit(X, Y),
    "LapMEDN-inner": lambda: mx.LapMEDN(method="variational", solver=BlockFrankWolfe(inner=1), tol=0.01).fit(X, Y),
    "M3N": lambda: mx.M3N(
        C=np.float64(0.1), structure=mx.Chain(True, True), n_jobs=np.int8(2), random_state=0
    ).fit(X, Y),
    "M3N-cost": lambda: mx.M3N(cost=np.array([[0, 2], [1, 0]]), random_state=np.random.default_rng(5)).fit(X, Y),
    "M3N-cost-list": lambda: mx.M3N(cost=[[0, 2], [1, 0]], random_state=np.random.RandomState(5)).fit(X, Y),
    "M3N-tree": lambda: mx.M3N(structure=mx.Tree(bias=True, ends=True), random_state=0).fit(tree_examples()),
    "LapMEDN-tree": lambda: mx.LapMEDN(C=3.0, structure="tree", random_state=0).fit(tree_examples()),
    "L2CRF-tree": lambda: mx.L2CRF(structure="tree").fit(tree_examples()),
    "M3N-tree-hierarchy": lambda: mx.M3N(structure=mx.Tree(bias=True, **hierarchy())).fit(tree_examples()),
    "L1CRF-tree-hierarchy": lambda: mx.L1CRF(structure=mx.Tree(**hierarchy())).fit(tree_examples()),
    "L2CRF-forbidden": lambda: mx.L2CRF(structure=mx.Chain(forbidden=never_neighbours())).fit(*dict_examples()),
    "LapMEDN-choice": lambda: mx.LapMEDN(C=2.0, structure=mx.Choice(bias=True), random_state=0).fit(*choice_examples()),
    "M3N-choice-rest": lambda: mx.M3N(structure=mx.Choice(ends=True, rest="-"), random_state=0).fit(*choice_examples()),
    "M3N-independent-ends": lambda: mx.M3N(structure=mx.Independent(True, np.True_), random_state=0).fit(X, Y),
    "CRF-forbidden": lambda: mx.CRF(structure=mx.Chain(ends=True, forbidden=never_neighbours())).fit(*dict_examples()),
    "CRF-tree-siblings": lambda: mx.CRF(structure=mx.Tree(ends=True, siblings=True), tol=0.05).fit(tree_examples()),
    "M3N-independent": lambda: mx.M3N(structure="independent", random_state=0).fit(X, Y),
    "M3N-flat": lambda: mx.M3N(random_state=0).fit(np.concatenate(X), np.concatenate(Y)),
    "M3N-dicts": lambda: mx.M3N(structure=mx.Chain(bias=True), random_state=0).fit(*dict_examples()),
    "L1M3N-ball": lambda: mx.L1M3N(C=2.0, radius=3.0, random_state=0, max_passes=30).fit(X, Y),
    "L1M3N": lambda: mx.L1M3N(C=2.0, random_state=0, max_passes=30).fit(X, Y),
    "CRF": lambda: mx.CRF(tol=0.05).fit(X, Y),
    "L1CRF": lambda: mx.L1CRF(lam=0.5, solver=OWLQN(memory=4)).fit(X, Y),
    "L2CRF": lambda: mx.L2CRF(lam=0.5, solver=LBFGS(memory=4), warm_start=True).fit(X, Y),
    "MaxEnDNet": lambda: mx.MaxEnDNet(random_state=0).fit(X, Y),
    "MaxEnDNet-variances": lambda: mx.MaxEnDNet(mx.Gaussian(np.linspace(1, 2, K), np.zeros(K))).fit(X, Y),
    "MaxEnDNet-full": lambda: mx.MaxEnDNet(mx.Gaussian(COVARIANCE), mx.Log()).fit(X, Y),
    **{
        f"MaxEnDNet-{type(prior).__name__}": lambda prior=prior: mx.MaxEnDNet(prior, C=0.5, random_state=0).fit(X, Y)
        for prior in (
            mx.Laplace(2.0),
            mx.NormalGamma(2.0, 3.0),
            mx.NormalInverseGaussian(2.0, 0.5),
            mx.SpikeSlab(0.3, 2.0),
            mx.Exponential(2.0),
            mx.Uniform(2.0),
        )
    },
    "MaxEnDNet-hinge": lambda: mx.MaxEnDNet(mx.L1(0.7), mx.Hinge([[0, 1], [3, 0]]), max_passes=30).fit(X, Y),
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    """Models by name, each fitted once."""
    fitted_models = {}
    return lambda name: fitted_models[name] if name in fitted_models else fitted_models.setdefault(name, MODELS[name]())


def data_of(name):
    return tree_examples() if "tree" in name else dict_examples()[0] if "dicts" in name or "forb" in name else X


def same(a, b, path=""):
    """Assert that values are bit-for-bit identical and have the same types."""
    if isinstance(a, float) and isinstance(b, float):  # np.float64 is a subclass of float
        assert a == b or (a != a and b != b), path
        return
    assert type(a) is type(b), f"{path}: {type(a)} and {type(b)}"
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape, path
        if a.dtype == object:
            for k, (left, right) in enumerate(zip(a, b)):
                same(left, right, f"{path}[{k}]")
        else:
            assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes(), path
        assert b.flags.writeable or not a.flags.writeable, path
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for k, (left, right) in enumerate(zip(a, b)):
            same(left, right, f"{path}[{k}]")
    elif isinstance(a, np.random.Generator):
        assert clone_draws(a) == clone_draws(b), path
    elif isinstance(a, np.random.RandomState):
        same(a.get_state(), b.get_state(), path)
    elif isinstance(a, (FittedModel, Layout)):  # only their fields are saved, not the values cached from them
        same_dict(*({f.name: getattr(x, f.name) for f in dataclasses.fields(x)} for x in (a, b)), path)
    elif hasattr(a, "get_params"):
        same_dict(a.get_params(deep=False), b.get_params(deep=False), path)
    elif isinstance(a, (mx.posterior.Posterior, mx.posterior.VariationalPosterior, mx.posterior.PointEstimate)):
        same_posterior(a, b, path)
    else:
        assert a == b, path


def same_dict(a, b, path):
    assert a.keys() == b.keys(), f"{path}: {a.keys() ^ b.keys()}"
    for key in a:
        same(a[key], b[key], f"{path}.{key}")


def same_posterior(a, b, path):
    assert a.kind == b.kind
    same(a.mean, b.mean, path + ".mean")
    assert hasattr(a, "variance") == hasattr(b, "variance") == (a.kind != "point")
    if a.kind != "point":
        same(np.float64(a.kl), np.float64(b.kl), path + ".kl")
        for name in ("variance", "relevance"):
            same(getattr(a, name), getattr(b, name), f"{path}.{name}")
        same(a.sample(3, random_state=0), b.sample(3, random_state=0), path + ".sample")


def clone_draws(generator):
    state = generator.bit_generator.state
    copy = np.random.Generator(type(generator.bit_generator)())
    copy.bit_generator.state = state
    return copy.random(5).tolist()


# ---- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_is_the_saved_one_to_the_bit(fitted, name, tmp_path):
    model, path = fitted(name), tmp_path / "model.medn"
    model.save(path)
    loaded = mx.load(path)
    assert type(loaded) is type(model)
    unsaved = ("_state", "_support")
    same_dict({k: v for k, v in vars(model).items() if k not in unsaved},
              {k: v for k, v in vars(loaded).items() if k not in unsaved}, name)  # fmt: skip
    assert not hasattr(loaded, "support_")
    assert loaded.warm_state is None
    data = data_of(name)
    same(list(model.predict(data)), list(loaded.predict(data)))
    same(list(model.predict_marginals(data)), list(loaded.predict_marginals(data)))
    same(model.decision_function(data), loaded.decision_function(data))
    same(list(model.predict_max_marginals(data)), list(loaded.predict_max_marginals(data)))
    same(model.predict_top(data, k=2), loaded.predict_top(data, k=2))
    same(model.sample(data, 2, random_state=0), loaded.sample(data, 2, random_state=0))
    assert os.listdir(tmp_path) == ["model.medn"]


@pytest.mark.parametrize("name", MODELS)
def test_saving_a_loaded_model_gives_the_same_file(fitted, name, tmp_path):
    fitted(name).save(tmp_path / "one")
    mx.load(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_names_in_a_file_stay_when_those_in_the_code_change(fitted, tmp_path):
    fitted("M3N-tree").save(tmp_path / "model")
    layout = model_file.read(tmp_path / "model").header["layout"]
    assert list(layout) == [
        "n_features", "n_labels", "n_edge_types", "n_edge_features", "n_tied", "siblings", "rest", "n_ngrams",
        "type_allowed", "seen", "ngrams",
    ]  # fmt: skip
    assert layout["n_tied"] == len(mx.load(tmp_path / "model").label_coef_) == 2


def test_every_estimator_and_every_piece_can_be_in_a_file(fitted, tmp_path):
    exported = [getattr(mx, name) for name in mx.__all__]
    estimators = {c.__name__ for c in exported if isinstance(c, type) and issubclass(c, mx.estimators.MarkovNetwork)}
    assert estimators == set(model_file.ESTIMATORS) == {name.split("-")[0] for name in MODELS}
    for cls in pieces().values():
        plain = json.loads(json.dumps(ToPlain()(cls(), "piece")))
        same(cls(), FromPlain({})(plain), cls.__name__)
    nested = Variational(2, inner=ProximalPoint(passes=2)), Variational(2, inner=BlockFrankWolfe(inner=1))
    for piece in nested:
        same(piece, FromPlain({})(json.loads(json.dumps(ToPlain()(piece, "piece")))))


def test_a_loaded_model_fits_again_and_can_be_cloned(fitted, tmp_path):
    fitted("L2CRF").save(tmp_path / "model")
    loaded = mx.load(tmp_path / "model")
    same(clone(loaded).fit(X, Y).model_.weights, fitted("L2CRF").model_.weights)
    assert loaded.fit(X, Y).converged_  # with warm_start, from the beginning


def test_unknown_features_are_ignored_after_loading_too(fitted, tmp_path):
    fitted("M3N-dicts").save(tmp_path / "model")
    unseen = [[{"word": "the", "never seen": 3.0}, {"word": "zebra"}]]
    same(mx.load(tmp_path / "model").predict(unseen), fitted("M3N-dicts").predict(unseen))


def test_a_text_path_and_a_path_object_do_the_same(fitted, tmp_path):
    fitted("CRF").save(str(tmp_path / "model"))
    same(mx.load(str(tmp_path / "model")).model_.weights, mx.load(tmp_path / "model").model_.weights)


def test_settings_of_the_process_are_not_saved(tmp_path):
    plain = mx.M3N(random_state=0).fit(X, Y)
    model = mx.M3N(random_state=0, backend=Threads(2), callback=lambda progress: None).fit(X, Y)
    model.save(tmp_path / "model")
    settings = model_file.read(tmp_path / "model").header["estimator"][1]
    assert not settings.keys() & {"backend", "callback"}
    loaded = mx.load(tmp_path / "model")
    assert loaded.backend is None and loaded.callback is None
    same(loaded.model_.weights, plain.model_.weights)
    same(loaded.predict(X), model.predict(X))


# ---- labels ----------------------------------------------------------------------------------------------------------

LABELS = {
    "str": ["é", "b\n", "\ud800"],
    "a NUL at the end": ["a", "a\0"],
    "int": [3, -7, 2**40],
    "beyond 64 bits": [2**70, -(2**90)],
    "float": [0.0, -1.0, 1e20],
    "bool": [True, False],
    "mixed": [True, "a", 2],
    "tuples": [("a", 1), ("a", (None, 2.0)), ()],
    "numpy integers": [np.int16(3), np.int16(5)],
    "numpy unsigned": np.array([0, 2**64 - 1], dtype=np.uint64),
    "numpy floats": np.array([1, 2], dtype=np.float32),
    "numpy strings": [np.str_("a"), np.str_("b")],
    "numpy of several types": [np.int8(1), np.float64(2.0), "a", np.bool_(False)],
    "infinite in a tuple": [(np.inf,), (-np.inf,)],
    "bytes": [b"\xff\0a", b"b"],
    "numpy bytes": np.array([b"a", b"bc"]),
    "one": ["only"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_keep_value_and_type(kind, tmp_path):
    labels = LABELS[kind]
    x = [np.eye(len(labels))] * 2
    model = mx.L2CRF(lam=0.1).fit(x, [labels, labels])
    model.save(tmp_path / "model")
    loaded = mx.load(tmp_path / "model")
    same(model.classes_, loaded.classes_)
    same(model.predict(x), loaded.predict(x))


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize("label", [datetime.date(2020, 1, 2), ("a", frozenset("ab")), Colour.RED, ("a", 1j)])
def test_a_label_that_cannot_be_saved_is_named(label, tmp_path):
    model = mx.L2CRF().fit([np.eye(2)], [["a", label]])
    with pytest.raises(
        mx.ModelFileError, match=r"classes\[\d\] is .* of type \w+, which a model file cannot store"
    ) as e:
        model.save(tmp_path / "model")
    assert (repr(label[1]) if isinstance(label, tuple) else repr(label)) in str(e.value)
    assert os.listdir(tmp_path) == []


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(st.characters(codec=None))
        | st.binary(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
        max_leaves=10,
    )
)
def test_values_survive_json(value):
    same(value, FromPlain({})(json.loads(json.dumps(ToPlain()(value, "value"), allow_nan=False))))


# ---- models that cannot be saved -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Mine(mx.Laplace):
    pass


class MyNetwork(mx.M3N):
    pass


def test_a_prior_of_the_user_is_refused_by_name(tmp_path):
    model = mx.MaxEnDNet(prior=Mine(2.0), random_state=0).fit(X, Y)
    with pytest.raises(mx.ModelFileError, match=r"prior is a .*Mine, which is not a class of maxendnet.*numpy\.savez"):
        model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_prior_of_the_user_cannot_hide_behind_a_known_name(tmp_path):
    impostor = type("Laplace", (mx.Laplace,), {})
    model = mx.MaxEnDNet(prior=impostor(), random_state=0).fit(X, Y)
    with pytest.raises(mx.ModelFileError, match="not a class of maxendnet"):
        model.save(tmp_path / "model")


def test_an_estimator_of_the_user_is_refused_by_name(tmp_path):
    with pytest.raises(mx.ModelFileError, match="MyNetwork is not an estimator of maxendnet"):
        MyNetwork(random_state=0).fit(X, Y).save(tmp_path / "model")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        mx.M3N().save(tmp_path / "model")


def test_a_setting_of_a_strange_type_is_named(tmp_path):
    model = mx.L2CRF().fit(X, Y).set_params(verbose={"much"})
    with pytest.raises(mx.ModelFileError, match=r"verbose is .* of type set"):
        model.save(tmp_path / "model")


CHANGES = [
    {"structure__bias": True}, {"structure__ends": True}, {"structure": "independent"}, {"structure": "tree"},
    {"structure": mx.Tree(siblings=True)}, {"structure__forbidden": [("yes", "no")]},
    {"structure__forbidden": [("yes", "?")]},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_settings_that_no_longer_fit_the_weights_are_refused(change, tmp_path):
    model = mx.L2CRF().fit(X, Y).set_params(**change)
    with pytest.raises(mx.ModelFileError, match="changed after the fit"):
        model.save(tmp_path / "model")


def test_a_folder_that_is_not_there_is_named(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="The folder does not exist"):
        fitted("CRF").save(tmp_path / "none" / "model")


def test_the_weights_of_a_point_estimate_are_saved_once(fitted, tmp_path):
    fitted("L2CRF").save(tmp_path / "model")
    content = model_file.read(tmp_path / "model")
    assert content.header["posterior"]["mean"] == content.header["weights"] == {"array": "weights"}
    assert "posterior__mean" not in content.arrays
    again = mx.load(tmp_path / "model")
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_kill_while_saving_leaves_the_old_model(fitted, tmp_path):
    path = tmp_path / "model.medn"
    fitted("CRF").save(path)
    old = path.read_bytes()
    script = f"""
        import os, signal, maxendnet
        model = maxendnet.load({str(path)!r})
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        model.tol = 0.5
        model.save({str(path)!r})
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False).returncode == -9
    assert path.read_bytes() == old and mx.load(path).predict(X) is not None


# ---- files that are refused ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.medn"
    fitted("LapMEDN-tree").save(path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    def check(content, match=None):
        path = tmp_path / "model.medn"
        path.write_bytes(content)
        with pytest.raises(mx.ModelFileError, match=match) as error:
            mx.load(path)
        assert str(path) in str(error.value)

    return check


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.medn"):
        mx.load(tmp_path / "none.medn")


def test_a_folder(tmp_path):
    with pytest.raises(mx.ModelFileError, match="is a folder"):
        mx.load(tmp_path)


def test_another_kind_of_file_is_refused(refused):
    tensors = safetensors.numpy.save({"a": np.ones(3)})
    for content in (b"some text\n", b"\x80\x04pickle", tensors, b"\x89PNG\r\n\x1a\n" * 9):
        refused(content, "not a maxendnet model file")


def test_an_empty_file(refused):
    refused(b"", "truncated: it has only 0 bytes")


def test_a_file_cut_short_anywhere(whole, refused):
    for size in sorted({*range(64), *range(0, len(whole), 64), len(whole) - 1}):
        refused(whole[:size], "truncated")


def test_a_file_with_something_after_it(whole, refused):
    refused(whole + b"\0", "damaged")


def test_each_byte_counts(whole, refused):
    # each of the first 200 bytes, which contain everything that is read before the checksum, then every 7th byte
    for k in (*range(200), *range(200, len(whole), 7)):
        damaged = bytearray(whole)
        damaged[k] ^= 1 << (k % 8)
        refused(bytes(damaged))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_drawn_damage(whole, refused, data):
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        k = data.draw(st.integers(0, len(damaged) - 1))
        damaged[k : k + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    if bytes(damaged) != whole:
        refused(bytes(damaged))


def test_a_newer_format(whole, refused):
    message = "format version 5, but this maxendnet reads versions 2 to 4; update"
    refused(seal(body_of(whole), version=5), message)
    refused(seal(body_of(whole), version=0), "format version 0, .*; it is damaged")


def test_the_format_of_version_0_1_0(whole, refused):
    message = r"format version 1, .* versions 2 to 4; it was written by an earlier version: fit again.*estimator\.save"
    refused(seal(body_of(whole), version=1), message)


def body_of(whole):
    """Return the content after the checksum of a file, as safetensors."""
    return zlib.decompress(whole[model_file.PREFIX :])


def seal(body, version=model_file.FORMAT, compress=True):
    """Return a file with a valid checksum for any content."""
    v = version.to_bytes(4, "little")
    body = zlib.compress(body) if version >= 3 and compress else body
    return model_file.MAGIC + v + hashlib.sha256(v + body).digest() + body


def test_a_body_that_is_not_compressed_is_refused(whole, refused):
    refused(seal(body_of(whole), compress=False), "its content is not that of a model file")
    refused(seal(zlib.compress(body_of(whole))[:-9], compress=False), "its content is not that of a model file")


def test_files_of_format_2_are_read(whole, tmp_path):
    body = body_of(whole)
    arrays = safetensors.numpy.load(body)
    header = json.loads(json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]["maxendnet"])
    old = safetensors.numpy.save(arrays, {"maxendnet": json.dumps(header | {"format": 2})})
    (tmp_path / "old").write_bytes(seal(old, version=2))
    (tmp_path / "new").write_bytes(whole)
    assert np.array_equal(mx.load(tmp_path / "old").model_.weights, mx.load(tmp_path / "new").model_.weights)


def test_files_without_constants_have_those_of_the_settings(whole, tmp_path):
    numbers = edited(whole, put("header", "estimator", 1, "lam", value=30))
    (tmp_path / "old").write_bytes(edited(numbers, drop("header", "fit", "constants")))
    assert mx.load(tmp_path / "old").model_.report.constants == {"C": 3.0, "lam": 30.0}


def with_zeros(body, n_bytes):
    """The content of a file followed by zeros."""
    return body + bytes(n_bytes)


def with_unused_array(body, n_bytes):
    """Return the content of a file with an array that the header does not mention."""
    arrays = safetensors.numpy.load(body) | {"unused": np.zeros(n_bytes, dtype=np.uint8)}
    header = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
    return safetensors.numpy.save(arrays, header)


def with_negative_size(body, n_bytes):
    """Return the content of a file whose header implies size -1. (For zlib, a limit of 0 means no limit.)"""
    length = int.from_bytes(body[:8], "little")
    arrays, text = json.loads(body[8 : 8 + length]), b""
    for _ in range(3):  # the length of the JSON text is part of the size
        begin = 9 + len(text) + len(body) - 8 - length
        arrays["less"] = {"dtype": "U8", "shape": [0], "data_offsets": [begin, 0]}
        text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text + body[8 + length :] + bytes(n_bytes)


@pytest.mark.parametrize(
    "enlarge, message",
    [
        (with_zeros, "does not have the .* bytes that its arrays need"),
        (with_negative_size, "an array ends before it begins"),
        (with_unused_array, "nothing refers to the array 'unused'"),
        (lambda body, n_bytes: n_bytes.to_bytes(8, "little") + body[8:], "valid checksum"),
        (lambda body, n_bytes: bytes([255]) * 8 + bytes(n_bytes), "it states a header of .* bytes"),
        (lambda body, n_bytes: body[:20], "valid checksum"),
    ],
)
def test_no_more_is_decompressed_than_the_file_states(whole, refused, enlarge, message):
    small = seal(enlarge(body_of(whole), 2**26))
    assert len(small) < 2**18
    tracemalloc.start()
    refused(small, message)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def test_a_model_that_does_not_fit_into_memory_is_refused(whole, refused, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    monkeypatch.setattr(memory, "ALWAYS_AVAILABLE", 0)
    refused(whole, r"a model file of [\d,]+ bytes, needs at least .* of memory, but 1,000 bytes are available; read it")


def edited(whole, change):
    """Write a file with changed header and arrays and a valid checksum, as another program could."""
    body = body_of(whole)
    arrays = safetensors.numpy.load(body)
    header = json.loads(json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]["maxendnet"])
    header = change(header, arrays) or header
    return seal(safetensors.numpy.save(arrays, {"maxendnet": json.dumps(header)}))


def put(*keys, value):
    def change(header, arrays):
        place = {"header": header, "arrays": arrays}
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def option(name, value, places=("settings", "model")):
    """Set an option of the structure in the settings of the estimator, in the fitted model, or in both."""

    def change(header, arrays):
        structures = {"settings": header["estimator"][1]["structure"], "model": header["structure"]}
        for place in places:
            structures[place]["piece"][1][name] = value

    return change


def drop(*keys):
    def change(header, arrays):
        place = {"header": header, "arrays": arrays}
        for key in keys[:-1]:
            place = place[key]
        del place[keys[-1]]

    return change


FORGED = {
    "unknown estimator": put("header", "estimator", 0, value="Popen"),
    "an estimator of a module": put("header", "estimator", 0, value="os.system"),
    "unknown setting": put("header", "estimator", 1, "colour", value=1),
    "unknown piece": put("header", "estimator", 1, "solver", value={"piece": ["Popen", {"args": "true"}]}),
    "unknown tag": put("header", "estimator", 1, "solver", value={"eval": "1"}),
    "two tags": put("header", "estimator", 1, "solver", value={"tuple": [], "bytes": ""}),
    "unknown setting of a piece": put("header", "posterior", "prior", value={"piece": ["Laplace", {"x": 1}]}),
    "a prior that makes no sense": put("header", "posterior", "prior", value={"piece": ["Laplace", {"lam": -1.0}]}),
    "a solver as prior": put("header", "posterior", "prior", value={"piece": ["LBFGS", {}]}),
    "a prior without posterior": put("header", "posterior", "prior", value={"piece": ["Flat", {}]}),
    "constants as a list": put("header", "fit", "constants", value=[1.0]),
    "an unknown constant": put("header", "fit", "constants", value={"D": 1.0}),
    "a constant as text": put("header", "fit", "constants", value={"C": "1.0"}),
    "no weights": drop("arrays", "weights"),
    "no trace": drop("header", "trace"),
    "no labels": put("header", "classes", value={"objects": []}),
    "more labels": put("header", "classes", value={"strings": ["a", "b", "c", "d"]}),
    "the same label twice": put("header", "classes", value={"strings": ["a", "b", "b"]}),
    "labels not as array": put("header", "classes", value=["a", "b", "c"]),
    "a number among texts": put("header", "classes", value={"strings": ["a", "b", 3]}),
    "an unhashable label": put("header", "classes", value={"objects": [["a"], "b", "c"]}),
    "fewer weights": put("arrays", "weights", value=np.zeros(3)),
    "weights as a matrix": put("arrays", "weights", value=np.zeros((3, 3))),
    "single precision": lambda h, a: a.update(weights=a["weights"].astype(np.float32)),
    "eta of another size": put("arrays", "posterior__eta", value=np.zeros(3)),
    "huge size": put("header", "layout", "n_features", value=2**62),
    "huge label count": put("header", "layout", "n_labels", value=10**30),
    "negative size": put("header", "layout", "n_tied", value=-1),
    "a size that is no whole number": put("header", "layout", "n_tied", value=2.0),
    "a size that is true": put("header", "layout", "n_edge_types", value=True),
    "another size": put("header", "layout", "depth", value=1),
    "no edges": put("header", "layout", "n_edge_types", value=0),
    "other shape of the same size": lambda h, a: h["layout"].update(
        n_edge_types=h["layout"]["n_edge_types"] + 1, n_edge_features=h["layout"]["n_edge_features"] - 1,
        n_features=h["layout"]["n_features"] + 3, n_tied=h["layout"]["n_tied"] - 9),
    "one more feature": put("header", "n_features_in", value=5),
    "bias": lambda h, a: put("header", "structure", value={"piece": ["Tree", {"bias": True}]})(h, a)
        or put("header", "estimator", 1, "structure", value={"piece": ["Tree", {"bias": True}]})(h, a),
    "bias as a number": put("header", "structure", value={"piece": ["Tree", {"bias": 0}]}),
    "bias of the model alone": put("header", "structure", value={"piece": ["Tree", {"bias": True}]}),
    "bias of the settings alone": put("header", "estimator", 1, "structure", value={"piece": ["Tree", {"bias": True}]}),
    "another structure": put("header", "estimator", 1, "structure", value="independent"),
    "another structure of the model": put("header", "structure", value={"piece": ["Chain", {}]}),
    "an unknown structure": put("header", "estimator", 1, "structure", value="ring"),
    "an unknown structure of the model": put("header", "structure", value={"piece": ["Ring", {}]}),
    "a prior as structure": put("header", "structure", value={"piece": ["Laplace", {}]}),
    "a name as structure of the model": put("header", "structure", value="tree"),
    "no structure": drop("header", "structure"),
    "no layout": drop("header", "layout"),
    "the setting of a process": put("header", "estimator", 1, "backend", value=3),
    "a callback": put("header", "estimator", 1, "callback", value="print"),
    "an old flag": put("header", "estimator", 1, "siblings", value=True),
    "feature names without names": put("header", "feature_names", value=True),
    "types of labels": put("arrays", "type_allowed", value=np.ones((2, 2), bool)),
    "types as numbers": put("arrays", "type_allowed", value=np.ones((2, 3))),
    "a text as objective": put("header", "fit", "objective", value="1"),
    "a trace of other width": put("arrays", "trace", value=np.zeros((2, 3))),
    "unknown posterior": put("header", "posterior", "kind", value="exotic"),
    "a tensor that is not there": put("header", "weights", value={"array": "w"}),
    "another format inside": put("header", "format", value=9),
    "a list as header": lambda h, a: [1, 2],
    "another generator": put("header", "estimator", 1, "random_state", value={"random": ["Popen", False, {}]}),
    "a generator without state": put("header", "estimator", 1, "random_state", value={"random": ["PCG64", False, {}]}),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_file_is_refused(whole, refused, what):
    refused(edited(whole, FORGED[what]), "valid checksum|is undamaged, but this version")


def state_of(name, **changes):
    """Write a file with a random state that no generator can have."""
    legacy = name == "RandomState"
    generator = np.random.RandomState(1) if legacy else np.random.Generator(getattr(np.random, name)(1))

    def change(header, arrays):
        plain = ToPlain()
        kind, (bit_generator, old, state) = next(iter(plain(generator, "random_state").items()))
        for key, value in changes.items():
            (state["state"] if key in state["state"] else state)[key] = value
        arrays |= plain.arrays
        header["estimator"][1]["random_state"] = {kind: [bit_generator, old, state]}

    return change


def negative_variance(header, arrays):
    arrays["v"] = -np.ones(len(arrays["weights"]))
    mean, variance = header["weights"], {"array": "v"}
    header["posterior"] = {"kind": "variational", "mean": mean, "variance": variance, "kl": 1.0}


# a part of the file, and its name in the message
FORGED_VALUES = {
    "bias and ends that add up": (
        lambda h, a: h["structure"]["piece"][1].update(bias=-4, ends=2), "Tree needs bias to be True or False, got -4"
    ),
    "ends as a number": (
        put("header", "structure", "piece", 1, "ends", value=3), "Tree needs ends to be True or False, got 3"
    ),
    "the old flags": (put("header", "estimator", 1, "bias", value=True), "the unknown setting 'bias' of LapMEDN"),
    "pos beyond the key": (state_of("MT19937", pos=10**9), "pos of the random state is 1000000000"),
    "pos of an old generator": (state_of("RandomState", pos=10**9), "pos of the random state is 1000000000"),
    "negative pos": (state_of("MT19937", pos=-1), "pos of the random state is -1"),
    "pos of a buffer": (state_of("Philox", buffer_pos=10**9), "buffer_pos of the random state"),
    "a flag": (state_of("PCG64", has_uint32=7), "has_uint32 of the random state is 7"),
    "an even increment": (state_of("PCG64", inc=4), "inc of the random state is even"),
    "129 bits": (state_of("PCG64", state=2**128), "state of the random state"),
    "another generator's state": (state_of("SFC64", bit_generator="PCG64"), "bit_generator of the random state"),
    "a key that is none": (state_of("MT19937", key=3), "key of the random state is 3"),
    "gauss that is not finite": (state_of("RandomState", gauss={"float": "nan"}), "gauss of the random state"),
    "a weight of NaN": (lambda h, a: a["weights"].__setitem__(2, np.nan), r"weights\[2\] is nan"),
    "a weight of infinity": (lambda h, a: a["weights"].__setitem__(0, np.inf), r"weights\[0\] is inf"),
    "a weight near the largest float": (
        lambda h, a: a["weights"].__setitem__(0, -1.7e308), r"weights\[0\] is -1.7e\+308, where a finite number from"
    ),
    "eta near the largest float": (
        lambda h, a: a["posterior__eta"].__setitem__(0, 1e308), r"posterior eta\[0\] is 1e\+308"
    ),
    "eta of NaN": (lambda h, a: a["posterior__eta"].__setitem__(1, np.nan), r"posterior eta\[1\] is nan"),
    "a negative variance": (
        negative_variance,
        r"posterior variance\[0\] is -1.0, where a finite number from 0 to",
    ),
    "a posterior that lacks a part": (drop("header", "posterior", "eta"), "posterior has no 'eta'"),
    "a posterior that is a list": (put("header", "posterior", value=[1]), r"posterior is \[1\]"),
    "an infinite objective": (put("header", "fit", "objective", value={"float": "inf"}), "objective is inf"),
    "a negative gap": (put("header", "fit", "gap", value=-0.5), "gap is -0.5"),
    "converged as text": (put("header", "fit", "converged", value="no"), "converged is 'no'"),
    "which as a number": (put("header", "fit", "which", value=3), "which is 3"),
    "negative passes": (put("header", "fit", "n_passes", value=-1), "n_passes is -1"),
    "a trace of floats for counts": (lambda h, a: a["trace"].__setitem__((0, 0), 0.5), "trace has a count"),
    "a trace of NaN counts": (lambda h, a: a["trace"].__setitem__((0, 6), np.nan), "trace has a count"),
    "a negative time": (lambda h, a: a["trace"].__setitem__((0, 1), -1.0), "trace has a time"),
    "a trace that is flat": (lambda h, a: a.update(trace=a["trace"].ravel()), "trace is an array of shape"),
    "a float that is none": (put("header", "fit", "gap", value={"float": "many"}), "a float 'many'"),
    "a label of NaN": (
        put("header", "classes", value={"objects": ["a", "b", {"float": "nan"}]}), "not a list of distinct values"
    ),
    "the structure as a list": (put("header", "structure", value=[4, 3]), "the structure is"),
    "the estimator alone": (put("header", "estimator", value="M3N"), "the estimator is 'M3N'"),
    "feature_names as text": (put("header", "feature_names", value="yes"), "feature_names is 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED_VALUES)
def test_a_forged_value_is_named(whole, refused, what):
    change, message = FORGED_VALUES[what]
    refused(edited(whole, change), message)


REMOVED = {
    "SDCA": ({"piece": ["SDCA", {"check_every": 5}]}, r"the solver SDCA was removed; use PotentialAscent\(\)"),
    "ActiveSetNewton": ({"piece": ["ActiveSetNewton", {}]}, r"the solver ActiveSetNewton was removed; use OWLQN\(\)"),
    "online": (
        {"piece": ["ExponentiatedGradient", {"online": True, "grow": 1.1}]},
        r"the online version of ExponentiatedGradient was removed; ExponentiatedGradient\(\) is the batch version",
    ),
    "within another": (
        {"piece": ["Variational", {"solver": {"piece": ["SDCA", {}]}}]}, "the solver SDCA was removed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REMOVED)
def test_a_model_whose_solver_was_removed_is_loaded_without_it(fitted, whole, tmp_path, what):
    solver, message = REMOVED[what]
    path = tmp_path / "model.medn"
    path.write_bytes(edited(whole, put("header", "estimator", 1, "solver", value=solver)))
    with pytest.warns(UserWarning, match=rf"model\.medn .*{message}.*loaded with solver=None") as caught:
        loaded = mx.load(path)
    assert caught[0].filename == __file__
    model, examples = fitted("LapMEDN-tree"), data_of("LapMEDN-tree")
    assert loaded.solver is None
    assert_array_equal(loaded.decision_function(examples), model.decision_function(examples))
    loaded.save(path)
    assert mx.load(path).solver is None  # without a warning


def test_a_removed_option_of_a_solver_is_dropped(whole, tmp_path):
    """``at_once`` affected how a fit proceeds, but not its optimum."""
    path = tmp_path / "model.medn"
    solver = {"piece": ["BlockFrankWolfe", {"check_every": 7, "at_once": 2}]}
    path.write_bytes(edited(whole, put("header", "estimator", 1, "solver", value=solver)))
    assert repr(mx.load(path).solver) == "BlockFrankWolfe(check_every=7)"


def test_a_removed_solver_elsewhere_in_a_file_is_refused(whole, refused):
    change = put("header", "posterior", "prior", value={"piece": ["SDCA", {}]})
    refused(edited(whole, change), "is undamaged, but this version .*the solver SDCA was removed")


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "RandomState"])
def test_a_random_state_that_is_right_is_read(whole, tmp_path, name):
    (tmp_path / "model").write_bytes(edited(whole, state_of(name)))
    generator = mx.load(tmp_path / "model").random_state
    expected = np.random.RandomState(1) if name == "RandomState" else np.random.Generator(getattr(np.random, name)(1))
    assert_array_equal(generator.normal(size=9), expected.normal(size=9))


def test_each_missing_part_is_named(whole, refused):
    body = body_of(whole)
    header = json.loads(json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]["maxendnet"])
    for key in header.keys() - {"format", "maxendnet"}:
        refused(edited(whole, drop("header", key)), f"the header has no '{key}'")
    for key in header["fit"]:
        refused(edited(whole, drop("header", "fit", key)), f"fit has no '{key}'")
    refused(edited(whole, drop("header", "format")), "format")


FORGED_HIERARCHY = {
    "siblings as a number": put("header", "layout", "siblings", value=1),
    "no siblings": put("header", "layout", "siblings", value=False),
    "siblings that are not said": drop("header", "layout", "siblings"),
    "a forest": option("siblings", False),
    "another siblings in the settings": option("siblings", False, ["settings"]),
    "siblings without forbidden": option("forbidden", None, ["model"]),
    "an unknown label": option("forbidden", [["a", "z"]]),
    "a number for a label": option("forbidden", [["a", -1]]),
    "a label that is a list": option("forbidden", [["a", ["b"]]]),
    "three labels": option("forbidden", [["a", "b", "c"]]),
    "pairs that are none": option("forbidden", 7),
    "other pairs than the settings": option("forbidden", [["a", "a"]], ["model"]),
    "other settings": option("forbidden", None, ["settings"]),
    "unknown labels in the settings": option("forbidden", [["a", "z"]], ["settings"]),
    "fewer weights": put("arrays", "weights", value=np.zeros(60)),
}


@pytest.mark.parametrize("what", FORGED_HIERARCHY)
def test_a_forged_hierarchy_is_refused(fitted, tmp_path, refused, what):
    fitted("M3N-tree-hierarchy").save(tmp_path / "model")
    assert fitted("M3N-tree-hierarchy").model_.structure.forbidden
    whole = (tmp_path / "model").read_bytes()
    refused(edited(whole, FORGED_HIERARCHY[what]), "is undamaged, but this version")


FORGED_CHOICE = {
    "the rest beyond the labels": put("header", "layout", "rest", value=3),
    "the rest below the labels": put("header", "layout", "rest", value=-1),
    "the rest as a text": put("header", "layout", "rest", value="-"),
    "the rest as a truth value": put("header", "layout", "rest", value=True),
    "another rest": option("rest", "here"),
    "an unknown rest": option("rest", "?"),
    "a forest": drop("header", "layout", "rest"),
    "edges": put("header", "layout", "n_edge_types", value=1),
    "another structure": put("header", "estimator", 1, "structure", value="independent"),
    "another structure of the model": put("header", "structure", "piece", 0, value="Independent"),
    "a hierarchy": put("header", "layout", "siblings", value=True),
    "fewer weights": put("arrays", "weights", value=np.zeros(3)),
}


@pytest.mark.parametrize("what", FORGED_CHOICE)
def test_a_forged_choice_is_refused(fitted, tmp_path, refused, what):
    fitted("LapMEDN-choice").save(tmp_path / "model")
    whole = (tmp_path / "model").read_bytes()
    refused(edited(whole, FORGED_CHOICE[what]), "is undamaged, but this version")


def test_unchanged_forged_files_are_valid(whole, tmp_path):
    (tmp_path / "model").write_bytes(edited(whole, lambda h, a: None))
    assert mx.load(tmp_path / "model").classes_.tolist() == ["a", "b", "c"]


def raw(header, data=b""):
    """A safetensors body with any header."""
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return len(text).to_bytes(8, "little") + text + data


TENSOR = {"dtype": "F64", "shape": [2**61], "data_offsets": [0, 2**64 - 1]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 8,
        (2**63).to_bytes(8, "little") + b"{}",
        raw({}),
        raw({"__metadata__": {}}),
        raw({"__metadata__": {"maxendnet": "{"}}),
        raw({"__metadata__": {"maxendnet": "[" * 100_000}}),
        raw({"__metadata__": {"maxendnet": "{}"}}),
        raw({"__metadata__": {"maxendnet": '{"format": 1}'}}),
        raw({"__metadata__": {"maxendnet": '{"format": 1' + "0" * 10_000 + "}"}}),
        raw({"weights": TENSOR}),
        raw({"weights": TENSOR | {"data_offsets": [0, 2**64]}}),
        raw({"weights": TENSOR | {"shape": [2**32, 2**32], "data_offsets": [0, 0]}}),
        raw({"weights": TENSOR | {"shape": [-1]}}),
        raw({"b": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\x07"),
        raw(b"not json"),
        raw(b"[" * 100_000),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", model_file.READABLE)
def test_a_forged_layout_is_refused_without_a_crash(refused, body, version):
    refused(seal(body, version))


def test_a_tensor_of_truth_values_must_be_one(whole, refused):
    body = body_of(whole)
    size = 8 + int.from_bytes(body[:8], "little")
    offsets = json.loads(body[8:size])["type_allowed"]["data_offsets"]
    forged = bytearray(body)
    forged[size + offsets[0]] = 7
    refused(seal(bytes(forged)), "a bool array has values other than 0 and 1")


def test_a_setting_that_is_not_in_the_file_has_its_default(whole, tmp_path):
    # as in a file of an older version, which did not have this setting
    (tmp_path / "model").write_bytes(edited(whole, drop("header", "estimator", 1, "max_passes")))
    assert mx.load(tmp_path / "model").max_passes == 10_000


def test_nothing_is_unpickled(whole, tmp_path, monkeypatch):
    import pickle

    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(pickle, "loads", None)
    (tmp_path / "model").write_bytes(whole)
    assert_array_equal(mx.load(tmp_path / "model").classes_, ["a", "b", "c"])

"""Model files of version 0.1.0, written here by its rules, are read by this version to the bit, or refused."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

import maxendnet as mx
from maxendnet.models import file as model_file

FLAT = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
CHAINS = [np.array(FLAT[:2]), np.array(FLAT[2:]), np.array(FLAT)], [["a", "b"], ["b"], ["a", "b", "b"]]
EDGES = [(0, 1), (0, 2), (2, 3)]
TREES = [(np.array([*FLAT, [0.0, 0.0]]), EDGES)] * 2, [["a", "b", "b", "b"], ["a", "a", "b", "b"]]
CHOICES = CHAINS[0], [["-", "this"], ["-"], ["-", "-", "this"]]

NO_FLAGS = {"bias": False, "ends": False, "siblings": False, "forbidden_pairs": None, "rest": None}
CASES = {
    # the model, its data, the flags that 0.1.0 had for it, and what its file said of the structure beside the sizes
    "chain": (mx.M3N(C=10), "chain", mx.Chain(), CHAINS, {}, {}),
    "chain with bias": (mx.M3N(C=10), "chain", mx.Chain(bias=True), CHAINS, {"bias": True}, {}),
    "chain with ends and forbidden pairs": (
        mx.L2CRF(), "chain", mx.Chain(ends=True, forbidden=[("b", "a")]), CHAINS,
        {"ends": True, "forbidden_pairs": [{"tuple": ["b", "a"]}]}, {"siblings": False, "forbidden": [[1, 0]]},
    ),
    "tree": (mx.LapMEDN(), "tree", mx.Tree(), TREES, {}, {}),
    "tree with siblings and forbidden pairs": (
        mx.L2CRF(), "tree", mx.Tree(siblings=True, forbidden=[("b", "a")]), TREES,
        {"siblings": True, "forbidden_pairs": [{"tuple": ["b", "a"]}]}, {"siblings": True, "forbidden": [[1, 0]]},
    ),
    "independent with bias": (mx.CRF(tol=0.1), "independent", mx.Independent(bias=True), CHAINS, {"bias": True}, {}),
    "choice with rest": (mx.LapMEDN(C=10), "choice", mx.Choice(rest="-"), CHOICES, {"rest": "-"}, {"rest": 0}),
    "choice that found its rest": (mx.M3N(), "choice", mx.Choice(bias=True), CHOICES, {"bias": True}, {"rest": 0}),
}  # fmt: skip


def fitted(case):
    model, _, structure, data, *_ = CASES[case]
    return model.set_params(structure=structure, random_state=0).fit(*data)


def content_of_0_1_0(model, case, tmp_path):
    """Header and arrays as version 0.1.0 wrote them: flags among the settings, and the structure by its sizes."""
    _, name, _, _, flags, described = CASES[case]
    model.save(tmp_path / "new.medn")
    new, arrays = model_file.read(tmp_path / "new.medn")
    kind, settings = new["estimator"]
    sizes = ("n_features", "n_labels", "n_edge_types", "n_edge_features", "n_tied")
    header = {
        "format": 1,
        "maxendnet": "0.1.0",
        "estimator": [kind, settings | NO_FLAGS | flags | {"structure": name}],
        "classes": new["classes"],
        "n_features_in": new["n_features_in"],
        "feature_names": new["feature_names"],
        "structure": {size: new["layout"][size] for size in sizes} | described,
        "weights": new["weights"],
        "type_allowed": new["layout"]["type_allowed"],
        "fit": new["fit"],
        "trace": new["trace"],
        "posterior": new["posterior"],
    }
    return header, arrays


def write(path, header, arrays):
    body = safetensors.numpy.save(arrays, {"maxendnet": json.dumps(header)})
    version = (1).to_bytes(4, "little")
    path.write_bytes(b"\x89MEDN\r\n\x1a" + version + hashlib.sha256(version + body).digest() + body)


@pytest.mark.parametrize("case", CASES)
def test_a_file_of_0_1_0_is_read_to_the_bit(case, tmp_path):
    model, path = fitted(case), tmp_path / "old.medn"
    write(path, *content_of_0_1_0(model, case, tmp_path))
    loaded = mx.load(path)
    assert type(loaded) is type(model)
    assert type(loaded.structure) is type(model.structure)
    assert loaded.structure.get_params() == model.structure.get_params()
    assert loaded.model_.layout == model.model_.layout
    assert loaded.model_.weights.tobytes() == model.model_.weights.tobytes()
    X = CASES[case][3][0]
    assert loaded.predict(X) == model.predict(X)
    assert loaded.predict_top(X, 3) == model.predict_top(X, 3)
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    for one, other in zip(loaded.predict_marginals(X), model.predict_marginals(X)):
        assert one.tobytes() == other.tobytes()
    assert loaded.trace_ == model.trace_ or np.isnan(model.gap_)
    assert loaded.posterior_.kind == model.posterior_.kind
    # saved again it is a file of this version, and the same model
    loaded.save(tmp_path / "again.medn")
    assert (tmp_path / "again.medn").read_bytes() == (tmp_path / "new.medn").read_bytes()


def test_a_setting_that_came_after_the_file_has_its_default(tmp_path):
    header, arrays = content_of_0_1_0(fitted("chain"), "chain", tmp_path)
    for name in ("structure", "siblings", "rest"):  # as of a time when there was neither
        del header["estimator"][1][name]
    write(tmp_path / "old.medn", header, arrays)
    assert mx.load(tmp_path / "old.medn").structure.get_params() == mx.Chain().get_params()


def test_what_an_application_has_added_is_kept(tmp_path):
    header, arrays = content_of_0_1_0(fitted("chain"), "chain", tmp_path)
    write(tmp_path / "old.medn", header | {"application": {"fields": ["price"]}}, arrays)
    assert model_file.read(tmp_path / "old.medn").header["application"] == {"fields": ["price"]}
    assert mx.load(tmp_path / "old.medn").classes_.tolist() == ["a", "b"]


def put(*keys, value):
    def change(header, arrays):
        place = {"header": header, "arrays": arrays}
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


DAMAGED = {
    "no structure": lambda header, arrays: header.pop("structure"),
    "a structure that is no sizes": put("header", "structure", value=7),
    "another size": put("header", "structure", "depth", value=1),
    "a negative size": put("header", "structure", "n_tied", value=-1),
    "fewer labels": put("header", "structure", "n_labels", value=1),
    "one more feature": put("header", "structure", "n_features", value=9),
    "no edges": put("header", "structure", "n_edge_types", value=0),
    "an unknown structure": put("header", "estimator", 1, "structure", value="ring"),
    "a structure that is a list": put("header", "estimator", 1, "structure", value=["chain"]),
    "another structure": put("header", "estimator", 1, "structure", value="independent"),
    "a choice": put("header", "estimator", 1, "structure", value="choice"),
    "another bias": put("header", "estimator", 1, "bias", value=True),
    "bias as a text": put("header", "estimator", 1, "bias", value="no"),
    "other siblings": put("header", "estimator", 1, "siblings", value=False),
    "siblings as a number": put("header", "structure", "siblings", value=1),
    "pairs of unknown labels": put("header", "estimator", 1, "forbidden_pairs", value=[["a", "z"]]),
    "pairs that are none": put("header", "estimator", 1, "forbidden_pairs", value=7),
    "settings that are a list": put("header", "estimator", 1, value=[1]),
    "an unknown setting": put("header", "estimator", 1, "colour", value=1),
    "no types of nodes": lambda header, arrays: header.pop("type_allowed"),
    "fewer weights": put("arrays", "weights", value=np.zeros(3)),
    "a piece as the structure": put("header", "structure", value={"piece": ["Tree", {}]}),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_of_0_1_0_is_refused(what, tmp_path):
    case, path = "tree with siblings and forbidden pairs", tmp_path / "old.medn"
    header, arrays = content_of_0_1_0(fitted(case), case, tmp_path)
    DAMAGED[what](header, arrays)
    write(path, header, arrays)
    with pytest.raises(mx.ModelFileError, match=r"old\.medn is whole but not a model.*written by maxendnet 0\.1\.0"):
        mx.load(path)


@pytest.mark.parametrize("rest", [-1, 2, "-", None])
def test_a_damaged_choice_of_0_1_0_is_refused(rest, tmp_path):
    header, arrays = content_of_0_1_0(fitted("choice with rest"), "choice with rest", tmp_path)
    header["structure"]["rest"] = rest
    write(tmp_path / "old.medn", header, arrays)
    with pytest.raises(mx.ModelFileError, match="is whole but not a model"):
        mx.load(tmp_path / "old.medn")


def test_each_byte_of_a_file_of_0_1_0_counts(tmp_path):
    path = tmp_path / "old.medn"
    write(path, *content_of_0_1_0(fitted("chain"), "chain", tmp_path))
    whole = path.read_bytes()
    for k in (*range(60), *range(60, len(whole), 11)):
        damaged = bytearray(whole)
        damaged[k] ^= 1 << (k % 8)
        path.write_bytes(damaged)
        with pytest.raises(mx.ModelFileError):
            mx.load(path)
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(mx.ModelFileError, match="cut short"):
            mx.load(path)


def test_flags_of_0_1_0_in_a_file_of_this_version_are_refused(tmp_path):
    header, arrays = content_of_0_1_0(fitted("chain"), "chain", tmp_path)
    body = safetensors.numpy.save(arrays, {"maxendnet": json.dumps(header | {"format": 2})})
    version = (2).to_bytes(4, "little")
    path = tmp_path / "mixed.medn"
    path.write_bytes(b"\x89MEDN\r\n\x1a" + version + hashlib.sha256(version + body).digest() + body)
    with pytest.raises(mx.ModelFileError, match="unknown setting"):
        mx.load(path)

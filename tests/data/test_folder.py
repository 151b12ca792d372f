"""Examples in a folder: atomic writes, and results identical to those of examples in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import warnings
from dataclasses import fields, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from forge import forged
from numpy.testing import assert_array_equal
from sklearn.base import clone
from systems import every_system, labelled_chains, roughly, weights_of

from maxendnet import (
    L1CRF,
    L2CRF,
    M3N,
    UNKNOWN,
    Chain,
    Choice,
    Examples,
    FolderError,
    Graph,
    Independent,
    LapMEDN,
    Tree,
)
from maxendnet.data import batch as batches
from maxendnet.data import folder as folders
from maxendnet.data.ragged import is_mapped
from maxendnet.solvers import SMO, PotentialAscent, Smoothing
from maxendnet.structures.bound import curvature, forest
from maxendnet.text import DictFeatures

X, Y = labelled_chains()


def assert_equal(left, right):
    """Assert that all arrays of two `Examples` are equal."""
    for field in fields(Examples):
        mine, its = getattr(left, field.name), getattr(right, field.name)
        if field.name == "X":
            assert mine.shape == its.shape
            for name in ("data", "indices", "indptr"):
                assert_array_equal(getattr(mine, name), getattr(its, name))
        elif mine is None or its is None:
            assert mine is its, field.name
        else:
            assert_array_equal(mine, its, field.name)
            assert np.asarray(mine).dtype.kind == np.asarray(its).dtype.kind, field.name


def everything(n=7, seed=0):
    """Examples with all optional arrays."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, size=n)
    edges = [[(t, t + 1) for t in range(k - 1)] for k in lengths]
    return Examples.build(
        [rng.normal(size=(k, 3)) * (rng.random((k, 3)) < 0.6) for k in lengths],
        [rng.choice(["a", "b"], size=k).tolist() for k in lengths],
        edges=edges, edge_types=[[0] * len(e) for e in edges],
        edge_features=[rng.normal(size=(len(e), 2)) for e in edges],
        node_types=[rng.integers(2, size=k) for k in lengths], allowed=[np.ones((k, 2), dtype=bool) for k in lengths],
        label_features=[rng.normal(size=(k, 2, 1)) for k in lengths], labels=["a", "b"], sample_weight=rng.random(n),
        node_weight=[rng.random(k) for k in lengths],
    )  # fmt: skip


# ---- round trips -----------------------------------------------------------------------------------------------------


def test_pairs(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 7)
    written = Examples.write(tmp_path / "new" / "folder", zip(X, Y))
    assert_equal(written, Examples.build(X, Y))
    assert_equal(Examples.open(tmp_path / "new" / "folder"), written)
    assert all(map(is_mapped, (written.X.data, written.X.indices)))


def test_everything_that_examples_can_have(tmp_path):
    examples = everything()
    written = Examples.write(tmp_path, (examples[k : k + 2] for k in range(0, len(examples), 2)))
    assert_equal(written, examples)
    assert is_mapped(written.label_features) and is_mapped(written.edge_features)


@pytest.mark.parametrize(
    "labels",
    [["a", UNKNOWN, frozenset(["a", "b"])], [1, 2, 1], [True, False, True], [(0, "x"), (1, "y"), (0, "x")], [1, "1"]],
)  # fmt: skip
def test_labels(tmp_path, labels):
    examples = Examples.build([np.eye(len(labels))], [labels])
    written = Examples.write(tmp_path, [examples])
    assert written.y.tolist() == labels and written.y.dtype == examples.y.dtype
    assert list(map(type, written.y.tolist())) == list(map(type, labels))


def test_a_table(tmp_path):
    examples = Examples.build(np.eye(4), ["a", "b", "a", "b"])
    assert_equal(Examples.write(tmp_path, [examples]), examples)


def test_examples_without_labels(tmp_path):
    examples = Examples.build(X)
    assert_equal(Examples.write(tmp_path, [examples]), examples)


def test_names_in_the_order_of_their_appearance(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 1)
    pairs = [([{"z": 2.0, "a": "x"}, {"b": 1.0}], ["N", "V"]), ([{"a": "x", "c": 0.5}], ["V"]), ([["c", "a=x"]], ["N"])]
    written = Examples.write(tmp_path, pairs)
    assert sorted(written.feature_names) == ["a=x", "b", "c", "z"] and written.feature_names[3] == "c"
    again = Examples.build([x for x, _ in pairs], feature_names=written.feature_names)
    assert (written.X != again.X).nnz == 0
    assert written.X.has_sorted_indices
    model = L2CRF().fit(written)
    assert model.predict([[{"z": 2.0, "a": "x"}, {"b": 1.0}]]) == [["N", "V"]]


def test_hashed_names_are_those_of_dict_features(tmp_path):
    dicts = [[{"word": str(k), "next": [str(k + 1), "b"]}, {"word": "x", "n": 2.0}] for k in range(20)]
    written = Examples.write(tmp_path, [(x, ["a", "b"]) for x in dicts], n_hashed=11)
    expected = DictFeatures(n_hashed=11).fit_transform(dicts)
    assert written.feature_names is None and written.n_features == 11
    assert_array_equal(written.X.toarray(), expected.X.toarray())
    assert written.X.has_canonical_format


def test_appended_examples_are_behind_the_others(tmp_path):
    examples = everything(9)
    before = Examples.write(tmp_path, [examples[:4]])
    after = Examples.append(tmp_path, [examples[4:6], examples[6:]])
    assert_equal(after, examples)
    assert_equal(before, examples[:4])
    assert_equal(Examples.open(tmp_path), examples)


def test_one_pass_and_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 100)
    rng = np.random.default_rng(0)

    def pairs():
        for _ in range(4000):
            yield rng.normal(size=(20, 50)), ["a", "b"] * 10

    tracemalloc.start()
    written = Examples.write(tmp_path, pairs())
    size, (_, peak) = (tmp_path / "X_data").stat().st_size, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == written.X.nnz * 8 > 28e6
    assert peak < 0.4 * size


# ---- atomic writes ---------------------------------------------------------------------------------------------------


def failing(n):
    yield from list(zip(X, Y))[:n]
    raise RuntimeError("the source fails")


def test_a_write_that_fails_leaves_no_folder_of_examples(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 7)
    with pytest.raises(RuntimeError):
        Examples.write(tmp_path, failing(20))
    with pytest.raises(FolderError, match=r"is incomplete: it has no header\.json"):
        Examples.open(tmp_path)
    assert_equal(
        Examples.write(tmp_path, zip(X, Y)), Examples.build(X, Y)
    )  # overwrites the files that the failed writer left


def test_an_append_that_fails_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 7)
    Examples.write(tmp_path, list(zip(X, Y))[:10])
    with pytest.raises(RuntimeError):
        Examples.append(tmp_path, failing(20))
    assert_equal(Examples.open(tmp_path), Examples.build(X[:10], Y[:10]))
    assert_equal(Examples.append(tmp_path, list(zip(X, Y))[10:]), Examples.build(X, Y))
    assert_equal(Examples.open(tmp_path), Examples.build(X, Y))


def test_a_bad_example_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "CHUNK_EXAMPLES", 7)
    pairs = list(zip(X, Y))
    pairs[17] = (X[17], [*Y[17], "a"])
    with pytest.raises(ValueError, match=r"Among items 14 to 20, counted from 0: y\[3\] has \d+ labels but X\[3\]"):
        Examples.write(tmp_path, pairs)
    with pytest.raises(ValueError, match=r"item 0 is a ndarray; expected pairs \(x, y\) or Examples"):
        Examples.write(tmp_path, X)


# ---- two writers -----------------------------------------------------------------------------------------------------


def pairs_of(label, n):
    return [(np.ones((2, 1)), [label, "z"])] * n


def meanwhile(label, n, action):
    """Yield pairs for a writer, and call ``action`` after 1500 of them, when a thousand are written."""
    for k, pair in enumerate(pairs_of(label, n)):
        if k == 1500:
            action()
        yield pair


def labels_in(folder):
    return "".join(label for label in Examples.open(folder).y.tolist() if label != "z")


needs_locks = pytest.mark.skipif(os.name == "nt", reason="needs flock, which Windows lacks")


@needs_locks
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_second_writer_is_refused_at_once(tmp_path, in_thread):
    Examples.write(tmp_path, pairs_of("a", 20))
    errors = []

    def append():
        with pytest.raises(FolderError, match=r"Another writer is writing to .* nothing was added") as error:
            Examples.append(tmp_path, pairs_of("c", 30))
        errors.append(error)

    def append_in_thread():
        thread = threading.Thread(target=append)
        thread.start()
        thread.join()

    Examples.append(tmp_path, meanwhile("b", 2500, append_in_thread if in_thread else append))
    assert len(errors) == 1 and labels_in(tmp_path) == "a" * 20 + "b" * 2500
    Examples.append(tmp_path, pairs_of("c", 30))
    assert labels_in(tmp_path) == "a" * 20 + "b" * 2500 + "c" * 30


@needs_locks
def test_a_second_writer_of_a_new_folder_is_refused_at_once(tmp_path):
    def write():
        with pytest.raises(FolderError, match="Another writer is writing to"):
            Examples.write(tmp_path, pairs_of("c", 30))

    Examples.write(tmp_path, meanwhile("b", 2500, write))
    assert labels_in(tmp_path) == "b" * 2500


WRITER = """
    import sys
    import numpy as np
    from maxendnet import Examples

    def pairs():
        for k in range(2500):
            if k == 1500:
                print("writing", flush=True)
                sys.stdin.readline()
            yield np.ones((2, 1)), ["b", "z"]

    Examples.append(sys.argv[1], pairs())
"""


@needs_locks
@pytest.mark.parametrize("killed", [False, True])
def test_a_writer_in_another_process(tmp_path, killed):
    Examples.write(tmp_path, pairs_of("a", 20))
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        with pytest.raises(FolderError, match="Another writer is writing to"):
            Examples.append(tmp_path, pairs_of("c", 30))
        assert labels_in(tmp_path) == "a" * 20
        if killed:
            writer.kill()
        else:
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert (writer.wait() == 0) != killed
    expected = "a" * 20 + ("" if killed else "b" * 2500)
    assert labels_in(tmp_path) == expected
    Examples.append(tmp_path, pairs_of("c", 30))
    assert labels_in(tmp_path) == expected + "c" * 30


@needs_locks
def test_a_child_process_does_not_hold_the_lock_of_a_writer_that_has_ended(tmp_path):
    children = []

    def pairs():
        children.append(os.fork())
        if children[-1] == 0:
            signal.pause()
        yield from pairs_of("a", 20)

    try:
        Examples.write(tmp_path, pairs())
        Examples.append(tmp_path, pairs_of("b", 30))
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)
    assert labels_in(tmp_path) == "a" * 20 + "b" * 30


@pytest.mark.parametrize("n_second", [30, 1530])
@pytest.mark.parametrize("n_first", [1600, 2500])
def test_without_locks_the_first_to_end_succeeds(tmp_path, monkeypatch, n_first, n_second):
    monkeypatch.setattr(folders, "take_lock", lambda handle, wait: False)
    Examples.write(tmp_path, pairs_of("a", 20))
    with pytest.raises(FolderError, match=r"Another process has changed .*; nothing was added"):
        Examples.append(
            tmp_path, meanwhile("b", n_first, lambda: Examples.append(tmp_path, pairs_of("c", n_second)))
        )  # fmt: skip
    assert labels_in(tmp_path) == "a" * 20 + "c" * n_second


def test_without_locks_a_slow_first_chunk_cuts_nothing_off(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "take_lock", lambda handle, wait: False)
    Examples.write(tmp_path, pairs_of("a", 20))

    def pairs():
        Examples.append(tmp_path, pairs_of("c", 30))
        yield from pairs_of("b", 5)

    with pytest.raises(FolderError, match="Another process has changed"):
        Examples.append(tmp_path, pairs())
    assert labels_in(tmp_path) == "a" * 20 + "c" * 30


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    Examples.write(tmp_path, [everything()])
    return tmp_path


def test_every_file_is_checked(written):
    for path in sorted(written.iterdir()):
        whole = path.read_bytes()
        for place in {0, len(whole) // 2, len(whole) - 1}:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(FolderError, match=rf"{path.name} is damaged"):
                Examples.open(written)
        path.write_bytes(whole[:-1])
        with pytest.raises(FolderError, match=r"bytes instead of|damaged"):
            Examples.open(written, check=False)
        path.unlink()
        with pytest.raises(FolderError, match=r"is missing|has no header\.json"):
            Examples.open(written, check=False)
        path.write_bytes(whole)
    assert_equal(Examples.open(written), everything())


def test_another_format_is_refused(written):
    _, _, body = (written / "header.json").read_bytes().partition(b"\n")
    other = json.dumps(json.loads(body) | {"format": 2}).encode()
    (written / "header.json").write_bytes(b"%08x\n" % crc32(other) + other)
    with pytest.raises(FolderError, match="has format 2, but this version of maxendnet reads format 1"):
        Examples.open(written)


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(FolderError, match="is not a folder of examples"):
        Examples.append(tmp_path, zip(X, Y))
    assert not list(tmp_path.iterdir())
    with pytest.raises(FolderError, match="is not a folder of examples"):
        Examples.open(tmp_path / "nowhere")
    with pytest.raises(FolderError, match="There are no examples to write"):
        Examples.write(tmp_path / "empty", [])
    Examples.write(tmp_path / "a", zip(X, Y))
    with pytest.raises(FolderError, match=r"already contains examples; add to them with Examples\.append"):
        Examples.write(tmp_path / "a", zip(X, Y))
    with pytest.raises(FolderError, match="have 4 features, but the new ones have 2"):
        Examples.append(tmp_path / "a", [(np.eye(2), ["a", "b"])])
    with pytest.raises(FolderError, match="pass examples with the same arrays"):
        Examples.append(tmp_path / "a", [Examples.build(X, Y, sample_weight=np.ones(len(X)))])
    with pytest.raises(FolderError, match="others have none"):
        Examples.append(tmp_path / "a", [([{"a": 1.0}], ["a"])])
    with pytest.raises(FolderError, match="n_hashed is given, but the examples have no feature names"):
        Examples.write(tmp_path / "b", zip(X, Y), n_hashed=10)
    with pytest.raises(ValueError, match="n_hashed must be a whole number of at least 1, got 0"):
        Examples.write(tmp_path / "b", zip(X, Y), n_hashed=0)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"contains other files, such as 'thesis\.txt'"):
        Examples.write(tmp_path / "c", zip(X, Y))
    with pytest.raises(FolderError, match="which a folder cannot store"):
        Examples.write(tmp_path / "d", [(np.eye(1), [Path("a")])])


# ---- results identical to those in memory ----------------------------------------------------------------------------


@pytest.fixture
def in_small_parts(monkeypatch):
    """Reduce chunk sizes, so that even these small examples are processed in several chunks."""
    monkeypatch.setattr(forest, "ENTRIES_AT_ONCE", 3000)
    monkeypatch.setattr(curvature, "NODES_AT_ONCE", 100)
    monkeypatch.setattr(batches, "NODES_AT_ONCE", 100)


@pytest.fixture(scope="module")
def large():
    """Enough nodes for several groups."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 6)) for n in rng.integers(5, 15, size=400)]
    return Examples.build(X, [np.argmax(x + rng.normal(size=x.shape), axis=1).tolist() for x in X])


@every_system
def test_every_system(model, tmp_path, in_small_parts):
    mapped, model = Examples.write(tmp_path, zip(X, Y)), roughly(model)
    left, right = clone(model).fit(X, Y), clone(model).fit(mapped)
    assert_array_equal(weights_of(left), weights_of(right))
    assert left.predict(X) == right.predict(mapped) == list(right.predict_stream(mapped, n_at_once=7))
    assert left.objective_ == right.objective_


@pytest.mark.parametrize(
    "model",
    [
        L2CRF(tol=0.05), L1CRF(tol=0.1), L2CRF(solver=PotentialAscent(), tol=0.1),
        M3N(solver=Smoothing(), tol=0.1), M3N(solver=SMO(), tol=0.3), LapMEDN(tol=0.3),
        L2CRF(structure=Chain(bias=True, ends=True), tol=0.05), L2CRF(structure=Chain(order=2), tol=0.05),
        L2CRF(structure=Chain(forbidden=[]), tol=0.05), L2CRF(structure=Independent(bias=True), tol=0.05),
    ],
    ids=lambda model: repr(model).replace("\n", ""),
)  # fmt: skip
def test_many_nodes(model, large, tmp_path, in_small_parts):
    mapped, model = Examples.write(tmp_path, [large]), clone(model).set_params(random_state=0)
    assert_array_equal(clone(model).fit(mapped).model_.weights, clone(model).fit(large).model_.weights)


@pytest.mark.parametrize("structure", [Tree(bias=True), Tree(siblings=True), Graph(), Choice(rest="b")])
def test_other_structures(structure, tmp_path):
    rng = np.random.default_rng(1)
    n = 20
    examples = Examples.build(
        [rng.normal(size=(3, 2)) for _ in range(n)], [["a", "b", "b"]] * n, edges=[[(0, 1), (0, 2)]] * n
    )
    if isinstance(structure, Choice):
        examples = replace(examples, edges=None, edge_offsets=None)
    mapped, model = Examples.write(tmp_path, [examples]), L2CRF(structure=structure, tol=0.01)
    assert_array_equal(clone(model).fit(mapped).model_.weights, clone(model).fit(examples).model_.weights)


def test_unknown_labels(tmp_path):
    y = [[UNKNOWN if t == 1 else label for t, label in enumerate(labels)] for labels in Y]
    mapped = Examples.write(tmp_path, zip(X, y))
    model = M3N(tol=0.1, random_state=0)
    assert_array_equal(clone(model).fit(mapped).model_.weights, clone(model).fit(X, y).model_.weights)


def test_a_checkpoint_serves_both(tmp_path):
    """The fingerprint does not depend on where the arrays are stored."""
    mapped, path = Examples.write(tmp_path / "folder", zip(X, Y)), tmp_path / "fit.checkpoint"
    model = L2CRF(tol=1e-6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).set_params(max_passes=3).fit(mapped, checkpoint=path)
    assert_array_equal(clone(model).fit(X, Y, checkpoint=path).coef_, clone(model).fit(X, Y).coef_)


# ---- streamed predictions --------------------------------------------------------------------------------------------


def test_predict_stream():
    model = M3N(tol=0.1, random_state=0).fit(X, Y)
    expected, taken = model.predict(X), []

    def source():
        for x in X:
            taken.append(None)
            yield x

    stream = model.predict_stream(source(), n_at_once=7)
    assert next(stream) == expected[0] and len(taken) == 7  # nothing is read ahead
    assert list(stream) == expected[1:]
    examples = Examples.build(X)
    assert list(model.predict_stream([examples[:5], examples[5:]], n_at_once=3)) == expected
    by_sample = list(model.predict_stream(X, by="vote", n_draws=3, random_state=0))
    assert len(by_sample) == len(expected)
    assert list(model.predict_stream([])) == []
    with pytest.raises(TypeError, match="unexpected argument 'given'"):
        next(model.predict_stream(X, given=Y))
    with pytest.raises(ValueError, match="n_at_once"):
        next(model.predict_stream(X, n_at_once=0))


# ---- forged headers --------------------------------------------------------------------------------------------------


def header_of(folder):
    return json.loads((folder / "header.json").read_bytes().partition(b"\n")[2])


def write_header(folder, header):
    body = json.dumps(header).encode()
    (folder / "header.json").write_bytes(b"%08x\n" % crc32(body) + body)


def put(*keys, value):
    def change(header):
        for key in keys[:-1]:
            header = header[key]
        header[keys[-1]] = value

    return change


FORGED_HEADERS = {
    "it is not a JSON object|has format None": lambda header: [header],
    "it has no 'files'": lambda header: header.pop("files"),
    "n_examples is -1": put("n_examples", value=-1),
    "n_features is '3'": put("n_features", value="3"),
    "there are 7 lengths of examples": put("n_examples", value=8),
    "X_indices contains": put("n_features", value=1),
    "feature names for 3 features": put("names", value=["a", "a", "b"]),
    "the labels are not a list": put("labels", value={"a": 0}),
    "y contains": put("labels", value=["a"]),
    "the kind of examples is incomplete": put("kind", value=None),
    "flat is 1": put("kind", "flat", value=1),
    "it is one table": put("kind", "flat", value=True),
    "the files and their shapes have different names": put("kind", "files", "z", value=[]),
    "entries of X_data have the shape": put("kind", "files", "X_data", value=[2]),
    "entries of edges have the shape": put("kind", "files", "edges", value=[0]),
    "the size of y is": put("files", "y", "bytes", value=-4),
    r"y has \d+ bytes": put("files", "y", "bytes", value=3),
    r"y has \d+ entries, but X_lengths has": put("files", "y", "bytes", value=4),
    "allowed has 2 columns for 1 labels": put("kind", "order", value=["a"]),
}


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("message", FORGED_HEADERS)
def test_a_forged_header_is_refused(written, message, check):
    header = header_of(written)
    changed = FORGED_HEADERS[message](header)
    write_header(written, changed if isinstance(changed, list) else header)
    with pytest.raises(FolderError, match=message):
        Examples.open(written, check=check)


def test_a_header_that_is_not_json_is_refused(written):
    for body in (b"{", b"[" * 100_000, b"\xff"):
        (written / "header.json").write_bytes(b"%08x\n" % crc32(body) + body)
        with pytest.raises(FolderError, match="it is not JSON"):
            Examples.open(written)


FORGED_ARRAYS = {"X_indices": 3, "X_lengths": -1, "lengths": 1000, "y": -1, "edges": 99, "edge_types": -1, "allowed": 7,
                 "node_types": -5}  # fmt: skip


@pytest.mark.parametrize("name", FORGED_ARRAYS)
def test_a_forged_index_is_refused_without_checksums_too(written, name):
    content = np.fromfile(written / name, dtype=np.uint8 if name == "allowed" else folders.TYPES[name])
    content[0] = FORGED_ARRAYS[name]
    content.tofile(written / name)
    with pytest.raises(FolderError, match="its content does not fit the files"):
        Examples.open(written, check=False)


def attack_headers(folder, seeds):
    """Open a folder with forged headers, and fit on what is accepted; return the number of refusals."""
    whole, n_refused = header_of(folder), 0
    for seed in seeds:
        header, _, what = forged(whole, {}, seed, [key for key in whole if key != "format"])
        write_header(folder, header)
        try:
            examples = Examples.open(folder, check=bool(seed % 2))
            assert len(examples) == header["n_examples"], what
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                M3N(structure="tree", max_passes=1).fit(examples)
        except FolderError:
            n_refused += 1
        except ValueError as error:  # of the fit, on labels or weights that are valid in a folder
            assert "y" in str(error) or "label" in str(error) or "X" in str(error), what
    return n_refused


def test_drawn_headers(written):
    assert attack_headers(written, range(60)) >= 40


@pytest.mark.long
def test_many_drawn_headers(written):
    assert attack_headers(written, range(60, 3000)) >= 2000

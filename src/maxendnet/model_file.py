"""Models in files: `save` and `load`. The format holds numbers and names, never code.

A ``.medn`` file is

    8 bytes    ``89 4D 45 44 4E 0D 0A 1A``: no text, "MEDN", and line ends that a text-mode copy would spoil
    4 bytes    format version, little-endian
    32 bytes   SHA-256 of the four bytes before it and of all that follows
    the rest   safetensors: the arrays, and under ``__metadata__`` the text of one JSON header

The header has ``format``, ``maxendnet`` (the version that wrote it), ``estimator`` (class and settings, with nested
pieces), ``classes``, ``n_features_in``, ``feature_names``, ``structure`` (sizes; with ``siblings`` and
``forbidden``, pairs of places in the classes, it is a hierarchy, with ``rest`` a choice), ``weights``,
``type_allowed``,
``fit`` (objective, dual, gap, converged, which, n_passes), ``trace`` and ``posterior``, and ``application`` where an
application has added something of its own; its values are written as
`maxendnet.model_values` says. Feature names are a tensor too (the bytes of a JSON list), since there may be millions
and safetensors limits its own header to 100 MB.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from sklearn.utils.validation import check_is_fitted

from maxendnet import estimators, model_checks
from maxendnet.data.batch import STRUCTURES
from maxendnet.markov_network import MarkovNetwork, is_named
from maxendnet.model_checks import ModelFileError, entry
from maxendnet.model_values import FromPlain, ToPlain, make
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.priors import ExactPrior
from maxendnet.solvers import TraceRow
from maxendnet.structures import Choice, Forest, Hierarchy

__all__ = ["ModelFileError", "load", "read", "save"]

MAGIC = b"\x89MEDN\r\n\x1a"
FORMAT = 1
PREFIX = len(MAGIC) + 4 + hashlib.sha256().digest_size
METADATA = "maxendnet"

ESTIMATORS: dict[str, type[MarkovNetwork]] = {
    cls.__name__: cls
    for cls in (
        estimators.CRF,
        estimators.L1CRF,
        estimators.L1M3N,
        estimators.L2CRF,
        estimators.LapMEDN,
        estimators.M3N,
        estimators.MaxEnDNet,
    )
}


class Content(NamedTuple):
    """A model file, checked to be whole, but not yet a model."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


# ---- writing --------------------------------------------------------------------------------------------------------


def save(estimator: MarkovNetwork, path: str | os.PathLike[str], application: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : a fitted estimator of maxendnet
    path : str or path-like
        The folder must exist; an existing file is replaced. ``.medn`` is the customary ending.
    application : dict, optional
        What an application needs to use the model, as plain JSON. It is kept in the header, where `read` finds it under
        ``"application"``; `load` passes it over.

    Raises
    ------
    ModelFileError
        A label, a setting or a class is not of a kind that the file can hold.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxendnet import M3N, load
    >>> model = M3N(C=10).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "letters.medn")
    ...     model.save(path)
    ...     load(path).predict([[[0.0], [1.0]]])
    [array(['a', 'b'], dtype='<U1')]
    """
    from maxendnet.whole_file import write_whole

    check_is_fitted(estimator, "classes_")
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise ModelFileError(
            f"{type(estimator).__module__}.{type(estimator).__qualname__} is not an estimator of maxendnet; a model "
            f"file holds no code and knows only {', '.join(sorted(ESTIMATORS))}."
        )
    header, arrays = _describe(estimator)
    if application is not None:
        header["application"] = application
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    body = safetensors.numpy.save(arrays, {METADATA: text})
    version = FORMAT.to_bytes(4, "little")
    digest = _digest(version, body)
    write_whole(path, lambda file: file.writelines([MAGIC, version, digest, body]))


def _digest(version: bytes, body: bytes | memoryview) -> bytes:
    sha = hashlib.sha256(version)
    sha.update(body)
    return sha.digest()


def _describe(estimator: Any) -> Content:
    """Header and arrays of a fitted estimator."""
    plain = ToPlain()
    structure: Forest = estimator._structure
    problem = _mismatch(estimator, structure)
    if problem:
        raise ModelFileError(
            f"{problem}: its settings were changed after the fit. Fit it again, or set them back, and then save it."
        )
    names = estimator.feature_names_
    if names is not None:
        encoded = json.dumps(list(names), separators=(",", ":")).encode()
        plain.arrays["feature_names"] = np.frombuffer(encoded, dtype=np.uint8)
    from maxendnet import __version__

    header = {
        "format": FORMAT,
        "maxendnet": __version__,
        "estimator": [
            type(estimator).__name__,
            {key: plain(value, key) for key, value in estimator.get_params(deep=False).items()},
        ],
        "classes": plain(estimator.classes_, "classes"),
        "n_features_in": int(estimator.n_features_in_),
        "feature_names": names is not None,
        "structure": asdict(structure),
        "weights": plain(estimator._w, "weights"),
        "type_allowed": plain(estimator._type_allowed, "type_allowed"),
        "fit": {
            "objective": plain(float(estimator.objective_), "objective_"),
            "dual": plain(float(estimator.dual_), "dual_"),
            "gap": plain(float(estimator.gap_), "gap_"),
            "converged": bool(estimator.converged_),
            "which": str(estimator.which_),
            "n_passes": int(estimator.n_passes_),
        },
        # counts are whole numbers far below 2^53, so float64 holds them
        "trace": plain(np.array(estimator.trace_, dtype=np.float64).reshape(-1, len(TraceRow._fields)), "trace"),
        "posterior": _describe_posterior(estimator.posterior_, plain),
    }
    return Content(header, plain.arrays)


def _describe_posterior(posterior: Any, plain: ToPlain) -> dict[str, Any]:
    fields = {"exact": ("prior", "eta"), "variational": ("mean", "variance", "kl"), "point": ("mean",)}[posterior.kind]
    described = {
        name: plain(float(value) if name == "kl" else value, f"posterior__{name}")
        for name, value in ((name, getattr(posterior, name)) for name in fields)
    }
    return {"kind": posterior.kind, **described}


# ---- reading --------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    a fitted estimator
        Of the class that was saved. It predicts what the saved one predicts, to the bit, and has the same attributes
        and posterior. Only the inner state of the solver is not kept: a warm start begins afresh.

    Raises
    ------
    FileNotFoundError
    ModelFileError
        The file is something else, damaged, cut short, or from a newer version.
    """
    content = read(path)
    try:
        return _build(content)
    except Exception as error:
        # The checksum is right, so the file is what its writer meant, and its writer was not `save` of this version.
        # Whatever goes wrong with it is the file's content, not a bug to be shown as a crash.
        reason = error if isinstance(error, ModelFileError) else f"{type(error).__name__}: {error}"
        by = content.header.get("maxendnet")
        raise ModelFileError(
            f"{os.fspath(path)} is whole but not a model that this version of maxendnet can read ({reason}). It says "
            f"that it was written by maxendnet {by}; install that version, or fit and save the model again."
        ) from error


def read(path: str | os.PathLike[str]) -> Content:
    """Header and arrays of a model file, after its checksum was found right; raises as `load` does."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder; give the path of a model file.")
    with open(path, "rb") as file:
        prefix = file.read(PREFIX)
        if prefix[: len(MAGIC)] != MAGIC[: len(prefix)]:
            raise ModelFileError(f"{path} is not a maxendnet model file; give a file that estimator.save wrote.")
        if len(prefix) < PREFIX:
            raise ModelFileError(
                f"{path} is cut short: it has {len(prefix)} bytes, and a model file has more; copy it or save it again."
            )
        found = prefix[len(MAGIC) : len(MAGIC) + 4]
        version = int.from_bytes(found, "little")
        if version != FORMAT:
            raise ModelFileError(
                f"{path} has format version {version}, and this maxendnet reads version {FORMAT}; "
                + ("update maxendnet, or copy the file again if it may be damaged." if version else "it is damaged.")
            )
        body = file.read()
    if _digest(found, body) != prefix[-hashlib.sha256().digest_size :]:
        raise ModelFileError(
            f"{path} is damaged or cut short: its checksum is not that of its content; copy it or save it again."
        )
    try:
        # safetensors checks that names, shapes and offsets fit the bytes that are there, before anything is allocated
        arrays = {name: _own(array) for name, array in safetensors.numpy.load(body).items()}
        size = int.from_bytes(body[:8], "little")
        header = json.loads(json.loads(body[8 : 8 + size])["__metadata__"][METADATA])
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise ModelFileError("the header does not say the format")
    except Exception as error:  # as in `load`
        raise ModelFileError(
            f"{path} has a right checksum, but is not laid out as a model file ({error}); it was not written by "
            "estimator.save. Save the model again."
        ) from error
    return Content(header, arrays)


def _own(array: np.ndarray) -> np.ndarray:
    """A copy that can be changed; a truth value is 0 or 1, as numpy relies on."""
    if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
        raise ModelFileError("a tensor of truth values has others than 0 and 1")
    return array.copy()


def _build(content: Content) -> MarkovNetwork:
    value = FromPlain(content.arrays)
    part = lambda key: entry(content.header, key, "the header")  # noqa: E731
    name, settings = model_checks.pair(part("estimator"), "the estimator")
    if name not in ESTIMATORS:
        raise ModelFileError(f"the unknown estimator {name!r}")
    estimator: Any = make(ESTIMATORS[name], {key: value(item) for key, item in settings.items()})
    for key in ("bias", "ends", "siblings", "warm_start"):
        model_checks.truth(getattr(estimator, key), f"the setting {key}")

    estimator.classes_ = model_checks.labels(value(part("classes")))
    estimator.n_features_in_ = model_checks.count(part("n_features_in"), "n_features_in")
    estimator.feature_names_ = None
    if model_checks.truth(part("feature_names"), "feature_names"):
        names = json.loads(value.array("feature_names").tobytes())
        estimator.feature_names_ = model_checks.feature_names(names, estimator.n_features_in_)
    structure = _structure(part("structure"))
    weights = model_checks.vector(value(part("weights")), structure.n_weights, "weights")
    estimator._type_allowed = value(part("type_allowed"))
    problem = _mismatch(estimator, structure)
    if problem:
        raise ModelFileError(problem)
    estimator._structure, estimator._state = structure, None
    estimator._set_weights(weights)
    _read_fit(estimator, part("fit"), value)
    rows = model_checks.trace(value(part("trace")), len(TraceRow._fields), counts=(0, 2, 6), times=(1,))
    estimator.trace_ = [
        TraceRow(int(p), seconds, int(n), primal, dual, gap, int(nonzero))
        for p, seconds, n, primal, dual, gap, nonzero in rows.tolist()
    ]
    estimator.posterior_ = _posterior(part("posterior"), value, structure.n_weights)
    return estimator


def _read_fit(estimator: Any, plain: Any, value: FromPlain) -> None:
    """The numbers of the fit; without a certificate dual and gap are NaN."""
    part = lambda key: value(entry(plain, key, "fit"))  # noqa: E731
    estimator.objective_ = model_checks.number(part("objective"), "objective")
    estimator.dual_ = model_checks.number(part("dual"), "dual", nan=True)
    estimator.gap_ = model_checks.number(part("gap"), "gap", nan=True)
    if estimator.gap_ < 0:
        raise ModelFileError(f"gap is {estimator.gap_} and not at least 0")
    estimator.converged_ = model_checks.truth(part("converged"), "converged")
    estimator.which_ = model_checks.text(part("which"), "which")
    estimator.n_passes_ = model_checks.count(part("n_passes"), "n_passes")


def _structure(described: Any) -> Forest:
    """A forest by its sizes; with siblings or forbidden pairs among them a hierarchy, with a rest a choice."""
    if not isinstance(described, dict):
        raise ModelFileError(f"the structure is {described!r} and not a table of sizes")
    sizes = dict(described)
    if "rest" in sizes:
        choice = Choice(**{key: _count(size) for key, size in sizes.items()})
        if choice.rest >= choice.n_labels:
            raise ModelFileError(f"the rest is label {choice.rest} of the {choice.n_labels} of the model")
        return choice
    if not sizes.keys() & {"siblings", "forbidden"}:
        return Forest(**{key: _count(size) for key, size in sizes.items()})
    siblings, pairs = sizes.pop("siblings"), sizes.pop("forbidden")
    if not isinstance(siblings, bool):
        raise ModelFileError(f"siblings is {siblings!r} and not a truth value")
    forbidden = tuple((_count(parent), _count(child)) for parent, child in pairs)
    structure = Hierarchy(**{key: _count(size) for key, size in sizes.items()}, siblings=siblings, forbidden=forbidden)
    if any(label >= structure.n_labels for pair in forbidden for label in pair):
        raise ModelFileError(f"a forbidden pair of labels beyond the {structure.n_labels} of the model")
    return structure


def _mismatch(estimator: Any, structure: Forest) -> str:
    """What of an estimator does not fit the sizes of its weights; kernels would read past an array."""
    n_labels, labels = structure.n_labels, len(estimator.classes_)
    if labels != n_labels or labels < 1:
        return f"the model has {labels} labels, and weights for {n_labels}"
    expected = estimator.n_features_in_ + int(estimator.bias) + 2 * int(estimator.ends)
    if structure.n_features != expected:
        return f"the model has {expected} features with bias and ends, and weights for {structure.n_features}"
    if estimator.structure not in STRUCTURES:
        return f"the structure is {estimator.structure!r}"
    if not is_named(structure, estimator.structure):
        return f"the structure is {estimator.structure!r}, with weights for {structure.described}"
    described = (getattr(structure, "siblings", False), getattr(structure, "forbidden", ()))
    try:
        same = estimator._triples_and_pairs(estimator.classes_) == described
    except ValueError:  # labels that the model does not know
        same = False
    if not same:
        return "the settings siblings and forbidden_pairs are not those of the weights"
    rest = estimator.rest
    if isinstance(structure, Choice) and rest is not None and estimator.classes_.tolist()[structure.rest] != rest:
        return "the setting rest is not that of the weights"
    if structure.n_edge_features and not structure.n_edge_types:
        return "there are weights for features of edges, and none for edges"
    types = estimator._type_allowed
    if types is None:
        return ""
    if not (isinstance(types, np.ndarray) and types.dtype == bool and types.ndim == 2 and types.shape[1] == n_labels):
        return f"labels by node type are not truth values for {n_labels} labels"
    return ""


def _posterior(plain: Any, value: FromPlain, n_weights: int) -> Any:
    part = lambda key: value(entry(plain, key, "posterior"))  # noqa: E731
    vector = lambda key, **more: model_checks.vector(part(key), n_weights, f"posterior {key}", **more)  # noqa: E731
    kind = entry(plain, "kind", "posterior")
    if kind == "exact":
        prior = part("prior")
        if not isinstance(prior, ExactPrior):
            raise ModelFileError(f"the prior of the posterior is {prior!r}, which has none")
        prior.check()
        posterior = Posterior(prior, vector("eta"))
        model_checks.vector(posterior.mean, n_weights, "mean of the posterior")
        if not np.all(posterior.variance >= 0):
            raise ModelFileError("the posterior has a variance that is negative or NaN")
        return posterior
    if kind == "variational":
        kl = part("kl")
        if not (isinstance(kl, float) and kl == kl):
            raise ModelFileError(f"kl of the posterior is {kl!r} and not a float")
        return VariationalPosterior(vector("mean"), vector("variance", negative=False), kl)
    if kind == "point":
        return PointEstimate(vector("mean"))
    raise ModelFileError(f"a posterior of unknown kind {kind!r}")


def _count(size: Any) -> int:
    return model_checks.count(size, "a size")

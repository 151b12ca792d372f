"""Model files: `save` and `load`. A file holds numbers and names, never code.

A ``.medn`` file consists of

    8 bytes    ``89 4D 45 44 4E 0D 0A 1A``: a non-text byte, "MEDN", and line ends that a text-mode copy would change
    4 bytes    format version, little-endian
    32 bytes   SHA-256 of the format version and of all following bytes
    the rest   safetensors compressed by zlib: the arrays, and under ``__metadata__`` a JSON header

The header contains ``format``, ``maxendnet`` (the version that wrote the file), ``estimator`` (class and settings, with
nested pieces), ``classes``, ``n_features_in``, ``feature_names``, ``structure`` (as it was during the fit), ``layout``
(sizes of the weights), ``weights``, ``fit`` (objective, dual, gap, converged, which, n_passes), ``trace``,
``posterior``, and optionally ``application``, the data of an application. `models.json_values` defines the encoding of
values. Pipelines use format 4, which adds ``steps``, see `estimators.pipeline`. Format 2 is format 3
without compression. Format 1, of version 0.1.0, is not supported.
Feature names are a tensor (the bytes of a JSON list), because safetensors limits its header to 100 MB.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxendnet import estimators, structures
from maxendnet.estimators.fitted import FitReport, FittedModel
from maxendnet.estimators.markov_network import MarkovNetwork
from maxendnet.models import checks
from maxendnet.models.checks import ModelFileError, entry
from maxendnet.models.container import Content, Kind, read_sealed, write_sealed
from maxendnet.models.json_values import FromPlain, RemovedSolverError, ToPlain, make
from maxendnet.posterior import PointEstimate, Posterior, VariationalPosterior
from maxendnet.priors import ExactPrior
from maxendnet.solvers import TraceRow
from maxendnet.structures.automata.ngrams import SeenNGrams
from maxendnet.structures.weights.layout import Layout, SeenPairs
from maxendnet.utils.warn import warn_caller
from maxendnet.version import __version__

__all__ = ["ModelFileError", "load", "read", "save"]

MAGIC = b"\x89MEDN\r\n\x1a"
FORMAT = 3
PIPELINE_FORMAT = 4
READABLE = (2, FORMAT, PIPELINE_FORMAT)
KIND = Kind(MAGIC, READABLE, "model file", "estimator.save", "copy it or save it again", ModelFileError, 3)
PREFIX = KIND.prefix

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


UNSAVED = ("backend", "callback")
"""Settings of the running process, which are not saved with a model."""
IN_FILE = {"n_label_features": "n_tied"}
"""Layout fields that were renamed, with the earlier names, which model files still use."""
RAGGED = {"seen": SeenPairs, "ngrams": SeenNGrams}
"""Layout fields that are ragged arrays."""


# ---- writing --------------------------------------------------------------------------------------------------------


def save(estimator: Any, path: str | os.PathLike[str], application: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file, atomically.

    Parameters
    ----------
    estimator : a fitted estimator of maxendnet, or a Pipeline
        The steps of a pipeline before the estimator must be `OnNodes` with `KernelFeatures` or scikit-learn's
        ``MaxAbsScaler``, ``MinMaxScaler``, ``PCA``, ``RobustScaler`` or ``StandardScaler``.
    path : str or path-like
        The folder must exist; an existing file is replaced. The usual extension is ``.medn``.
    application : dict, optional
        Data of an application as plain JSON. `read` returns it in the header under ``"application"``; `load` ignores
        it.

    Raises
    ------
    ModelFileError
        If a label, a setting or a class cannot be stored in a file.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxendnet import M3N, load
    >>> model = M3N(C=10).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "letters.medn")
    ...     model.save(path)
    ...     load(path).predict([[[0.0], [1.0]]])
    [['a', 'b']]
    """
    pipeline, estimator = (estimator, estimator.steps[-1][1]) if hasattr(estimator, "steps") else (None, estimator)
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise ModelFileError(
            f"{type(estimator).__module__}.{type(estimator).__qualname__} is not an estimator of maxendnet; a model "
            f"file holds no code, so save supports only {', '.join(sorted(ESTIMATORS))}."
        )
    check_is_fitted(estimator, "model_")
    changed = estimator.changed_structure()
    if changed:
        raise ModelFileError(changed)
    plain = ToPlain()
    header = _describe(estimator, plain)
    if pipeline is not None:
        header |= {"format": PIPELINE_FORMAT, "steps": estimators.pipeline.describe_steps(pipeline, plain)}
    if application is not None:
        header["application"] = application
    write_sealed(path, KIND, header, plain.arrays)


def _describe(estimator: Any, plain: ToPlain) -> dict[str, Any]:
    """Return the header of a fitted estimator."""
    model = estimator.model_
    names = model.feature_names
    if names is not None:
        encoded = json.dumps(list(names), separators=(",", ":")).encode()
        plain.arrays["feature_names"] = np.frombuffer(encoded, dtype=np.uint8)
    return {
        "format": FORMAT,
        "maxendnet": __version__,
        "estimator": [
            type(estimator).__name__,
            {key: plain(value, key) for key, value in estimator.get_params(deep=False).items() if key not in UNSAVED},
        ],
        "classes": plain(model.classes, "classes"),
        "n_features_in": int(model.n_features_in),
        "feature_names": names is not None,
        "structure": plain(model.structure, "structure"),
        "layout": _describe_layout(model.structure, model.layout, plain),
        "weights": plain(model.weights, "weights"),
        "fit": {
            name: plain(value.item() if isinstance(value, np.generic) else value, f"{name}_")
            for name, value in model.report._asdict().items()
            if name not in ("trace", "constants")
        }
        | {"constants": {name: plain(float(value), name) for name, value in model.report.constants.items()}},
        # float64 represents all counts exactly
        "trace": plain(np.array(model.report.trace, dtype=np.float64).reshape(-1, len(TraceRow._fields)), "trace"),
        "posterior": _describe_posterior(model.posterior, plain),
    }


def _describe_layout(structure: Any, layout: Any, plain: ToPlain) -> dict[str, Any]:
    kind, expected = type(layout), structure.layout_type
    if kind is not expected or not is_dataclass(kind):
        raise ModelFileError(
            f"the layout of {structure!r} has class {kind.__name__}, but a file can hold only dataclasses of class "
            f"{expected.__name__}; set layout_type of the structure to the dataclass of its layouts."
        )
    ragged = RAGGED if kind is Layout else {}
    names = [field.name for field in fields(kind) if field.name not in ragged]
    described = {IN_FILE.get(name, name): plain(getattr(layout, name), name) for name in names}
    for name in ragged:
        rows = getattr(layout, name)
        described[name] = (
            None if rows is None else {key: plain(array, f"{name}_{key}") for key, array in rows._asdict().items()}
        )
    return described


def _describe_posterior(posterior: Any, plain: ToPlain) -> dict[str, Any]:
    fields = {"exact": ("prior", "eta"), "variational": ("mean", "variance", "kl"), "point": ("mean",)}[posterior.kind]
    described = {
        name: plain(float(value) if name == "kl" else value, f"posterior__{name}")
        for name, value in ((name, getattr(posterior, name)) for name in fields)
    }
    return {"kind": posterior.kind, **described}


# ---- reading --------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], content: Content | None = None) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or path-like
    content : Content, optional
        Result of `read` for this path, if it was called before.

    Returns
    -------
    a fitted estimator, or a Pipeline
        An estimator of the saved class, with the same attributes and posterior. Its predictions are bit-for-bit
        identical. The state of the solver is not saved, so the next fit is not a warm start. A solver that was removed
        from maxendnet becomes ``solver=None``, with a warning.

    Raises
    ------
    FileNotFoundError
    ModelFileError
        If the file is not a model file, is damaged or truncated, or comes from version 0.1.0 or a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxendnet import M3N, load
    >>> path = os.path.join(tempfile.mkdtemp(), "letters.medn")
    >>> M3N().fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).save(path)
    >>> load(path).predict([[[0.0], [1.0]]])
    [['a', 'b']]
    """
    content = read(path) if content is None else content
    try:
        return _build(content, os.fspath(path))
    except Exception as error:
        # the checksum is right, so another program or version wrote this content, and any error is due to the file
        reason = error if isinstance(error, ModelFileError) else f"{type(error).__name__}: {error}"
        by = content.header.get("maxendnet")
        raise ModelFileError(
            f"{os.fspath(path)} is undamaged, but this version of maxendnet cannot read it ({reason}). According to "
            f"the file, maxendnet {by} wrote it; install that version, or fit and save the model again."
        ) from error


def read(path: str | os.PathLike[str]) -> Content:
    """Return the header and arrays of a model file. It raises the same errors as `load`."""
    return read_sealed(path, KIND)


def _build(content: Content, path: str) -> Any:
    estimator = _build_estimator(content, path)
    if content.header["format"] != PIPELINE_FORMAT:
        return estimator
    steps = entry(content.header, "steps", "the header")
    return estimators.pipeline.build_pipeline(steps, estimator, FromPlain(content.arrays))


def _build_estimator(content: Content, path: str) -> MarkovNetwork:
    header, value = content.header, FromPlain(content.arrays)

    def part(key: str) -> Any:
        return entry(header, key, "the header")

    name, settings = checks.pair(part("estimator"), "the estimator")
    if name not in ESTIMATORS:
        raise ModelFileError(f"the unknown estimator {name!r}")
    for key in UNSAVED:
        if key in settings:
            raise ModelFileError(f"the setting {key!r}, which model files must not contain")
    estimator: Any = make(ESTIMATORS[name], {key: _setting(key, item, value, path) for key, item in settings.items()})
    checks.truth(estimator.warm_start, "the setting warm_start")
    classes = checks.labels(value(part("classes")))
    n_features_in, names = checks.count(part("n_features_in"), "n_features_in"), None
    if checks.truth(part("feature_names"), "feature_names"):
        names = checks.feature_names(json.loads(value.array("feature_names").tobytes()), n_features_in)
    described = part("layout")
    structure = value(part("structure"))
    if type(structure) not in structures.ALL:
        raise ModelFileError(f"the structure is {structure!r}")
    structure.check()
    if len(classes) < 1:
        raise ModelFileError("the model has no labels")
    layout = _layout(structure.layout_type, described, value)
    if isinstance(layout, Layout) and len(classes) * structure.hidden != layout.n_labels:
        raise ModelFileError(f"the model has {len(classes)} labels, but weights for {layout.n_labels}")
    problem = structure.layout_error(layout, n_features_in, classes)
    if problem:
        raise ModelFileError(problem)
    estimator.set_model(
        FittedModel(
            structure, layout, classes, checks.vector(value(part("weights")), layout.n_weights, "weights"),
            _posterior(part("posterior"), value, layout.n_weights), n_features_in, names,
            _report(part("fit"), value(part("trace")), value, estimator), name,
        )
    )  # fmt: skip
    changed = estimator.changed_structure()
    if changed:
        raise ModelFileError(changed)
    fitted: MarkovNetwork = estimator
    return fitted


def _setting(key: str, plain: Any, value: FromPlain, path: str) -> Any:
    """Return the value of a setting. A removed solver becomes None, with a warning."""
    try:
        return value(plain)
    except RemovedSolverError as error:
        if key != "solver":
            raise
        warn_caller(
            f"{path} was written by an earlier version of maxendnet: {error}. The model is loaded with solver=None: "
            "predictions are the same, and the next fit uses the default solver. Save the model again to avoid this "
            "warning."
        )
        return None


def _layout(kind: Any, described: Any, value: FromPlain) -> Any:
    """Return the weight layout, an instance of the ``layout_type`` of the structure."""
    names = {IN_FILE.get(field.name, field.name): field.name for field in fields(kind)}
    ragged = RAGGED if kind is Layout else {}
    parts = {}
    for in_file, name in names.items():
        content = entry(described, in_file, "the layout")
        parts[name] = _ragged(described, name, value) if name in ragged else value(content)
    unknown = described.keys() - names.keys()
    if unknown:
        raise ModelFileError(f"the layout has the unknown field {min(unknown)!r}")
    if kind is Layout:
        _check_layout(parts)
    return kind(**parts)


def _check_layout(parts: dict[str, Any]) -> None:
    """Raise `ModelFileError` for invalid sizes, because kernels use them without bounds checks."""
    for name, size in parts.items():
        if name.startswith("n_"):
            checks.count(size, name)
    checks.truth(parts["siblings"], "siblings")
    if parts["rest"] != -1:
        checks.count(parts["rest"], "rest")
    n_labels, types = parts["n_labels"], parts["type_allowed"]
    if parts["seen"] is not None:
        checks.seen_pairs(parts["seen"], parts["n_features"], n_labels)
    if parts["ngrams"] is not None:
        checks.seen_ngrams(parts["ngrams"], n_labels)
    if types is not None and not (
        isinstance(types, np.ndarray) and types.dtype == bool and types.ndim == 2 and types.shape[1] == n_labels
    ):
        raise ModelFileError(f"labels by node type are not a bool array with {n_labels} columns")


def _ragged(described: dict[str, Any], name: str, value: FromPlain) -> Any:
    """Return a ragged array of a layout, or None."""
    rows = entry(described, name, "the layout")
    kind: Any = RAGGED[name]
    return None if rows is None else kind(*(value(entry(rows, key, f"{name} of the layout")) for key in kind._fields))


def _report(plain: Any, trace: Any, value: FromPlain, estimator: Any) -> FitReport:
    """Return the report of the fit. If there is no certificate, dual and gap are NaN."""

    def part(key: str) -> Any:
        return value(entry(plain, key, "fit"))

    gap = checks.number(part("gap"), "gap", nan=True)
    if gap < 0:
        raise ModelFileError(f"gap is {gap}, expected at least 0")
    rows = checks.trace(trace, len(TraceRow._fields), counts=(0, 2, 6), times=(1,))
    trace_rows = [
        TraceRow(int(p), seconds, int(n), primal, dual, gap, int(nonzero))
        for p, seconds, n, primal, dual, gap, nonzero in rows.tolist()
    ]
    return FitReport(
        checks.number(part("objective"), "objective"), checks.number(part("dual"), "dual", nan=True), gap,
        checks.truth(part("converged"), "converged"), checks.text(part("which"), "which"),
        checks.count(part("n_passes"), "n_passes"), trace_rows, checks.number(part("round_gap"), "round_gap", nan=True),
        checks.count(part("n_rounds"), "n_rounds"),
        checks.text(part("solver"), "solver"), _constants(plain, estimator),
    )  # fmt: skip


def _constants(fit: Any, estimator: Any) -> dict[str, float]:
    """Return C and lam of the fit.

    Files of earlier versions do not contain them, but there the settings C and lam are numbers.
    """
    settings = {name: getattr(estimator, name) for name in estimator.constants()}
    if "constants" not in fit and "scale" not in settings.values():
        return {name: float(number) for name, number in settings.items()}
    constants = entry(fit, "constants", "fit")
    if not isinstance(constants, dict) or not constants.keys() <= {"C", "lam"}:
        raise ModelFileError(f"the constants of the fit are {constants!r}, expected values of C and lam")
    return {name: checks.number(number, name) for name, number in constants.items()}


def _posterior(plain: Any, value: FromPlain, n_weights: int) -> Any:
    def part(key: str) -> Any:
        return value(entry(plain, key, "posterior"))

    def vector(key: str, **more: Any) -> Any:
        return checks.vector(part(key), n_weights, f"posterior {key}", **more)

    kind = entry(plain, "kind", "posterior")
    if kind == "exact":
        prior = part("prior")
        if not isinstance(prior, ExactPrior):
            raise ModelFileError(f"the prior of the posterior is {prior!r}, which has no exact posterior")
        prior.check()
        posterior = Posterior(prior, vector("eta"))
        checks.vector(posterior.mean, n_weights, "mean of the posterior")
        if not np.all(posterior.variance >= 0):
            raise ModelFileError("the posterior has a variance that is negative or NaN")
        return posterior
    if kind == "variational":
        kl = part("kl")
        if not (isinstance(kl, float) and kl == kl):
            raise ModelFileError(f"kl of the posterior is {kl!r}, expected a float")
        return VariationalPosterior(vector("mean"), vector("variance", negative=False), kl)
    if kind == "point":
        return PointEstimate(vector("mean"))
    raise ModelFileError(f"a posterior of unknown kind {kind!r}")

"""Models in files: `save` and `load`. The format holds numbers and names, never code.

A ``.medn`` file is

    8 bytes    ``89 4D 45 44 4E 0D 0A 1A``: no text, "MEDN", and line ends that a text-mode copy would spoil
    4 bytes    format version, little-endian
    32 bytes   SHA-256 of the four bytes before it and of all that follows
    the rest   compressed by zlib, safetensors: the arrays, and under ``__metadata__`` the text of one JSON header

The header has ``format``, ``maxendnet`` (the version that wrote it), ``estimator`` (class and settings, with nested
pieces), ``classes``, ``n_features_in``, ``feature_names``, ``structure`` (the piece, as it was at the fit), ``layout``
(sizes of the weights), ``weights``, ``fit`` (objective, dual, gap, converged, which, n_passes), ``trace`` and
``posterior``, and ``application`` where an application has added something of its own; its values are written as
`models.json_values` says. Format 4 is that of pipelines, and has ``steps`` too, see `estimators.pipeline`.
Format 2 is the same as 3 without compression; format 1, of version 0.1.0, is not read.
Feature names are a tensor too (the bytes of a JSON list), since there may be millions and safetensors limits its own
header to 100 MB.
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
"""Settings that belong to a process and not to a model."""
IN_FILE = {"n_label_features": "n_tied"}
"""Parts of a layout that files have by another name, from before they were renamed."""


RAGGED = {"seen": SeenPairs, "ngrams": SeenNGrams}
"""Parts of a layout that are ragged arrays."""


# ---- writing --------------------------------------------------------------------------------------------------------


def save(estimator: Any, path: str | os.PathLike[str], application: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file, whole or not at all.

    Parameters
    ----------
    estimator : a fitted estimator of maxendnet, or a Pipeline
        Steps of a pipeline before the estimator are `OnNodes` with `KernelFeatures` or scikit-learn's ``MaxAbsScaler``,
        ``MinMaxScaler``, ``PCA``, ``RobustScaler`` or ``StandardScaler``.
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
    [['a', 'b']]
    """
    pipeline, estimator = (estimator, estimator.steps[-1][1]) if hasattr(estimator, "steps") else (None, estimator)
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise ModelFileError(
            f"{type(estimator).__module__}.{type(estimator).__qualname__} is not an estimator of maxendnet; a model "
            f"file holds no code and knows only {', '.join(sorted(ESTIMATORS))}."
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
    """Header of a fitted estimator."""
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
            "objective": plain(float(model.report.objective), "objective_"),
            "dual": plain(float(model.report.dual), "dual_"),
            "gap": plain(float(model.report.gap), "gap_"),
            "converged": bool(model.report.converged),
            "which": str(model.report.which),
            "n_passes": int(model.report.n_passes),
            "round_gap": plain(float(model.report.round_gap), "round_gap_"),
            "n_rounds": int(model.report.n_rounds),
            "solver": str(model.report.solver),
            "constants": {name: plain(float(value), name) for name, value in model.report.constants.items()},
        },
        # counts are whole numbers far below 2^53, so float64 holds them
        "trace": plain(np.array(model.report.trace, dtype=np.float64).reshape(-1, len(TraceRow._fields)), "trace"),
        "posterior": _describe_posterior(model.posterior, plain),
    }


def _layout_type(structure: Any) -> Any:
    """The class of the layouts of a structure."""
    return structure.layout_type


def _describe_layout(structure: Any, layout: Any, plain: ToPlain) -> dict[str, Any]:
    kind, expected = type(layout), _layout_type(structure)
    if kind is not expected or not is_dataclass(kind):
        raise ModelFileError(
            f"the layout of {structure!r} is of class {kind.__name__}, and a file holds only dataclasses of class "
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
        What `read` found there, where that was called before.

    Returns
    -------
    a fitted estimator, or a Pipeline
        Of the class that was saved. It predicts what the saved one predicts, to the bit, and has the same attributes
        and posterior. Only the inner state of the solver is not kept: a warm start begins afresh. A solver that this
        version does not have becomes ``solver=None``, with a warning.

    Raises
    ------
    FileNotFoundError
    ModelFileError
        The file is something else, damaged, cut short, from version 0.1.0, or from a newer version.
    """
    content = read(path) if content is None else content
    try:
        return _build(content, os.fspath(path))
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
    return read_sealed(path, KIND)


def _build(content: Content, path: str) -> Any:
    estimator = _build_estimator(content, path)
    if content.header["format"] != PIPELINE_FORMAT:
        return estimator
    steps = entry(content.header, "steps", "the header")
    return estimators.pipeline.build_pipeline(steps, estimator, FromPlain(content.arrays))


def _build_estimator(content: Content, path: str) -> MarkovNetwork:
    header, value = content.header, FromPlain(content.arrays)
    part = lambda key: entry(header, key, "the header")  # noqa: E731
    name, settings = checks.pair(part("estimator"), "the estimator")
    if name not in ESTIMATORS:
        raise ModelFileError(f"the unknown estimator {name!r}")
    for key in UNSAVED:
        if key in settings:
            raise ModelFileError(f"the setting {key!r}, which belongs to a process and not to a model")
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
    layout: Any
    if _layout_type(structure) is Layout:
        layout = _layout(described, value)
        if len(classes) * structure.hidden != layout.n_labels:
            raise ModelFileError(f"the model has {len(classes)} labels, and weights for {layout.n_labels}")
    else:
        layout = _other_layout(_layout_type(structure), described, value)
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
    return estimator


def _setting(key: str, plain: Any, value: FromPlain, path: str) -> Any:
    """A setting of the estimator; predictions need no solver, so a removed one is None, with a warning."""
    try:
        return value(plain)
    except RemovedSolverError as error:
        if key != "solver":
            raise
        warn_caller(
            f"{path} was written by an earlier version of maxendnet: {error}. The model is loaded with solver=None: it "
            "predicts the same, and the next fit uses the default solver unless set_params(solver=...) sets one. Save "
            "the model again to end this warning."
        )
        return None


def _layout(described: Any, value: FromPlain) -> Layout:
    """Sizes of the weights; kernels would read past an array if they were not what they seem."""
    part = lambda key: value(entry(described, key, "the layout"))  # noqa: E731
    known = {IN_FILE.get(field.name, field.name) for field in fields(Layout)}
    if isinstance(described, dict) and described.keys() - known:
        raise ModelFileError(f"the layout has the unknown part {min(described.keys() - known)!r}")
    size = lambda key: checks.count(part(key), key)  # noqa: E731
    rest, types = part("rest"), part("type_allowed")
    seen, ngrams = (_ragged(described, name, value) for name in RAGGED)
    if seen is not None:
        checks.seen_pairs(seen, size("n_features"), size("n_labels"))
    if ngrams is not None:
        checks.seen_ngrams(ngrams, size("n_labels"))
    layout = Layout(
        n_features=size("n_features"), n_labels=size("n_labels"), n_edge_types=size("n_edge_types"),
        n_edge_features=size("n_edge_features"), n_label_features=size(IN_FILE["n_label_features"]),
        siblings=checks.truth(part("siblings"), "siblings"),
        rest=-1 if rest == -1 else checks.count(rest, "rest"), seen=seen, type_allowed=types,
        n_ngrams=size("n_ngrams"), ngrams=ngrams,
    )  # fmt: skip
    if types is not None and not (
        isinstance(types, np.ndarray) and types.dtype == bool and types.ndim == 2 and types.shape[1] == layout.n_labels
    ):
        raise ModelFileError(f"labels by node type are not truth values for {layout.n_labels} labels")
    return layout


def _other_layout(kind: Any, described: Any, value: FromPlain) -> Any:
    """The layout of a structure that has a class for it."""
    names = [IN_FILE.get(field.name, field.name) for field in fields(kind)]
    parts = [value(entry(described, name, "the layout")) for name in names]
    unknown = described.keys() - set(names)
    if unknown:
        raise ModelFileError(f"the layout has the unknown part {min(unknown)!r}")
    return kind(*parts)


def _ragged(described: dict[str, Any], name: str, value: FromPlain) -> Any:
    """A ragged part of a layout, or None."""
    rows = entry(described, name, "the layout")
    kind: Any = RAGGED[name]
    return None if rows is None else kind(*(value(entry(rows, key, f"{name} of the layout")) for key in kind._fields))


def _report(plain: Any, trace: Any, value: FromPlain, estimator: Any) -> FitReport:
    """The numbers of the fit; without a certificate dual and gap are NaN."""
    part = lambda key: value(entry(plain, key, "fit"))  # noqa: E731
    gap = checks.number(part("gap"), "gap", nan=True)
    if gap < 0:
        raise ModelFileError(f"gap is {gap} and not at least 0")
    rows = checks.trace(trace, len(TraceRow._fields), counts=(0, 2, 6), times=(1,))
    found = [
        TraceRow(int(p), seconds, int(n), primal, dual, gap, int(nonzero))
        for p, seconds, n, primal, dual, gap, nonzero in rows.tolist()
    ]
    return FitReport(
        checks.number(part("objective"), "objective"), checks.number(part("dual"), "dual", nan=True), gap,
        checks.truth(part("converged"), "converged"), checks.text(part("which"), "which"),
        checks.count(part("n_passes"), "n_passes"), found, checks.number(part("round_gap"), "round_gap", nan=True),
        checks.count(part("n_rounds"), "n_rounds"),
        checks.text(part("solver"), "solver"), _constants(plain, estimator),
    )  # fmt: skip


def _constants(fit: Any, estimator: Any) -> dict[str, float]:
    """C and lam of the fit; earlier versions did not write them, and their settings are numbers."""
    settings = {name: getattr(estimator, name) for name in estimator.constants()}
    if "constants" not in fit and "scale" not in settings.values():
        return {name: float(number) for name, number in settings.items()}
    constants = entry(fit, "constants", "fit")
    if not isinstance(constants, dict) or not constants.keys() <= {"C", "lam"}:
        raise ModelFileError(f"the constants of the fit are {constants!r} and not those of C and lam")
    return {name: checks.number(number, name) for name, number in constants.items()}


def _posterior(plain: Any, value: FromPlain, n_weights: int) -> Any:
    part = lambda key: value(entry(plain, key, "posterior"))  # noqa: E731
    vector = lambda key, **more: checks.vector(part(key), n_weights, f"posterior {key}", **more)  # noqa: E731
    kind = entry(plain, "kind", "posterior")
    if kind == "exact":
        prior = part("prior")
        if not isinstance(prior, ExactPrior):
            raise ModelFileError(f"the prior of the posterior is {prior!r}, which has none")
        prior.check()
        posterior = Posterior(prior, vector("eta"))
        checks.vector(posterior.mean, n_weights, "mean of the posterior")
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

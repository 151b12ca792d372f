"""Pipelines in model files: fitted transformers before an estimator.

A file holds no code, so only the transformers of a fixed table can be saved, with the attributes listed there.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from maxendnet.models import checks
from maxendnet.models.checks import ModelFileError, entry
from maxendnet.models.json_values import FromPlain, ToPlain, make
from maxendnet.preprocessing import KernelFeatures, OnNodes
from maxendnet.utils.memory import check_memory

ATTRIBUTES: dict[type, tuple[str, ...]] = {
    KernelFeatures: ("landmarks_", "_factor", "trace_left_", "_n_features_out"),
    MaxAbsScaler: ("max_abs_", "scale_", "n_samples_seen_"),
    MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    PCA: (
        "components_", "mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_",
        "noise_variance_", "n_components_", "n_samples_",
    ),
    RobustScaler: ("center_", "scale_"),
    StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_"),
}  # fmt: skip
"""Learned attributes of the supported transformers, in addition to ``n_features_in_``."""
CLASSES = {kind.__name__: kind for kind in ATTRIBUTES}


def describe_steps(pipeline: Pipeline, plain: ToPlain) -> list[Any]:
    """Return the steps of a fitted pipeline as JSON. The last step, the estimator, is described only by its name."""
    *before, (name, _) = pipeline.steps
    return [*(_describe_step(key, step, plain) for key, step in before), {"name": name}]


def _describe_step(name: str, step: Any, plain: ToPlain) -> dict[str, Any]:
    if type(step) is not OnNodes or type(step.transformer) not in ATTRIBUTES:
        raise ModelFileError(
            f"step {name!r} of the pipeline is {step!r}, which a model file cannot store; supported are OnNodes with "
            f"{', '.join(sorted(CLASSES))}. Save only the last step, pipeline[-1].save(path), and fit the others "
            "again, or use pickle if all users of the file trust its source."
        )
    check_is_fitted(step, "transformer_")
    fitted, names = step.transformer_, step.feature_names_
    encoded = None if names is None else np.frombuffer(json.dumps(list(names)).encode(), dtype=np.uint8)

    def value(key: str, item: Any) -> Any:
        return plain(item, f"{name}__{key}")

    attributes = {key: getattr(fitted, key) for key in ATTRIBUTES[type(fitted)]}
    # products of matrices depend on the memory order in the last bits
    transposed = [key for key, item in attributes.items() if isinstance(item, np.ndarray) and np.isfortran(item)]

    return {
        "name": name,
        "transformer": [type(fitted).__name__, {k: value(k, v) for k, v in fitted.get_params(deep=False).items()}],
        "attributes": {key: value(key, item.T if key in transposed else item) for key, item in attributes.items()},
        "transposed": transposed,
        "is_dense": bool(step.is_dense_),
        "n_features_in": int(step.n_features_in_),
        "feature_names": value("feature_names", encoded),
    }


def build_pipeline(steps: Any, estimator: Any, value: FromPlain) -> Pipeline:
    """Rebuild a pipeline from the result of `describe_steps` and its estimator."""
    *before, last = steps
    built = [
        (checks.text(entry(step, "name", "a step"), "the name of a step"), _build_step(step, value)) for step in before
    ]
    sizes = [*(step.n_features_in_ for _, step in built), estimator.n_features_in_]
    for (name, step), n_columns in zip(built, sizes[1:]):
        n_features = step.n_features_in_
        check_memory(
            8 * n_features, f"step {name!r} with {n_features} features", "fit and save again", error=ModelFileError
        )
        shape = step.transform([np.zeros((1, n_features))]).shape
        if shape[1] != n_columns:
            raise ModelFileError(f"step {name!r} returns {shape[1]} features, but the next one expects {n_columns}")
    return Pipeline([*built, (checks.text(entry(last, "name", "the last step"), "the name of a step"), estimator)])


def _build_step(step: Any, value: FromPlain) -> OnNodes:
    def part(key: str) -> Any:
        return entry(step, key, "a step")

    name, settings = checks.pair(part("transformer"), "a transformer")
    if name not in CLASSES:
        raise ModelFileError(f"the unknown transformer {name!r}")
    plain = {key: value(item) for key, item in settings.items()}
    fitted, n_features = make(CLASSES[name], plain), checks.count(part("n_features_in"), "n_features_in")
    for key in ATTRIBUTES[CLASSES[name]]:
        item = value(entry(part("attributes"), key, f"the attributes of {name}"))
        setattr(fitted, key, item.T if key in step.get("transposed", ()) else item)
    fitted.n_features_in_ = n_features
    names = value(part("feature_names"))
    built = OnNodes(make(CLASSES[name], plain))
    built.transformer_, built.n_features_in_ = fitted, n_features
    built.is_dense_ = checks.truth(part("is_dense"), "is_dense")
    built.feature_names_ = None if names is None else checks.feature_names(json.loads(names.tobytes()), n_features)
    return built

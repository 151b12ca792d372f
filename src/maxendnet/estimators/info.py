"""Summary of a model file, for the command ``maxendnet info``."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from maxendnet.estimators.file import load, read
from maxendnet.structures.weights.layout import Layout


def describe(path: str | os.PathLike[str], top: int = 5) -> dict[str, Any]:
    """Return a summary of a model file as plain JSON values.

    Parameters
    ----------
    path : str or path-like
    top : int, default=5
        Number of weights listed for each label, and of transitions: those with the largest absolute value.

    Returns
    -------
    dict
        Undefined numbers, such as the gap of a CRF, are None. Labels that JSON cannot represent are replaced by their
        ``repr``.
    """
    header = read(path).header
    whole = load(path)
    *transformers, model = [step for _, step in whole.steps] if hasattr(whole, "steps") else [whole]
    layout = model.model_.layout
    labels = [_plain(label) for label in model.classes_.tolist()]

    def size(name: str) -> int:
        return int(getattr(layout, name, 0))  # layouts of other classes lack it

    n_states = size("n_labels") // max(1, len(labels)) or 1
    states = labels if n_states == 1 else [f"{label}, state {k}" for label in labels for k in range(n_states)]
    weights = model.model_.weights
    return {
        "file": os.fspath(path),
        "bytes": os.path.getsize(path),
        "format": header["format"],
        "maxendnet": header["maxendnet"],
        "estimator": type(model).__name__,
        "transformers": [repr(step) for step in transformers],
        "application": _application(header.get("application")),
        "settings": {key: _plain(value) for key, value in model.get_params(deep=False).items()},
        "labels": labels,
        "sizes": {
            "labels": n_states * len(labels),
            "features": model.n_features_in_,
            "edge_types": size("n_edge_types"),
            "edge_features": size("n_edge_features"),
            "sibling_weights": size("n_siblings"),
            "n-grams": size("n_ngrams"),
            "label_features": size("n_label_features"),
            "weights": layout.n_weights,
        },
        "named_features": model.feature_names_ is not None,
        "fit": {
            "objective": _number(model.objective_),
            "dual": _number(model.dual_),
            "gap": _number(model.gap_),
            "converged": model.converged_,
            "which": model.which_,
            "passes": model.n_passes_,
            "constants": {name: _number(value) for name, value in model.model_.report.constants.items()},
            "seconds": _number(model.trace_[-1].seconds) if model.trace_ else None,
        },
        "posterior": _posterior(model.posterior_),
        "weights_above_0.001": float(np.mean(np.abs(weights) > 1e-3)),
        "top_weights": _top_weights(model, states, top),
        "top_transitions": _top_transitions(model, states, top),
        "top_ngrams": _top_ngrams(model, top),
    }


def _application(data: Any) -> dict[str, Any] | None:
    """Return a summary of the data of an application, or None."""
    if not isinstance(data, dict):
        return None
    features = data.get("features")
    template = {"template": features.get("template")} if isinstance(features, dict) else {}
    rest = {name: data[name] for name in ("scheme", "temperature", "outside") if name in data}
    return {"kind": data.get("kind"), **template, **rest}


def _plain(value: Any) -> Any:
    """Return the value if JSON can represent it, otherwise its ``repr``."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}, {value.dtype}"
    return repr(value)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _posterior(posterior: Any) -> dict[str, Any]:
    summary: dict[str, Any] = {"kind": posterior.kind}
    if posterior.kind != "point":
        summary |= {"kl": _number(posterior.kl), "relevant_weights": float(np.mean(posterior.relevance > 0.95))}
    if posterior.kind == "exact":
        summary["prior"] = repr(posterior.prior)
    return summary


def _largest(values: np.ndarray, top: int) -> list[int]:
    """Return the indices of the largest absolute values in decreasing order, excluding zeros."""
    size = np.abs(values)
    # a stable sort lists equal weights in the order of the features
    return [int(k) for k in np.argsort(-size, kind="stable")[:top] if size[k] > 0]


def _top_weights(model: Any, labels: list[Any], top: int) -> list[dict[str, Any]]:
    if not isinstance(model.model_.layout, Layout):
        return []
    names = model.feature_names_
    coef = model.coef_
    rows = [*(coef if isinstance(coef, np.ndarray) else coef.toarray())]  # with pairs="seen", coef is sparse
    features = [*(names if names is not None else range(model.n_features_in_))]
    structure = model.model_.structure
    for attribute, option in (("intercept_", "bias"), ("start_", "ends"), ("end_", "ends")):
        if getattr(structure, option, False):
            rows.append(getattr(model, attribute))
            features.append(attribute)
    table = np.array(rows).reshape(len(rows), len(labels))
    return [
        {
            "label": label,
            "weights": [{"feature": features[k], "weight": float(table[k, a])} for k in _largest(table[:, a], top)],
        }
        for a, label in enumerate(labels)
    ]


def _top_transitions(model: Any, labels: list[Any], top: int) -> list[dict[str, Any]]:
    if not isinstance(model.model_.layout, Layout):
        return []
    matrices = np.reshape(model.transitions_, (-1, len(labels), len(labels)))
    transitions = []
    for k in _largest(matrices.ravel(), top):
        kind, a, b = (int(i) for i in np.unravel_index(k, matrices.shape))
        weight = float(matrices[kind, a, b])
        transitions.append({"from": labels[a], "to": labels[b], "edge_type": kind, "weight": weight})
    return transitions


def _top_ngrams(model: Any, top: int) -> list[dict[str, Any]]:
    """Return the n-grams of labels with the largest weights."""
    if not getattr(model.model_.layout, "n_ngrams", 0):
        return []
    ngrams = model.ngrams_
    names = list(ngrams)
    return [
        {"labels": [_plain(label) for label in names[k]], "weight": float(ngrams.weights[k])}
        for k in _largest(ngrams.weights, top)
    ]


def render(summary: dict[str, Any], max_labels: int = 20) -> str:
    """Return the output of ``maxendnet info``."""
    fit, sizes, posterior = summary["fit"], summary["sizes"], summary["posterior"]
    settings = ", ".join(f"{key}={value}" for key, value in summary["settings"].items())
    labels, shown = summary["labels"], summary["labels"][:max_labels]
    more = f", ... ({len(labels)} in all)" if len(labels) > len(shown) else ""
    gap = "none (no certificate)" if fit["gap"] is None else f"{fit['gap']:.3g}"
    constants = ", ".join(f"{name} = {value:g}" for name, value in fit["constants"].items())
    parts = [f"{n:,} {name.replace('_', ' ')}" for name, n in sizes.items() if n]
    lines = [
        ("file", f"{summary['file']}, {summary['bytes']:,} bytes, format {summary['format']}"),
        ("written by", f"maxendnet {summary['maxendnet']}"),
        ("estimator", summary["estimator"]),
        *([("after", ", ".join(summary["transformers"]))] if summary["transformers"] else []),
        *([("used by", _shown_application(summary["application"]))] if summary["application"] else []),
        ("settings", settings),
        *([("constants", constants)] if constants else []),
        ("sizes", ", ".join(parts)),
        ("features", "named" if summary["named_features"] else "numbered"),
        ("labels", ", ".join(map(str, shown)) + more),
        ("objective", _shown(fit["objective"])),
        ("dual", _shown(fit["dual"])),
        ("gap", f"{gap}; {'converged' if fit['converged'] else 'stopped early'} after {fit['passes']} passes"),
        ("posterior", _shown_posterior(posterior)),
        ("weights", f"{100 * summary['weights_above_0.001']:.1f} % above 0.001"),
    ]
    width = max(len(name) for name, _ in lines)
    text = [f"{name:<{width}}  {value}" for name, value in lines]
    if any(entry["weights"] for entry in summary["top_weights"]):
        text += ["", "Largest weights of each label"]
        shown_labels = summary["top_weights"][:max_labels]
        column = max(len(str(entry["label"])) for entry in shown_labels)
        for entry in shown_labels:
            weights = "  ".join(f"{w['feature']} {w['weight']:+.3g}" for w in entry["weights"])
            text.append(f"  {entry['label']!s:<{column}}  {weights or '(all zero)'}")
        if more:
            text.append(f"  ... and {len(labels) - len(shown)} more labels; see --labels")
    if summary["top_transitions"]:
        text += ["", "Largest transitions"]
        several = sizes["edge_types"] > 1
        for entry in summary["top_transitions"]:
            kind = f"  (edge type {entry['edge_type']})" if several else ""
            text.append(f"  {entry['from']} -> {entry['to']}  {entry['weight']:+.3g}{kind}")
    if summary["top_ngrams"]:
        text += ["", "Largest n-grams"]
        for entry in summary["top_ngrams"]:
            text.append(f"  {' '.join(map(str, entry['labels']))}  {entry['weight']:+.3g}")
    return "\n".join(text)


def _shown(number: float | None) -> str:
    return "none" if number is None else f"{number:.6g}"


def _shown_posterior(posterior: dict[str, Any]) -> str:
    if posterior["kind"] == "point":
        return "none: a point estimate"
    under = f" under {posterior['prior']}" if "prior" in posterior else ""
    return (
        f"{posterior['kind']}{under}, KL {_shown(posterior['kl'])}, {100 * posterior['relevant_weights']:.1f} % of the "
        "weights have a certain sign (relevance above 0.95)"
    )


def _shown_application(about: dict[str, Any]) -> str:
    template = str(about.get("template", "")).strip()
    more = {**about, "template": f"{len(template.splitlines())} lines" if "\n" in template else template}
    shown = ", ".join(f"{key} {value}" for key, value in more.items() if key != "kind" and value not in ("", None))
    return f"maxendnet.{about['kind']}" + (f" ({shown})" if shown else "")

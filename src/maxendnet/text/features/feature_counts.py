"""How often features occurred in training, for explanations, and their compact form in model files."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.text.reading.errors import TextError

Counts = NDArray[np.uint32]


def feature_counts(
    examples: Examples, names: Sequence[str] | None, previous: Counts | None = None, previous_names: Any = None
) -> Counts:
    """Return the number of tokens with each feature.

    Parameters
    ----------
    examples : Examples
        Training sentences.
    names : list of str or None
        Features of the model, which need not contain all features of the sentences. None are numbered features.
    previous : ndarray, optional
        Counts of earlier sentences, which are added.
    previous_names : list of str, optional
        Their features.

    Examples
    --------
    >>> examples = Examples.build([[{"a": 1}, {"b": 1}], [{"a": 1}]], [["x", "y"], ["x"]])
    >>> feature_counts(examples, ["a"]).tolist(), feature_counts(examples, ["b", "a"]).tolist()
    ([2], [1, 2])
    """
    counts = np.bincount(examples.X.indices, minlength=examples.X.shape[1])
    if names is not None:
        known = examples.feature_names
        counts = _by_name(counts, known, names)
        if previous is not None:
            counts = counts + _by_name(previous, previous_names, names)
    elif previous is not None:
        counts = counts + previous
    return counts.astype(np.uint32)


def _by_name(counts: NDArray[Any], names: Any, wanted: Sequence[str]) -> NDArray[Any]:
    """Return the counts of the wanted names, which are 0 for unknown names."""
    if names is None or (len(names) == len(wanted) and tuple(names) == tuple(wanted)):
        return counts
    places = FeatureNames(names).places
    return np.append(counts, 0)[[places[name] for name in wanted]]


def packed(counts: Counts) -> str:
    """Return counts as text for a JSON header.

    Examples
    --------
    >>> unpacked(packed(np.array([3, 1], dtype=np.uint32)), 2).tolist()
    [3, 1]
    """
    return base64.b64encode(zlib.compress(counts.astype("<u4").tobytes(), 9)).decode()


def unpacked(text: Any, n_features: int) -> Counts:
    """Return the counts that `packed` wrote, or raise `TextError` unless there is one for each feature."""
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 4 * n_features + 1)
    except (ValueError, TypeError, zlib.error):
        content = b""
    if len(content) != 4 * n_features:
        raise TextError(f"the feature counts are damaged; expected a count for each of {n_features} features")
    return np.frombuffer(content, dtype="<u4").astype(np.uint32)

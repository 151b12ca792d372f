"""Fast binding of sequences to a fitted model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.rules import PairMasks
from maxendnet.structures.weights.layout import FloatArray, Layout

IntArray = NDArray[Any]
NO_LABELS, ALL_ALLOWED = np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.uint8)
NO_LABEL_FEATURES = np.zeros((0, 0, 0))


class SequenceBinder(NamedTuple):
    """Binds sequences that have only features (no types, weights or allowed labels) to a fitted model.

    The result is that of `Structure.bind`, but without its checks, which take several times as long as decoding a
    sentence.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]]).model_
    >>> binder = SequenceBinder.of(model)
    >>> bound = binder.bind(np.ones(2), np.array([1, 0], dtype=np.int32), np.array([0, 1, 2]), np.array([0, 2]))
    >>> model.classes[bound.decode(model.weights)].tolist()
    ['D', 'N']
    """

    layout: Layout
    forbidden_matrix: NDArray[np.uint8] | None
    end_masks: PairMasks | None
    """None if the first and last nodes may have every label."""

    @classmethod
    def of(cls, model: Any, rules: Any = None) -> SequenceBinder | None:
        """Return the binder of a fitted model, or None if `Structure.bind` is needed.

        Labellings are limited to those that satisfy ``rules``. A binder exists only if some label is allowed at every
        node and may follow itself, so that every sequence has a labelling.
        """
        masks, layout = model.structure.pair_masks(model.classes, rules), model.layout
        if masks is None or not (masks.first & masks.last & masks.pairs.diagonal()).any():
            return None
        if layout.n_features != model.n_features_in or layout.n_edge_types > 1 or layout.type_allowed is not None:
            return None
        if layout.n_edge_features or layout.n_label_features:
            return None
        return cls(layout, masks.forbidden_matrix, None if masks.first.all() and masks.last.all() else masks)

    def bind(self, data: FloatArray, indices: IntArray, indptr: IntArray, offsets: IntArray) -> BoundForest:
        """Return the structure bound to these sequences.

        Parameters
        ----------
        data, indices, indptr : ndarray of dtype float64, int32 and int64
            Features of all nodes, as arrays of a CSR matrix.
        offsets : int64 ndarray of shape (n_sequences + 1,)
        """
        n_nodes = len(indptr) - 1
        order = np.arange(n_nodes, dtype=np.int32)
        parent = order - 1
        parent[offsets[offsets < n_nodes] if self.layout.n_edge_types else ...] = -1
        # argmin is four times faster than min
        low, high = (float(data[data.argmin()]), float(data[data.argmax()])) if len(data) else (0.0, 0.0)
        batch = Batch(
            indptr=indptr, indices=indices, data=data, y=NO_LABELS, row=NO_LABELS, label_sets=None, offsets=offsets,
            order=order, parent=parent, edge_type=np.zeros(n_nodes, dtype=np.int32),
            flipped=np.zeros(n_nodes, dtype=np.uint8), edge_features=np.zeros((n_nodes, 0)),
            allowed=ALL_ALLOWED if self.end_masks is None else self.end_masks.allowed(offsets),
            label_features=NO_LABEL_FEATURES, sample_weight=np.ones(len(offsets) - 1), largest=max(high, -low),
            max_children=1, ones=low == high == 1.0,
        )  # fmt: skip
        return BoundForest(self.layout, batch, self.forbidden_matrix)

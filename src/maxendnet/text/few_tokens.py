"""Labels of a sentence or two: what does not change from sentence to sentence is laid out once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.data.examples import Examples
from maxendnet.data.forest_order import chain_order
from maxendnet.data.ragged import csr
from maxendnet.models.fitted import FittedModel, Labellings
from maxendnet.structures.forest import BoundForest
from maxendnet.structures.padding import pad_rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[Any]


class FewTokens:
    """Decodes few tokens, by the kernel that `BoundForest.decode` calls.

    A batch of three tokens is kept, and the arrays that depend on the sentence are replaced in it. Long texts go
    through `Examples`, whose checks take several times as long as the kernel does for a sentence.

    Parameters
    ----------
    model : FittedModel
    bound : BoundForest
        The structure of the model with a sentence of three tokens.
    added : ndarray of shape (n_labels,) or None
        What is added to the scores of labels.
    names : ndarray of shape (n_labels,) or None
        By which labels are shown; None is the classes of the model.

    Examples
    --------
    >>> from maxendnet import L2CRF
    >>> model = L2CRF(lam=0.1).fit([[["the"], ["dog"]], [["dog"]]], [["D", "N"], ["N"]]).model_
    >>> few = FewTokens.of(model)
    >>> model.feature_names
    ('dog', 'the')
    >>> few.predict(np.ones(2), np.array([1, 0], dtype=np.int32), np.array([0, 1, 2]), np.array([0, 2]))
    [['D', 'N']]
    """

    def __init__(
        self, model: FittedModel, bound: BoundForest, added: FloatArray | None = None, names: NDArray | None = None
    ) -> None:
        dtype = np.float32 if bound._single_is_enough(model.weights) else np.float64
        self.names, self.batch, self.shape = model.classes if names is None else names, bound.batch, bound.shape
        self.weights = bound.for_search(model.weights, dtype)
        self.rows = None if added is None else pad_rows(bound.layout, added[None], dtype)
        self.joined = bool((bound.batch.parent >= 0).any())

    @classmethod
    def of(
        cls, model: FittedModel, added: FloatArray | None = None, names: NDArray | None = None, rules: Any = None
    ) -> FewTokens | None:
        """None for structures with more than features of single tokens and pairs of neighbours.

        With ``rules``, only labellings that keep them are predicted.
        """
        zeros = np.zeros(4, dtype=np.int64)
        three = csr(np.zeros(0), np.zeros(0, dtype=np.int32), zeros, model.n_features_in)
        bound = model.bind(Examples(three, np.array([0, 3])), rules=rules)
        if not bound.capabilities.forest or model.whole or bound.layout.n_features != model.n_features_in:
            return None
        if bound.batch.label_features.size or bound.batch.edge_features.size or bound.layout.n_edge_types > 1:
            return None
        return cls(model, bound, added, names)

    def predict(self, data: FloatArray, indices: IntArray, indptr: IntArray, offsets: IntArray) -> Labellings:
        """The labels of every sentence.

        Parameters
        ----------
        data, indices, indptr : ndarray
            Features of tokens, see `TokenFeatures.entries`.
        offsets : int64 ndarray of shape (n_sentences + 1,)
        """
        n_tokens = len(indptr) - 1
        zeros = np.zeros(n_tokens, dtype=np.int32)
        if self.joined:
            forest = chain_order(offsets)
            order, parent = forest.order, forest.parent
        else:
            order, parent = np.arange(n_tokens, dtype=np.int32), np.full(n_tokens, -1, dtype=np.int32)
        batch = self.batch._replace(
            indptr=indptr, indices=indices, data=data, row=zeros, offsets=offsets, order=order, parent=parent,
            edge_type=zeros, flipped=np.zeros(n_tokens, dtype=np.uint8), edge_features=np.zeros((n_tokens, 0)),
            sample_weight=np.ones(len(offsets) - 1),
        )  # fmt: skip
        if self.batch.allowed.size:
            first, inner, last = self.batch.allowed
            allowed = np.tile(inner, (n_tokens, 1))
            some = np.diff(offsets) > 0
            allowed[offsets[:-1][some]] &= first
            allowed[offsets[1:][some] - 1] &= last
            batch = batch._replace(allowed=allowed)
        labels = np.zeros(n_tokens, dtype=np.int32)
        recursion = _kernels.forest(self.shape, self.weights)
        _kernels.decode(batch, recursion, self.rows, 0, len(offsets) - 1, None, labels)
        found = self.names[labels].tolist()
        return Labellings([found[first:last] for first, last in pairwise(offsets.tolist())])

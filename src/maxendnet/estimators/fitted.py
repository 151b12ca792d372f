"""A fitted model: weights, structure, labels and posterior, and all predictions that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples, as_examples
from maxendnet.data.feature_dicts import FeatureNames
from maxendnet.data.labels import read_labels
from maxendnet.data.ragged import csr
from maxendnet.data.truth import encode_truth
from maxendnet.estimators.sequence_binder import SequenceBinder
from maxendnet.structures.automata.ngrams import END, START
from maxendnet.structures.weights.cache import Cache
from maxendnet.structures.weights.layout import Layout

FloatArray = NDArray[np.float64]


EXTRAS = ("edges", "edge_types", "edge_features", "node_types", "allowed", "label_features", "sample_weight")
"""What examples may have beside features, labels and their costs."""


class Labellings(list):
    """A list with the labels of every example, as lists: what seqeval and scikit-learn's tools take as it is.

    As an array it is one of objects, a list for each example, so that predictions of several parts can be concatenated
    as ``cross_val_predict`` does.

    Examples
    --------
    >>> Labellings([["a", "b"], ["b"]])
    [['a', 'b'], ['b']]
    >>> np.concatenate([Labellings([["a", "b"]]), Labellings([["b"]])]).shape
    (2,)
    """

    @classmethod
    def split(cls, nodes: NDArray, offsets: NDArray[np.int64]) -> Labellings:
        """Labels of all nodes by example.

        Examples
        --------
        >>> Labellings.split(np.array(["a", "b", "b"]), np.array([0, 2, 3]))
        [['a', 'b'], ['b']]
        """
        labels = nodes.tolist()  # once: a list is cut in a tenth of the time that an array takes
        return cls([labels[first:last] for first, last in pairwise(offsets.tolist())])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray:
        out = np.empty(len(self), dtype=object)
        for i, labels in enumerate(self):  # all at once, numpy would take lists of equal length for rows of a matrix
            out[i] = labels
        return out


class FitReport(NamedTuple):
    """How a fit ended."""

    objective: float
    dual: float
    gap: float
    converged: bool
    which: str
    n_passes: int
    trace: list[Any]
    round_gap: float = np.nan
    n_rounds: int = 1
    solver: str = ""
    """Which solver ran, and why it was chosen; empty where it is not known."""
    constants: Mapping[str, float] = MappingProxyType({})
    """C and lam of the fit, where the estimator has them."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a fit learned. Estimators, model files, bounds and applications share it.

    Parameters
    ----------
    structure : a structure
        The piece as it was at the fit.
    layout : Layout
        Of the weights.
    classes : ndarray of shape (n_labels,)
    weights : ndarray of shape (n_weights,)
        Stored as a view that cannot be written to.
    posterior : Posterior, VariationalPosterior or PointEstimate
    n_features_in : int
    feature_names : tuple of str or None
    report : FitReport
    estimator : str, default="the model"
        Name for messages.

    Examples
    --------
    >>> from maxendnet import M3N
    >>> model = M3N(C=10).fit([[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]).model_
    >>> model.classes.tolist(), model.layout.n_weights
    (['a', 'b'], 6)
    """

    structure: Any
    layout: Any
    classes: NDArray
    weights: FloatArray
    posterior: Any
    n_features_in: int
    feature_names: tuple[str, ...] | None
    report: FitReport
    estimator: str = "the model"

    def __post_init__(self) -> None:
        # What predictions need of weights and names is computed once and kept: neither may change under it. The view
        # leaves the array itself as it is, which a solver may still work with.
        weights = np.asarray(self.weights).view()
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        if self.feature_names is not None and not isinstance(self.feature_names, FeatureNames):
            object.__setattr__(self, "feature_names", FeatureNames(self.feature_names))

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()  # a copy of an array can be written to, whatever its original

    def read(self, X: Any, y: Any = None, sample_weight: Any = None, needs_y: bool = False) -> Examples:
        """Examples with the features that the model knows."""
        examples = as_examples(
            X, y, feature_names=self.feature_names, n_features=self.n_features_in, sample_weight=sample_weight,
            estimator=self.estimator, needs_y=needs_y, whole=self.whole,
        )  # fmt: skip
        if examples.flat and self._joins_nodes:
            raise ValueError(
                f"X is one table, whose {len(examples)} rows would be labelled one by one, but {self.estimator} has "
                "learned weights for neighbouring nodes. For one example give a list, [X]; for examples of one node "
                "each give [row[None] for row in X]."
            )
        return examples

    @cached_property
    def _joins_nodes(self) -> bool:
        """Whether the label of a node depends on the labels of its neighbours."""
        if not isinstance(self.layout, Layout):
            return False
        segments = self.layout.segments(self.weights)
        if any(np.any(part) for part in (segments.transitions, segments.edge, segments.siblings)):
            return True
        ngrams = self.named_weights().get("ngrams", {})  # an example of one node has those of one label, with its ends
        return any(
            weight != 0 and sum(label not in (START, END) for label in ngram) > 1 for ngram, weight in ngrams.items()
        )

    @property
    def whole(self) -> bool:
        """Whether an example has one label."""
        return bool(self.structure.whole)

    def bind(self, examples: Examples, given: Any = None, rules: Any = None) -> Any:
        """The structure with examples to predict; their labels, if any, are left out: they may be unknown ones.

        With ``given``, labels as in y, it is limited to labellings that agree with them; with ``rules``, for a chain,
        to those that keep these rules too.
        """
        options = {} if rules is None else {"rules": rules}
        if rules is not None and not self.structure.takes_rules:
            raise ValueError(f"rules are for chains, and the structure of the model is {self.structure!r}.")
        if given is None:
            extras = (getattr(examples, name) for name in EXTRAS)
            binder = self._binder(rules) if all(extra is None for extra in extras) else None
            if binder is not None:
                X, as_array = examples.X, np.ascontiguousarray
                indices, indptr = as_array(X.indices, dtype=np.int32), as_array(X.indptr, dtype=np.int64)
                return binder.bind(as_array(X.data), indices, indptr, as_array(examples.offsets))
            unlabelled = replace(examples, y=None)
            return self.structure.label_view(self.structure.bind(unlabelled, self.classes, self.layout, **options))
        y = read_labels(given, examples.offsets, examples.flat, "given", self.whole)
        encode_truth(y, self.classes, examples.offsets, examples.flat, name="given")
        bound = self.structure.bind(replace(examples, y=y), self.classes, self.layout, **options)
        if not bound.capabilities.unknown_labels:
            raise ValueError(f"{bound.described} takes no given labels; see docs/extend/structure.md.")
        return self.structure.label_view(bound.within_truth)

    def bind_entries(
        self, data: FloatArray, indices: NDArray, indptr: NDArray, offsets: NDArray[np.int64], rules: Any = None
    ) -> Any:
        """`bind` for sequences whose features are arrays of a CSR matrix, without its checks."""
        binder = self._binder(rules)
        if binder is None:
            return self.bind(Examples(csr(data, indices, indptr, self.n_features_in), offsets), rules=rules)
        return binder.bind(data, indices, indptr, offsets)

    def _binder(self, rules: Any) -> SequenceBinder | None:
        key = None if rules is None else repr(rules)
        return self._binders.result(key, lambda: SequenceBinder.of(self, rules))

    @cached_property
    def _binders(self) -> Cache:
        return Cache()

    def named_weights(self) -> dict[str, Any]:
        """The weights by name, as the structure calls them."""
        named = self.structure.named_weights(self.layout, self.weights)
        ngrams = self.structure.ngram_weights(self.layout, self.weights, self.classes)
        return named if ngrams is None else named | {"ngrams": ngrams}

    def labellings(self, examples: Examples, labels: NDArray[np.int32]) -> Any:
        """Numbers of labels as labels: a list for every example, or one array if X was a table."""
        if self.whole:
            return self.classes[labels[examples.offsets[:-1]]]
        nodes = self.classes[labels]
        return nodes if examples.flat else Labellings.split(nodes, examples.offsets)

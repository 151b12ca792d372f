"""`FittedModel`: weights, structure, labels and posterior of a fit."""

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
"""Optional arrays of `Examples` that affect predictions."""


class Labellings(list[Any]):
    """List with a list of labels for each example.

    ``np.asarray`` returns a 1-D array of lists, so that ``cross_val_predict`` can concatenate predictions.

    Examples
    --------
    >>> Labellings([["a", "b"], ["b"]])
    [['a', 'b'], ['b']]
    >>> np.concatenate([Labellings([["a", "b"]]), Labellings([["b"]])]).shape
    (2,)
    """

    @classmethod
    def split(cls, nodes: NDArray[Any], offsets: NDArray[np.int64]) -> Labellings:
        """Split the labels of all nodes by example.

        Examples
        --------
        >>> Labellings.split(np.array(["a", "b", "b"]), np.array([0, 2, 3]))
        [['a', 'b'], ['b']]
        """
        labels = nodes.tolist()  # slicing a list is ten times faster than slicing an array
        return cls([labels[first:last] for first, last in pairwise(offsets.tolist())])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        out = np.empty(len(self), dtype=object)
        for i, labels in enumerate(
            self
        ):  # assigned one by one, because numpy would convert lists of equal length to a matrix
            out[i] = labels
        return out


class FitReport(NamedTuple):
    """Report of a fit."""

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
    """Which solver was used and why; empty if unknown."""
    constants: Mapping[str, float] = MappingProxyType({})
    """C and lam of the fit, if the estimator has them."""


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Result of a fit, used by estimators, model files, bounds and applications.

    Parameters
    ----------
    structure : a structure
        The structure as it was during the fit.
    layout : Layout
        Layout of the weights.
    classes : ndarray of shape (n_labels,)
    weights : ndarray of shape (n_weights,)
        Stored as a read-only view.
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
    classes: NDArray[Any]
    weights: FloatArray
    posterior: Any
    n_features_in: int
    feature_names: tuple[str, ...] | None
    report: FitReport
    estimator: str = "the model"

    def __post_init__(self) -> None:
        # predictions cache values computed from weights and names, so these must not change. The view is read-only, but
        # the original array stays writeable, since a solver may still use it.
        weights = np.asarray(self.weights).view()
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        if self.feature_names is not None and not isinstance(self.feature_names, FeatureNames):
            object.__setattr__(self, "feature_names", FeatureNames(self.feature_names))

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
        self.__post_init__()  # copies of read-only arrays are writeable

    def read(self, X: Any, y: Any = None, sample_weight: Any = None, needs_y: bool = False) -> Examples:
        """Convert user input to examples with the features of the model."""
        examples = as_examples(
            X, y, feature_names=self.feature_names, n_features=self.n_features_in, sample_weight=sample_weight,
            estimator=self.estimator, needs_y=needs_y, whole=self.whole,
        )  # fmt: skip
        if examples.flat and self._joins_nodes:
            raise ValueError(
                f"X is one table, so its {len(examples)} rows would be labelled independently, but {self.estimator} "
                "has weights for neighbouring nodes. If X is one example, pass [X]; if each row is an example, pass "
                "[row[None] for row in X]."
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
        ngrams = self.named_weights().get("ngrams", {})  # n-grams of one label also score examples of one node
        return any(
            weight != 0 and sum(label not in (START, END) for label in ngram) > 1 for ngram, weight in ngrams.items()
        )

    @property
    def whole(self) -> bool:
        """Whether each example has one label."""
        return bool(self.structure.whole)

    def bind(self, examples: Examples, given: Any = None, rules: Any = None) -> Any:
        """Bind the structure to examples for predictions. The ``y`` of the examples is ignored.

        Parameters
        ----------
        examples : Examples
        given : list of label sequences, optional
            Known labels, in the format of y. Predicted labellings agree with them.
        rules : a rule or a list of rules, optional
            For chains: additional rules that predicted labellings satisfy.
        """
        options = {} if rules is None else {"rules": rules}
        if rules is not None and not self.structure.takes_rules:
            raise ValueError(f"rules need a chain, but the structure of the model is {self.structure!r}.")
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
            raise ValueError(f"{bound.described} does not support given labels; see docs/extend/structure.md.")
        return self.structure.label_view(bound.within_truth)

    def bind_entries(
        self,
        data: FloatArray,
        indices: NDArray[Any],
        indptr: NDArray[Any],
        offsets: NDArray[np.int64],
        rules: Any = None,
    ) -> Any:
        """Bind sequences to the structure without checks. Their features are the arrays of a CSR matrix."""
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
        """Return the weight arrays as a dict, with the names that the structure defines."""
        named = self.structure.named_weights(self.layout, self.weights)
        ngrams = self.structure.ngram_weights(self.layout, self.weights, self.classes)
        values: dict[str, Any] = named if ngrams is None else named | {"ngrams": ngrams}
        return values

    def labellings(self, examples: Examples, labels: NDArray[np.int32]) -> Any:
        """Convert label indices to a list of labels per example, or to one array if X was a table."""
        if self.whole:
            return self.classes[labels[examples.offsets[:-1]]]
        nodes = self.classes[labels]
        return nodes if examples.flat else Labellings.split(nodes, examples.offsets)

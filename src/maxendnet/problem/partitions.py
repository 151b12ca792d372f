"""Partitions of examples that the workers of a Dask cluster read and keep.

Partitions are those of a Dask bag, delayed `Examples`, or files. In a first pass each worker reports the labels, with
their counts, and the feature names of its partitions. Then all partitions are bound with the same columns, weight
layout and label sets. A partition is a shard, and also a part for solvers that update parts in parallel.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.partial import Alone, Partial
from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames, align_columns
from maxendnet.data.feature_scale import NormSum
from maxendnet.data.labels import label_array
from maxendnet.data.truth import LabelSets
from maxendnet.problem.placed import PlacedData, fingerprint_of, refuse_unknown
from maxendnet.structures.base import decode

SHARED_ATTRIBUTES = (
    "layout", "n_labels", "label_sets", "row", "unpad", "blocks", "described", "work_per_node", "slope_size",
)  # fmt: skip
"""Attributes of a bound structure that do not depend on its examples."""


def partitions_of(X: Any, backend: Any) -> Partitions | None:
    """Return the partitions in X, or None if X is not partitioned data."""
    if not hasattr(backend, "client"):
        return None
    client = backend.client
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        futures = client.compute(X.to_delayed(), sync=False)
        return Partitions(backend, [(read_items, future, k, "") for k, future in enumerate(futures)])
    if hasattr(X, "read_file") and hasattr(X, "paths"):  # maxendnet.text.ColumnFiles
        return Partitions(backend, [(X.read_file, path, k, path) for k, path in enumerate(X.paths)])
    if not isinstance(X, (list, tuple)) or not X:
        return None
    if all(isinstance(item, (str, os.PathLike)) for item in X):
        paths = [os.path.abspath(path) for path in X]
        return Partitions(backend, [(open_folder, path, k, path) for k, path in enumerate(paths)])
    if all(hasattr(item, "__dask_graph__") for item in X):
        X = client.compute(list(X), sync=False)
    if all(hasattr(item, "key") and hasattr(item, "status") for item in X):
        return Partitions(backend, [(read_items, future, k, "") for k, future in enumerate(X)])
    return None


class Summary(NamedTuple):
    """Sizes, feature names and labels of a partition."""

    n_examples: int
    n_nodes: int
    n_features: int
    names: tuple[str, ...] | None
    labels: dict[Any, int] | None
    """Count of each label, or None if there are no labels."""
    has_node_types: bool
    norms: NormSum


class Partitions:
    """Partitions of examples, for `fit` and `predict`.

    Parameters
    ----------
    backend : Dask
    sources : list of (function, argument, number, name)
        A partition is ``function(argument)``; number and name appear in error messages.
    """

    sample_weight = node_weight = offsets = None

    def __init__(self, backend: Any, sources: list[tuple[Any, ...]]) -> None:
        self.backend = backend
        self.read: Alone = Alone(
            backend.client.submit(read_partition, *source, pure=False, key=backend.new_key("partition", source[2]))
            for source in sources
        )

    @cached_property
    def summaries(self) -> list[Summary]:
        values: list[Summary] = self.backend.each(summarise, self.read)
        return values

    @cached_property
    def _non_empty(self) -> list[int]:
        """Numbers of the partitions that contain nodes."""
        return [k for k, summary in enumerate(self.summaries) if summary.n_nodes]

    @property
    def n_nodes(self) -> int:
        return sum(summary.n_nodes for summary in self.summaries)

    @property
    def mean_squared_norm(self) -> float:
        """Mean over all partitions, see `Examples.mean_squared_norm`."""
        norms = [part.norms for part in self.summaries]
        return NormSum(sum(part.total for part in norms), sum(part.n_nodes for part in norms)).mean

    def __len__(self) -> int:
        return sum(summary.n_examples for summary in self.summaries)

    @cached_property
    def feature_names(self) -> FeatureNames | None:
        """Sorted feature names of all partitions, or None if the features have no names."""
        summaries = [self.summaries[k] for k in self._non_empty]
        has_names = {summary.names is not None for summary in summaries}
        sizes = {summary.n_features for summary in summaries}
        if len(has_names) > 1:
            raise ValueError("Some partitions have feature names and some do not; either all or none must have names.")
        if has_names == {True}:
            return FeatureNames(sorted({name for summary in summaries for name in summary.names or ()}))
        if len(sizes) > 1:
            numbers = {summary.n_features: k for k, summary in zip(self._non_empty, summaries)}
            counts = ", ".join(f"partition {k} has {size}" for size, k in sorted(numbers.items()))
            raise ValueError(f"Partitions have different numbers of features: {counts}.")
        return None

    @property
    def n_features(self) -> int:
        names = self.feature_names
        return self.summaries[self._non_empty[0]].n_features if names is None else len(names)

    @cached_property
    def label_counts(self) -> dict[Any, int]:
        """Count of each label over all partitions, including label sets and `UNKNOWN`."""
        counts: Counter[Any] = Counter()
        by_partition = {k: self.summaries[k].labels for k in self._non_empty}
        unlabelled = [k for k, labels in by_partition.items() if labels is None]
        if unlabelled and len(unlabelled) < len(by_partition):
            raise ValueError(
                f"Partition {unlabelled[0]} has no labels, but other partitions do; label all of its nodes as UNKNOWN, "
                "or leave it out."
            )
        for labels in by_partition.values():
            counts.update(labels or {})
        return dict(counts)

    @cached_property
    def y(self) -> NDArray[Any]:
        """Distinct labels."""
        return label_array(list(self.label_counts))

    def place(self, structure: Any, classes: NDArray[Any]) -> PlacedPartitions:
        """Bind all partitions to a structure, on their workers.

        All partitions get the same columns, layout and label sets.
        """
        bound = self._bind((self.feature_names, structure, classes, None, None))
        layouts, label_sets_of, unknown_labels = zip(*self.backend.each(layout_and_label_sets, bound))
        layout, label_sets = self._layout(structure, layouts), union(label_sets_of)
        if not label_sets.all_known and any(summary.has_node_types for summary in self.summaries):
            raise ValueError(
                "Partitions with node types do not support unknown labels (UNKNOWN or sets of labels); write the "
                "examples to a folder with Examples.write, and fit that."
            )
        refuse_unknown(label_sets, unknown_labels[0], repr(structure))
        have_layout = all(same_layout(local, layout) for local in layouts)
        have_label_sets = all(same_label_sets(local, label_sets) for local in label_sets_of)
        if not (have_layout and have_label_sets):
            bound = self._bind((self.feature_names, structure, classes, layout, label_sets))
        placed = PlacedPartitions(self.backend, bound, len(self), self.n_nodes)
        return placed if label_sets.all_known else placed.completed(np.zeros(layout.n_weights))

    def _bind(self, shared: tuple[Any, ...]) -> Alone:
        message = self.backend.send_once(shared)
        return Alone(
            self.backend.client.submit(
                bind_partition, self.read[k], message, pure=False, key=self.backend.new_key("shard", k)
            )
            for k in self._non_empty
        )

    def _layout(self, structure: Any, layouts: Sequence[Any]) -> Any:
        """Return a layout with the weights that occur in any partition."""
        union = layouts[0]
        for k, layout in zip(self._non_empty[1:], layouts[1:]):
            try:
                union = union.united(layout) if hasattr(union, "united") else union
            except ValueError as error:
                raise ValueError(f"Partition {k} is incompatible with previous partitions: {error}") from error
            if not hasattr(union, "united") and union != layout:
                raise ValueError(
                    f"The layouts of weights of partitions {k} and {self._non_empty[0]} differ: with {structure!r} the "
                    "layout depends on all examples. Write the examples to a folder with Examples.write, and fit that."
                )
        return union

    def predict(self, model: Any) -> Any:
        """Send a model to the workers, and return its predictions."""
        predictions = self.backend.each(predict_partition, self.read, model)
        predictions = [labels for labels in predictions if labels is not None]
        if predictions and isinstance(predictions[0], np.ndarray):
            return np.concatenate(predictions)
        return [labels for partition in predictions for labels in partition]


class RemoteStructure:
    """Bound structure of examples on workers.

    Only the attributes that do not depend on the examples are available.
    """

    inference_note = ""

    def __init__(self, sample: Any) -> None:
        self._sample = sample
        # capabilities that do not need the features or labels of all nodes
        self.capabilities: Any = replace(sample.capabilities, linear_nodes=False, unknown_labels=False)

    def __getattr__(self, name: str) -> Any:
        if name in SHARED_ATTRIBUTES:
            return getattr(self._sample, name)
        raise AttributeError(
            f"{name} is not available for examples in partitions on workers. Use a solver that needs only sums, such "
            "as LBFGS, OWLQN, Smoothing or BlockFrankWolfe; or write the examples to a folder with Examples.write."
        )


class PlacedPartitions(PlacedData):
    """Placed data whose shards are the partitions."""

    bound: Alone

    def __init__(
        self, backend: Any, bound: Alone, n_examples: int, n_nodes: int, before: Alone | None = None
    ) -> None:  # fmt: skip
        super().__init__(RemoteStructure(backend.each(first_example, Alone(bound[:1]))[0]), backend)
        self.bound, self._n_examples, self._n_nodes = bound, n_examples, n_nodes
        self.before: Alone = bound if before is None else before
        """The partitions before unknown labels were completed."""

    def completed(self, w: NDArray[np.float64]) -> PlacedPartitions:
        backend: Any = self.backend
        weights = backend.send_once(w)
        bound = Alone(
            backend.client.submit(complete_partition, shard, weights, pure=False, key=backend.new_key("completed", k))
            for k, shard in enumerate(self.before)
        )
        return PlacedPartitions(backend, bound, self._n_examples, self._n_nodes, self.before)

    @property
    def shards(self) -> Any:
        return self.bound

    @property
    def n_examples(self) -> int:
        return self._n_examples

    @property
    def n_nodes(self) -> int:
        return self._n_nodes

    def parts(self, n: int) -> Any:
        return self.bound

    def curvature(self) -> Any:
        return self.backend.sum(curvature_of, self.bound).gradient

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for fingerprint in self.backend.each(fingerprint_of, self.bound):  # type: ignore[attr-defined]
            digest.update(fingerprint.encode())
        return digest.hexdigest()


# ---- functions that run on workers ----------------------------------------------------------------------------------


def read_partition(read: Any, source: Any, number: int, name: str) -> Examples | None:
    """Return the examples of a partition, or None if it is empty."""
    try:
        result: Examples | None = read(source)
        return result
    except (ValueError, TypeError, OSError) as error:
        where = f"partition {number}" + (f", {name}" if name else "")
        raise ValueError(f"In {where}: {error}") from error


def read_items(items: Any) -> Examples | None:
    """Convert items of a partition to examples; items are pairs (x, y), single x, or `Examples`."""
    if isinstance(items, Examples):
        return items if len(items) else None
    items = list(items)
    if not items:
        return None
    if all(isinstance(item, tuple) and len(item) == 2 for item in items):
        return Examples.build([x for x, _ in items], [y for _, y in items])
    return Examples.build(items)


def open_folder(path: str) -> Examples | None:
    """Open a folder of examples."""
    if not Path(path).is_dir():
        raise ValueError(
            f"{path} is not a folder of examples; for column files use maxendnet.text.ColumnFiles(paths), which "
            "declares the columns."
        )
    return Examples.open(path)


def summarise(examples: Examples | None) -> Summary:
    """Return the sizes, feature names and label counts of a partition."""
    if examples is None:
        return Summary(0, 0, 0, None, None, False, NormSum(0.0, 0.0))
    labels = None if examples.y is None else dict(Counter(examples.y.tolist()))
    return Summary(
        len(examples), examples.n_nodes, examples.n_features, examples.feature_names, labels,
        examples.node_types is not None, NormSum.of(examples),
    )  # fmt: skip


def bind_partition(examples: Examples, shared: bytes) -> Any:
    """Bind a partition to a structure.

    All partitions share the columns and, if they are not None, the layout and the label sets.
    """
    names, structure, classes, layout, label_sets = pickle.loads(shared)
    if names is not None and tuple(names) != tuple(examples.feature_names or ()):
        X = align_columns(examples.X, examples.feature_names or (), names)
        examples = replace(examples, X=X, feature_names=names)
    if layout is None:
        return structure.bind(examples, classes)
    bound = structure.bind(examples, classes, layout)
    if same_label_sets(bound.label_sets, label_sets):
        return bound
    number = {key: k for k, key in enumerate(_keys(label_sets))}
    numbers = np.array([number.get(key, -1) for key in _keys(bound.label_sets)], dtype=np.int32)  # -1 if unused
    return with_label_sets(bound, label_sets, numbers[bound.row])


def complete_partition(shard: Any, packed: bytes) -> Any:
    """Return a partition with unknown labels replaced by their best completion under the weights.

    All partitions get the same label sets: one for each possible target of each original set.
    """
    label_sets, labels = shard.label_sets, decode(shard.within_truth, pickle.loads(packed))
    place, label = np.nonzero(label_sets.sets)
    number = np.zeros(label_sets.sets.shape, dtype=np.int32)
    number[place, label] = np.arange(len(place))
    expanded = LabelSets(np.ascontiguousarray(label_sets.sets[place]), label.astype(np.int32), label_sets.weight[place])
    return with_label_sets(shard.completed(labels), expanded, number[shard.row, labels])


def with_label_sets(bound: Any, label_sets: LabelSets, row: NDArray[np.int32]) -> Any:
    """Return the bound structure with these label sets instead of its own."""
    return replace(bound, batch=bound.batch._replace(label_sets=label_sets, row=np.ascontiguousarray(row)))


def layout_and_label_sets(shard: Any) -> tuple[Any, LabelSets, bool]:
    """Return the layout and the label sets of a partition, and whether its structure supports unknown labels."""
    label_sets = shard.label_sets
    if not label_sets.are_labels:
        used = np.unique(shard.row)
        label_sets = LabelSets(label_sets.sets[used], label_sets.label[used], label_sets.weight[used])
    return shard.layout, label_sets, shard.capabilities.unknown_labels


def union(label_sets: Sequence[LabelSets]) -> LabelSets:
    """Return the distinct label sets of all partitions, in order of first appearance."""
    numbered = reversed(list(enumerate(map(_keys, label_sets))))
    keys = {key: (k, number) for k, of_partition in numbered for number, key in enumerate(of_partition)}
    order = sorted(keys.values())
    rows = [[getattr(label_sets[k], name)[number] for k, number in order] for name in LabelSets._fields]
    sets, label, weight = rows
    return LabelSets(np.ascontiguousarray(sets, np.uint8), np.array(label, np.int32), np.array(weight, np.float64))


def same_label_sets(a: LabelSets, b: LabelSets) -> bool:
    """Whether two collections of label sets are equal."""
    return _keys(a) == _keys(b)


def same_layout(a: Any, b: Any) -> bool:
    """Whether two layouts are equal, including the labels allowed for each node type."""
    types: list[Any] = [getattr(layout, "type_allowed", None) for layout in (a, b)]
    return bool(a == b) and (types[0] is types[1] or np.array_equal(types[0], types[1]))


def _keys(label_sets: LabelSets) -> list[Any]:
    """Return a hashable key for each label set."""
    return [
        (labels.tobytes(), label, weight)
        for labels, label, weight in zip(label_sets.sets, label_sets.label.tolist(), label_sets.weight.tolist())
    ]


def first_example(shard: Any) -> Any:
    """Return the first example of a shard."""
    return shard.take(0, 1)


def curvature_of(shard: Any) -> Partial:
    """Return the curvature of a shard, as a contribution to a sum."""
    return Partial(0.0, np.array(shard.curvature()))


def predict_partition(examples: Examples | None, model: Any) -> Any:
    """Return the predicted labels of a partition, or None if it is empty."""
    return None if examples is None else model.predict(replace(examples, y=None))


__all__ = ["Partitions", "partitions_of"]

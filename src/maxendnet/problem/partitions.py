"""Examples in partitions on the workers of a Dask cluster: read there, agreed on, and never brought here.

Partitions are what the user has: those of a Dask bag, delayed `Examples`, or files. In a first pass every worker tells
the labels, with their counts, and the names of features of its own; then all take the same columns, the same layout of
weights, and the same label sets. A partition is a shard, and a part for solvers that work in
parts; it stays where Dask has put it.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections import Counter
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.backends.partial import Alone, Partial
from maxendnet.data.examples import Examples
from maxendnet.data.feature_dicts import FeatureNames, align_columns
from maxendnet.data.labels import label_array
from maxendnet.data.truth import LabelSets
from maxendnet.problem.placed import PlacedData, fingerprint_of, refuse_unknown
from maxendnet.structures.base import decode

OF_ALL = (
    "layout", "n_labels", "label_sets", "row", "unpad", "blocks", "described", "work_per_node", "slope_size",
)  # fmt: skip
"""What a bound structure says that does not depend on which examples it has."""


def partitions_of(X: Any, backend: Any) -> Partitions | None:
    """The partitions that a user has given for X; None: it is no such thing."""
    if not hasattr(backend, "client"):
        return None
    client = backend.client
    if hasattr(X, "to_delayed") and hasattr(X, "npartitions"):
        found = client.compute(X.to_delayed(), sync=False)
        return Partitions(backend, [(read_items, future, k, "") for k, future in enumerate(found)])
    if hasattr(X, "read_file") and hasattr(X, "paths"):  # maxendnet.text.ColumnFiles
        return Partitions(backend, [(X.read_file, path, k, path) for k, path in enumerate(X.paths)])
    if not isinstance(X, (list, tuple)) or not X:
        return None
    if all(isinstance(one, (str, os.PathLike)) for one in X):
        paths = [os.path.abspath(one) for one in X]
        return Partitions(backend, [(open_folder, path, k, path) for k, path in enumerate(paths)])
    if all(hasattr(one, "__dask_graph__") for one in X):
        X = client.compute(list(X), sync=False)
    if all(hasattr(one, "key") and hasattr(one, "status") for one in X):
        return Partitions(backend, [(read_items, future, k, "") for k, future in enumerate(X)])
    return None


class Summary(NamedTuple):
    """What is to be known of a partition before all can agree."""

    n_examples: int
    n_nodes: int
    n_features: int
    names: tuple[str, ...] | None
    labels: dict[Any, int] | None
    """How often each occurs, where they have been given."""
    typed: bool
    """Whether nodes have types."""


class Partitions:
    """Partitions of examples, for `fit` and `predict`.

    Parameters
    ----------
    backend : Dask
    sources : list of (function, argument, number, name)
        What reads each.
    """

    sample_weight = node_weight = offsets = None

    def __init__(self, backend: Any, sources: list[tuple[Any, ...]]) -> None:
        self.backend = backend
        self.read = Alone(
            backend.client.submit(read_partition, *source, pure=False, key=backend.new_key("partition", source[2]))
            for source in sources
        )

    @cached_property
    def summaries(self) -> list[Summary]:
        return self.backend.each(summary, self.read)

    @cached_property
    def _some(self) -> list[int]:
        """Partitions that have examples."""
        return [k for k, one in enumerate(self.summaries) if one.n_nodes]

    @property
    def n_nodes(self) -> int:
        return sum(one.n_nodes for one in self.summaries)

    def __len__(self) -> int:
        return sum(one.n_examples for one in self.summaries)

    @cached_property
    def feature_names(self) -> FeatureNames | None:
        """The names of all partitions, sorted."""
        some = [self.summaries[k] for k in self._some]
        named = {one.names is not None for one in some}
        sizes = {one.n_features for one in some}
        if len(named) > 1:
            raise ValueError("Some partitions have features with names, and some without; give all of one kind.")
        if named == {True}:
            return FeatureNames(sorted({name for one in some for name in one.names or ()}))
        if len(sizes) > 1:
            numbers = {one.n_features: k for k, one in zip(self._some, some)}
            told = ", ".join(f"partition {k} has {size}" for size, k in sorted(numbers.items()))
            raise ValueError(f"Partitions have different numbers of features: {told}.")
        return None

    @property
    def n_features(self) -> int:
        names = self.feature_names
        return self.summaries[self._some[0]].n_features if names is None else len(names)

    @cached_property
    def label_counts(self) -> dict[Any, int]:
        """How often each label occurs; also sets of labels, and `UNKNOWN`."""
        counts: Counter[Any] = Counter()
        some = {k: self.summaries[k].labels for k in self._some}
        without = [k for k, labels in some.items() if labels is None]
        if without and len(without) < len(some):
            raise ValueError(
                f"Partition {without[0]} has no labels, and others have; give it UNKNOWN for every node, or leave it "
                "out."
            )
        for labels in some.values():
            counts.update(labels or {})
        return dict(counts)

    @cached_property
    def y(self) -> NDArray:
        """The labels that occur, each once."""
        return label_array(list(self.label_counts))

    def place(self, structure: Any, classes: NDArray) -> PlacedPartitions:
        """All partitions with the same columns, layout and label sets, bound to a structure, where they are."""
        bound = self._bind((self.feature_names, structure, classes, None, None))
        found = self.backend.each(layout_and_label_sets, bound)
        layout, label_sets = self._layout(structure, [one for one, _, _ in found]), united([one for _, one, _ in found])
        if not label_sets.all_known and any(one.typed for one in self.summaries):
            raise ValueError(
                "Some labels of the partitions are UNKNOWN or sets, and nodes have types, of which all examples must "
                "be in one place; write them to a folder with Examples.write."
            )
        refuse_unknown(label_sets, found[0][2], repr(structure))
        if any(not same_layout(one, layout) or not same_label_sets(other, label_sets) for one, other, _ in found):
            bound = self._bind((self.feature_names, structure, classes, layout, label_sets))
        placed = PlacedPartitions(self.backend, bound, len(self), self.n_nodes)
        return placed if label_sets.all_known else placed.completed(np.zeros(layout.n_weights))

    def _bind(self, agreed: tuple[Any, ...]) -> Alone:
        sent = self.backend.send_once(agreed)
        return Alone(
            self.backend.client.submit(
                bind_partition, self.read[k], sent, pure=False, key=self.backend.new_key("shard", k)
            )
            for k in self._some
        )

    def _layout(self, structure: Any, layouts: list[Any]) -> Any:
        """The layout with the weights of all partitions."""
        layout = layouts[0]
        for k, other in zip(self._some[1:], layouts[1:]):
            try:
                layout = layout.united(other) if hasattr(layout, "united") else layout
            except ValueError as error:
                raise ValueError(f"Partition {k} does not fit those before it: {error}") from error
            if not hasattr(layout, "united") and layout != other:
                raise ValueError(
                    f"Partition {k} has another layout of weights than partition {self._some[0]}: with {structure!r} "
                    "it depends on all examples at once. Write them to a folder with Examples.write."
                )
        return layout

    def predict(self, model: Any) -> Any:
        """The predictions of a model that is sent to the workers."""
        found = self.backend.each(predict_partition, self.read, model)
        found = [labels for labels in found if labels is not None]
        if found and isinstance(found[0], np.ndarray):
            return np.concatenate(found)
        return [labels for some in found for labels in some]


class Known:
    """What is known of a structure whose examples are elsewhere."""

    inference_note = ""

    def __init__(self, witness: Any) -> None:
        self._witness = witness
        # nothing that needs the features or labels of all nodes
        self.capabilities = replace(witness.capabilities, linear_nodes=False, unknown_labels=False)

    def __getattr__(self, name: str) -> Any:
        if name in OF_ALL:
            return getattr(self._witness, name)
        raise AttributeError(
            f"{name} of all examples was asked for, and they are in partitions on workers. Take a solver that needs "
            "only sums, such as LBFGS, OWLQN, Smoothing, or BlockFrankWolfe; or write the examples to a folder "
            "with Examples.write."
        )


class PlacedPartitions(PlacedData):
    """Partitions in the place of shards."""

    def __init__(
        self, backend: Any, bound: Alone, n_examples: int, n_nodes: int, before: Alone | None = None
    ) -> None:  # fmt: skip
        super().__init__(Known(backend.each(first_example, Alone(bound[:1]))[0]), backend)
        self.bound, self._n_examples, self._n_nodes = bound, n_examples, n_nodes
        self.before = bound if before is None else before
        """Before labels that are not known were completed."""

    def completed(self, w: NDArray[np.float64]) -> PlacedPartitions:
        backend: Any = self.backend
        sent = backend.send_once(w)
        bound = Alone(
            backend.client.submit(complete_partition, one, sent, pure=False, key=backend.new_key("completed", k))
            for k, one in enumerate(self.before)
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
        for one in self.backend.each(fingerprint_of, self.bound):  # type: ignore[attr-defined]
            digest.update(one.encode())
        return digest.hexdigest()


# ---- what runs on workers -------------------------------------------------------------------------------------------


def read_partition(read: Any, source: Any, number: int, name: str) -> Examples | None:
    """The examples of a partition; None where it has none."""
    try:
        return read(source)
    except (ValueError, TypeError, OSError) as error:
        where = f"partition {number}" + (f", {name}" if name else "")
        raise ValueError(f"In {where}: {error}") from error


def read_items(items: Any) -> Examples | None:
    """Of pairs (x, y), of single x, or `Examples`."""
    if isinstance(items, Examples):
        return items if len(items) else None
    items = list(items)
    if not items:
        return None
    if all(isinstance(item, tuple) and len(item) == 2 for item in items):
        return Examples.build([x for x, _ in items], [y for _, y in items])
    return Examples.build(items)


def open_folder(path: str) -> Examples | None:
    """Return the examples of a folder."""
    if not Path(path).is_dir():
        raise ValueError(
            f"{path} is not a folder of examples; give maxendnet.text.ColumnFiles(paths) for column files, which says "
            "what their columns mean."
        )
    return Examples.open(path)


def summary(examples: Examples | None) -> Summary:
    if examples is None:
        return Summary(0, 0, 0, None, None, False)
    labels = None if examples.y is None else dict(Counter(examples.y.tolist()))
    typed = examples.node_types is not None
    return Summary(len(examples), examples.n_nodes, examples.n_features, examples.feature_names, labels, typed)


def bind_partition(examples: Examples, agreed: bytes) -> Any:
    """A partition with the columns of all, bound to a structure; with the layout and label sets of all, where given."""
    names, structure, classes, layout, label_sets = pickle.loads(agreed)
    if names is not None and tuple(names) != tuple(examples.feature_names or ()):
        X = align_columns(examples.X, examples.feature_names or (), names)
        examples = replace(examples, X=X, feature_names=names)
    if layout is None:
        return structure.bind(examples, classes)
    bound = structure.bind(examples, classes, layout)
    if same_label_sets(bound.label_sets, label_sets):
        return bound
    number = {key: k for k, key in enumerate(_keys(label_sets))}
    numbers = np.array([number.get(key, -1) for key in _keys(bound.label_sets)], dtype=np.int32)  # -1: does not occur
    return with_label_sets(bound, label_sets, numbers[bound.row])


def complete_partition(shard: Any, packed: bytes) -> Any:
    """A partition whose labels are completed by weights: the best labellings that agree with what is known.

    All partitions get the same label sets, each with every label that it may have as the target.
    """
    label_sets, labels = shard.label_sets, decode(shard.within_truth, pickle.loads(packed))
    place, label = np.nonzero(label_sets.sets)
    number = np.zeros(label_sets.sets.shape, dtype=np.int32)
    number[place, label] = np.arange(len(place))
    every = LabelSets(np.ascontiguousarray(label_sets.sets[place]), label.astype(np.int32), label_sets.weight[place])
    return with_label_sets(shard.completed(labels), every, number[shard.row, labels])


def with_label_sets(bound: Any, label_sets: LabelSets, row: NDArray[np.int32]) -> Any:
    """Bound structure whose nodes have these label sets."""
    return replace(bound, batch=bound.batch._replace(label_sets=label_sets, row=np.ascontiguousarray(row)))


def layout_and_label_sets(shard: Any) -> tuple[Any, LabelSets, bool]:
    """Layout of a partition, its label sets (all labels, or the sets that occur), and whether labels may be unknown."""
    label_sets = shard.label_sets
    if not label_sets.are_labels:
        used = np.unique(shard.row)
        label_sets = LabelSets(label_sets.sets[used], label_sets.label[used], label_sets.weight[used])
    return shard.layout, label_sets, shard.capabilities.unknown_labels


def united(label_sets: list[LabelSets]) -> LabelSets:
    """The distinct label sets of all partitions, in the order in which they appear."""
    numbered = reversed(list(enumerate(map(_keys, label_sets))))
    keys = {key: (k, number) for k, of_partition in numbered for number, key in enumerate(of_partition)}
    order = sorted(keys.values())
    rows = [[getattr(label_sets[k], name)[number] for k, number in order] for name in LabelSets._fields]
    sets, label, weight = rows
    return LabelSets(np.ascontiguousarray(sets, np.uint8), np.array(label, np.int32), np.array(weight, np.float64))


def same_label_sets(one: LabelSets, other: LabelSets) -> bool:
    return _keys(one) == _keys(other)


def same_layout(one: Any, other: Any) -> bool:
    """Also in what nodes of a type are allowed."""
    types: list[Any] = [getattr(layout, "type_allowed", None) for layout in (one, other)]
    return bool(one == other) and (types[0] is types[1] or np.array_equal(types[0], types[1]))


def _keys(label_sets: LabelSets) -> list[Any]:
    return [
        (some.tobytes(), label, weight)
        for some, label, weight in zip(label_sets.sets, label_sets.label.tolist(), label_sets.weight.tolist())
    ]


def first_example(shard: Any) -> Any:
    return shard.take(0, 1)


def curvature_of(shard: Any) -> Partial:
    return Partial(0.0, np.array(shard.curvature()))


def predict_partition(examples: Examples | None, model: Any) -> Any:
    return None if examples is None else model.predict(replace(examples, y=None))


__all__ = ["Partitions", "partitions_of"]

"""Examples in partitions on the workers of a Dask cluster: read there, agreed on, and never brought here.

Partitions are what the user has: those of a Dask bag, delayed `Examples`, or files. In a first pass every worker tells
the labels and the names of features of its own; then all take the same columns. A partition is a shard, and a part for
solvers that work in parts; it stays where Dask has put it.
"""

from __future__ import annotations

import hashlib
import os
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
from maxendnet.data.placed import PlacedData, add_to
from maxendnet.data.unknown import UNKNOWN

OF_ALL = (
    "layout", "n_labels", "kinds", "row", "unpack", "blocks", "described", "pairwise", "work_per_node", "slope_size",
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
    if not isinstance(X, (list, tuple)) or not X:
        return None
    if all(isinstance(one, (str, os.PathLike)) for one in X):
        paths = [os.path.abspath(one) for one in X]
        return Partitions(backend, [(read_file, path, k, path) for k, path in enumerate(paths)])
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
    labels: list[Any]


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
    def y(self) -> NDArray:
        """The labels that occur, each once for every partition."""
        labels = [label for one in self.summaries for label in one.labels]
        if any(label is UNKNOWN or isinstance(label, frozenset) for label in labels):
            raise ValueError(
                "Some labels of the partitions are UNKNOWN or sets, which is for examples in memory or in a folder; "
                "write them to one with Examples.write."
            )
        return label_array(labels)

    def place(self, structure: Any, classes: NDArray) -> PlacedPartitions:
        """All partitions with the same columns, bound to a structure, where they are."""
        client, names = self.backend.client, self.feature_names
        agreed = self.backend.send_once((names, structure, classes))
        some = [self.read[k] for k in self._some]
        bound = Alone(
            client.submit(bind_partition, one, agreed, pure=False, key=self.backend.new_key("shard", k))
            for k, one in zip(self._some, some)
        )
        witness = self.backend.each(first_example, Alone(bound[:1]))[0]
        for k, same in zip(self._some, self.backend.each(has_layout, bound, witness.layout)):
            if not same:
                raise ValueError(
                    f"Partition {k} has another layout of weights than partition {self._some[0]}: with {structure!r} "
                    "it depends on all examples at once. Write them to a folder with Examples.write."
                )
        return PlacedPartitions(Known(witness), self.backend, bound, len(self), agreed)

    def predict(self, model: Any) -> Any:
        """The predictions of a model that is sent to the workers."""
        found = self.backend.each(predict_partition, self.read, model)
        found = [labels for labels in found if labels is not None]
        if found and isinstance(found[0], np.ndarray):
            return np.concatenate(found)
        return [labels for some in found for labels in some]


class Known:
    """What is known of a structure whose examples are elsewhere."""

    linear_nodes = False

    def __init__(self, witness: Any) -> None:
        self._witness = witness

    def __getattr__(self, name: str) -> Any:
        if name in OF_ALL:
            return getattr(self._witness, name)
        raise AttributeError(
            f"{name} of all examples was asked for, and they are in partitions on workers. Take a solver that needs "
            "only sums, such as LBFGS, OWLQN, Smoothing, or BlockFrankWolfe or SDCA; or write the examples to a folder "
            "with Examples.write."
        )


class PlacedPartitions(PlacedData):
    """Partitions in the place of shards."""

    def __init__(self, structure: Any, backend: Any, bound: Alone, n_examples: int, agreed: Any) -> None:
        super().__init__(structure, backend)
        self.bound, self._n_examples, self.agreed = bound, n_examples, agreed

    @property
    def shards(self) -> Any:
        return self.bound

    @property
    def n_examples(self) -> int:
        return self._n_examples

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


def read_file(path: str) -> Examples | None:
    """A folder of examples, or a column file, whose last column are labels."""
    if Path(path).is_dir():
        return Examples.open(path)
    from maxendnet.text import TokenFeatures, read_columns

    columns = read_columns(path, empty=True)
    if not len(columns):
        return None
    if columns.n_columns < 2:
        raise ValueError("a column file needs two columns, words and labels.")
    words, labels = columns.split()
    return TokenFeatures("words").fit_transform(words.select([0]), labels)


def summary(examples: Examples | None) -> Summary:
    if examples is None:
        return Summary(0, 0, 0, None, [])
    labels = [] if examples.y is None else _labels(examples.y)
    return Summary(len(examples), examples.n_nodes, examples.n_features, examples.feature_names, labels)


def _labels(y: NDArray) -> list[Any]:
    """Those that occur, also where some are not known."""
    return np.unique(y).tolist() if y.dtype != object else list(dict.fromkeys(y.tolist()))


def bind_partition(examples: Examples, agreed: bytes) -> Any:
    """A partition with the columns of all, bound to a structure."""
    import pickle

    names, structure, classes = pickle.loads(agreed)
    if names is not None and tuple(names) != tuple(examples.feature_names or ()):
        X = align_columns(examples.X, examples.feature_names or (), names)
        examples = replace(examples, X=X, feature_names=names)
    return structure.bind(examples, classes)


def first_example(shard: Any) -> Any:
    return shard.take(0, 1)


def has_layout(shard: Any, layout: Any) -> bool:
    return bool(shard.layout == layout)


def curvature_of(shard: Any) -> Partial:
    return Partial(0.0, np.array(shard.curvature()))


def fingerprint_of(shard: Any) -> str:
    digest = hashlib.blake2b(type(shard).__qualname__.encode(), digest_size=16)
    add_to(digest, shard)
    return digest.hexdigest()


def predict_partition(examples: Examples | None, model: Any) -> Any:
    return None if examples is None else model.predict(replace(examples, y=None))


__all__ = ["Partitions", "partitions_of"]

"""Examples placed on a backend, which computes sums over the examples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from maxendnet.backends import Backend
from maxendnet.backends.threads import Cut, cut
from maxendnet.structures.base import decode


@dataclass(eq=False)
class PlacedData:
    """Bound structure and its shards on a backend.

    Parameters
    ----------
    structure : BoundStructure
        All examples, with true labels.
    backend : Backend
    """

    structure: Any
    backend: Backend

    @cached_property
    def shards(self) -> Sequence[Any]:
        """Handles of the shards."""
        return self.backend.place(self.structure)

    @property
    def n_examples(self) -> int:
        return len(self.structure.sample_weight)

    @property
    def n_nodes(self) -> int:
        return int(self.structure.offsets[-1])

    def curvature(self) -> Any:
        """Return the approximate diagonal Hessian of the sum of log-partitions at zero weights."""
        return self.structure.curvature()

    def parts(self, n: int) -> list[Any]:
        """Split the examples into at most ``n`` parts.

        Parts consist of consecutive examples, and have about equal numbers of nodes.
        """
        return [Cut(self.structure, part[0][0], part[-1][1]) for part in cut(self.structure.offsets, n, 1 << 60)]

    def completed(self, w: Any) -> PlacedData:
        """Return the data with unknown labels replaced by their best completion under the weights w."""
        structure, backend = self.structure, self.backend
        refuse_unknown(structure.label_sets, structure.capabilities.unknown_labels, structure.described)
        labels = decode(structure.within_truth, w, backend)  # type: ignore[arg-type]
        return PlacedData(structure.completed(labels), backend)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the examples, labels, sample weights and structure.

        Bounds on a sum of losses (cuts, dual points) hold only for the examples that they were computed on. Warm
        starts compare fingerprints.
        """
        return fingerprint_of(self.structure)

    def same_as(self, data: PlacedData) -> bool:
        """Whether the examples are equal to those of other placed data."""
        return self is data or self.fingerprint == data.fingerprint


def refuse_unknown(label_sets: Any, offered: bool, structure: str) -> None:
    """Raise ``ValueError`` if there are unknown labels and the structure does not support them."""
    if not label_sets.all_known and not offered:
        raise ValueError(
            f"{structure} does not support unknown labels, but y contains UNKNOWN labels or sets of labels; see "
            "docs/extend/structure.md for the methods that support them."
        )


def fingerprint_of(structure: Any) -> str:
    """Return a digest of the contents of a bound structure."""
    digest = hashlib.blake2b(type(structure).__qualname__.encode(), digest_size=16)
    add_to(digest, structure)
    return digest.hexdigest()


def add_to(digest: Any, value: Any) -> None:
    """Add the contents of a value to a digest.

    Arrays are added by their bytes, tuples and dataclasses by their fields.
    """
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(
            np.ascontiguousarray(value).data if value.size and value.dtype != object else repr(value).encode()
        )
    elif isinstance(value, (tuple, list)):
        for item in value:
            add_to(digest, item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            add_to(digest, getattr(value, field.name))
    elif isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        for name, item in sorted(vars(value).items()):
            digest.update(name.encode())
            add_to(digest, item)
    else:
        digest.update(repr(value).encode())

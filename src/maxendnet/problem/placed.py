"""Examples at the place where sums over them are computed: what belongs to the data and not to the question."""

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
    """A bound structure and its shards on a backend.

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
        """A handle for every shard."""
        return self.backend.place(self.structure)

    @property
    def n_examples(self) -> int:
        return len(self.structure.sample_weight)

    @property
    def n_nodes(self) -> int:
        return int(self.structure.offsets[-1])

    def curvature(self) -> Any:
        """About the diagonal of the Hessian of the losses at 0."""
        return self.structure.curvature()

    def parts(self, n: int) -> list[Any]:
        """The examples in at most ``n`` parts, consecutive ones with about the same number of nodes, for the backend to
        hold."""
        return [Cut(self.structure, part[0][0], part[-1][1]) for part in cut(self.structure.offsets, n, 1 << 60)]

    def completed(self, w: Any) -> PlacedData:
        """The same examples, with the best labellings under w that agree with what is known taken for the true ones."""
        structure, backend = self.structure, self.backend
        refuse_unknown(structure.label_sets, structure.capabilities.unknown_labels, structure.described)
        labels = decode(structure.within_truth, w, backend)  # type: ignore[arg-type]
        return PlacedData(structure.completed(labels), backend)

    @cached_property
    def fingerprint(self) -> str:
        """The same for the same examples, labels, sample weights and structure.

        Bounds on a sum of losses (cuts, dual points) hold for these examples alone: whatever starts from an earlier
        state asks whether they are the same.
        """
        return fingerprint_of(self.structure)

    def same_as(self, other: PlacedData) -> bool:
        """Whether these are the same examples."""
        return self is other or self.fingerprint == other.fingerprint


def refuse_unknown(label_sets: Any, offered: bool, structure: str) -> None:
    """Raise ``ValueError`` where labels are not known and a structure needs them."""
    if not label_sets.all_known and not offered:
        raise ValueError(
            f"{structure} takes known labels only, and some of y are UNKNOWN or sets; see docs/extend/structure.md for "
            "what it would have to offer."
        )


def fingerprint_of(structure: Any) -> str:
    """Digest of all that a bound structure holds."""
    digest = hashlib.blake2b(type(structure).__qualname__.encode(), digest_size=16)
    add_to(digest, structure)
    return digest.hexdigest()


def add_to(digest: Any, value: Any) -> None:
    """Add all that a value holds: arrays by their bytes, tuples and dataclasses by their fields."""
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

"""Feature names as numbers, and the features that are columns of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Numbering:
    """Numbers for features, in the order in which they are seen.

    Examples
    --------
    >>> numbering = Numbering()
    >>> numbering.of("tags", ["tag0=p", "tag1=div", "tag0=p"])
    [0, 1, 0]
    >>> numbering.names()
    ['tags:tag0=p', 'tags:tag1=div']
    """

    def __init__(self) -> None:
        self._next = count()
        self._tables: dict[str, defaultdict[str, int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def of(self, group: str, names: Iterable[str]) -> list[int]:
        """Numbers of names of a group; new ones for new names."""
        table = self._tables.setdefault(group, defaultdict(self._next.__next__))
        return list(map(table.__getitem__, names))

    def names(self) -> list[str]:
        """The name of every number, with its group before it."""
        out = [""] * len(self)
        for group, table in self._tables.items():
            for name, number in table.items():
                out[number] = f"{group}:{name}"
        return out

    def in_groups(self, groups: Collection[str]) -> NDArray[np.bool_]:
        """Which numbers belong to these groups."""
        out = np.zeros(len(self), dtype=bool)
        for group, table in self._tables.items():
            if group in groups:
                out[list(table.values())] = True
        return out

    def columns(self, names: Sequence[str]) -> NDArray[np.int64]:
        """For every number the place of its name among ``names``, or -1."""
        out = np.full(len(self), -1)
        for column, name in enumerate(names):
            group, _, feature = name.partition(":")
            if feature in self._tables.get(group, {}):
                out[self._tables[group][feature]] = column
        return out


class Vocabulary(NamedTuple):
    """The columns of a model: features by their numbers."""

    numbering: Numbering
    numbers: NDArray[np.int64]

    @property
    def names(self) -> list[str]:
        names = self.numbering.names()
        return [names[number] for number in self.numbers.tolist()]

    def columns(self, numbering: Numbering) -> NDArray[np.int64]:
        """For every number of a numbering its column, or -1."""
        if numbering is not self.numbering:
            return numbering.columns(self.names)
        out = np.full(len(numbering), -1)
        out[self.numbers] = np.arange(len(self.numbers))
        return out

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocabulary:
        """Of names, such as a model keeps."""
        numbering = Numbering()
        numbers = [numbering.of(group, [name])[0] for group, _, name in (full.partition(":") for full in names)]
        return cls(numbering, np.array(numbers, dtype=np.int64))

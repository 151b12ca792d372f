"""Feature numbers, and the vocabulary of a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Numbering:
    """Mapping of feature names to numbers, in the order of their first use.

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
        """Return the numbers of feature names of a group; new names get new numbers."""
        table = self._tables.setdefault(group, defaultdict(self._next.__next__))
        return list(map(table.__getitem__, names))

    def names(self) -> list[str]:
        """Return the name of each number, prefixed by its group."""
        names = [""] * len(self)
        for group, table in self._tables.items():
            for name, number in table.items():
                names[number] = f"{group}:{name}"
        return names

    def in_groups(self, groups: Collection[str]) -> NDArray[np.bool_]:
        """Return a mask of the feature numbers that belong to the groups."""
        mask = np.zeros(len(self), dtype=bool)
        for group, table in self._tables.items():
            if group in groups:
                mask[list(table.values())] = True
        return mask

    def columns(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the column of each number: the index of its name in ``names``, or -1."""
        columns = np.full(len(self), -1)
        for column, name in enumerate(names):
            group, _, feature = name.partition(":")
            if feature in self._tables.get(group, {}):
                columns[self._tables[group][feature]] = column
        return columns


class Vocabulary(NamedTuple):
    """Features of a model, one per column of its feature matrix.

    Attributes
    ----------
    numbering : Numbering
    numbers : ndarray of shape (n_columns,)
        Number of the feature of each column.
    """

    numbering: Numbering
    numbers: NDArray[np.int64]

    @property
    def names(self) -> list[str]:
        names = self.numbering.names()
        return [names[number] for number in self.numbers.tolist()]

    def columns(self, numbering: Numbering) -> NDArray[np.int64]:
        """Return the column of each number of a numbering, or -1."""
        if numbering is not self.numbering:
            return numbering.columns(self.names)
        columns = np.full(len(numbering), -1)
        columns[self.numbers] = np.arange(len(self.numbers))
        return columns

    @classmethod
    def of(cls, names: Iterable[str]) -> Vocabulary:
        """Return the vocabulary of feature names, such as those stored in a model."""
        numbering = Numbering()
        numbers = [numbering.of(group, [name])[0] for group, _, name in (full.partition(":") for full in names)]
        return cls(numbering, np.array(numbers, dtype=np.int64))

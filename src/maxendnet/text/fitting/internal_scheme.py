"""BIO tags that are learned as BIOES: last and single tokens of spans have labels of their own inside the model.

A model then tells how spans end, which pairs of BIO tags cannot say. Only BIOES tags that keep their rules are
predicted, so that every labelling has one in BIO: S becomes B, and E becomes I.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.labels import read_labels
from maxendnet.rules import bioes
from maxendnet.text.reading.tag_schemes import convert_tags

OUTER = {"B": "B", "S": "B", "I": "I", "E": "I", "O": "O"}


class InnerTags(NamedTuple):
    """How labels of a model are shown.

    Examples
    --------
    >>> inner = InnerTags.of(np.array(["B-X", "E-X", "O", "S-X"]))
    >>> inner.names.tolist()
    ['B-X', 'I-X', 'O', 'B-X']
    >>> inner.shown(["O", "S-X"])
    ['O', 'B-X']
    """

    names: NDArray
    """(n_labels,): the BIO tag of every label."""
    rules: Any
    """That labellings keep."""

    @classmethod
    def of(cls, classes: NDArray) -> InnerTags:
        """Of the BIOES labels of a model."""
        names = np.array([OUTER[tag[0]] + tag[1:] for tag in classes.tolist()], dtype=object)
        return cls(names, bioes())

    def shown(self, labels: list[str]) -> list[str]:
        """BIOES tags as BIO tags."""
        return [OUTER[tag[0]] + tag[1:] for tag in labels]

    def probabilities(self, node: NDArray, labels: NDArray) -> NDArray:
        """Of the BIO tags of these labels, from the marginals of all labels at every token."""
        same = self.names[:, None] == self.names
        found: NDArray = (node * same[labels]).sum(axis=1)
        return found


def as_inner(examples: Examples, y: list[list[str]]) -> Examples:
    """The same sentences, whose BIO tags are y, with BIOES tags.

    Examples
    --------
    >>> from maxendnet.text import TokenFeatures
    >>> y = [["B-X", "I-X", "O"]]
    >>> as_inner(TokenFeatures("U0=%x[0,0]").fit_transform([["a", "b", "c"]], y), y).y.tolist()
    ['B-X', 'E-X', 'O']
    """
    return replace(examples, y=read_labels(convert_tags(y, "BIOES", "IOB2"), examples.offsets, flat=False))

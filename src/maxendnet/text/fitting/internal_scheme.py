"""BIOES tags inside a model that is trained on, and predicts, BIO tags.

BIOES has separate labels for the last token of a span and for spans of one token, so that a model also learns how spans
end. Predictions follow the rules of BIOES. Every such labelling has one BIO equivalent: S becomes B, and E becomes I.
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

BIO_LETTERS = {"B": "B", "S": "B", "I": "I", "E": "I", "O": "O"}
"""BIO letter for each BIOES letter."""


class InternalTags(NamedTuple):
    """Conversion of a model's BIOES labels to BIO tags.

    Examples
    --------
    >>> internal = InternalTags.of(np.array(["B-X", "E-X", "O", "S-X"]))
    >>> internal.names.tolist()
    ['B-X', 'I-X', 'O', 'B-X']
    >>> internal.as_bio(["O", "S-X"])
    ['O', 'B-X']
    """

    names: NDArray[Any]
    """(n_labels,): the BIO tag of each label."""
    rules: Any
    """Rule that the BIOES labels of a sentence must satisfy."""

    @classmethod
    def of(cls, classes: NDArray[Any]) -> InternalTags:
        """Return the conversion for the BIOES labels of a model."""
        return cls(np.array(cls.as_bio(classes.tolist()), dtype=object), bioes())

    @staticmethod
    def as_bio(labels: list[str]) -> list[str]:
        """Convert BIOES tags to BIO tags."""
        return [BIO_LETTERS[tag[0]] + tag[1:] for tag in labels]

    def probabilities(self, marginals: NDArray[Any], labels: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of the BIO tag of each token's label.

        Parameters
        ----------
        marginals : ndarray of shape (n_tokens, n_labels)
        labels : ndarray of shape (n_tokens,)

        Returns
        -------
        ndarray of shape (n_tokens,)
        """
        same_tag = self.names[:, None] == self.names
        sums: NDArray[Any] = (marginals * same_tag[labels]).sum(axis=1)
        return sums


def as_bioes(examples: Examples, y: list[list[str]]) -> Examples:
    """Return the sentences with the BIO tags y converted to BIOES tags as labels.

    Examples
    --------
    >>> from maxendnet.text import TokenFeatures
    >>> y = [["B-X", "I-X", "O"]]
    >>> as_bioes(TokenFeatures("U0=%x[0,0]").fit_transform([["a", "b", "c"]], y), y).y.tolist()
    ['B-X', 'E-X', 'O']
    """
    return replace(examples, y=read_labels(convert_tags(y, "BIOES", "IOB2"), examples.offsets, flat=False))

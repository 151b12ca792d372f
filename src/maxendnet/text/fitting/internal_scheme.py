"""BIOES tags inside a model that is trained on, and predicts, BIO tags.

BIOES has separate labels for the last token of a span and for spans of one token, so that a model also learns how spans
end. Predictions follow the rules of BIOES. Every such labelling has one BIO equivalent: S becomes B, and E becomes I.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.examples import Examples
from maxendnet.data.labels import distinct_labels, read_labels
from maxendnet.data.unknown import UNKNOWN
from maxendnet.rules import bioes
from maxendnet.structures.automata.automaton import Automaton
from maxendnet.structures.rules import PairMasks, Rule
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
    classes: list[str]
    """(n_labels,): the BIOES labels."""

    @classmethod
    def of(cls, classes: NDArray[Any]) -> InternalTags:
        """Return the conversion for the BIOES labels of a model."""
        return cls(np.array(cls.as_bio(classes.tolist()), dtype=object), bioes(), classes.tolist())

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

    def given(self, labels: Any) -> Any:
        """Convert known BIO tags, for the argument ``given`` of predictions, to sets of BIOES labels."""
        if labels is None or isinstance(labels, (str, bytes)):
            return labels
        names = self.names.tolist()

        def possible(label: Any) -> Any:
            if isinstance(label, (set, frozenset)):
                return frozenset().union(*(possible(item) for item in label))
            return frozenset(self.classes[k] for k, name in enumerate(names) if name == label) or frozenset([label])

        return [
            row if row is UNKNOWN else [label if label is UNKNOWN else possible(label) for label in row]
            for row in labels
        ]

    def all_rules(self, rules: Any) -> list[Any]:
        """Return rules about BIO tags as rules about BIOES labels, and the rule of the scheme."""
        rows = [] if rules is None else list(rules) if isinstance(rules, (list, tuple)) else [rules]
        return [self.rules, *map(BioRule, rows)]


@dataclass(repr=False)
class BioRule(Rule):
    """Rule about the BIO tags of BIOES labels."""

    rule: Rule

    @property
    def name(self) -> str:  # type: ignore[override]
        return "bio_tags"

    def _numbers(self, classes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the distinct BIO tags, and the number of the tag of each label."""
        tags, numbers = np.unique(np.array(InternalTags.as_bio(classes.tolist())), return_inverse=True)
        return tags.astype(object), numbers

    def check(self) -> None:
        self.rule.check()

    def within(self, longest: int) -> Rule:
        return BioRule(self.rule.within(longest))

    def masks(self, classes: NDArray[Any]) -> PairMasks | None:
        tags, numbers = self._numbers(classes)
        masks = self.rule.masks(tags)
        if masks is None:
            return None
        return PairMasks(masks.first[numbers], masks.pairs[np.ix_(numbers, numbers)], masks.last[numbers])

    def automaton(self, classes: NDArray[Any]) -> Automaton:
        tags, numbers = self._numbers(classes)
        automaton = self.rule.automaton(tags)
        return Automaton(np.ascontiguousarray(automaton.arcs[:, numbers]), automaton.accepting, automaton.start)


def labels_of(classes: NDArray[Any], internal: InternalTags | None) -> NDArray[Any]:
    """Return the distinct labels of predictions.

    Examples
    --------
    >>> classes = np.array(["B-X", "E-X", "O", "S-X"])
    >>> labels_of(classes, InternalTags.of(classes)).tolist()
    ['B-X', 'I-X', 'O']
    """
    return classes if internal is None else distinct_labels(internal.names)


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

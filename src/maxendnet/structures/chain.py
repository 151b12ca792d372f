"""Linear chains of any order, with rules, durations and hidden states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxendnet.data.batch import Batch
from maxendnet.data.examples import Examples
from maxendnet.structures.automata.automaton import Automaton, intersect
from maxendnet.structures.automata.ngrams import (
    END,
    START,
    NGramWeights,
    SeenNGrams,
    all_ngrams,
    automaton_of,
    n_long,
    seen_ngrams,
    table_of_all,
)
from maxendnet.structures.automata.rule_checks import check_possible, check_truth
from maxendnet.structures.bound.automaton import BoundAutomaton, Reader
from maxendnet.structures.bound.forest import BoundForest
from maxendnet.structures.bound.hidden_states import (
    LabelsOfStates,
    for_states,
    ngrams_of_states,
    states_of,
    with_states,
)
from maxendnet.structures.rules import Durations, Never, OneLabel, PairMasks, Rule, as_rules, combine
from maxendnet.structures.weights.layout import FloatArray, Layout
from maxendnet.structures.weights.linear import LinearStructure


@dataclass(eq=False, repr=False)
class Chain(LinearStructure):
    """Sequences: the label of a node depends on the previous label, or on several.

    The score of a labelling is the sum over nodes of ``x_t . coef[:, y_t]`` and over consecutive nodes of
    ``transitions[y_t, y_t+1]``. A higher order adds weights for n-grams of three and more labels. Inference is exact.

    Parameters
    ----------
    bias : bool, default=False
        Add a weight for every label.
    ends : bool, default=False
        Add weights for every label at the first and at the last node. With a higher order, also for n-grams that
        include the start or the end of an example.
    forbidden : list of (label, label) or None, default=None
        Pairs of labels that cannot follow each other, in training and in prediction.
    pairs : {"all", "seen"}, default="all"
        Which pairs of a feature and a label have a weight: all, or only those that occur in the training examples.
        With many features and labels, ``"seen"`` takes less memory and time, and ``coef_`` is sparse.
    order : int, default=1
        Number of previous labels that are scored together with the label of a node. N-grams of 2 to ``order + 1``
        labels have weights.
    ngrams : {"all", "seen"} or None, default=None
        Which n-grams have a weight: all, or only those that occur in the training labels. None means ``"all"`` for
        order 1 and 2, and ``"seen"`` for higher orders.
    rules : a rule, a list of rules or None, default=None
        Constraints on labellings in training and prediction; see `maxendnet.rules`. Rules about consecutive nodes, the
        first node or the last node (`bio`, `bioes`, `never`, `starts_with`, `ends_with`) cost no time. Other rules
        (`at_most_once`, `regex`) multiply the work by the number of states of their automaton.
    durations : int, dict or None, default=None
        Maximum number of consecutive nodes with the same label, or ``{label: (shortest, longest)}``, where None
        means no limit. Limits that exceed the longest example cost no time.
    hidden : int, default=1
        Number of hidden states per label. Each state has its own weights and transitions, and the states of nodes are
        unknown in training and prediction. The columns of ``coef_`` and ``transitions_`` are states, and states of
        the same label are adjacent. N-grams are n-grams of states; rules and durations apply to labels.
    whole : bool, default=False
        Whether each example has one label, shared by all its nodes: y and predictions are lists of labels.

    Examples
    --------
    >>> from maxendnet import M3N, Chain
    >>> X, y = [[[0.0], [1.0]], [[1.0]]], [["a", "b"], ["b"]]
    >>> M3N(C=10, structure=Chain(bias=True)).fit(X, y).intercept_.shape
    (2,)
    >>> model = M3N(structure=Chain(order=2, ngrams="seen")).fit([[[0.0], [1.0], [0.0]]], [["a", "b", "a"]])
    >>> sorted(model.ngrams_)
    [('a', 'b'), ('a', 'b', 'a'), ('b', 'a')]
    """

    bias: bool = False
    ends: bool = False
    forbidden: Any = None
    pairs: str = "all"
    order: int = 1
    ngrams: str | None = None
    rules: Any = None
    durations: Any = None
    hidden: int = 1
    whole: bool = False
    joined = "chain"
    takes_rules = True

    def check(self) -> None:
        super().check()
        for name in ("order", "hidden"):
            value = getattr(self, name)
            if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"Chain needs {name} to be a whole number of at least 1, got {value!r}.")
        if self.ngrams is not None and not (isinstance(self.ngrams, str) and self.ngrams in ("all", "seen")):
            raise ValueError(f"Chain needs ngrams to be 'all', 'seen' or None, got {self.ngrams!r}.")
        as_rules(self.rules)

    @property
    def expects_sequences(self) -> bool:  # type: ignore[override]
        return not self.whole

    @property
    def _has_states(self) -> bool:
        """Whether nodes have hidden states instead of labels."""
        return self.hidden > 1 or bool(self.whole)

    def label_view(self, bound: Any) -> Any:
        """View of a bound chain that predicts labels instead of hidden states."""
        return LabelsOfStates(bound, self.hidden) if self._has_states else bound

    @property
    def only_seen(self) -> bool:
        """Whether only n-grams of the training labels have weights."""
        return self.ngrams == "seen" if self.ngrams is not None else self.order >= 3

    @property
    def _pairs_alone(self) -> bool:
        """Whether exactly the pairs of labels have weights: all pairs, and no longer n-grams."""
        return self.order == 1 and not self.only_seen

    def _rules(self, extra: Any = None) -> list[Rule]:
        """All rules, including those of ``forbidden``, ``durations`` and ``whole``."""
        rules = as_rules(self.rules)
        rules += [] if self.forbidden is None else [Never(self.forbidden)]
        rules += [] if self.durations is None else [Durations(self.durations)]
        rules += [OneLabel()] if self.whole else []
        return rules + as_rules(extra)

    def layout(self, examples: Examples, classes: NDArray[Any]) -> Layout:
        """Layout of the weights for labelled examples."""
        if self._has_states:
            self.check_memory(Layout(0, len(classes) * self.hidden, n_edge_types=1))  # state transitions
            examples, classes = with_states(examples, classes, self.hidden), states_of(classes, self.hidden)
        if self._pairs_alone:
            return self.layout_of(examples, classes, "chain")
        layout = self.layout_of(examples, classes, "independent")
        if not self.only_seen:
            return replace(layout, n_edge_types=1, n_ngrams=n_long(layout.n_labels, self.order, bool(self.ends)))
        batch = self.batch_of(examples, classes, layout, "independent")
        n_labels = layout.n_labels // self.hidden
        ngrams = seen_ngrams(known_labels(batch, self.hidden), batch.offsets, n_labels, self.order, bool(self.ends))
        ngrams = ngrams_of_states(ngrams, n_labels, self.hidden)
        return replace(layout, n_ngrams=len(ngrams.offsets) - 1, ngrams=ngrams)

    def bind(
        self, examples: Examples, classes: NDArray[Any], layout: Layout | None = None, rules: Any = None
    ) -> BoundForest | BoundAutomaton:
        """Return the structure bound to these examples.

        ``rules`` apply in addition to the option ``rules``.
        """
        if examples.edges is not None:
            raise ValueError(
                "Chain() joins every node to the previous one, but X has edges; choose structure=Tree() or Graph(), or "
                "remove the edges."
            )
        layout = self.layout(examples, classes) if layout is None else layout
        every_rule, labels = self._rules(rules), classes
        if self._has_states:
            examples, classes = self._with_states(examples, labels), states_of(labels, self.hidden)
        if self._pairs_alone and not every_rule:
            return BoundForest(layout, self.batch_of(examples, classes, layout))
        longest = int(np.diff(examples.offsets).max(initial=0))
        masks, reader = self._compiled(layout, [rule.within(longest) for rule in every_rule], labels)
        bound: BoundForest | BoundAutomaton
        if masks is not None:
            batch = self.batch_of(examples, classes, layout)
            bound = BoundForest(layout, at_ends(batch, masks), masks.forbidden_matrix)
            self._check(BoundAutomaton(layout, batch, reader), examples, labels, every_rule)
            return bound
        if examples.n_edge_types > 1 or examples.n_edge_features or layout.n_edge_types > 1 or layout.n_edge_features:
            raise ValueError(
                "Chain() with order > 1, ngrams='seen', durations or a rule such as at_most_once() does not support "
                "edge types and edge features; remove them, or encode their information as node features."
            )
        bound = BoundAutomaton(layout, self.batch_of(examples, classes, layout, "independent"), reader)
        if every_rule:
            self._check(bound, examples, labels, every_rule)
        return bound

    def pair_masks(self, classes: NDArray[Any], rules: Any = None) -> PairMasks | None:
        """Return the rules as masks, or None if n-grams or rules need an automaton."""
        every_rule = self._rules(rules)
        if self._has_states or not self._pairs_alone or any(rule.masks(classes) is None for rule in every_rule):
            return None
        return combine(every_rule, classes)[0]

    def _with_states(self, examples: Examples, classes: NDArray[Any]) -> Examples:
        """Replace labels by hidden states.

        With ``whole``, node weights are divided by the length of the example, so that a wrong label costs 1.
        """
        if self.whole:
            lengths = np.diff(examples.offsets)
            empty = np.flatnonzero(lengths == 0)
            if len(empty):
                raise ValueError(f"X[{empty[0]}] has no nodes, so it can have no label; remove it.")
            weight = 1.0 if examples.node_weight is None else examples.node_weight
            examples = replace(examples, node_weight=weight / np.repeat(lengths, lengths))
        return with_states(examples, classes, self.hidden)

    def _compiled(self, layout: Layout, rules: list[Rule], classes: NDArray[Any]) -> tuple[PairMasks | None, Reader]:
        """Compile rules to masks (None if rules or n-grams need the automaton) and to an automaton."""

        def compute() -> tuple[PairMasks | None, Reader]:
            masks, automaton = for_states(*combine(rules, classes), self.hidden)
            if self._pairs_alone and automaton is None:
                return masks, Reader.of(masks.automaton(), 0)
            return None, self._reader(layout, masks, automaton)

        key = (self.order, bool(self.ends), repr(rules), tuple(classes.tolist()))
        return layout.cache.result(key, compute)

    def _reader(self, layout: Layout, masks: PairMasks, automaton: Automaton | None) -> Reader:
        """Return the automaton that fires the n-grams and enforces the rules."""
        product = (
            automaton_of(layout.ngrams, layout.n_labels)
            if layout.ngrams is not None
            else all_ngrams(layout.n_labels, self.order, bool(self.ends))
        )
        if not all(mask.all() for mask in masks):
            product = intersect(product, masks.automaton())
        if automaton is not None:
            product = intersect(product, automaton)
        return Reader.of(product, layout.n_weights - layout.n_node_weights - layout.n_label_features)

    def _check(self, bound: BoundAutomaton, examples: Examples, classes: NDArray[Any], rules: list[Rule]) -> None:
        """Raise ``ValueError`` if true labels break a rule, or if an example has no valid labelling."""
        labels = known_labels(bound.batch, self.hidden)
        if len(labels) and labels.min() >= 0:
            check_truth(bound.batch._replace(y=labels), examples, classes, rules)
            return
        consistent = bound.within_truth if len(bound.y) else bound
        nodes = consistent.impossible() if consistent.batch.allowed.size else None
        check_possible(bound.reader.automaton, bound.batch, examples, rules, nodes)

    def layout_error(self, layout: Layout, n_features_in: int, classes: NDArray[Any]) -> str:
        """Error message if the layout does not match the structure, else an empty string."""
        if layout.n_labels != len(classes) * self.hidden:
            return f"the model has {len(classes)} labels, but weights for {layout.n_labels}"
        error = self.size_error(layout, n_features_in, joined=not self.only_seen)
        if error:
            return error
        if (layout.ngrams is not None) != self.only_seen:
            return f"the structure is {self!r}, but the weights belong to other n-grams"
        expected = (
            n_long(layout.n_labels, self.order, bool(self.ends))
            if layout.ngrams is None
            else len(layout.ngrams.offsets) - 1
        )
        if layout.n_ngrams != expected:
            return f"there are {expected} n-grams, but weights for {layout.n_ngrams}"
        if layout.ngrams is not None and np.diff(layout.ngrams.offsets).max(initial=2) > self.order + 1:
            return f"an n-gram is too long for order {self.order}"
        try:
            combine([rule.within(0) for rule in self._rules()], classes)  # checks labels without building automata
        except ValueError as error:
            return str(error)
        return ""

    def ngram_weights(self, layout: Layout, w: FloatArray, classes: NDArray[Any]) -> NGramWeights:
        """Weights of n-grams by their labels; empty if there are several edge types, or edge features."""
        if self._has_states:
            classes = states_of(classes, self.hidden)
        table = layout.ngrams
        if table is None and layout.n_edge_types == 1 and not layout.n_edge_features:
            table = table_of_all(layout.n_labels, self.order, bool(self.ends))
        elif table is None:
            table = SeenNGrams(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        first = layout.n_node_weights
        return NGramWeights([*classes.tolist(), START, END], table, w[first : first + len(table.offsets) - 1])


def known_labels(batch: Batch, n_states: int = 1) -> NDArray[np.int32]:
    """True labels, -1 where unknown.

    With hidden states, return the label to which all possible states belong.
    """
    if batch.label_sets is None:
        return batch.y
    of_labels = batch.label_sets.sets.reshape(len(batch.label_sets.sets), -1, n_states).any(axis=2)
    label = np.where(of_labels.sum(axis=1) == 1, of_labels.argmax(axis=1), -1)
    return label[batch.row].astype(np.int32)


def at_ends(batch: Batch, masks: PairMasks) -> Batch:
    """Restrict the allowed labels of first and last nodes to the labels that the masks permit."""
    if masks.first.all() and masks.last.all():
        return batch
    allowed = masks.allowed(batch.offsets)
    return batch._replace(allowed=allowed & batch.allowed if batch.allowed.size else allowed)

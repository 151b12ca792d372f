"""Enumeration of all labellings: slow, obviously right, and the oracle of the other tests.

Two layers. The first works on explicit scores of one example: ``node_scores`` of shape (n, L), ``edges`` as pairs
``(first, second)`` of node numbers, ``edge_scores`` with one (L, L) matrix per edge whose row is the label of ``first``
(the node the user named first), and an optional ``allowed`` mask of shape (n, L). The score of a labelling is

    score(y) = sum_t node_scores[t, y_t] + sum_e edge_scores[e][y_first, y_second],

and a labelling that uses a label which is not allowed does not exist. The second layer starts from a flat weight
vector and a ``Batch``, and gives the two losses of the library with their gradients.

Nothing here is shared with the library: no recursion, no order of nodes, no log-sum-exp inside a sum-product.
Where two labellings tie, any of them is right: compare ``score`` of a labelling with the best value, not labellings.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np


class Scores(NamedTuple):
    """Scores of one example; ``best(*scores)`` and its neighbours take them apart."""

    node_scores: np.ndarray
    edges: list[tuple[int, int]]
    edge_scores: list[np.ndarray]
    allowed: np.ndarray | None = None


# ---------------------------------------------------------------------------------------------- explicit scores


def labellings(n_nodes, n_labels, allowed=None):
    """All allowed labellings of ``n_nodes`` nodes as tuples, in lexicographic order; one empty tuple for no nodes."""
    choices = [[a for a in range(n_labels) if allowed is None or allowed[t][a]] for t in range(n_nodes)]
    return list(itertools.product(*choices))


def score(node_scores, edges, edge_scores, labelling):
    """Score of one labelling."""
    total = 0.0
    for t, a in enumerate(labelling):
        total += float(node_scores[t][a])
    for (first, second), matrix in zip(edges, edge_scores):
        total += float(matrix[labelling[first]][labelling[second]])
    return total


def labelling_scores(node_scores, edges, edge_scores, allowed=None):
    """Scores of all allowed labellings: ``{labelling: score}``, in lexicographic order."""
    n_nodes, n_labels = np.shape(node_scores)
    return {y: score(node_scores, edges, edge_scores, y) for y in labellings(n_nodes, n_labels, allowed)}


def best(node_scores, edges, edge_scores, allowed=None):
    """Highest score, and the first labelling that attains it."""
    scores = labelling_scores(node_scores, edges, edge_scores, allowed)
    winner = max(scores, key=scores.__getitem__)
    return scores[winner], winner


def top(node_scores, edges, edge_scores, allowed=None, *, k):
    """The k best labellings: ``[(score, labelling), ...]``, best first."""
    scores = labelling_scores(node_scores, edges, edge_scores, allowed)
    return sorted(((value, y) for y, value in scores.items()), key=lambda pair: (-pair[0], pair[1]))[:k]


def max_marginals(node_scores, edges, edge_scores, allowed=None):
    """(n, L): best score with label a at node t; -inf for labels that are not allowed."""
    result = np.full(np.shape(node_scores), -np.inf)
    for y, value in labelling_scores(node_scores, edges, edge_scores, allowed).items():
        for t, a in enumerate(y):
            result[t, a] = max(result[t, a], value)
    return result


def log_partition(node_scores, edges, edge_scores, allowed=None):
    """log of the sum of exp(score) over all allowed labellings."""
    values = list(labelling_scores(node_scores, edges, edge_scores, allowed).values())
    highest = max(values)
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


def probabilities(node_scores, edges, edge_scores, allowed=None):
    """``{labelling: p(y|x)}`` of the distribution proportional to exp(score)."""
    log_z = log_partition(node_scores, edges, edge_scores, allowed)
    scores = labelling_scores(node_scores, edges, edge_scores, allowed)
    return {y: math.exp(value - log_z) for y, value in scores.items()}


def logsum(node_scores, edges, edge_scores, allowed=None):
    """``(log_partition, node marginals (n, L), edge marginals (n_edges, L, L))``; rows of the latter: first node."""
    n_nodes, n_labels = np.shape(node_scores)
    node = np.zeros((n_nodes, n_labels))
    edge = np.zeros((len(edges), n_labels, n_labels))
    for y, p in probabilities(node_scores, edges, edge_scores, allowed).items():
        for t, a in enumerate(y):
            node[t, a] += p
        for e, (first, second) in enumerate(edges):
            edge[e, y[first], y[second]] += p
    return log_partition(node_scores, edges, edge_scores, allowed), node, edge


def entropy(node_scores, edges, edge_scores, allowed=None):
    """Entropy in nats of the distribution proportional to exp(score)."""
    p = probabilities(node_scores, edges, edge_scores, allowed)
    return -math.fsum(value * math.log(value) for value in p.values() if value > 0)


def labelling_cost(truth, labelling, cost=None):
    """Cost of ``labelling``: Hamming, or ``cost[true, predicted]`` summed over nodes."""
    if cost is None:
        return float(sum(a != b for a, b in zip(truth, labelling)))
    return float(sum(cost[a][b] for a, b in zip(truth, labelling)))


def hinge(node_scores, edges, edge_scores, truth, allowed=None, cost=None):
    """``(max_y [cost(y) + score(y)] - score(truth), the first y that has it)``."""
    scores = labelling_scores(node_scores, edges, edge_scores, allowed)
    augmented = {y: value + labelling_cost(truth, y, cost) for y, value in scores.items()}
    winner = max(augmented, key=augmented.__getitem__)
    return augmented[winner] - score(node_scores, edges, edge_scores, truth), winner


def log_loss(node_scores, edges, edge_scores, truth, allowed=None):
    """- log p(truth | x)."""
    return log_partition(node_scores, edges, edge_scores, allowed) - score(node_scores, edges, edge_scores, truth)


# --------------------------------------------------------------------------------------- weights and batches


class Sizes(NamedTuple):
    """Sizes of the four segments of the flat weight vector, in order."""

    n_features: int
    n_labels: int
    n_edge_types: int = 1
    n_edge_features: int = 0
    n_label_features: int = 0

    @property
    def n_weights(self):
        pairs = self.n_labels * self.n_labels
        return (
            self.n_features * self.n_labels + (self.n_edge_types + self.n_edge_features) * pairs + self.n_label_features
        )

    def split(self, w):
        """Views ``(node, transitions, edge_weights, label_weights)`` of ``w``; writing into a view changes ``w``."""
        w = np.asarray(w)
        assert w.shape == (self.n_weights,), f"expected {self.n_weights} weights for {self}, got shape {w.shape}"
        L = self.n_labels
        ends = np.cumsum([self.n_features * L, self.n_edge_types * L * L, self.n_edge_features * L * L])
        node, transitions, edge_weights, label_weights = np.split(w, ends)
        return node.reshape(-1, L), transitions.reshape(-1, L, L), edge_weights.reshape(-1, L, L), label_weights


def sizes_of(batch, n_labels, n_features, n_edge_types=1):
    """Return the `Sizes` of a batch."""
    return Sizes(n_features, n_labels, n_edge_types, batch.edge_features.shape[1], batch.label_features.shape[2])


def example_nodes(batch, i):
    """Global numbers of the nodes of example i."""
    return range(int(batch.offsets[i]), int(batch.offsets[i + 1]))


def example_children(batch, i):
    """Global numbers of the nodes of example i that have a parent: one edge each, in the order of the nodes."""
    return [t for t in example_nodes(batch, i) if batch.parent[t] >= 0]


def example_edges(batch, i):
    """Edges of example i as local ``(first, second)``: the parent first, unless the edge is flipped."""
    start = int(batch.offsets[i])
    edges = []
    for child in example_children(batch, i):
        pair = (int(batch.parent[child]) - start, child - start)
        edges.append(pair[::-1] if batch.flipped[child] else pair)
    return edges


def example_truth(batch, i):
    """True labelling of example i as a tuple."""
    return tuple(int(batch.y[t]) for t in example_nodes(batch, i))


def example_allowed(batch, i):
    """(n, L) mask of example i, or None when every label is allowed."""
    return batch.allowed[batch.offsets[i] : batch.offsets[i + 1]] if batch.allowed.size else None


def node_feature_row(batch, t, n_features):
    """Feature vector of node t, dense."""
    row = np.zeros(n_features)
    for j in range(int(batch.indptr[t]), int(batch.indptr[t + 1])):
        row[batch.indices[j]] += batch.data[j]
    return row


def feature_vector(batch, i, labelling, n_labels, n_features, n_edge_types=1):
    """f(x_i, y) in the layout of the weight vector, so that ``score = w . f`` for every labelling y."""
    sizes = sizes_of(batch, n_labels, n_features, n_edge_types)
    f = np.zeros(sizes.n_weights)
    node, transitions, edge_weights, label_weights = sizes.split(f)
    for t, a in zip(example_nodes(batch, i), labelling):
        node[:, a] += node_feature_row(batch, t, n_features)
        if sizes.n_label_features:
            label_weights += batch.label_features[t, a]
    for child, (first, second) in zip(example_children(batch, i), example_edges(batch, i)):
        a, b = labelling[first], labelling[second]
        transitions[batch.edge_type[child], a, b] += 1.0
        edge_weights[:, a, b] += batch.edge_features[child]
    return f


def scores_of_weights(w, batch, n_labels, n_features, n_edge_types=1):
    """Scores of every example of a batch: a list of ``Scores``, in the order of the examples."""
    sizes = sizes_of(batch, n_labels, n_features, n_edge_types)
    node, transitions, edge_weights, label_weights = sizes.split(w)
    result = []
    for i in range(len(batch.offsets) - 1):
        node_scores = np.zeros((len(example_nodes(batch, i)), n_labels))
        for row, t in enumerate(example_nodes(batch, i)):
            node_scores[row] = node_feature_row(batch, t, n_features) @ node
            if sizes.n_label_features:
                node_scores[row] += batch.label_features[t] @ label_weights
        edge_scores = []
        for child in example_children(batch, i):
            matrix = transitions[batch.edge_type[child]].copy()
            for value, weights in zip(batch.edge_features[child], edge_weights):
                matrix += value * weights
            edge_scores.append(matrix)
        result.append(Scores(node_scores, example_edges(batch, i), edge_scores, example_allowed(batch, i)))
    return result


def hinge_values(w, batch, n_labels, n_features, n_edge_types=1, cost=None):
    """(n_examples,): hinge of each example, sample weights not applied."""
    scores = scores_of_weights(w, batch, n_labels, n_features, n_edge_types)
    return np.array([hinge(*s[:3], example_truth(batch, i), s.allowed, cost)[0] for i, s in enumerate(scores)])


def log_loss_values(w, batch, n_labels, n_features, n_edge_types=1):
    """(n_examples,): - log p(y_i | x_i) of each example, sample weights not applied."""
    scores = scores_of_weights(w, batch, n_labels, n_features, n_edge_types)
    return np.array([log_loss(*s[:3], example_truth(batch, i), s.allowed) for i, s in enumerate(scores)])


def hinge_sum(w, batch, n_labels, n_features, n_edge_types=1, cost=None):
    """``(sum_i u_i hinge_i, a subgradient)``; the subgradient is the gradient where no two labellings tie."""
    total, gradient = 0.0, np.zeros(np.shape(w))
    for i, s in enumerate(scores_of_weights(w, batch, n_labels, n_features, n_edge_types)):
        truth = example_truth(batch, i)
        value, winner = hinge(*s[:3], truth, s.allowed, cost)
        total += batch.sample_weight[i] * value
        gradient += batch.sample_weight[i] * feature_vector(batch, i, winner, n_labels, n_features, n_edge_types)
        gradient -= batch.sample_weight[i] * feature_vector(batch, i, truth, n_labels, n_features, n_edge_types)
    return total, gradient


def log_loss_sum(w, batch, n_labels, n_features, n_edge_types=1):
    """``(sum_i u_i * (- log p(y_i | x_i)), its gradient)``: expected minus true features."""
    total, gradient = 0.0, np.zeros(np.shape(w))
    for i, s in enumerate(scores_of_weights(w, batch, n_labels, n_features, n_edge_types)):
        truth = example_truth(batch, i)
        total += batch.sample_weight[i] * log_loss(*s[:3], truth, s.allowed)
        for y, p in probabilities(*s).items():
            gradient += batch.sample_weight[i] * p * feature_vector(batch, i, y, n_labels, n_features, n_edge_types)
        gradient -= batch.sample_weight[i] * feature_vector(batch, i, truth, n_labels, n_features, n_edge_types)
    return total, gradient


# ------------------------------------------------------------------------------------------------- hierarchies


def left_sibling(batch, t):
    """The child of the same parent with the next lower number, or None."""
    before = [s for s in range(t) if batch.parent[t] >= 0 and batch.parent[s] == batch.parent[t]]
    return before[-1] if before else None


def hierarchy_labellings(batch, i, n_labels, forbidden=()):
    """All labellings of example i with allowed labels and without forbidden pairs."""
    start, n = int(batch.offsets[i]), len(example_nodes(batch, i))
    pairs = [(int(batch.parent[t]) - start, t - start) for t in example_children(batch, i)]
    return [
        y
        for y in labellings(n, n_labels, example_allowed(batch, i))
        if not any((y[parent], y[child]) in forbidden for parent, child in pairs)
    ]


def choice_labellings(batch, i, n_labels, rest):
    """All allowed labellings of example i with at most one label other than ``rest``."""
    every = labellings(len(example_nodes(batch, i)), n_labels, example_allowed(batch, i))
    return [y for y in every if sum(a != rest for a in y) <= 1]


def hierarchy_feature_vector(batch, i, labelling, n_labels, n_features, n_edge_types=1, siblings=True):
    """f(x_i, y) with, before the label features, a count for every (edge type, parent, left child, right child)."""
    plain = feature_vector(batch, i, labelling, n_labels, n_features, n_edge_types)
    if not siblings:
        return plain
    counts, start = np.zeros((n_edge_types, n_labels, n_labels, n_labels)), int(batch.offsets[i])
    for t in example_children(batch, i):
        s = left_sibling(batch, t)
        if s is not None:
            above, left, right = (labelling[k - start] for k in (int(batch.parent[t]), s, t))
            counts[batch.edge_type[t], above, left, right] += 1.0
    n_label_features = batch.label_features.shape[2]
    return np.concatenate(
        [plain[: len(plain) - n_label_features], counts.ravel(), plain[len(plain) - n_label_features :]]
    )

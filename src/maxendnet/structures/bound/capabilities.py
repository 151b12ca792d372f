"""Capabilities: optional methods of bound structures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """Optional methods of a bound structure, declared in its ``capabilities``.

    Solvers refer to these fields in `requires`.

    Attributes
    ----------
    blocks : bool
        The property ``blocks``: dual updates of one example at a time, for `BlockFrankWolfe` and `ProximalPoint`.
    forest : bool
        Labels are a pairwise Markov random field on a forest.
    pairwise : bool
        A forest without forbidden pairs, for `PotentialAscent`, sampled Hessians and products with Hessians.
    edge_features : bool
        Edges have features with weights.
    linear_nodes : bool
        Nodes have the features of ``batch``, and the weights ``layout.segments(w).node``.
    relaxed : bool
        ``excess`` returns upper bounds, which labellings may not attain.
    edge_costs : bool
        ``edge_labels`` and ``edge_offsets``, which edge costs need; see `EdgeTable`.
    ngram_costs : bool
        Tables may include n-gram costs; see `NGramTable`.
    unknown_labels : bool
        ``within_truth``, ``completed`` and ``with_pseudo_labels``, which unknown labels and label sets need.
    proofs : bool
        ``prove`` and ``search``, which prove that predictions are optimal.
    max_marginals, top, sample : bool
        The methods of these names, for predictions.
    cost_of_sums : float
        Time of a sum over labellings relative to a maximum.
    """

    blocks: bool = False
    forest: bool = False
    pairwise: bool = False
    edge_features: bool = False
    linear_nodes: bool = False
    relaxed: bool = False
    edge_costs: bool = False
    ngram_costs: bool = False
    unknown_labels: bool = False
    proofs: bool = False
    max_marginals: bool = False
    top: bool = False
    sample: bool = False
    cost_of_sums: float = 1.0

"""What bound structures may offer beyond the methods that all of them have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """Declared by every bound structure as its attribute ``capabilities``; solvers refer to the fields in `requires`.

    Attributes
    ----------
    blocks : bool
        ``blocks``: updates of one example at a time, for `BlockFrankWolfe` and `ProximalPoint`.
    forest : bool
        Labels are a Markov random field on a forest: at most two neighbouring labels are scored together.
    pairwise : bool
        A forest in which any two labels may be neighbours: the kernels of `PotentialAscent`, sampled Hessians and
        products with Hessians.
    edge_features : bool
        Edges have features with weights.
    linear_nodes : bool
        Nodes have the features of ``batch`` and the weights ``layout.segments(w).node``.
    relaxed : bool
        ``excess`` gives upper bounds that labellings need not attain.
    edge_costs : bool
        ``edge_labels`` and ``edge_offsets``: costs of the two labels of an edge, see `EdgeTable`.
    ngram_costs : bool
        Costs of several labels in a row, see `NGramTable`.
    unknown_labels : bool
        ``within_truth``, ``completed`` and ``with_pseudo_labels``: labels that are known in part.
    proofs : bool
        ``prove`` and ``search``: whether a prediction is known to be the best.
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

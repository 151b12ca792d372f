"""Synthetic chains of the paper, drawn from a random sparse CRF."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

N_LABELS = 2

# Section 7.1: three correlated copies of each underlying value
GROUP_SIZE = 3


class SyntheticChains(NamedTuple):
    """Chains with the model that generated them.

    Attributes
    ----------
    X : list of ndarray of shape (n_nodes, n_features)
        Inputs, one array per chain.
    y : list of ndarray of shape (n_nodes,)
        Labels 0 or 1, one array per chain.
    coef : ndarray of shape (n_features, 2)
        True node weights; zero in the rows of irrelevant features.
    transitions : ndarray of shape (2, 2)
        True transition weights. The row is the label of the left node.
    groups : ndarray of shape (n_features,)
        Group of each relevant feature, -1 for irrelevant ones. Features of a group are correlated; with i.i.d. inputs
        each relevant feature is a separate group.
    """

    X: list[NDArray[np.float64]]
    y: list[NDArray[np.int64]]
    coef: NDArray[np.float64]
    transitions: NDArray[np.float64]
    groups: NDArray[np.int64]


def make_synthetic_chains(
    n_samples: int = 1000,
    n_relevant: int = 10,
    n_features: int = 100,
    n_nodes: int = 8,
    correlated: bool = False,
    n_gibbs: int = 5000,
    random_state: int | np.random.Generator | None = None,
    *,
    noise: float = 0.05,
) -> SyntheticChains:
    """Draw chains as in Section 7.1 of Zhu and Xing (JMLR 10, 2009).

    First the weights of a linear-chain conditional random field with two labels are drawn, then the inputs of every
    node. The labels of every chain are drawn from ``p(y | x)`` by Gibbs sampling.

    Parameters
    ----------
    n_samples : int
        Number of chains.
    n_relevant : int
        Number of features with non-zero weights: the first columns of X. The paper uses 10, 30 and 50, and 30 with
        correlated inputs.
    n_features : int
        Number of features of a node.
    n_nodes : int
        Length of every chain.
    correlated : bool
        If False, all inputs are independent standard normal numbers. If True, relevant features are in groups of three
        (the last group may be smaller): each feature is a standard normal number of its node and group plus independent
        normal noise. Irrelevant features are independent standard normal numbers.
    n_gibbs : int
        Number of sweeps of the Gibbs sampler. A sweep updates every node once.
    random_state : int, numpy.random.Generator or None
        Seed. The same seed generates the same data.
    noise : float
        Standard deviation of the noise inside a group.

    Returns
    -------
    SyntheticChains
        Named tuple ``(X, y, coef, transitions, groups)``.

    Notes
    -----
    Details that the paper leaves open:

    - *Weights.* All node weights of relevant features (both labels) and the four transition weights are independent
      standard normal numbers; correlated features have independent weights.
    - *Inputs.* Every node of a chain has its own inputs.
    - *Noise.* The paper's "standard variance 0.05" is interpreted as a standard deviation of 0.05 (use
      ``noise=0.05**0.5`` for a variance).
    - *Gibbs sampling.* Labels start uniformly at random, and a sweep updates first all even, then all odd nodes,
      which are conditionally independent. All chains are sampled in parallel.
    - The paper reports an error of about 0.5 for the generating model on its own labels. Labels drawn from
      ``p(y | x)`` cannot lead to such an error with the weights above, because predicting the likeliest label of each
      node errs less than any other rule. Here the generating model errs on 13, 7 and 6 % of the nodes with 10, 30 and
      50 relevant features, and on 7 % with 30 correlated ones (means over ten seeds).

    Examples
    --------
    >>> from maxendnet.datasets import make_synthetic_chains
    >>> data = make_synthetic_chains(n_samples=20, n_relevant=3, n_features=5, n_gibbs=50, random_state=0)
    >>> len(data.X), data.X[0].shape, data.y[0].shape
    (20, (8, 5), (8,))
    >>> data.coef.any(axis=1)
    array([ True,  True,  True, False, False])
    >>> data.groups
    array([ 0,  1,  2, -1, -1])
    """
    for name, value, lowest in (
        ("n_samples", n_samples, 1),
        ("n_features", n_features, 1),
        ("n_nodes", n_nodes, 1),
        ("n_relevant", n_relevant, 0),
        ("n_gibbs", n_gibbs, 0),
    ):
        if value < lowest:
            raise ValueError(f"make_synthetic_chains needs {name} >= {lowest}, got {name}={value}.")
    if n_relevant > n_features:
        raise ValueError(
            f"make_synthetic_chains needs n_relevant <= n_features, got n_relevant={n_relevant} and "
            f"n_features={n_features}; raise n_features or lower n_relevant."
        )
    if not noise >= 0:
        raise ValueError(f"make_synthetic_chains needs noise >= 0 (a standard deviation), got noise={noise}.")
    rng = np.random.default_rng(random_state)

    coef = np.zeros((n_features, N_LABELS))
    coef[:n_relevant] = rng.standard_normal((n_relevant, N_LABELS))
    transitions = rng.standard_normal((N_LABELS, N_LABELS))

    groups = np.full(n_features, -1)
    groups[:n_relevant] = np.arange(n_relevant) // (GROUP_SIZE if correlated else 1)
    inputs = rng.standard_normal((n_samples, n_nodes, n_features))
    if correlated and n_relevant:
        shared = rng.standard_normal((n_samples, n_nodes, groups.max() + 1))
        inputs[..., :n_relevant] = shared[..., groups[:n_relevant]] + noise * inputs[..., :n_relevant]

    labels = _gibbs(inputs @ coef, transitions, n_gibbs, rng)
    return SyntheticChains(list(inputs), list(labels), coef, transitions, groups)


def _gibbs(
    node_scores: NDArray[np.float64], transitions: NDArray[np.float64], n_sweeps: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw binary labels of chains of equal length by Gibbs sampling.

    Parameters
    ----------
    node_scores : ndarray of shape (n_samples, n_nodes, 2)
    transitions : ndarray of shape (2, 2)
        The row is the label of the left node.
    n_sweeps : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_samples, n_nodes)
    """
    n_samples, n_nodes, _ = node_scores.shape
    # p(y_t = 1 | neighbours) has four values per node, which are computed once:
    # table[t, 2 * left + right, sample]. A missing neighbour at an end of the chain contributes nothing.
    from_left = transitions[:, 1] - transitions[:, 0]
    from_right = transitions[1, :] - transitions[0, :]
    log_odds = np.zeros((n_nodes, 2, 2, n_samples))
    log_odds += (node_scores[:, :, 1] - node_scores[:, :, 0]).T[:, None, None, :]
    log_odds[1:] += from_left[:, None, None]
    log_odds[:-1] += from_right[None, :, None]
    table = expit(log_odds).reshape(-1)

    # rows 0 and n_nodes + 1 represent the missing neighbours and remain 0
    state = np.zeros((n_nodes + 2, n_samples), dtype=np.intp)
    state[1:-1] = rng.integers(2, size=(n_nodes, n_samples))
    # for even and odd nodes: views of the nodes and their left and right neighbours, the positions of the entries
    # (node, 0, 0, sample) in the flat table, and work arrays
    halves = []
    for first in range(min(2, n_nodes)):
        node = state[first + 1 : n_nodes + 1 : 2]
        left, right = state[first:n_nodes:2], state[first + 2 : n_nodes + 2 : 2]
        base = np.arange(first, n_nodes, 2)[:, None] * (4 * n_samples) + np.arange(n_samples)
        halves.append((node, left, right, base, np.empty_like(base), np.empty(base.shape), np.empty(base.shape)))
    for _ in range(n_sweeps):
        for node, left, right, base, index, chance, uniform in halves:
            np.multiply(left, 2, out=index)
            index += right
            index *= n_samples
            index += base
            np.take(table, index, out=chance, mode="clip")  # "clip": with "raise", numpy copies `out` first
            rng.random(out=uniform)
            np.less(uniform, chance, out=node, casting="unsafe")
    return np.ascontiguousarray(state[1:-1].T).astype(np.int64, copy=False)

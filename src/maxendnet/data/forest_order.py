"""Forests as flat arrays of parents, and orders of their nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from maxendnet.data.ragged import IntArray, locate, offsets_of, owners


class ForestOrder(NamedTuple):
    """Orientation of a forest over all nodes of all examples."""

    order: npt.NDArray[np.int32]  # (n_nodes,) parents before children, each example in its own slice
    parent: npt.NDArray[np.int32]  # (n_nodes,) index of the parent among all nodes, -1 for a root
    edge: npt.NDArray[np.int64]  # (n_nodes,) index of the edge to the parent, -1 for a root
    flipped: npt.NDArray[np.uint8]  # (n_nodes,) 1 if the first node of that edge is the child


def check_edges(edges: IntArray, edge_offsets: IntArray, offsets: IntArray) -> None:
    """Raise ``ValueError`` for an edge that is out of range, a loop or a duplicate.

    Parameters
    ----------
    edges : ndarray of shape (n_edges, 2)
        Node indices within the example.
    edge_offsets, offsets : ndarray of shape (n_examples + 1,)

    Examples
    --------
    >>> check_edges(np.array([[0, 1], [1, 0]]), np.array([0, 2]), np.array([0, 2]))
    Traceback (most recent call last):
    ...
    ValueError: The edges of X[0] contain the pair (0, 1) twice; list each edge once, in one direction.
    """
    if len(edges) == 0:
        return
    example = owners(edge_offsets)
    n_nodes = np.diff(offsets)[example]
    wrong = np.flatnonzero((edges < 0).any(axis=1) | (edges >= n_nodes[:, None]).any(axis=1))
    if len(wrong):
        k = int(wrong[0])
        i, j = locate(edge_offsets, k)
        raise ValueError(
            f"Edge {j} of X[{i}] is {_pair(edges[k])}, but X[{i}] has {n_nodes[k]} nodes, numbered from 0; "
            f"edges use node numbers within the example."
        )
    wrong = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(wrong):
        k = int(wrong[0])
        i, j = locate(edge_offsets, k)
        raise ValueError(f"Edge {j} of X[{i}] is {_pair(edges[k])}, a loop; an edge joins two different nodes.")
    low = edges.min(axis=1) + offsets[example]
    high = edges.max(axis=1) + offsets[example]
    key = low * offsets[-1] + high
    key.sort()
    doubled = key[1:][key[1:] == key[:-1]]
    if len(doubled):
        i, a = locate(offsets, int(doubled[0] // offsets[-1]))
        b = int(doubled[0] % offsets[-1] - offsets[i])
        raise ValueError(
            f"The edges of X[{i}] contain the pair {_pair((a, b))} twice; list each edge once, in one direction."
        )


def forest_order(edges: IntArray, edge_offsets: IntArray, offsets: IntArray) -> ForestOrder:
    """Choose the root of each tree, and an order with parents before children.

    If no node of a tree has two incoming edges, the root is the node without incoming edges. Otherwise the root is the
    node with the smallest index, and edges towards it are flipped. If all parents of an example already
    precede their children, its nodes keep their order.

    Parameters
    ----------
    edges : ndarray of shape (n_edges, 2)
        Node indices within the example; an edge points from the first to the second node.
    edge_offsets, offsets : ndarray of shape (n_examples + 1,)
        Example i owns ``edges[edge_offsets[i]:edge_offsets[i + 1]]`` and nodes ``offsets[i]:offsets[i + 1]``.

    Returns
    -------
    ForestOrder
        Computed by one breadth-first search over all trees, in O(n_nodes + n_edges log n_edges).

    Raises
    ------
    ValueError
        For edges out of range, loops, duplicate edges and cycles.

    Examples
    --------
    >>> forest = forest_order(np.array([[2, 0], [2, 1]]), np.array([0, 2]), np.array([0, 3]))
    >>> forest.order.tolist(), forest.parent.tolist(), forest.flipped.tolist()
    ([2, 0, 1], [2, 2, -1], [0, 0, 0])
    """
    check_edges(edges, edge_offsets, offsets)
    n_nodes, n_edges = int(offsets[-1]), len(edges)
    example_of_edge = owners(edge_offsets)
    first = edges[:, 0] + offsets[example_of_edge]
    second = edges[:, 1] + offsets[example_of_edge]
    roots = _roots(first, second, offsets, example_of_edge)

    # an extra node with index n_nodes joins all roots, so that one search visits all trees
    rows = np.concatenate([first, second, np.full(len(roots), n_nodes)])
    columns = np.concatenate([second, first, roots])
    links = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes + 1, n_nodes + 1))
    visit, parent = csgraph.breadth_first_order(links, n_nodes, directed=True, return_predecessors=True)
    parent = parent[:n_nodes].astype(np.int32)
    parent[roots] = -1

    down = parent[second] == first
    edge = np.full(n_nodes, -1, dtype=np.int64)
    child = np.where(down, second, first)
    edge[child] = np.arange(n_edges)
    flipped = np.zeros(n_nodes, dtype=np.uint8)
    flipped[child] = ~down

    example = owners(offsets)
    visit = visit[1:]
    order = visit[np.argsort(example[visit], kind="stable")].astype(np.int32)
    # keep the given order of the nodes where possible, so that neighbours stay neighbours in memory
    nodes = np.arange(n_nodes, dtype=np.int32)
    scrambled = np.zeros(len(offsets) - 1, dtype=bool)
    scrambled[example[parent > nodes]] = True
    unchanged = ~scrambled[example]
    order[unchanged] = nodes[unchanged]
    return ForestOrder(order, parent, edge, flipped)


def chain_order(offsets: IntArray) -> ForestOrder:
    """Return the order of chains: the parent of a node is the previous node.

    Examples
    --------
    >>> chain_order(np.array([0, 3, 3, 5])).parent.tolist()
    [-1, 0, 1, -1, 3]
    """
    n_nodes = int(offsets[-1])
    order = np.arange(n_nodes, dtype=np.int32)
    parent = order - 1
    parent[offsets[offsets < n_nodes]] = -1
    edge = np.cumsum(parent >= 0, dtype=np.int64)
    edge -= 1
    edge[parent < 0] = -1
    return ForestOrder(order, parent, edge, np.zeros(n_nodes, dtype=np.uint8))


def chain_edge_offsets(offsets: IntArray) -> npt.NDArray[np.int64]:
    """Return the offsets of the edges (t, t + 1) of chains.

    Examples
    --------
    >>> chain_edge_offsets(np.array([0, 3, 3, 5])).tolist()
    [0, 2, 2, 3]
    """
    return offsets_of(np.maximum(np.diff(offsets) - 1, 0))


class _Components(NamedTuple):
    """Connected components of the graphs of all examples."""

    component: IntArray  # (n_nodes,) component of each node
    lowest: IntArray  # (n_components,) smallest node index
    n_components: IntArray  # (n_examples,)
    n_cycles: IntArray  # (n_examples,) number of edges beyond those of a spanning forest


def _components(first: IntArray, second: IntArray, offsets: IntArray, example_of_edge: IntArray) -> _Components:
    n_nodes = int(offsets[-1])
    links = sparse.csr_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(n_nodes, n_nodes))
    n_all, component = csgraph.connected_components(links, directed=False)
    lowest = np.empty(n_all, dtype=np.int64)
    lowest[component[::-1]] = np.arange(n_nodes)[::-1]  # numpy keeps the last of several values assigned to one index
    n_components = np.bincount(owners(offsets)[lowest], minlength=len(offsets) - 1)
    n_edges = np.bincount(example_of_edge, minlength=len(offsets) - 1)
    # a forest has n_nodes - n_trees edges; each additional edge closes a cycle
    return _Components(component, lowest, n_components, n_edges - (np.diff(offsets) - n_components))


def count_cycles(edges: IntArray, edge_offsets: IntArray, offsets: IntArray) -> IntArray:
    """Return the number of edges of each example that close cycles.

    Examples
    --------
    >>> count_cycles(np.array([[0, 1], [1, 2], [2, 0], [0, 1]]), np.array([0, 3, 4]), np.array([0, 3, 5])).tolist()
    [1, 0]
    """
    example = owners(edge_offsets)
    return _components(edges[:, 0] + offsets[example], edges[:, 1] + offsets[example], offsets, example).n_cycles


def _roots(first: IntArray, second: IntArray, offsets: IntArray, example_of_edge: IntArray) -> IntArray:
    """Return the root of each tree, or raise ``ValueError`` if there is a cycle."""
    n_nodes = int(offsets[-1])
    tree, lowest, n_trees, n_cycles = _components(first, second, offsets, example_of_edge)
    cyclic = np.flatnonzero(n_cycles > 0)
    if len(cyclic):
        i = int(cyclic[0])
        raise ValueError(
            f"The edges of X[{i}] close a cycle: {np.count_nonzero(example_of_edge == i)} edges on "
            f"{offsets[i + 1] - offsets[i]} nodes in {n_trees[i]} connected component(s). Use "
            "structure=Graph(), or make it a forest: remove an edge of each cycle."
        )
    incoming = np.bincount(second, minlength=n_nodes)
    two_incoming = np.zeros(len(lowest), dtype=bool)
    two_incoming[tree[incoming > 1]] = True
    sources = np.flatnonzero((incoming == 0) & ~two_incoming[tree])
    roots = lowest
    roots[tree[sources]] = sources
    return roots


def _pair(edge: IntArray | tuple[int, int]) -> tuple[int, int]:
    return int(edge[0]), int(edge[1])

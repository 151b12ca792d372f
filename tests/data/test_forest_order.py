"""Orientation of forests, compared with a search in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxendnet.data.forest_order import chain_edge_offsets, chain_order, check_edges, forest_order
from maxendnet.data.ragged import gather, locate, offsets_of, owners


@st.composite
def forests(draw, directed=None, max_examples=4, max_nodes=7):
    """Return edges and numbers of nodes of random forests. With ``directed``, edges point away from the root."""
    edges, lengths = [], []
    for _ in range(draw(st.integers(1, max_examples))):
        n_nodes = draw(st.integers(0, max_nodes))
        name = draw(st.permutations(range(n_nodes)))
        here = []
        for t in range(1, n_nodes):
            parent = draw(st.integers(-1, t - 1))
            if parent >= 0:
                pair = (name[parent], name[t])
                here.append(pair if directed or (directed is None and draw(st.booleans())) else pair[::-1])
        edges.append(draw(st.permutations(here)))
        lengths.append(n_nodes)
    return edges, lengths


def flatten(edges, lengths):
    pairs = [pair for here in edges for pair in here]
    return np.array(pairs, dtype=np.int32).reshape(-1, 2), offsets_of(map(len, edges)), offsets_of(lengths)


def plain_parents(edges, n_nodes):
    """Return the parent of every node of one example by the rule in the docstring of `forest_order`, None for a "
    "root."""
    neighbours = {t: set() for t in range(n_nodes)}
    incoming = dict.fromkeys(range(n_nodes), 0)
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
        incoming[b] += 1
    parent: dict[int, int | None] = {}
    for lowest in range(n_nodes):
        if lowest in parent:
            continue
        tree, queue = {lowest}, [lowest]
        while queue:
            new = neighbours[queue.pop()] - tree
            tree |= new
            queue.extend(new)
        sources = [t for t in tree if incoming[t] == 0]
        root = sources[0] if all(incoming[t] <= 1 for t in tree) else lowest
        parent[root], queue = None, [root]
        while queue:
            t = queue.pop()
            for child in neighbours[t] - parent.keys():
                parent[child] = t
                queue.append(child)
    return parent


@given(forests())
def test_order_and_parents(forest):
    edges, lengths = forest
    flat, edge_offsets, offsets = flatten(edges, lengths)
    order, parent, edge, flipped = forest_order(flat, edge_offsets, offsets)
    assert (order.dtype, parent.dtype, flipped.dtype) == (np.int32, np.int32, np.uint8)
    position = np.empty(len(order), dtype=int)
    position[order] = np.arange(len(order))
    for i, n_nodes in enumerate(lengths):
        start = offsets[i]
        assert sorted(order[start : start + n_nodes]) == list(range(start, start + n_nodes))
        expected = plain_parents(edges[i], n_nodes)
        for t in range(n_nodes):
            node = start + t
            if expected[t] is None:
                assert parent[node] == -1 and edge[node] == -1 and flipped[node] == 0
                continue
            assert parent[node] == start + expected[t]
            assert position[parent[node]] < position[node]
            assert edge_offsets[i] <= edge[node] < edge_offsets[i + 1]
            pair = (expected[t], t)
            assert tuple(flat[edge[node]]) == (pair[::-1] if flipped[node] else pair)


@given(forests(directed=True))
def test_given_parents_are_used(forest):
    flat, edge_offsets, offsets = flatten(*forest)
    forest = forest_order(flat, edge_offsets, offsets)
    shifted = flat + offsets[owners(edge_offsets)][:, None]
    expected = np.full(offsets[-1], -1)
    expected[shifted[:, 1]] = shifted[:, 0]
    assert forest.parent.tolist() == expected.tolist()
    assert not forest.flipped.any()


@given(forests())
def test_an_example_alone_has_the_same_order(forest):
    edges, lengths = forest
    together = forest_order(*flatten(edges, lengths))
    offsets = offsets_of(lengths)
    for i, here in enumerate(edges):
        alone = forest_order(*flatten([here], [lengths[i]]))
        mine = slice(offsets[i], offsets[i + 1])
        assert (together.order[mine] - offsets[i]).tolist() == alone.order.tolist()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_a_chain_is_the_forest_of_its_edges(lengths):
    edges = [[(t, t + 1) for t in range(n - 1)] for n in lengths]
    flat, edge_offsets, offsets = flatten(edges, lengths)
    assert chain_edge_offsets(offsets).tolist() == edge_offsets.tolist()
    for actual, expected in zip(chain_order(offsets), forest_order(flat, edge_offsets, offsets), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.tolist() == expected.tolist()


def test_parents_with_lower_numbers_keep_the_given_order():
    # breadth-first order would be 0 1 3 2
    forest = forest_order(*flatten([[(0, 1), (1, 2), (0, 3)]], [4]))
    assert forest.order.tolist() == [0, 1, 2, 3]


def test_a_tree_with_two_incoming_edges_hangs_from_its_lowest_node():
    # the tree 1 -> 2 <- 3 has the root 1, so the edge (3, 2) is flipped, but 0 -> 4 is not
    forest = forest_order(*flatten([[(1, 2), (3, 2), (4, 0)]], [5]))
    assert forest.parent.tolist() == [4, -1, 1, 2, -1]
    assert forest.flipped.tolist() == [0, 0, 0, 1, 0]
    assert forest.edge.tolist() == [2, -1, 0, 1, -1]


def test_a_long_path_in_any_order():
    n_nodes = 100_000
    name = np.random.default_rng(0).permutation(n_nodes)
    path = np.stack([name[:-1], name[1:]], axis=1)
    forest = forest_order(path, np.array([0, n_nodes - 1]), np.array([0, n_nodes]))
    assert (forest.order == name).all()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[(0, 1)], [(0, 1), (1, 2), (2, 0)]], r"The edges of X\[1\] close a cycle: 3 edges on 3 nodes in 1 connected"),
        ([[], [(0, 0)]], r"Edge 0 of X\[1\] is \(0, 0\), a loop"),
        ([[(0, 1), (0, 3)], []], r"Edge 1 of X\[0\] is \(0, 3\), but X\[0\] has 3 nodes, numbered from 0"),
        ([[], [(-1, 0)]], r"Edge 0 of X\[1\] is \(-1, 0\)"),
        ([[(0, 1)], [(0, 1), (1, 2), (1, 0)]], r"The edges of X\[1\] contain the pair \(0, 1\) twice"),
        ([[(0, 1)], [(1, 2), (1, 2)]], r"The edges of X\[1\] contain the pair \(1, 2\) twice"),
    ],
)
def test_messages(edges, message):
    with pytest.raises(ValueError, match=message):
        forest_order(*flatten(edges, [3, 3]))


def test_the_same_pair_in_two_examples_is_not_a_duplicate():
    check_edges(*flatten([[(0, 1)], [(0, 1)]], [2, 2]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.data())
def test_ragged_helpers(lengths, data):
    offsets = offsets_of(lengths)
    rows = data.draw(st.lists(st.integers(0, len(lengths) - 1)))
    parts = [list(range(offsets[i], offsets[i + 1])) for i in range(len(lengths))]
    positions, new_offsets = gather(offsets, np.array(rows, dtype=np.int64))
    assert positions.tolist() == [k for i in rows for k in parts[i]]
    assert new_offsets.tolist() == offsets_of([lengths[i] for i in rows]).tolist()
    assert owners(offsets).tolist() == [i for i, part in enumerate(parts) for _ in part]
    for i, part in enumerate(parts):
        assert [locate(offsets, k) for k in part] == [(i, t) for t in range(len(part))]

// Labellings of hierarchies and their features: scores, sums, and where two labellings differ.
#pragma once
#include "hierarchy_recursions.hpp"

namespace maxendnet {

// Calls `node(t, label of the parent or -1, label)` for every node, and
// `siblings(right node, label of the parent, label of the left one, label)` for every two neighbours.
template <class Label, class Node, class Siblings>
INLINE void for_cliques(const BatchView& b, const Example& e, const Label* labels, Node node, Siblings siblings) {
  for (int64_t k = 0; k < e.size; k++) {
    const int64_t p = b.parent[e.begin + k] - e.begin;
    node(e.begin + k, b.parent[e.begin + k] < 0 ? -1 : int(labels[p]), int(labels[k]));
    for (int64_t s = e.child_offsets[k] + 1; s < e.child_offsets[k + 1]; s++)
      siblings(e.begin + e.children[s], int(labels[k]), int(labels[e.children[s - 1]]), int(labels[e.children[s]]));
  }
}

template <class Label>
INLINE double score_of(const BatchView& b, const HierarchyView& m, Example& e, const Label* labels) {
  double total = 0;
  for_cliques(
      b, e, labels,
      [&](int64_t t, int parent, int label) INLINED {
        const int32_t* known = labels_of(e, t - e.begin);
        const int n = e.n_labels[t - e.begin];
        const int64_t j = std::lower_bound(known, known + n, label) - known;
        total += j < n && known[j] == label ? row_of(e.scores, e, t - e.begin)[j] : nothing;
        if (parent >= 0) total += edge_score(b, m, t, parent, label);
      },
      [&](int64_t right, int parent, int left_label, int label) INLINED {
        if (m.siblings)
          total += m.siblings[sibling_block(b, right, parent) + int64_t(left_label) * b.n_labels + label];
      });
  return total;
}

struct Gradient {
  double *node, *matrices, *siblings, *tied;
  Gradient(double* flat, const BatchView& b, const HierarchyView& m)
      : node(flat),
        matrices(flat + b.n_features * b.n_labels),
        siblings(flat + m.siblings_offset),
        tied(flat + m.tied_offset) {}
};

INLINE void add_edge(const BatchView& b, const Gradient& g, int64_t t, int parent, int label, double u) {
  const int64_t size = int64_t(b.n_labels) * b.n_labels, cell = int64_t(parent) * b.n_labels + label;
  g.matrices[b.edge_type[t] * size + cell] += u;
  for (int f = 0; f < b.n_edge_features; f++)
    g.matrices[(b.n_edge_types + f) * size + cell] += u * b.edge_features[t * b.n_edge_features + f];
}

INLINE void add_node(const BatchView& b, const Gradient& g, int64_t t, int label, double u) {
  for (int64_t x = b.indptr[t]; x < b.indptr[t + 1]; x++)
    g.node[int64_t(b.indices[x]) * b.n_labels + label] += u * b.data[x];
  for (int f = 0; f < b.n_tied; f++) g.tied[f] += u * b.label_features[(t * b.n_labels + label) * b.n_tied + f];
}

// Adds u times the features of a labelling; those of nodes only `with_nodes`.
INLINE void add_labelling(const BatchView& b, const HierarchyView& m, const Example& e, const int32_t* labels, double u,
                          bool with_nodes, const Gradient& g) {
  for_cliques(
      b, e, labels,
      [&](int64_t t, int parent, int label) INLINED {
        if (with_nodes) add_node(b, g, t, label, u);
        if (parent >= 0) add_edge(b, g, t, parent, label, u);
      },
      [&](int64_t right, int parent, int left_label, int label) INLINED {
        if (m.siblings) g.siblings[sibling_block(b, right, parent) + int64_t(left_label) * b.n_labels + label] += u;
      });
}

// Calls `add(coordinate, value)` for the features of one labelling minus those of another, where the two differ. A
// coordinate may come several times.
template <class Add>
INLINE void for_differences(const BatchView& b, const HierarchyView& m, const Example& e, const uint16_t* from,
                            const uint16_t* to, Add add) {
  const int64_t L = b.n_labels, matrices = b.n_features * L;
  const auto joint = [&](int64_t first, int64_t a, int64_t c, double value) INLINED {
    add(first + a, value);
    add(first + c, -value);
  };
  for (int64_t k = 0; k < e.size; k++) {
    const int64_t t = e.begin + k, a = from[k], c = to[k];
    if (a != c) {
      for (int64_t x = b.indptr[t]; x < b.indptr[t + 1]; x++) joint(int64_t(b.indices[x]) * L, a, c, b.data[x]);
      for (int f = 0; f < b.n_tied; f++) {
        const double* own = b.label_features + t * L * b.n_tied + f;
        add(m.tied_offset + f, own[a * b.n_tied] - own[c * b.n_tied]);
      }
    }
    const int64_t p = b.parent[t] - e.begin;
    if (b.parent[t] >= 0 && (a != c || from[p] != to[p])) {
      const int64_t cell_from = from[p] * L + a, cell_to = to[p] * L + c;
      joint(matrices + b.edge_type[t] * L * L, cell_from, cell_to, 1);
      for (int f = 0; f < b.n_edge_features; f++)
        joint(matrices + (b.n_edge_types + f) * L * L, cell_from, cell_to, b.edge_features[t * b.n_edge_features + f]);
    }
    for (int64_t s = e.child_offsets[k] + 1; m.siblings && s < e.child_offsets[k + 1]; s++) {
      const int64_t left = e.children[s - 1], right = e.children[s];
      if (a == c && from[left] == to[left] && from[right] == to[right]) continue;
      joint(m.siblings_offset, sibling_block(b, e.begin + right, int(a)) + from[left] * L + from[right],
            sibling_block(b, e.begin + right, int(c)) + to[left] * L + to[right], 1);
    }
  }
}

}  // namespace maxendnet

// Features f(x, y), computed clique by clique. Only this file defines the coordinates of a clique in a feature vector.
// Features of a labelling, differences of two labellings and expectations are loops over cliques.
#pragma once
#include <algorithm>

#include "common/common.hpp"

namespace maxendnet {

// Offsets of the segments of a feature vector (eta, a gradient, or the weights of a hierarchy):
// [ node (n_features, stride), or the pairs with weights | matrices (n_matrices, n_labels, stride) as in the public API |
//   siblings (n_edge_types, n_labels, n_labels, n_labels): parent, left child, right child |
//   label features (n_label_features) ]
struct Layout {
  int64_t stride;  // of a row of labels
  int64_t matrices, siblings, label_features;
};

// Layout of forests: rows are padded, and there are no siblings.
inline Layout padded_layout(const BatchView& b) {
  const int64_t matrices = b.node_size(), end = matrices + b.n_matrices() * b.matrix_size();
  return {b.lanes, matrices, end, end};
}

// ---- cliques --------------------------------------------------------------------------------------------------------

// Coordinate of a feature and a label, -1 if the pair has no weight.
INLINE int64_t node_place(const BatchView& b, const Layout& l, int64_t feature, int64_t label) {
  if (!b.row_offsets) return feature * l.stride + label;
  const int32_t *first = b.row_labels + b.row_offsets[feature], *last = b.row_labels + b.row_offsets[feature + 1];
  const int32_t* place = std::lower_bound(first, last, int32_t(label));
  return place < last && *place == label ? place - b.row_labels : -1;
}

// Calls add(coordinate, value, j) for the features of node t with labels[j], j < n.
template <class Label, class Add>
INLINE void node_entries(const BatchView& b, const Layout& l, int64_t t, const Label* labels, int n, Add add) {
  if (!b.row_offsets) {
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const int64_t row = int64_t(b.indices[k]) * l.stride;
      for (int j = 0; j < n; j++) add(row + labels[j], b.data[k], j);
    }
    return;
  }
  for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++)
    for (int j = 0; j < n; j++) {
      const int64_t place = node_place(b, l, b.indices[k], labels[j]);
      if (place >= 0) add(place, b.data[k], j);
    }
}
// Calls add(first coordinate of a matrix, value) for the matrices of the edge between node t and its parent. A cell is an
// offset in a matrix.
template <class Add>
INLINE void edge_matrices(const BatchView& b, const Layout& l, int64_t t, Add add) {
  const int64_t size = b.n_labels * l.stride;
  add(l.matrices + b.edge_type[t] * size, 1.0);
  for (int f = 0; f < b.n_edge_features; f++)
    add(l.matrices + (b.n_edge_types + f) * size, b.edge_features[t * b.n_edge_features + f]);
}
INLINE int64_t edge_cell(const BatchView& b, int64_t stride, int64_t t, int64_t parent, int64_t child) {
  return b.edge_kind(t) & 1 ? child * stride + parent : parent * stride + child;
}
// Cell of two neighbouring siblings in the segment of siblings; the edge type is that of the right sibling.
INLINE int64_t sibling_cell(const BatchView& b, int64_t right, int64_t parent, int64_t left_label, int64_t label) {
  return ((b.edge_type[right] * int64_t(b.n_labels) + parent) * b.n_labels + left_label) * b.n_labels + label;
}
INLINE const double* label_feature_values(const BatchView& b, int64_t t, int64_t label) {
  return b.label_features + (t * b.n_labels + label) * b.n_label_features;
}

// Calls add(coordinate, value) for every feature of a clique.
template <class Add>
INLINE void node_features(const BatchView& b, const Layout& l, int64_t t, int64_t label, Add add) {
  node_entries(b, l, t, &label, 1, [&](int64_t k, double x, int) INLINED { add(k, x); });
  for (int j = 0; j < b.n_label_features; j++) add(l.label_features + j, label_feature_values(b, t, label)[j]);
}
template <class Add>
INLINE void edge_features(const BatchView& b, const Layout& l, int64_t t, int64_t parent, int64_t child, Add add) {
  const int64_t cell = edge_cell(b, l.stride, t, parent, child);
  edge_matrices(b, l, t, [&](int64_t matrix, double x) INLINED { add(matrix + cell, x); });
}

// gradient += expected features of node t, whose labels have the probabilities p (n_labels numbers)
INLINE void node_expectation(const BatchView& b, const Layout& l, int64_t t, const double* p, double* gradient) {
  for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
    const double x = b.data[k];
    if (!b.row_offsets) {
      double* row = gradient + int64_t(b.indices[k]) * l.stride;
      for (int a = 0; a < b.n_labels; a++) row[a] += x * p[a];
      continue;
    }
    const int64_t end = b.row_offsets[b.indices[k] + 1];
    for (int64_t e = b.row_offsets[b.indices[k]]; e < end; e++) gradient[e] += x * p[b.row_labels[e]];
  }
  for (int a = 0; b.n_label_features && a < b.n_labels; a++)
    for (int j = 0; j < b.n_label_features; j++)
      gradient[l.label_features + j] += p[a] * label_feature_values(b, t, a)[j];
}

// ---- labellings -----------------------------------------------------------------------------------------------------

// Calls add(coordinate, value) for the edges of a labelling of nodes [begin, end).
template <class Label, class Add>
INLINE void labelled_edges(const BatchView& b, const Layout& l, int64_t begin, int64_t end, const Label* labels,
                           Add add) {
  for (int64_t t = begin; t < end; t++)
    if (b.parent[t] >= 0) edge_features(b, l, t, labels[b.parent[t] - begin], labels[t - begin], add);
}

// Call add(coordinate, value) for f(x, from) - f(x, to): for nodes, for edges and label features, and for all of them. A
// coordinate may be added several times.
template <class Label, class Other, class Add>
INLINE void node_differences(const BatchView& b, const Layout& l, int64_t begin, int64_t end, const Label* from,
                             const Other* to, Add add) {
  for (int64_t t = begin; t < end; t++) {
    const int64_t a = from[t - begin], c = to[t - begin];
    if (a == c) continue;
    const int64_t pair[2] = {a, c};
    node_entries(b, l, t, pair, 2, [&](int64_t k, double x, int j) INLINED { add(k, j ? -x : x); });
  }
}
template <class Label, class Other, class Add>
INLINE void edge_differences(const BatchView& b, const Layout& l, int64_t begin, int64_t end, const Label* from,
                             const Other* to, Add add) {
  for (int64_t t = begin; t < end; t++) {
    const int64_t a = from[t - begin], c = to[t - begin];
    for (int j = 0; j < b.n_label_features && a != c; j++)
      add(l.label_features + j, label_feature_values(b, t, a)[j] - label_feature_values(b, t, c)[j]);
    if (b.parent[t] < 0) continue;
    const int64_t p = b.parent[t] - begin;
    if (a == c && from[p] == to[p]) continue;
    const int64_t cell_from = edge_cell(b, l.stride, t, from[p], a), cell_to = edge_cell(b, l.stride, t, to[p], c);
    edge_matrices(b, l, t, [&](int64_t matrix, double x) INLINED {
      add(matrix + cell_from, x);
      add(matrix + cell_to, -x);
    });
  }
}
template <class Label, class Other, class Add>
INLINE void differences(const BatchView& b, const Layout& l, int64_t begin, int64_t end, const Label* from,
                        const Other* to, Add add) {
  node_differences(b, l, begin, end, from, to, add);
  edge_differences(b, l, begin, end, from, to, add);
}

// ---- weights of the search, with both orientations of matrices (Weights in common.hpp) ------------------------------

// Sets the weight of a coordinate of eta.
template <class R>
INLINE void set_weight(const BatchView& b, const Layout& l, int64_t k, R value, R* weights) {
  if (k < l.matrices) {
    weights[k] = value;
  } else if (k < l.label_features) {
    const int64_t size = b.matrix_size(), m = (k - l.matrices) / size, cell = (k - l.matrices) % size;
    R* pair = weights + l.matrices + 2 * m * size;
    pair[cell] = value;
    pair[size + (cell % b.lanes) * b.lanes + cell / b.lanes] = value;
  } else {
    weights[k + l.label_features - l.matrices] = value;
  }
}

}  // namespace maxendnet

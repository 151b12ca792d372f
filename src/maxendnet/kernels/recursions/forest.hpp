// Scores and recursions of forests. A chain is a forest in which node t has parent t - 1; an isolated node is a root
// without children. The pass from leaves to roots (`up`) sends messages over a semiring: max-plus is here, sums are in
// sum_product.hpp. The pass from roots to leaves finds labels (`label_down`) or marginals.
//
// No back-pointers are stored: on the way down the best child label is recomputed from one row, which is cheaper.
#pragma once
#include <algorithm>

#include "common/features.hpp"
#include "common/kernels.hpp"

namespace maxendnet {

template <class R>
struct Workspace {
  int64_t n = 0;
  Rows<R> scores;    // (n, lanes) node scores; the up pass replaces them by beliefs
  Rows<R> messages;  // (n, lanes) message of a node to its parent, indexed by the parent's label
  Rows<R> ratios;    // (n, lanes) marginal of the parent divided by the message
  Rows<R> results;   // (n, lanes) marginals or max-marginals
  Rows<R> matrices;  // (n, 2, n_labels, lanes) matrix of every edge; only with edge features
  Rows<R> zeros;     // (lanes)
  std::vector<int32_t> labels;

  void fit(int64_t n_nodes, const BatchView& b) {
    zeros.resize(b.lanes);
    if (n_nodes <= n) return;
    n = n_nodes;
    const size_t size = size_t(n) * b.lanes;
    for (auto* rows : {&scores, &messages, &ratios, &results}) rows->resize(size);
    labels.resize(n);
    if (b.n_edge_features) matrices.resize(size_t(n) * 2 * b.matrix_size());
  }
};

// The two orientations of the matrix on the edge from node t to its parent.
template <class R>
struct EdgeMatrix {
  const R* by_parent;  // row: label of the parent
  const R* by_child;
};

template <class R>
INLINE EdgeMatrix<R> edge_matrix(const BatchView& b, const R* shared, const R* per_edge, int64_t t, int64_t local) {
  const int64_t size = b.matrix_size(), kind = b.edge_kind(t);
  const R* pair = b.n_edge_features ? per_edge + local * 2 * size : shared + (kind & ~int64_t(1)) * size;
  return {pair + (kind & 1) * size, pair + (1 - (kind & 1)) * size};
}

// ---- scores ---------------------------------------------------------------------------------------------------------

template <class R, int W>
INLINE void score_lanes(int a0, bool ones, const BatchView& b, const Weights<R>& w, int64_t t, R* out) {
  constexpr int n = width<R>;
  V<R> sum[W / n];
  weighted_sum<R, W>(
      b.indptr[t], b.indptr[t + 1], [&](int64_t k) INLINED { return ones ? R(1) : R(b.data[k]); },
      [&](int64_t k) INLINED { return w.node + int64_t(b.indices[k]) * b.lanes + a0; }, sum);
  for (int a = 0; a < W / n; a++) store(out + a0 + a * n, sum[a]);
}

// The same for layouts in which only seen pairs have weights.
template <class R>
INLINE void score_seen(const BatchView& b, const Weights<R>& w, int64_t t, R* out) {
  std::fill(out, out + b.lanes, R(0));
  for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
    const R x = R(b.data[k]);
    const int64_t end = b.row_offsets[b.indices[k] + 1];
    for (int64_t e = b.row_offsets[b.indices[k]]; e < end; e++) out[b.row_labels[e]] += x * w.node[e];
  }
}

// Node scores of one example. `forbid` sets the scores of forbidden labels and of the padding to -inf.
template <class R>
INLINE void score_nodes(const BatchView& b, const Weights<R>& w, int64_t begin, int64_t end, R* scores) {
  for (int64_t t = begin; t < end; t++) {
    R* out = scores + (t - begin) * b.lanes;
    if (b.row_offsets) score_seen(b, w, t, out);
    else if (b.ones) FOR_LANES(score_lanes, R, b.lanes, true, b, w, t, out);
    else FOR_LANES(score_lanes, R, b.lanes, false, b, w, t, out);
    for (int a = 0; b.n_label_features && a < b.n_labels; a++) {
      const double* f = b.label_features + (t * b.n_labels + a) * b.n_label_features;
      R sum = 0;
      for (int j = 0; j < b.n_label_features; j++) sum += w.label_features[j] * R(f[j]);
      out[a] += sum;
    }
  }
}

template <class R>
INLINE void forbid(const BatchView& b, int64_t begin, int64_t end, R* scores) {
  for (int64_t t = begin; t < end; t++) {
    R* out = scores + (t - begin) * b.lanes;
    for (int a = b.n_labels; a < b.lanes; a++) out[a] = minus_infinity<R>;
    if (b.allowed)
      for (int a = 0; a < b.n_labels; a++)
        if (!b.allowed[t * b.n_labels + a]) out[a] = minus_infinity<R>;
  }
}

// With edge features every edge has its own matrix: transitions of its type plus features times their weights.
template <class R>
INLINE void build_matrices(const BatchView& b, const R* shared, int64_t begin, int64_t end, R* per_edge) {
  const int64_t pair = 2 * b.matrix_size();
  for (int64_t t = begin; t < end; t++) {
    if (b.parent[t] < 0) continue;
    R* out = per_edge + (t - begin) * pair;
    const R* transitions = shared + int64_t(b.edge_type[t]) * pair;
    for (int64_t k = 0; k < pair; k++) out[k] = transitions[k];
    for (int f = 0; f < b.n_edge_features; f++) {
      const R x = R(b.edge_features[t * b.n_edge_features + f]);
      const R* weights = shared + int64_t(b.n_edge_types + f) * pair;
      if (x != 0)
        for (int64_t k = 0; k < pair; k++) out[k] += x * weights[k];
    }
  }
}

// Computes the scores of one example, with costs unless null, and the matrices of its edges.
template <class R>
INLINE void prepare(const BatchView& b, const Weights<R>& w, const R* cost, int64_t begin, int64_t end,
                    Workspace<R>& work) {
  work.fit(end - begin, b);
  R* scores = work.scores.data();
  score_nodes(b, w, begin, end, scores);
  for (int64_t t = begin; cost && t < end; t++)
    add_row(scores + (t - begin) * b.lanes, cost + int64_t(b.row[t]) * b.lanes, b.lanes);
  forbid(b, begin, end, scores);
  if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, work.matrices.data());
}

// Score of a labelling of nodes [begin, end), given the node scores before the up pass. Scores, matrices of edges and
// labels begin at node `origin`.
template <class R, class Label>
INLINE double score_of(const BatchView& b, const R* shared, const R* per_edge, int64_t origin, int64_t begin,
                       int64_t end, const R* scores, const Label* labels) {
  double total = 0;
  for (int64_t t = begin; t < end; t++) {
    const int64_t label = labels[t - origin];
    total += double(scores[(t - origin) * b.lanes + label]);
    if (b.parent[t] >= 0)
      total += double(edge_matrix(b, shared, per_edge, t, t - origin)
                          .by_parent[int64_t(labels[b.parent[t] - origin]) * b.lanes + label]);
  }
  return total;
}

// Interleaves pairs of examples: at every node a recursion depends on the previous node, and work on a second example
// hides this latency. Two examples are a forest whose nodes are visited alternately. The returned batch has this order for
// examples [first, last): the first with the second, the third with the fourth, and so on.
INLINE BatchView in_pairs(BatchView b, int64_t first, int64_t last, std::vector<int32_t>& order) {
  const int64_t begin = b.offsets[first];
  order.resize(b.offsets[last] - begin);
  int32_t* out = order.data();
  for (int64_t i = first; i < last; i += 2) {
    const int32_t *left = b.order + b.offsets[i], *right = b.order + b.offsets[i + 1], *middle = right;
    const int32_t* end = b.order + b.offsets[std::min(i + 2, last)];
    while (left < middle && right < end) *out++ = *left++, *out++ = *right++;
    out = std::copy(right, end, std::copy(left, middle, out));
  }
  b.order = order.data() - begin;
  return b;
}

// ---- recursions -----------------------------------------------------------------------------------------------------

// Replaces node scores by beliefs: the score of a node combined with its subtree. The semiring defines `root(t, belief)`
// and `join(t, local, belief, above)`, which adds the message of node t to the belief of its parent.
template <class R, class Semiring>
INLINE void up(const BatchView& b, int64_t begin, int64_t end, R* beliefs, Semiring& s) {
  for (int64_t k = end - 1; k >= begin; k--) {
    const int64_t t = b.order[k], p = b.parent[t];
    const R* belief = beliefs + (t - begin) * b.lanes;
    if (p < 0) s.root(t, belief);
    else s.join(t, t - begin, belief, beliefs + (p - begin) * b.lanes);
  }
}

// Chooses labels from the roots down: `pick(t, row)` chooses a label, where `row` is the row of the parent's label in the
// matrix of the edge, or `root`.
template <class R, class Pick>
INLINE void label_down(const BatchView& b, const R* shared, const R* per_edge, const R* root, int64_t begin,
                       int64_t end, int32_t* labels, Pick pick) {
  for (int64_t k = begin; k < end; k++) {
    const int64_t t = b.order[k], p = b.parent[t];
    const R* row = root;
    if (p >= 0) row = edge_matrix(b, shared, per_edge, t, t - begin).by_parent + int64_t(labels[p - begin]) * b.lanes;
    labels[t - begin] = pick(t, row);
  }
}

// ---- max-plus -------------------------------------------------------------------------------------------------------

template <class R, int W>
INLINE void max_lanes(int a0, const R* matrix, const R* belief, int n_labels, int lanes, R* out) {
  constexpr int n = width<R>;
  V<R> best[W / n];
  for (int a = 0; a < W / n; a++) best[a] = spread(minus_infinity<R>);
  for (int c = 0; c < n_labels; c++) {
    const R s = belief[c];
    const R* row = matrix + int64_t(c) * lanes + a0;
    for (int a = 0; a < W / n; a++) {
      const V<R> v = load(row + a * n) + s;
      best[a] = larger(v, best[a]);
    }
  }
  for (int a = 0; a < W / n; a++) store(out + a0 + a * n, best[a]);
}

// First lane with value `top`, where `value(a)` is the register that begins at lane a.
template <class R, class Value>
INLINE int32_t first_lane(int lanes, R top, Value value) {
  if (lanes == 32)  // unrolled
    return first_bit(lanes_where<R>(32, [&](int a) INLINED { return value(a) == spread(top); }) | 1u << 31);
  for (int a0 = 0; a0 < lanes; a0 += 32) {
    const uint32_t bits =
        lanes_where<R>(std::min(32, lanes - a0), [&](int a) INLINED { return value(a0 + a) == spread(top); });
    if (bits) return a0 + first_bit(bits);
  }
  return 0;
}

// Max-plus semiring. If messages are not kept, they share one row.
template <class R, bool KeepMessages>
struct MaxPlus {
  const BatchView& b;
  const R *shared, *per_edge;
  R* messages;

  INLINED void root(int64_t, const R*) {}
  INLINED void join(int64_t t, int64_t local, const R* belief, R* above) {
    R* message = messages + (KeepMessages ? local * b.lanes : 0);
    const R* matrix = edge_matrix(b, shared, per_edge, t, local).by_child;
    FOR_LANES(max_lanes, R, b.lanes, matrix, belief, b.n_labels, b.lanes, message);
    // if messages are not kept, only differences matter: subtract large values, so that float32 keeps its digits
    if (!KeepMessages && std::fabs(message[0]) > 512) {
      const R top = lane_max(message, b.lanes);
      for (int a = 0; a < b.lanes && std::isfinite(top); a++) message[a] -= top;
    }
    add_row(above, message, b.lanes);
  }
};

// Returns the largest u + v. Beyond lane n, u may have any value except NaN, and v is -inf.
template <class R>
INLINE R row_max(const R* u, const R* v, int n) {
  V<R> top = load(u) + load(v);
  for (int a = width<R>; a < n; a += width<R>) top = larger(load(u + a) + load(v + a), top);
  return lane_max(top);
}

// First index of the largest u + v.
template <class R>
INLINE int32_t best_label(const R* u, const R* v, int lanes) {
  return first_lane<R>(lanes, row_max(u, v, lanes), [&](int a) INLINED { return load(u + a) + load(v + a); });
}

// Returns the labelling with the largest score. Call `prepare` first.
template <class R>
INLINE void best_labelling(const BatchView& b, const Weights<R>& w, int64_t begin, int64_t end, Workspace<R>& work,
                           int32_t* labels) {
  R *beliefs = work.scores.data(), *per_edge = work.matrices.data();
  MaxPlus<R, false> semiring{b, w.matrix, per_edge, work.messages.data()};
  up(b, begin, end, beliefs, semiring);
  // with NaN scores no lane is equal to the maximum, and the index may be in the padding
  label_down(b, w.matrix, per_edge, work.zeros.data(), begin, end, labels, [&](int64_t t, const R* row) INLINED {
    return std::min(best_label(row, beliefs + (t - begin) * b.lanes, b.lanes), b.n_labels - 1);
  });
}

}  // namespace maxendnet

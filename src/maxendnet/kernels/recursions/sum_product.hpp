// Sum-product on forests: log Z and marginals, with scaled probabilities or logarithms.
#pragma once
#include <type_traits>

#include "recursions/forest.hpp"

namespace maxendnet {

// ---- sum-product, scaled --------------------------------------------------------------------------------------------

template <class R, int W>
INLINE void product_lanes(int a0, const R* matrix, const R* belief, int n_labels, int lanes, R* out) {
  constexpr int n = width<R>;
  V<R> sum[W / n];
  weighted_sum<R, W>(
      0, n_labels, [&](int64_t c) INLINED { return belief[c]; },
      [&](int64_t c) INLINED { return matrix + c * lanes + a0; }, sum);
  for (int a = 0; a < W / n; a++) store(out + a0 + a * n, sum[a]);
}

// out = exp(matrix - its maximum), with 0 in the padding; returns the maximum. If all entries are -inf, out is 0.
template <class R>
INLINE double exp_matrix(const R* matrix, int n_labels, int lanes, R* out) {
  R top = minus_infinity<R>;
  for (int c = 0; c < n_labels; c++)
    for (int a = 0; a < n_labels; a++) top = std::max(top, matrix[int64_t(c) * lanes + a]);
  const R shift = top > minus_infinity<R> ? top : R(0);
  for (int c = 0; c < n_labels; c++) {
    const int64_t row = int64_t(c) * lanes;
    for (int a = 0; a < lanes; a += width<R>) store(out + row + a, exp_negative(load(matrix + row + a) - shift));
    for (int a = n_labels; a < lanes; a++) out[row + a] = 0;
  }
  return double(shift);
}

// Subtracts row and column terms, which can be added to the node scores instead: out = matrix - row - column. The range of
// `out` is often half as large. (BoundForest.centred_range computes the same sums.)
template <class R>
INLINE void centre(const R* matrix, int n_labels, int lanes, R* out, R* row, R* column) {
  std::fill(row, row + lanes, R(0));
  std::fill(column, column + lanes, R(0));
  const auto middle = [n_labels](auto entry) INLINED {  // mid-range of the finite entries, 0 if there are none
    R low = std::numeric_limits<R>::infinity(), high = -low;
    for (int k = 0; k < n_labels; k++) {
      const R x = entry(k);
      if (std::isfinite(x)) low = std::min(low, x), high = std::max(high, x);
    }
    return low <= high ? R(0.5) * (low + high) : R(0);
  };
  for (int turn = 0; turn < 4; turn++) {
    for (int c = 0; c < n_labels; c++)
      row[c] = middle([&](int a) INLINED { return matrix[int64_t(c) * lanes + a] - column[a]; });
    for (int a = 0; a < n_labels; a++)
      column[a] = middle([&](int c) INLINED { return matrix[int64_t(c) * lanes + a] - row[c]; });
  }
  for (int c = 0; c < n_labels; c++)
    for (int a = 0; a < lanes; a++) {
      const int64_t k = int64_t(c) * lanes + a;
      out[k] = matrix[k] - row[c] - column[a];
    }
}

// Logarithm of a product of many scales, taken only when the product comes near the limits of a double. A single scale is
// at least exp(-320) = 1e-139 (see BoundForest.mode).
struct LogScale {
  double log = 0, product = 1;
  INLINE void multiply(LogScale& s, double c) {
    s.product *= c;
    if (s.product < 1e-100 || s.product > 1e100) {
      s.log += std::log(s.product);
      s.product = 1;
    }
  }
  double total() const { return log + std::log(product); }
};

// Beliefs are probabilities, scaled to sum to one. Nodes from `middle` on belong to the second of two examples.
template <class R>
struct ScaledSum {
  const BatchView& b;
  const R *shared, *per_edge;  // matrices from exp_matrix, and the maxima that it subtracted
  const double *shift_shared, *shift_per_edge;
  R* messages;
  int64_t middle;
  LogScale scales[2];

  INLINED LogScale& scale(int64_t t) { return scales[t >= middle]; }
  INLINED void root(int64_t t, const R* belief) { LogScale::multiply(scale(t), double(lane_sum(belief, b.lanes))); }
  INLINED void join(int64_t t, int64_t local, const R* belief, R* above) {
    R* message = messages + local * b.lanes;
    const R* matrix = edge_matrix(b, shared, per_edge, t, local).by_child;
    FOR_LANES(product_lanes, R, b.lanes, matrix, belief, b.n_labels, b.lanes, message);
    multiply_row(above, message, b.lanes);
    const R c = lane_sum(above, b.lanes);
    scale_row(above, c > 0 ? R(1) / c : R(0), b.lanes);
    LogScale::multiply(scale(t), double(c));
    scale(t).log += b.n_edge_features ? shift_per_edge[local] : shift_shared[b.edge_type[t]];
  }
};

// ---- sum-product with logarithms: slower, for scores for which the scaled form would underflow ------------------------

// Bits of the lanes a0 to a0 + 31 whose terms exp(u + v - top) are not negligible compared to 1. Scores that need
// logarithms have a wide range, so that most terms are negligible.
template <class R>
INLINE uint32_t relevant_lanes(const R* u, const R* v, R top, int a0, int n) {
  return lanes_where<R>(std::min(32, n - a0),
                        [&](int a) INLINED { return load(u + a0 + a) + load(v + a0 + a) >= top - 40; });
}

template <class R>
INLINE double log_sum_row(const R* u, const R* v, int n) {
  const R top = row_max(u, v, n);
  if (!(top > minus_infinity<R>)) return double(top);
  V<R> sum = {};
  for (int a0 = 0; a0 < n; a0 += 32) {
    const uint32_t bits = relevant_lanes(u, v, top, a0, n);
    if (n <= 32 && !(bits & (bits - 1))) return double(top);  // one term, the most frequent case
    for (int a = 0; a < 32 && bits >> a; a += width<R>)
      if (bits >> a & ((1u << width<R>)-1)) sum += exp_negative(load(u + a0 + a) + load(v + a0 + a) - top);
  }
  return double(top) + std::log(double(lane_sum(sum)));
}

template <class R>
struct LogSum {
  const BatchView& b;
  const R *shared, *per_edge, *zeros;
  double total;

  INLINED void root(int64_t, const R* belief) { total += log_sum_row(belief, zeros, b.n_labels); }
  INLINED void join(int64_t t, int64_t local, const R* belief, R* above) {
    const R* matrix = edge_matrix(b, shared, per_edge, t, local).by_parent;
    for (int a = 0; a < b.n_labels; a++) above[a] += R(log_sum_row(matrix + int64_t(a) * b.lanes, belief, b.n_labels));
  }
};

// Conditional distribution of a node given the label of its parent (or of a root), from log beliefs. Normalised by
// division, because the logarithm of the sum would be lost when added to a large score.
template <class R>
INLINE void conditional(const R* row, const R* belief, int n, double* out) {
  const R top = row_max(row, belief, n);
  std::fill(out, out + n, 0.0);
  if (!(top > minus_infinity<R>)) return;
  double sum = 0;
  for (int a0 = 0; a0 < n; a0 += 32) {
    const uint32_t bits = relevant_lanes(row, belief, top, a0, n);
    for (int a = 0; a < 32 && bits >> a; a += width<R>) {
      if (!(bits >> a & ((1u << width<R>)-1))) continue;
      const V<R> e = exp_negative(load(row + a0 + a) + load(belief + a0 + a) - top);
      for (int k = 0; k < width<R> && a0 + a + k < n; k++) sum += out[a0 + a + k] = double(e[k]);
    }
  }
  for (int a = 0; a < n; a++) out[a] /= sum;
}

// ---- both, up and down ------------------------------------------------------------------------------------------------

// Sum-product in one of two modes. For each example: `prepare` its scores in `work`, then `sum_up`, then `sum_down`.
template <class R>
struct SumProduct {
  Mode mode = scaled;
  Workspace<R> work;
  const R* plain = nullptr;  // matrices of edge types
  // mode `scaled`: exponentials of the matrices, and the subtracted maxima
  Rows<R> exp_shared, exp_per_edge;
  std::vector<double> shift_shared, shift_per_edge;
  std::vector<double> joint;  // (lanes) a row of an edge's marginals

  const R* shared() const { return mode == scaled ? exp_shared.data() : plain; }
  const R* per_edge() const { return mode == scaled ? exp_per_edge.data() : work.matrices.data(); }
};

// Updates both orientations of the matrix of an edge type.
template <class R>
INLINE void set_type(const BatchView& b, int m, SumProduct<R>& s) {
  for (int64_t k = 2 * m * b.matrix_size(), side = 0; side < 2; side++, k += b.matrix_size())
    s.shift_shared[m] = exp_matrix(s.plain + k, b.n_labels, b.lanes, s.exp_shared.data() + k);
}

template <class R>
INLINE void set_shared(const BatchView& b, Mode mode, const R* matrices, SumProduct<R>& s) {
  s.mode = mode == careful ? scaled : mode;
  s.plain = matrices;
  s.joint.assign(b.lanes, 0.0);
  if (mode == logarithmic || b.n_edge_features) return;
  s.exp_shared.resize(size_t(b.n_edge_types) * 2 * b.matrix_size());
  s.shift_shared.resize(b.n_edge_types);
  for (int m = 0; m < b.n_edge_types; m++) set_type(b, m, s);
}

// Replaces scores by beliefs (scaled, or logarithms) and returns log Z. In mode `scaled`, nodes from `middle` on may belong to
// a second example, whose log Z is stored in `second`. Not inlined, because of a bug in GCC 12 (for x86-64-v4).
template <class R>
double sum_up(const BatchView& b, int64_t begin, int64_t middle, int64_t end, SumProduct<R>& s, double* second) {
  Workspace<R>& work = s.work;
  R* beliefs = work.scores.data();
  if (s.mode == logarithmic) {
    LogSum<R> semiring{b, s.shared(), s.per_edge(), work.zeros.data(), 0.0};
    up(b, begin, end, beliefs, semiring);
    return semiring.total;
  }
  if (b.n_edge_features) {
    const int64_t size = b.matrix_size();
    s.exp_per_edge.resize(std::max(s.exp_per_edge.size(), size_t(end - begin) * 2 * size));
    s.shift_per_edge.resize(std::max(s.shift_per_edge.size(), size_t(end - begin)));
    for (int64_t t = begin; t < end; t++)
      for (int side = 0; side < 2 && b.parent[t] >= 0; side++) {
        const int64_t k = (2 * (t - begin) + side) * size;
        s.shift_per_edge[t - begin] =
            exp_matrix(work.matrices.data() + k, b.n_labels, b.lanes, s.exp_per_edge.data() + k);
      }
  }
  ScaledSum<R> semiring{
      b, s.shared(), s.per_edge(), s.shift_shared.data(), s.shift_per_edge.data(), work.messages.data(), middle, {}};
  for (int64_t t = begin; t < end; t++) {
    R* row = beliefs + (t - begin) * b.lanes;
    const R top = lane_max(row, b.lanes);
    semiring.scale(t).log += double(top);
    for (int a = 0; a < b.lanes; a += width<R>) store(row + a, exp_negative(load(row + a) - top));
  }
  up(b, begin, end, beliefs, semiring);
  if (middle < end) *second = semiring.scales[1].total();
  return semiring.scales[0].total();
}
template <class R>
INLINE double sum_up(const BatchView& b, int64_t begin, int64_t end, SumProduct<R>& s) {
  return sum_up(b, begin, end, end, s, nullptr);
}

// With forbidden pairs, a path with a low score at one node may be the only one that can be completed. So with mode
// `careful` no product may come near underflow: the range of the scores of a node, and of matrices (forest.py), is at most
// `widest_node`, and beliefs are 0 or at least `least_belief`.
constexpr double widest_node = 230, least_belief = 1e-100;

template <class R>
INLINE bool narrow_nodes(const BatchView& b, int64_t begin, int64_t end, const R* scores, double widest) {
  bool narrow = true;
  for (int64_t t = 0; t < end - begin; t++) {
    const R* row = scores + t * b.lanes;
    const R low = lane_max(row, b.lanes) - R(widest);
    for (int a = 0; a < b.lanes; a++) narrow &= !(row[a] < low) | !(row[a] > minus_infinity<R>);
  }
  return narrow;
}

// The largest range of node scores without underflow in float32, for chains in which any label can follow any other after
// `steps` nodes and labels are restricted at the first and the last node only. Joining the best path from any label costs at
// most `steps` times the range of nodes and edges, and there are n_labels paths for each step.
template <class R>
INLINE double widest_in_single(const BatchView& b, const SumProduct<R>& s, int steps) {
  double least = 1;
  for (size_t k = 0; k < s.exp_shared.size(); k++) {
    if (int64_t(k) % b.lanes >= b.n_labels || !(s.plain[k] > minus_infinity<R>)) continue;
    least = std::min(least, double(s.exp_shared[k]));
  }
  return least > 0 ? 80.0 / steps - std::log(double(b.n_labels)) + std::log(least) : -1;
}

// As sum_up, in the mode that is safe for this example; `restore(scores)` restores the scores after an attempt.
template <class R, class Restore>
INLINE double sum_up_carefully(const BatchView& b, int64_t begin, int64_t end, SumProduct<R>& s, Restore restore) {
  R* beliefs = s.work.scores.data();
  s.mode = scaled;
  if (narrow_nodes(b, begin, end, beliefs, widest_node)) {
    const double total = sum_up(b, begin, end, s);
    bool safe = std::isfinite(total);
    for (int64_t k = 0; k < (end - begin) * b.lanes; k++)
      safe &= !(double(beliefs[k]) < least_belief) | !(beliefs[k] > R(0));
    if (safe) return total;
  }
  restore(beliefs);
  s.mode = logarithmic;
  return sum_up(b, begin, end, s);
}

struct NoRows {
  void operator()(int64_t, int, const double*) const {}
};

// Stores the marginals of all nodes in `results`. on_row(t, a, p) gets the marginals of the edge above t for label a of the
// parent, in a row of `lanes`. In mode `logarithmic`, labels of parents with a probability below `least` are skipped. In mode
// `scaled`, the marginal of an edge is ratio[parent] * matrix[parent, child] * belief[child].
template <class R, class OnRow>
INLINE void sum_down(const BatchView& b, int64_t begin, int64_t end, double least, SumProduct<R>& s, OnRow on_row) {
  const R *beliefs = s.work.scores.data(), *shared = s.shared(), *per_edge = s.per_edge();
  R* marginals = s.work.results.data();
  double* joint = s.joint.data();
  const int n = b.n_labels, lanes = b.lanes;
  for (int64_t k = begin; k < end; k++) {
    const int64_t t = b.order[k], p = b.parent[t], local = t - begin;
    const R* belief = beliefs + local * lanes;
    R* marginal = marginals + local * lanes;
    if (p < 0 && s.mode == scaled) {
      const R c = lane_sum(belief, lanes), inverse = c > 0 ? R(1) / c : R(0);
      for (int a = 0; a < lanes; a += width<R>) store(marginal + a, load(belief + a) * inverse);
      continue;
    }
    if (p < 0) {
      conditional(s.work.zeros.data(), belief, n, joint);
      std::copy(joint, joint + lanes, marginal);
      continue;
    }
    const R *above = marginals + (p - begin) * lanes, *matrix = edge_matrix(b, shared, per_edge, t, local).by_parent;
    if (s.mode == scaled) {
      const R* message = s.work.messages.data() + local * lanes;
      R* ratio = s.work.ratios.data() + local * lanes;
      for (int a = 0; a < lanes; a += width<R>) {
        const V<R> m = load(message + a), q = load(above + a) / m;
        store(ratio + a, select(m > R(0), q, V<R>{}));
      }
      FOR_LANES(product_lanes, R, lanes, matrix, ratio, n, lanes, marginal);
      multiply_row(marginal, belief, lanes);
      for (int a = 0; a < n && !std::is_same_v<OnRow, NoRows>; a++) {
        const R* row = matrix + int64_t(a) * lanes;
        for (int c = 0; c < lanes; c++) joint[c] = double(ratio[a]) * double(row[c]) * double(belief[c]);
        on_row(t, a, joint);
      }
      continue;
    }
    std::fill(marginal, marginal + lanes, R(0));
    for (int a = 0; a < n; a++) {
      if (double(above[a]) < least) continue;
      conditional(matrix + int64_t(a) * lanes, belief, n, joint);
      for (int c = 0; c < n; c++) marginal[c] += R(joint[c] *= double(above[a]));
      on_row(t, a, joint);
    }
  }
}

// out[p, :] += sum over edges of ratio[p] * belief[:], for one row p: a matrix product kept in registers.
template <class R, int W>
INLINE void outer_lanes(int a0, const R* ratios, const R* beliefs, const int64_t* edges, int64_t n_edges, int n_labels,
                        int lanes, R* out) {
  constexpr int n = width<R>;
  for (int p = 0; p < n_labels; p++) {
    R* row = out + int64_t(p) * lanes + a0;
    V<R> sum[W / n];
    for (int a = 0; a < W / n; a++) sum[a] = load(row + a * n);
    for (int64_t e = 0; e < n_edges; e++) {
      const R r = ratios[edges[e] + p];
      const R* belief = beliefs + edges[e] + a0;
      for (int a = 0; a < W / n; a++) sum[a] += r * load(belief + a * n);
    }
    for (int a = 0; a < W / n; a++) store(row + a * n, sum[a]);
  }
}

// outer[kind] += sum over the edges of a kind of ratio (of the parent) times belief (of the child), after `sum_down` in mode
// `scaled`. Multiplied by the matrix of the kind these are the sums of marginals. `rows` is scratch space.
template <class R>
INLINE void add_outer(const BatchView& b, int64_t begin, int64_t end, const SumProduct<R>& s,
                      std::vector<int64_t>& rows, R* outer) {
  for (int64_t t = begin; t < end;) {
    rows.clear();  // consecutive edges of one kind, as offsets of their rows in ratios and beliefs
    int64_t kind = -1;
    for (; t < end; t++) {
      if (b.parent[t] < 0) continue;
      if (kind >= 0 && b.edge_kind(t) != kind) break;
      kind = b.edge_kind(t);
      rows.push_back((t - begin) * b.lanes);
    }
    if (rows.empty()) break;
    FOR_LANES(outer_lanes, R, b.lanes, s.work.ratios.data(), s.work.scores.data(), rows.data(), int64_t(rows.size()),
              b.n_labels, b.lanes, outer + kind * b.matrix_size());
  }
}

}  // namespace maxendnet

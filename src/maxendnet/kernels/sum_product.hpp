// Sum-product on a forest: log Z and marginals, with scaled probabilities or with logarithms.
#pragma once
#include "forest.hpp"

namespace maxendnet {

// ---- sum-product, scaled --------------------------------------------------------------------------------------------

template <class R, int W>
INLINE void product_block(int a0, const R* matrix, const R* belief, int n_labels, int lanes, R* out) {
  constexpr int n = width<R>;
  V<R> sum[W / n];
  weighted_sum<R, W>(
      0, n_labels, [&](int64_t c) INLINED { return belief[c]; },
      [&](int64_t c) INLINED { return matrix + c * lanes + a0; }, sum);
  for (int a = 0; a < W / n; a++) store(out + a0 + a * n, sum[a]);
}

// exp(matrix - its maximum), with 0 in the padding; returns the maximum. A matrix of -inf alone gives zeros.
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

// A matrix without what belongs to its rows and columns alone: out = matrix - row - column, whose range is often half as
// large (Forest.centred_range does the same sums). Row and column go to the scores of the nodes, which may be far apart.
template <class R>
INLINE void centre(const R* matrix, int n_labels, int lanes, R* out, R* row, R* column) {
  std::fill(row, row + lanes, R(0));
  std::fill(column, column + lanes, R(0));
  const auto middle = [n_labels](auto entry) INLINED {  // of the finite entries; 0 if there is none
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

// A product of many scales, whose logarithm is taken only when it threatens to leave the range of a double: a single scale
// is at least exp(-320) = 1e-139 (Forest.mode: a chain has the widest range).
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

// Up: node scores become beliefs, scaled to sum one; returns log Z. `exp_shared` and `shift` come from exp_matrix.
template <class R>
INLINE double sum_up(const BatchView& b, const R* exp_shared, const R* exp_own, const double* shift_shared,
                     const double* shift_own, int64_t begin, int64_t end, R* beliefs, R* messages) {
  LogScale scale;
  for (int64_t t = begin; t < end; t++) {
    R* s = beliefs + (t - begin) * b.lanes;
    const R top = lane_max(s, b.lanes);
    scale.log += double(top);
    for (int a = 0; a < b.lanes; a += width<R>) store(s + a, exp_negative(load(s + a) - top));
  }
  for (int64_t k = end - 1; k >= begin; k--) {
    const int64_t t = b.order[k], p = b.parent[t];
    const R* belief = beliefs + (t - begin) * b.lanes;
    if (p < 0) {
      LogScale::multiply(scale, double(lane_sum(belief, b.lanes)));
      continue;
    }
    R* message = messages + (t - begin) * b.lanes;
    const R* matrix = edge_matrix(b, exp_shared, exp_own, t, t - begin).by_child;
    FOR_LANES(product_block, R, b.lanes, matrix, belief, b.n_labels, b.lanes, message);
    R* target = beliefs + (p - begin) * b.lanes;
    multiply_row(target, message, b.lanes);
    const R c = lane_sum(target, b.lanes);
    scale_row(target, c > 0 ? R(1) / c : R(0), b.lanes);
    LogScale::multiply(scale, double(c));
    scale.log += b.n_edge_features ? shift_own[t - begin] : shift_shared[b.edge_type[t]];
  }
  return scale.total();
}

// Down: marginals, and the ratios r such that the marginal of an edge is r[parent] * matrix[parent, child] * belief[child].
template <class R>
INLINE void sum_down(const BatchView& b, const R* exp_shared, const R* exp_own, int64_t begin, int64_t end,
                     const R* beliefs, const R* messages, R* ratios, R* marginals) {
  for (int64_t k = begin; k < end; k++) {
    const int64_t t = b.order[k], p = b.parent[t];
    const R* belief = beliefs + (t - begin) * b.lanes;
    R* marginal = marginals + (t - begin) * b.lanes;
    if (p < 0) {
      const R c = lane_sum(belief, b.lanes);
      const R inverse = c > 0 ? R(1) / c : R(0);
      for (int a = 0; a < b.lanes; a += width<R>) store(marginal + a, load(belief + a) * inverse);
      continue;
    }
    const R* message = messages + (t - begin) * b.lanes;
    const R* above = marginals + (p - begin) * b.lanes;
    R* ratio = ratios + (t - begin) * b.lanes;
    for (int a = 0; a < b.lanes; a += width<R>) {
      const V<R> m = load(message + a), q = load(above + a) / m;
      store(ratio + a, m > R(0) ? q : V<R>{});
    }
    const R* matrix = edge_matrix(b, exp_shared, exp_own, t, t - begin).by_parent;
    FOR_LANES(product_block, R, b.lanes, matrix, ratio, b.n_labels, b.lanes, marginal);
    multiply_row(marginal, belief, b.lanes);
  }
}

// ---- sum-product, in logarithms: slower, for scores so far apart that the scaled form would underflow ------------------

// Lanes beyond n may hold anything but NaN in u, and hold -inf in v.
template <class R>
INLINE R row_max(const R* u, const R* v, int n) {
  V<R> top = load(u) + load(v);
  for (int a = width<R>; a < n; a += width<R>) top = larger(load(u + a) + load(v + a), top);
  return lane_max(top);
}

// The lanes of a block of 32 from a0 on whose term exp(u + v - top) is worth computing beside a term of 1: scores that
// need logarithms are mostly far apart.
template <class R>
INLINE uint32_t lanes_that_matter(const R* u, const R* v, R top, int a0, int n) {
  return lanes_where<R>(std::min(32, n - a0), [&](int a) INLINED { return load(u + a0 + a) + load(v + a0 + a) >= top - 40; });
}

template <class R>
INLINE double log_sum_row(const R* u, const R* v, int n) {
  const R top = row_max(u, v, n);
  if (!(top > minus_infinity<R>)) return double(top);
  V<R> sum = {};
  int terms = 0;
  for (int a0 = 0; a0 < n; a0 += 32) {
    const uint32_t some = lanes_that_matter(u, v, top, a0, n);
    terms += __builtin_popcount(some);
    if (terms == 1 && n <= 32) return double(top);  // most often there is one
    for (int a = 0; a < 32 && some >> a; a += width<R>)
      if (some >> a & ((1u << width<R>)-1)) sum += exp_negative(load(u + a0 + a) + load(v + a0 + a) - top);
  }
  return double(top) + std::log(double(lane_sum(sum)));
}

template <class R>
INLINE double log_up(const BatchView& b, const R* shared, const R* own, const R* zeros, int64_t begin, int64_t end,
                     R* beliefs) {
  double total = 0;
  for (int64_t k = end - 1; k >= begin; k--) {
    const int64_t t = b.order[k], p = b.parent[t];
    const R* belief = beliefs + (t - begin) * b.lanes;
    if (p < 0) {
      total += log_sum_row(belief, zeros, b.n_labels);
      continue;
    }
    const R* matrix = edge_matrix(b, shared, own, t, t - begin).by_parent;
    R* target = beliefs + (p - begin) * b.lanes;
    for (int a = 0; a < b.n_labels; a++) target[a] += R(log_sum_row(matrix + int64_t(a) * b.lanes, belief, b.n_labels));
  }
  return total;
}

// Conditional distribution of a node given the label of its parent (or of a root), from log beliefs. Normalised by
// division: beside a large score the logarithm of a sum would drown.
template <class R>
INLINE void conditional(const R* row, const R* belief, int n, double* out) {
  const R top = row_max(row, belief, n);
  std::fill(out, out + n, 0.0);
  if (!(top > minus_infinity<R>)) return;
  double sum = 0;
  for (int a0 = 0; a0 < n; a0 += 32) {
    const uint32_t some = lanes_that_matter(row, belief, top, a0, n);
    for (int a = 0; a < 32 && some >> a; a += width<R>) {
      if (!(some >> a & ((1u << width<R>)-1))) continue;
      const V<R> e = exp_negative(load(row + a0 + a) + load(belief + a0 + a) - top);
      for (int k = 0; k < width<R> && a0 + a + k < n; k++) sum += out[a0 + a + k] = double(e[k]);
    }
  }
  for (int a = 0; a < n; a++) out[a] /= sum;
}

// ---- the up pass, in either mode --------------------------------------------------------------------------------------

// Scores of one example and the matrices of its edges, ready for a recursion.
template <class R>
INLINE void prepare(const BatchView& b, const Weights<R>& w, int64_t begin, int64_t end, Workspace<R>& work) {
  work.fit(end - begin, b);
  score_nodes(b, w, begin, end, work.scores.data());
  forbid(b, begin, end, work.scores.data());
  if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, work.matrices.data());
}

// Shared matrices exponentiated once per call, those of single edges once per example.
struct Exponentials {
  std::vector<double> shared, own, shift_shared, shift_own;
  INLINE void of_shared(Exponentials& e, const BatchView& b, const double* matrices) {
    const int64_t size = b.matrix_size();
    e.shared.resize(size_t(b.n_edge_types) * 2 * size);
    e.shift_shared.resize(b.n_edge_types);
    for (int m = 0; m < b.n_edge_types; m++) of_type(e, b, m, matrices);
  }
  INLINE void of_type(Exponentials& e, const BatchView& b, int m, const double* matrices) {
    for (int side = 0; side < 2; side++) {
      const int64_t k = (2 * int64_t(m) + side) * b.matrix_size();
      e.shift_shared[m] = exp_matrix(matrices + k, b.n_labels, b.lanes, e.shared.data() + k);
    }
  }
  INLINE void of_edges(Exponentials& e, const BatchView& b, int64_t begin, int64_t end, const double* matrices) {
    const int64_t pair = 2 * b.matrix_size();
    e.own.resize(std::max(e.own.size(), size_t(end - begin) * pair));
    e.shift_own.resize(std::max(e.shift_own.size(), size_t(end - begin)));
    for (int64_t t = begin; t < end; t++) {
      if (b.parent[t] < 0) continue;
      for (int side = 0; side < 2; side++) {
        const int64_t k = (t - begin) * pair + side * (pair / 2);
        e.shift_own[t - begin] = exp_matrix(matrices + k, b.n_labels, b.lanes, e.own.data() + k);
      }
    }
  }
};

// Beliefs after the up pass, in the chosen mode; log Z. With mode `scaled` the beliefs are probabilities up to scale,
// with `logarithmic` they are logarithms. A function of its own: inlined into its callers it breaks GCC 12 (for x86-64-v4).
inline double beliefs_up(const BatchView& b, const Weights<double>& w, Mode mode, const double* zeros, int64_t begin,
                         int64_t end, Workspace<double>& work, Exponentials& exps) {
  prepare(b, w, begin, end, work);
  if (mode == logarithmic)
    return log_up(b, w.matrix, work.matrices.data(), zeros, begin, end, work.scores.data());
  if (b.n_edge_features) Exponentials::of_edges(exps, b, begin, end, work.matrices.data());
  return sum_up(b, exps.shared.data(), exps.own.data(), exps.shift_shared.data(), exps.shift_own.data(), begin, end,
                work.scores.data(), work.messages.data());
}

}  // namespace maxendnet

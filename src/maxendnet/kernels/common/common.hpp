// Shared by all kernels: the view of a batch, operations on rows of lanes, and a vectorised exponential.
//
// Loops are vectorised over labels. A row of weights or scores has `lanes` entries: n_labels rounded up to a multiple of
// 8, so that a row fills whole AVX registers in either precision. Padding lanes hold weight 0 and score -inf.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "common/vector.hpp"

namespace maxendnet {

template <class R>
constexpr R minus_infinity = -std::numeric_limits<R>::infinity();

// Allocates memory aligned to cache lines, because a vector load that crosses a cache line takes two loads.
template <class T>
struct CacheLineAllocator {
  typedef T value_type;
  static constexpr std::align_val_t line{64};
  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), line)); }
  void deallocate(T* p, size_t) { ::operator delete(p, line); }
  template <class U>
  bool operator==(const CacheLineAllocator<U>&) const {
    return true;
  }
  template <class U>
  bool operator!=(const CacheLineAllocator<U>&) const {
    return false;
  }
};
template <class T>
using Rows = std::vector<T, CacheLineAllocator<T>>;

inline int padded(int n_labels) { return (n_labels + 7) / 8 * 8; }

// Sizes of a model.
struct Sizes {
  int64_t n_features;
  int n_labels, lanes, n_edge_types, n_edge_features, n_label_features;
  int rest;  // for choices, the label of all nodes that are not selected; else -1
  // Pairs of a feature and a label that have a weight: for each feature a row of ascending labels. Null if all pairs have
  // one, in rows of `lanes`.
  const int64_t* row_offsets;
  const int32_t* row_labels;

  // Number of node weights of forests and choices, padded so that a vector load at the last pair stays inside.
  int64_t node_size() const { return row_offsets ? (row_offsets[n_features] + 7) / 8 * 8 + 8 : n_features * lanes; }
  int n_matrices() const { return n_edge_types + n_edge_features; }
  int64_t matrix_size() const { return int64_t(n_labels) * lanes; }
};

// Flat arrays of a Python `Batch` (data/batch.py), checked by the binding. A null pointer means that an array is not used.
struct BatchView : Sizes {
  const int64_t* indptr;
  const int32_t* indices;
  const double* data;
  const int32_t* y;
  const int32_t* row;  // row of a node in cost tables, which have one row per label set
  const int64_t* offsets;
  const int32_t* order;   // parents before children
  const int32_t* parent;  // -1 for a root
  const int32_t* edge_type;
  const uint8_t* flipped;  // use edge_kind instead
  const double* edge_features;
  const uint8_t* allowed;
  const double* label_features;
  const double* sample_weight;
  int64_t n_examples, n_nodes;
  bool ones;  // whether all of `data` are 1

  // 2 * type of the edge from node t to its parent, plus 1 if the user's first node is the child. Matrices are stored in two
  // orientations: the rows of the one at `edge_kind` are the parent's labels, those at `edge_kind ^ 1` the child's.
  int64_t edge_kind(int64_t t) const { return 2 * int64_t(edge_type[t]) + flipped[t]; }
};

// Weights in the layout that searches read, in their precision R:
// [ node (n_features, lanes), or the pairs with weights | matrices (n_matrices, 2, n_labels, lanes) |
//   label features (n_label_features) ]
// The second axis of matrices is the orientation: 0 as in the public API (row: first node), 1 transposed.
template <class R>
struct Weights {
  const R* node;
  const R* matrix;
  const R* label_features;
  Weights(const R* flat, const BatchView& b)
      : node(flat), matrix(flat + b.node_size()), label_features(matrix + 2 * b.n_matrices() * b.matrix_size()) {}
};

// Groups of examples with transposed features: for each distinct feature of a group, the nodes that have it.
struct GroupsView {
  int64_t n_groups;
  const int64_t* examples;         // (n_groups + 1) examples of a group
  const int64_t* node_offsets;     // (n_groups + 1) nodes of a group
  const int64_t* feature_offsets;  // (n_groups + 1) distinct features of a group
  const int32_t* features;         // (n_distinct)
  const int64_t* entry_offsets;    // (n_distinct + 1)
  const int32_t* entry_nodes;      // (nnz) node number inside the group
  const double* entry_values;      // (nnz)
};

// Calls f<R, W>(a0, ...) for each group of W = 32 lanes (four or eight registers), then for the remaining lanes.
#define FOR_LANES(f, R, lanes, ...)                                    \
  do {                                                                 \
    int a0_ = 0;                                                       \
    for (; a0_ + 32 <= (lanes); a0_ += 32) f<R, 32>(a0_, __VA_ARGS__); \
    switch ((lanes) - a0_) {                                           \
      case 24: f<R, 24>(a0_, __VA_ARGS__); break;                      \
      case 16: f<R, 16>(a0_, __VA_ARGS__); break;                      \
      case 8: f<R, 8>(a0_, __VA_ARGS__); break;                        \
      default: break;                                                  \
    }                                                                  \
  } while (0)

// out = sum over k of value(k) * row(k), for W lanes. Two independent sums per register hide the latency of the
// multiply-add.
template <class R, int W, class Value, class Row>
INLINE void weighted_sum(int64_t k, int64_t end, Value value, Row row, V<R>* out) {
  constexpr int n = width<R>;
  V<R> even[W / n] = {}, odd[W / n] = {};
  for (; k + 1 < end; k += 2) {
    const R x = value(k), z = value(k + 1);
    const R *p = row(k), *q = row(k + 1);
    for (int a = 0; a < W / n; a++) even[a] += x * load(p + a * n);
    for (int a = 0; a < W / n; a++) odd[a] += z * load(q + a * n);
  }
  if (k < end) {
    const R x = value(k);
    const R* p = row(k);
    for (int a = 0; a < W / n; a++) even[a] += x * load(p + a * n);
  }
  for (int a = 0; a < W / n; a++) out[a] = even[a] + odd[a];
}

// x += y, x *= y, x *= c for the lanes of a row
template <class R>
INLINE void add_row(R* x, const R* y, int lanes) {
  for (int a = 0; a < lanes; a += width<R>) store(x + a, load(x + a) + load(y + a));
}
template <class R>
INLINE void multiply_row(R* x, const R* y, int lanes) {
  for (int a = 0; a < lanes; a += width<R>) store(x + a, load(x + a) * load(y + a));
}
template <class R>
INLINE void scale_row(R* x, R c, int lanes) {
  for (int a = 0; a < lanes; a += width<R>) store(x + a, load(x + a) * c);
}

template <class R>
INLINE R lane_sum(const R* v, int lanes) {
  V<R> sum = load(v);
  for (int a = width<R>; a < lanes; a += width<R>) sum += load(v + a);
  return lane_sum(sum);
}
template <class R>
INLINE R lane_max(const R* v, int lanes) {
  V<R> best = load(v);
  for (int a = width<R>; a < lanes; a += width<R>) best = larger(best, load(v + a));
  return lane_max(best);
}

// Bit mask of the lanes (at most 32) for which a test holds; `test(a)` tests the register that begins at lane a.
INLINE Words<float> lane_bits(float) { return Words<float>{1, 2, 4, 8, 16, 32, 64, 128}; }
INLINE Words<double> lane_bits(double) { return Words<double>{1, 2, 4, 8}; }
template <class R, class Test>
INLINE uint32_t lanes_where(int lanes, Test test) {
  Words<R> holds = {};
  for (int a = 0; a < lanes; a += width<R>) holds |= as<Words<R>>(test(a)) & (lane_bits(R(0)) << a);
  return one_word(holds);
}

// c0 + x (c1 + x (c2 + ...)).
template <class T, class C>
INLINE T polynomial(T, C c) {
  return spread(c);
}
template <class T, class C, class... More>
INLINE T polynomial(T x, C c, More... more) {
  return polynomial(x, more...) * x + c;
}

// exp(x) for x <= 0, as 2^n times a Taylor polynomial on |r| <= log(2)/2; the relative error is about one unit in the
// last place. Subnormal results are 0.
INLINE V<float> exp_negative(V<float> x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it puts round(x) in the low bits of the mantissa
  const auto keep = x > -87.0f;
  const V<float> clamped = select(keep, x, spread(-87.0f));
  const V<float> shifted = clamped * 1.44269504088896341f + magic;
  const V<float> n = shifted - magic;
  const V<float> r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  const V<float> p = polynomial(r, 1.0f, 1.0f, 0.5f, 1.0f / 6, 1.0f / 24, 1.0f / 120, 1.0f / 720, 1.0f / 5040);
  const auto result = as<V<float>>(as<Words<float>>(p) + (as<Words<float>>(shifted) << 23));
  return select(keep, result, V<float>{});
}
INLINE V<double> exp_negative(V<double> x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52
  const auto keep = x > -708.0;
  const V<double> clamped = select(keep, x, spread(-708.0));
  const V<double> shifted = clamped * 1.4426950408889634074 + magic;
  const V<double> n = shifted - magic;
  const V<double> r = (clamped - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  const V<double> p = polynomial(r, 1.0, 1.0, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  const auto result = as<V<double>>(as<Words<double>>(p) + (as<Words<double>>(shifted) << 52));
  return select(keep, result, V<double>{});
}

// Index drawn with probabilities proportional to `shares`, given a number in [0, 1); 0 if no share is positive.
inline int draw_place(const double* shares, int n, double uniform) {
  double total = 0;
  for (int a = 0; a < n; a++) total += shares[a];
  double left = uniform * total;
  int place = 0;
  for (int a = 0; a < n; a++) {
    if (!(shares[a] > 0)) continue;
    place = a;  // the last positive share absorbs rounding
    left -= shares[a];
    if (left < 0) break;
  }
  return place;
}

}  // namespace maxendnet

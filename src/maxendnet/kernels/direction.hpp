// A sparse direction in the space of eta, the line search along it, and the step: what solvers share that move dual weight
// from one labelling to another.
#pragma once
#include <algorithm>

#include "kernels.hpp"
#include "prior.hpp"

namespace maxendnet {

// A sparse direction in the space of eta: coordinates without repetition, those of nodes first, padded with harmless
// entries to whole vectors. While it is gathered, a coordinate may come several times.
struct Direction {
  std::vector<double> sum;       // per coordinate; zero between steps
  std::vector<int64_t> touched;  // coordinates as they come
  std::vector<int64_t> index;
  std::vector<double> d, eta;
  size_t n_touched = 0, n_node = 0, n = 0;
  bool all = false;  // more may come than there are coordinates (a long sequence): no list, all are looked at

  INLINE void add(Direction& v, int64_t k, double value) {
    v.touched[v.n_touched] = k;
    v.n_touched += !v.all;
    v.sum[k] += value;
  }
};

// Makes room for `most` additions.
INLINE void begin_gathering(Direction& v, size_t most) {
  v.all = most > v.sum.size();
  const size_t room = std::min(most, v.sum.size()) + width<double>;
  if (v.touched.size() < room) {
    v.touched.resize(room);
    v.index.resize(room);
    v.d.resize(room);
    v.eta.resize(room);
  }
  v.n_touched = v.n = 0;
}

// Takes what has come for coordinates [first, last), where the others have none.
INLINE void take_gathered(Direction& v, const double* eta, int64_t first, int64_t last) {
  // the first visit takes the sum of a coordinate, repeats find zero
  auto take_one = [&](int64_t k) INLINED {
    const double x = v.sum[k];
    v.sum[k] = 0;
    v.index[v.n] = k;
    v.d[v.n] = x;
    v.eta[v.n] = eta[k];
    v.n += x != 0;
  };
  if (v.all)
    for (int64_t k = first; k < last; k++) take_one(k);
  else
    for (size_t j = 0; j < v.n_touched; j++) take_one(v.touched[j]);
  v.n_touched = 0;
}

INLINE void end_gathering(Direction& v) {
  for (int a = 0; a < width<double>; a++) {  // repeats of the first coordinate, without direction
    v.d[v.n + a] = 0;
    v.eta[v.n + a] = v.n ? v.eta[0] : 0;
    v.index[v.n + a] = v.n ? v.index[0] : 0;
  }
}

// The change of eta when weight moves from one labelling to another: f(x_i, from) - f(x_i, to), which is zero where the
// two agree.
INLINE void gather_difference(const BatchView& b, int64_t begin, int64_t end, const uint16_t* from, const uint16_t* to,
                              const double* eta, Direction& v) {
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * b.lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  begin_gathering(v, 2 * size_t(b.indptr[end] - b.indptr[begin] + (end - begin) * (b.n_tied + 1 + b.n_edge_features)));
  for (int64_t t = begin; t < end; t++) {
    const int64_t a = from[t - begin], c = to[t - begin];
    if (a == c) continue;
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const int64_t row = int64_t(b.indices[k]) * b.lanes;
      Direction::add(v, row + a, b.data[k]);
      Direction::add(v, row + c, -b.data[k]);
    }
  }
  take_gathered(v, eta, 0, matrix_start);
  v.n_node = v.n;
  for (int64_t t = begin; t < end; t++) {
    const int64_t a = from[t - begin], c = to[t - begin];
    for (int j = 0; j < b.n_tied && a != c; j++) {
      const double* f = b.label_features + t * b.n_labels * b.n_tied + j;
      Direction::add(v, tied_start + j, f[a * b.n_tied] - f[c * b.n_tied]);
    }
    if (b.parent[t] < 0) continue;
    const int64_t p = b.parent[t] - begin;
    if (a == c && from[p] == to[p]) continue;
    const int64_t cell_from = b.flipped[t] ? a * b.lanes + from[p] : from[p] * b.lanes + a;
    const int64_t cell_to = b.flipped[t] ? c * b.lanes + to[p] : to[p] * b.lanes + c;
    const int64_t start = matrix_start + b.edge_type[t] * size;
    Direction::add(v, start + cell_from, 1);
    Direction::add(v, start + cell_to, -1);
    for (int f = 0; f < b.n_edge_features; f++) {
      const double x = b.edge_features[t * b.n_edge_features + f];
      const int64_t own = matrix_start + (b.n_edge_types + f) * size;
      Direction::add(v, own + cell_from, x);
      Direction::add(v, own + cell_to, -x);
    }
  }
  take_gathered(v, eta, matrix_start, int64_t(v.sum.size()));
  end_gathering(v);
}

struct Slopes {
  double first = 0, second = 0, slack = 1;
};

// First and second derivative of gamma -> sum_k phi(eta_k + gamma d_k), and whether the point is inside the domain.
template <class Prior>
INLINE Slopes slopes(const Prior& prior, const Direction& v, double gamma) {
  V<double> first = {}, second = {}, slack = spread(1.0);
  for (size_t k = 0; k < v.n; k += width<double>) {
    const V<double> d = load(v.d.data() + k), x = load(v.eta.data() + k) + gamma * d;
    const Moments<V<double>> m = Prior::moments(prior, x, v.index.data() + k);
    first += d * m.mean;
    second += d * d * m.variance;
    const V<double> room = Prior::slack(prior, x);
    slack = room < slack ? room : slack;
  }
  Slopes total;
  for (int a = 0; a < width<double>; a++) {
    total.first += first[a];
    total.second += second[a];
    total.slack = std::min(total.slack, slack[a]);
  }
  return total;
}

// The step in [0, limit] that maximises the dual along the direction; 0 where it does not rise. `gain` is the change of
// sum alpha l for a step of 1.
template <class Prior>
INLINE double line_search(const Prior& prior, const Direction& v, double gain, double limit) {
  const Slopes at_zero = slopes(prior, v, 0);
  const double rise = gain - at_zero.first;
  if (!(rise > 0)) return 0;
  // without curvature the dual is linear here, and for a quadratic prior all along
  double gamma = at_zero.second > 0 ? std::min(limit, prior.start(rise, at_zero.second)) : limit;
  if (Prior::quadratic) return gamma;
  double low = 0, high = limit;
  bool high_tried = false;  // whether the slope at `high` is known
  for (int trial = 0; trial < 40; trial++) {
    const Slopes here = slopes(prior, v, gamma);
    const bool inside = here.slack > 0 && std::isfinite(here.first) && std::isfinite(here.second);
    const double slope = gain - here.first;  // of the dual
    if (inside && std::fabs(slope) <= 0.01 * rise) return gamma;  // within 1e-4 of the best gain, to second order
    if (!inside || slope < 0) {
      high = gamma;
      high_tried = true;
    } else {
      low = gamma;
      if (gamma == limit) return limit;
    }
    double next = inside && here.second > 0 ? gamma + slope / here.second : 0;
    if (!high_tried && next >= high) next = high;
    else if (!(next > low && next < high)) next = 0.5 * (low + high);
    gamma = next;
  }
  return low;  // the largest step known to be inside and uphill
}

// eta += gamma d, and the weights follow.
template <class R, class Prior>
INLINE void move(const BatchView& b, const Prior& prior, const Direction& v, double gamma, double* eta, R* weights) {
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * b.lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  for (size_t j = 0; j < v.n; j++) {
    const int64_t k = v.index[j];
    const double moved = v.eta[j] + gamma * v.d[j];
    eta[k] = moved;
    const R mean = R(Prior::moments(prior, moved, &v.index[j]).mean);
    if (j < v.n_node) {
      weights[k] = mean;
    } else if (k < tied_start) {  // both orientations of the matrix
      const int64_t m = (k - matrix_start) / size, cell = (k - matrix_start) % size;
      R* pair = weights + matrix_start + 2 * m * size;
      pair[cell] = mean;
      pair[size + (cell % b.lanes) * b.lanes + cell / b.lanes] = mean;
    } else {
      weights[k + b.n_matrices() * size] = mean;
    }
  }
}

}  // namespace maxendnet

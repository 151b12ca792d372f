// A sparse direction in the space of eta, the line search along it, and the step: what solvers share that move dual weight
// from one labelling to another.
#pragma once
#include <algorithm>

#include "kernels.hpp"
#include "prior.hpp"

namespace maxendnet {

// A sparse direction in the space of eta: coordinates without repetition, padded with harmless entries to whole vectors.
struct Direction {
  std::vector<int32_t> slot;  // per coordinate: its place in the lists below, or -1
  std::vector<int64_t> index;
  std::vector<double> d, eta;

  INLINE void add(Direction& v, int64_t k, double value) {
    if (v.slot[k] < 0) {
      v.slot[k] = int32_t(v.index.size());
      v.index.push_back(k);
      v.d.push_back(value);
    } else {
      v.d[v.slot[k]] += value;
    }
  }
  void clear() {
    for (int64_t k : index) slot[k] = -1;
    index.clear();
    d.clear();
  }
};

// Adds u * f(x_i, labels) at the nodes and edges where `labels` differs from `other`: the rest cancels.
INLINE void add_difference(const BatchView& b, int64_t begin, int64_t end, const uint16_t* labels, const uint16_t* other,
                           double u, Direction& v) {
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * b.lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  for (int64_t t = begin; t < end; t++) {
    const int64_t child = labels[t - begin];
    if (labels[t - begin] != other[t - begin]) {
      for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++)
        Direction::add(v, int64_t(b.indices[k]) * b.lanes + child, u * b.data[k]);
      for (int j = 0; j < b.n_tied; j++)
        Direction::add(v, tied_start + j, u * b.label_features[(t * b.n_labels + child) * b.n_tied + j]);
    }
    if (b.parent[t] < 0) continue;
    const int64_t p = b.parent[t] - begin, parent = labels[p];
    if (labels[t - begin] == other[t - begin] && labels[p] == other[p]) continue;
    const int64_t cell = b.flipped[t] ? child * b.lanes + parent : parent * b.lanes + child;
    Direction::add(v, matrix_start + b.edge_type[t] * size + cell, u);
    for (int f = 0; f < b.n_edge_features; f++)
      Direction::add(v, matrix_start + (b.n_edge_types + f) * size + cell,
                     u * b.edge_features[t * b.n_edge_features + f]);
  }
}

// Looks up eta, and fills the last vector with repeats of the first coordinate, without direction; the number of coordinates.
INLINE size_t complete(Direction& v, const double* eta) {
  const size_t n_coordinates = v.d.size();
  v.eta.resize(n_coordinates);
  for (size_t k = 0; k < n_coordinates; k++) v.eta[k] = eta[v.index[k]];
  while (v.d.size() % width<double>) {
    v.d.push_back(0);
    v.eta.push_back(v.eta.empty() ? 0 : v.eta[0]);
    v.index.push_back(v.index.empty() ? 0 : v.index[0]);
  }
  return n_coordinates;
}

struct Slopes {
  double first = 0, second = 0, slack = 1;
};

// First and second derivative of gamma -> sum_k phi(eta_k + gamma d_k), and whether the point is inside the domain.
template <class Prior>
INLINE Slopes slopes(const Prior& prior, const Direction& v, double gamma) {
  V<double> first = {}, second = {}, slack = spread(1.0);
  for (size_t k = 0; k < v.d.size(); k += width<double>) {
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
INLINE void move(const BatchView& b, const Prior& prior, const Direction& v, size_t n_coordinates, double gamma,
                 double* eta, R* weights) {
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * b.lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  for (size_t j = 0; j < n_coordinates; j++) {
    const int64_t k = v.index[j];
    eta[k] += gamma * v.d[j];
    const R mean = R(Prior::moments(prior, eta[k], &v.index[j]).mean);
    if (k < matrix_start) {
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

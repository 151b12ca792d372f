// Sparse direction in the space of eta, with the line search and the step along it, for updates that move dual weight from one
// labelling to another.
#pragma once
#include <algorithm>

#include "common/features.hpp"
#include "updates/prior.hpp"

namespace maxendnet {

// Sparse direction in the space of eta: distinct coordinates, padded with neutral entries to whole vectors. While it is
// gathered, a coordinate may be added several times.
struct Direction {
  std::vector<double> sum;       // per coordinate; zero between steps
  std::vector<int64_t> touched;  // coordinates in the order of additions
  std::vector<int64_t> index;
  std::vector<double> d, eta;
  std::vector<double> mean;  // after a step: the weights at the coordinates
  size_t n_touched = 0, n = 0;
  bool all =
      false;  // with more additions than coordinates (a long sequence), scan all coordinates instead of `touched`

  INLINE void add(Direction& v, int64_t k, double value) {
    v.touched[v.n_touched] = k;
    v.n_touched += !v.all;
    v.sum[k] += value;
  }
};

// Reserves memory for at most `most` additions.
INLINE void begin_gathering(Direction& v, size_t most) {
  v.all = most > v.sum.size();
  const size_t size = std::min(most, v.sum.size()) + width<double>;
  if (v.touched.size() < size) {
    v.touched.resize(size);
    v.index.resize(size);
    v.d.resize(size);
    v.eta.resize(size);
    v.mean.resize(size);
  }
  v.n_touched = v.n = 0;
}

// Collects the sums of the coordinates [first, last); all others must be zero.
INLINE void take_gathered(Direction& v, const double* eta, int64_t first, int64_t last) {
  // the first visit takes the sum of a coordinate; it is zero for further visits
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
  for (int a = 0; a < width<double>; a++) {  // the first coordinate again, with direction 0
    v.d[v.n + a] = 0;
    v.eta[v.n + a] = v.n ? v.eta[0] : 0;
    v.index[v.n + a] = v.n ? v.index[0] : 0;
  }
}

// Change of eta when weight moves from one labelling to another: f(x_i, from) - f(x_i, to). `more(add)` adds features beyond
// those of nodes and edges, at most one per node.
template <class More>
INLINE void gather_difference(const BatchView& b, const Layout& l, int64_t begin, int64_t end, const uint16_t* from,
                              const uint16_t* to, const double* eta, Direction& v, More more) {
  const int64_t per_node = b.n_label_features + 1 + b.n_edge_features + (l.siblings < l.label_features);
  begin_gathering(v, 2 * size_t(b.indptr[end] - b.indptr[begin] + (end - begin) * per_node));
  const auto add = [&](int64_t k, double value) INLINED { Direction::add(v, k, value); };
  node_differences(b, l, begin, end, from, to, add);
  take_gathered(v, eta, 0, l.matrices);
  edge_differences(b, l, begin, end, from, to, add);
  more(add);
  take_gathered(v, eta, l.matrices, int64_t(v.sum.size()));
  end_gathering(v);
}

struct Slopes {
  double first = 0, second = 0, room = 1;
};

// First and second derivative of gamma -> sum_k phi(eta_k + gamma d_k); `room` is positive inside the domain.
template <class Prior>
INLINE Slopes slopes(const Prior& prior, const Direction& v, double gamma) {
  V<double> first = {}, second = {}, room = spread(1.0);
  for (size_t k = 0; k < v.n; k += width<double>) {
    const V<double> d = load(v.d.data() + k), x = load(v.eta.data() + k) + gamma * d;
    const Moments<V<double>> m = Prior::moments(prior, x, v.index.data() + k);
    first += d * m.mean;
    second += d * d * m.variance;
    const V<double> inside = Prior::room(prior, x);
    room = select(inside < room, inside, room);
  }
  Slopes total;
  for (int a = 0; a < width<double>; a++) {
    total.first += first[a];
    total.second += second[a];
    total.room = std::min(total.room, room[a]);
  }
  return total;
}

// Step in [0, limit] that maximises the dual along the direction; 0 if the dual does not increase. `gain` is the change of
// sum alpha l for a step of 1.
template <class Prior>
OUTLINE double line_search_with(Prior prior, const Direction& v, double gain, double limit) {
  const Slopes at_zero = slopes(prior, v, 0);
  const double rise = gain - at_zero.first;
  if (!(rise > 0)) return 0;
  // without curvature the dual is linear here; with a quadratic prior it is linear everywhere
  double gamma = at_zero.second > 0 ? std::min(limit, prior.start(rise, at_zero.second)) : limit;
  if (Prior::quadratic) return gamma;
  double low = 0, high = limit;
  bool high_is_known = false;  // whether the slope at `high` is known
  for (int trial = 0; trial < 40; trial++) {
    const Slopes here = slopes(prior, v, gamma);
    const bool inside = here.room > 0 && std::isfinite(here.first) && std::isfinite(here.second);
    const double slope = gain - here.first;                       // of the dual
    if (inside && std::fabs(slope) <= 0.01 * rise) return gamma;  // within 1e-4 of the best gain, to second order
    if (!inside || slope < 0) {
      high = gamma;
      high_is_known = true;
    } else {
      low = gamma;
      if (gamma == limit) return limit;
    }
    double next = inside && here.second > 0 ? gamma + slope / here.second : 0;
    if (!high_is_known && next >= high) next = high;
    else if (!(next > low && next < high)) next = 0.5 * (low + high);
    gamma = next;
  }
  return low;  // the largest step known to be inside the domain and to increase the dual
}

// Over-relaxation: 1.5 times the best step. Other blocks tend to move in the same direction, so that it takes about a fifth
// fewer passes (OCR, C = 1). Along a parabola any factor below 2 increases the dual. Only for quadratic priors: with a bounded
// domain there may be no room beyond the best step.
template <class Prior>
INLINE double over_relaxed(double gamma, double limit) {
  return Prior::quadratic ? std::min(1.5 * gamma, limit) : gamma;
}

template <class Prior>
OUTLINE void move_with(Prior prior, Direction& v, double gamma, double* eta) {
  for (size_t j = 0; j < v.n; j++) {
    const double moved = v.eta[j] + gamma * v.d[j];
    eta[v.index[j]] = moved;
    v.mean[j] = Prior::moments(prior, moved, &v.index[j]).mean;
  }
}

// Updates depend on the prior only here: one call for the step size, one for the weights after the step.
inline double line_search(const KernelPrior& any_prior, const Direction& v, double gain, double limit) {
  return std::visit(
      [&](const auto& prior) {
        return over_relaxed<std::decay_t<decltype(prior)>>(line_search_with(prior, v, gain, limit), limit);
      },
      any_prior);
}

// eta += gamma d; `v.mean` are the weights after the step.
inline void move(const KernelPrior& any_prior, Direction& v, double gamma, double* eta) {
  std::visit([&](const auto& prior) { move_with(prior, v, gamma, eta); }, any_prior);
}

}  // namespace maxendnet

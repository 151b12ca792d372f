// Online exponentiated gradient on clique marginals: alpha_i <- alpha_i * exp(step * (l_i - mu.df_i)), normalised, for one
// example after the other.
//
// Since l_i - mu.df_i is a sum over nodes and edges, so are the logarithms of alpha_i. They are kept as potentials: a row
// for every node, and one matrix for every matrix of weights (edge types, then edge features), which is enough because
// all edges of a type have been changed alike. The marginals that belong to them are found by sum-product.
#include "kernels.hpp"
#include "prior.hpp"
#include "sum_product.hpp"

namespace maxendnet {
namespace {

struct Candidate {
  SumProduct<double> sums;
  std::vector<double> gradient;            // (n, lanes) slope of the dual at every node and label
  std::vector<double> node, matrix, both;  // potentials, matrices in one orientation and in both
  std::vector<double> node_marginals, matrix_marginals;
  Expectation direction;  // in the space of eta
  double gain = 0;        // change of sum alpha l

  explicit Candidate(const BatchView& b) : direction(b) {}
};

INLINE double range_of(const double* matrix, int n, int lanes) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (int a = 0; a < n; a++)
    for (int c = 0; c < n; c++) {
      low = std::min(low, matrix[int64_t(a) * lanes + c]);
      high = std::max(high, matrix[int64_t(a) * lanes + c]);
    }
  return high - low;
}

// Scores with costs: the slope of the dual along the marginals of the nodes. Along those of edges it is the weights.
void find_gradient(const BatchView& b, const double* weights, const double* cost, int64_t i, Candidate& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
  const Weights<double> w(weights, b);
  c.gradient.resize(size_t(end - begin) * b.lanes);
  score_nodes(b, w, begin, end, c.gradient.data());
  for (int64_t t = begin; t < end; t++)
    add_row(c.gradient.data() + (t - begin) * b.lanes, cost + int64_t(b.row[t]) * b.lanes, b.lanes);
}

// Marginals of the potentials in c.node and c.matrix. Scores too far apart for scaled probabilities take logarithms.
void find_marginals(const BatchView& b, int64_t i, double most_spread, Candidate& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1], size = b.matrix_size();
  const int n = b.n_labels, lanes = b.lanes, n_matrices = b.n_matrices();
  const Layout layout = padded_layout(b);
  Workspace<double>& work = c.sums.work;
  work.fit(end - begin, b);
  std::copy(c.node.begin(), c.node.end(), work.scores.begin());
  forbid(b, begin, end, work.scores.data());
  c.both.assign(size_t(n_matrices) * 2 * size, 0.0);
  for (int m = 0; m < n_matrices; m++)
    for (int a = 0; a < n; a++)
      for (int z = 0; z < n; z++) {
        const double value = c.matrix[m * size + int64_t(a) * lanes + z];
        c.both[2 * m * size + int64_t(a) * lanes + z] = value;
        c.both[(2 * m + 1) * size + int64_t(z) * lanes + a] = value;
      }
  double spread = 0;
  if (!b.n_edge_features)
    for (int m = 0; m < b.n_edge_types; m++)
      spread = std::max(spread, range_of(c.both.data() + 2 * m * size, n, lanes));
  else build_matrices(b, c.both.data(), begin, end, work.matrices.data());
  for (int64_t t = begin; b.n_edge_features && t < end; t++)
    if (b.parent[t] >= 0) spread = std::max(spread, range_of(work.matrices.data() + (t - begin) * 2 * size, n, lanes));
  set_shared(b, spread <= most_spread ? scaled : logarithmic, c.both.data(), c.sums);
  sum_up(b, begin, end, c.sums);
  c.matrix_marginals.assign(size_t(n_matrices) * size, 0.0);
  sum_down(b, begin, end, 0, c.sums, [&](int64_t t, int a, const double* joint) INLINED {
    for (int z = 0; z < n; z++)
      edge_features(b, layout, t, a, z,
                    [&](int64_t k, double x) INLINED { c.matrix_marginals[k - layout.matrices] += joint[z] * x; });
  });
  c.node_marginals.assign(work.results.begin(), work.results.begin() + (end - begin) * lanes);
}

// What the move from the old marginals to the new ones does to eta and to sum alpha l, for an example of weight `scale`.
void find_direction(const BatchView& b, const double* cost, int64_t i, double scale, const double* old_node,
                    const double* old_matrix, Candidate& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
  std::vector<double> change(b.lanes);
  clear(b, begin, end, c.direction);
  c.gain = 0;
  for (int64_t t = begin; t < end; t++) {
    const double *was = old_node + (t - begin) * b.lanes, *is = c.node_marginals.data() + (t - begin) * b.lanes;
    const double* price = cost + int64_t(b.row[t]) * b.lanes;
    for (int a = 0; a < b.lanes; a++) {
      change[a] = scale * (was[a] - is[a]);
      c.gain -= price[a] * change[a];
    }
    add_node(b, t, change.data(), c.direction);
  }
  for (size_t k = 0; k < c.matrix_marginals.size(); k++)
    c.direction.matrices[k] = scale * (old_matrix[k] - c.matrix_marginals[k]);
  std::fill(c.direction.used.begin(), c.direction.used.end(), 1);
}

struct Ends {
  double first = 0, last = 0, room = 1;  // d . mean(eta) and d . mean(eta + d); positive inside the domain
};

template <class Prior>
INLINE Ends ends_of(const BatchView& b, const Prior& prior, const Expectation& v, const double* eta) {
  V<double> first = {}, last = {}, room = spread(1.0);
  each_stretch(b, v, [&](int64_t start, const double* d, int64_t n) INLINED {
    for (int64_t a = 0; a < n; a += width<double>) {
      const int64_t k = start + a, index[4] = {k, k + 1, k + 2, k + 3};
      const V<double> move = load(d + a), from = load(eta + k), to = from + move;
      first += move * Prior::moments(prior, from, index).mean;
      last += move * Prior::moments(prior, to, index).mean;
      const V<double> own = Prior::room(prior, to);
      room = own < room ? own : room;
    }
  });
  Ends total;
  for (int a = 0; a < width<double>; a++) {
    total.first += first[a];
    total.last += last[a];
    total.room = std::min(total.room, room[a]);
  }
  return total;
}

// eta += d, and the weights follow.
template <class Prior>
INLINE void follow(const BatchView& b, const Prior& prior, const Expectation& v, double* eta, double* weights) {
  each_stretch(b, v, [&](int64_t start, const double* d, int64_t n) INLINED {
    set_stretch(b, v.layout, start, n, weights, [&](int64_t k) INLINED {
      eta[k] += d[k - start];
      return Prior::moments(prior, eta[k], &k).mean;
    });
  });
}

}  // namespace

void exponentiated_gradient(const BatchView& b, const KernelPrior& prior, double C, double* weights, double* eta,
                            const double* cost, const int64_t* picks, int64_t n_picks, double most_spread, double grow,
                            double* steps, double* node_potentials, double* matrix_potentials, double* node_marginals,
                            double* matrix_marginals) {
  const bool quadratic = std::visit([](auto one) { return one.quadratic; }, prior);
  const int64_t size = b.matrix_size(), matrices = b.n_matrices() * size;
  Candidate c(b);
  const Weights<double> w(weights, b);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], n = b.offsets[i + 1] - begin;
    const double scale = C * b.sample_weight[i];
    if (n == 0 || scale == 0) continue;
    double *node = node_potentials + begin * b.lanes, *matrix = matrix_potentials + i * matrices;
    double *old_node = node_marginals + begin * b.lanes, *old_matrix = matrix_marginals + i * matrices;
    find_gradient(b, weights, cost, i, c);
    // few trials, for a call must not last; the next visit goes on where this one ends
    for (int trial = 0; trial < (n < 10000 ? 6 : 1); trial++) {
      const double step = steps[i];
      c.node.assign(node, node + n * b.lanes);
      for (size_t k = 0; k < c.node.size(); k++) c.node[k] += step * c.gradient[k];
      c.matrix.assign(matrix, matrix + matrices);
      for (int m = 0; m < b.n_matrices(); m++)
        for (int64_t k = 0; k < size; k++) c.matrix[m * size + k] += step * w.matrix[2 * m * size + k];
      find_marginals(b, i, most_spread, c);
      find_direction(b, cost, i, scale, old_node, old_matrix, c);
      const Ends ends = std::visit([&](auto one) { return ends_of(b, one, c.direction, eta); }, prior);
      // Along the line from the old marginals to the new the dual is concave. It has not fallen if it still rises at the
      // end; a parabola, if on average over both ends it rises.
      const double rise = c.gain - ends.first, end = c.gain - ends.last;
      const bool inside = ends.room > 0 && std::isfinite(end);
      if (!(rise > 0)) break;  // nothing to gain, to rounding
      if (inside && (quadratic ? end + rise >= 0 : end >= 0)) {
        std::visit([&](auto one) { follow(b, one, c.direction, eta, weights); }, prior);
        std::copy(c.node.begin(), c.node.end(), node);
        std::copy(c.matrix.begin(), c.matrix.end(), matrix);
        std::copy(c.node_marginals.begin(), c.node_marginals.end(), old_node);
        std::copy(c.matrix_marginals.begin(), c.matrix_marginals.end(), old_matrix);
        steps[i] *= grow;
        break;
      }
      steps[i] *= 0.5;
    }
  }
}

// Marginals of given potentials, for examples [first, last).
void potential_marginals(const BatchView& b, int64_t first, int64_t last, double most_spread,
                         const double* node_potentials, const double* matrix_potentials, double* node_marginals,
                         double* matrix_marginals) {
  const int64_t matrices = b.n_matrices() * b.matrix_size();
  Candidate c(b);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i] * b.lanes, end = b.offsets[i + 1] * b.lanes;
    c.node.assign(node_potentials + begin, node_potentials + end);
    c.matrix.assign(matrix_potentials + i * matrices, matrix_potentials + (i + 1) * matrices);
    find_marginals(b, i, most_spread, c);
    std::copy(c.node_marginals.begin(), c.node_marginals.end(), node_marginals + begin);
    std::copy(c.matrix_marginals.begin(), c.matrix_marginals.end(), matrix_marginals + i * matrices);
  }
}

}  // namespace maxendnet

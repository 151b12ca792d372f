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

// A direction in the space of eta, made of whole rows: every label of a feature moves.
struct Rows {
  std::vector<int32_t> slot;  // per feature: its place in the lists below, or -1
  std::vector<int64_t> features, start;
  std::vector<int> width;
  std::vector<double> d;

  double* add(int64_t at, int lanes) {
    start.push_back(at);
    width.push_back(lanes);
    d.resize(d.size() + lanes, 0.0);
    return d.data() + d.size() - lanes;
  }
  void clear() {
    for (int64_t f : features) slot[f] = -1;
    features.clear();
    start.clear();
    width.clear();
    d.clear();
  }
};

struct Candidate {
  Workspace<double> work;
  std::vector<double> gradient;                           // (n, lanes) slope of the dual at every node and label
  std::vector<double> node, matrix;                       // potentials, matrices in one orientation
  std::vector<double> both, exponentials, own, shift, own_shift;  // matrices as the recursions read them
  std::vector<double> node_marginals, matrix_marginals, given;
  Rows rows;
  double gain = 0;  // change of sum alpha l
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
    add_row(c.gradient.data() + (t - begin) * b.lanes, cost + int64_t(b.y[t]) * b.lanes, b.lanes);
}

// Marginals of the potentials in c.node and c.matrix. Scores too far apart for scaled probabilities take logarithms.
void find_marginals(const BatchView& b, int64_t i, double most_spread, Candidate& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1], size = b.matrix_size();
  const int n = b.n_labels, lanes = b.lanes, n_matrices = b.n_matrices();
  c.work.fit(end - begin, b);
  double *beliefs = c.work.scores.data(), *found = c.work.results.data(), *own = c.work.matrices.data();
  std::copy(c.node.begin(), c.node.end(), beliefs);
  forbid(b, begin, end, beliefs);
  c.both.assign(size_t(n_matrices) * 2 * size, 0.0);
  for (int m = 0; m < n_matrices; m++)
    for (int a = 0; a < n; a++)
      for (int z = 0; z < n; z++) {
        const double value = c.matrix[m * size + int64_t(a) * lanes + z];
        c.both[2 * m * size + int64_t(a) * lanes + z] = value;
        c.both[(2 * m + 1) * size + int64_t(z) * lanes + a] = value;
      }
  if (b.n_edge_features) build_matrices(b, c.both.data(), begin, end, own);
  double spread = 0;
  if (!b.n_edge_features)
    for (int m = 0; m < b.n_edge_types; m++) spread = std::max(spread, range_of(c.both.data() + 2 * m * size, n, lanes));
  else
    for (int64_t t = begin; t < end; t++)
      if (b.parent[t] >= 0) spread = std::max(spread, range_of(own + (t - begin) * 2 * size, n, lanes));
  const bool logs = !(spread <= most_spread);

  const std::vector<double> zeros(lanes, 0.0);
  c.given.resize(n);
  if (logs) {
    log_up(b, c.both.data(), own, zeros.data(), begin, end, beliefs);
  } else {
    c.shift.resize(n_matrices);
    c.exponentials.resize(c.both.size());
    for (int m = 0; m < b.n_edge_types && !b.n_edge_features; m++)
      for (int side = 0; side < 2; side++) {
        const int64_t k = (2 * int64_t(m) + side) * size;
        c.shift[m] = exp_matrix(c.both.data() + k, n, lanes, c.exponentials.data() + k);
      }
    if (b.n_edge_features) {
      c.own.resize(size_t(end - begin) * 2 * size);
      c.own_shift.resize(end - begin);
      for (int64_t t = begin; t < end; t++)
        for (int side = 0; side < 2 && b.parent[t] >= 0; side++) {
          const int64_t k = (2 * (t - begin) + side) * size;
          c.own_shift[t - begin] = exp_matrix(own + k, n, lanes, c.own.data() + k);
        }
    }
    sum_up(b, c.exponentials.data(), c.own.data(), c.shift.data(), c.own_shift.data(), begin, end, beliefs,
           c.work.messages.data());
    sum_down(b, c.exponentials.data(), c.own.data(), begin, end, beliefs, c.work.messages.data(), c.work.ratios.data(),
             found);
  }

  c.node_marginals.assign(size_t(end - begin) * lanes, 0.0);
  c.matrix_marginals.assign(size_t(n_matrices) * size, 0.0);
  for (int64_t k = begin; k < end; k++) {
    const int64_t t = b.order[k], p = b.parent[t], local = t - begin;
    const double* belief = beliefs + local * lanes;
    double* result = found + local * lanes;
    if (p < 0) {
      if (logs) conditional(zeros.data(), belief, n, result);
    } else {
      const double *above = found + (p - begin) * lanes, *ratio = c.work.ratios.data() + local * lanes;
      const EdgeMatrix<double> matrix = logs ? edge_matrix<double>(b, c.both.data(), own, t, local)
                                             : edge_matrix<double>(b, c.exponentials.data(), c.own.data(), t, local);
      if (logs) std::fill(result, result + lanes, 0.0);
      for (int a = 0; a < n; a++) {
        const double* row = matrix.by_parent + int64_t(a) * lanes;
        if (logs) conditional(row, belief, n, c.given.data());
        for (int z = 0; z < n; z++) {
          const double joint = logs ? above[a] * c.given[z] : ratio[a] * row[z] * belief[z];
          if (logs) result[z] += joint;
          const int64_t cell = b.flipped[t] ? int64_t(z) * lanes + a : int64_t(a) * lanes + z;
          c.matrix_marginals[b.edge_type[t] * size + cell] += joint;
          for (int f = 0; f < b.n_edge_features; f++)
            c.matrix_marginals[(b.n_edge_types + f) * size + cell] += joint * b.edge_features[t * b.n_edge_features + f];
        }
      }
    }
    std::copy(result, result + n, c.node_marginals.begin() + local * lanes);
  }
}

// What the move from the old marginals to the new ones does to eta and to sum alpha l, for an example of weight `scale`.
void find_direction(const BatchView& b, const double* cost, int64_t i, double scale, const double* old_node,
                    const double* old_matrix, Candidate& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1], size = b.matrix_size();
  const int lanes = b.lanes;
  std::vector<double> change(lanes);
  Rows& rows = c.rows;
  rows.clear();
  c.gain = 0;
  double* tied = b.n_tied ? rows.add(b.n_features * lanes + b.n_matrices() * size, padded(b.n_tied)) : nullptr;
  std::vector<double> sums(b.n_tied, 0.0);  // `tied` moves when rows grow
  for (int64_t t = begin; t < end; t++) {
    const double *was = old_node + (t - begin) * lanes, *is = c.node_marginals.data() + (t - begin) * lanes;
    const double* price = cost + int64_t(b.y[t]) * lanes;
    for (int a = 0; a < lanes; a++) {
      change[a] = scale * (was[a] - is[a]);
      c.gain -= price[a] * change[a];
    }
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const int64_t f = b.indices[k];
      if (rows.slot[f] < 0) {
        rows.slot[f] = int32_t(rows.d.size());
        rows.features.push_back(f);
        rows.add(f * lanes, lanes);
      }
      double* row = rows.d.data() + rows.slot[f];
      const double x = b.data[k];
      for (int a = 0; a < lanes; a += width<double>) store(row + a, load(row + a) + x * load(change.data() + a));
    }
    for (int a = 0; b.n_tied && a < b.n_labels; a++)
      for (int j = 0; j < b.n_tied; j++) sums[j] += change[a] * b.label_features[(t * b.n_labels + a) * b.n_tied + j];
  }
  if (tied) std::copy(sums.begin(), sums.end(), rows.d.begin());
  for (int64_t r = 0; r < int64_t(b.n_matrices()) * b.n_labels; r++) {
    double* row = rows.add(b.n_features * lanes + r * lanes, lanes);
    for (int a = 0; a < lanes; a++) row[a] = scale * (old_matrix[r * lanes + a] - c.matrix_marginals[r * lanes + a]);
  }
}

struct Ends {
  double first = 0, last = 0, slack = 1;  // d . mean(eta) and d . mean(eta + d); positive inside the domain
};

template <class Prior>
INLINE Ends ends_of(const Prior& prior, const Rows& rows, const double* eta) {
  V<double> first = {}, last = {}, slack = spread(1.0);
  const double* d = rows.d.data();
  for (size_t r = 0; r < rows.start.size(); r++)
    for (int a = 0; a < rows.width[r]; a += width<double>, d += width<double>) {
      const int64_t k = rows.start[r] + a, index[4] = {k, k + 1, k + 2, k + 3};
      const V<double> move = load(d), from = load(eta + k), to = from + move;
      first += move * Prior::moments(prior, from, index).mean;
      last += move * Prior::moments(prior, to, index).mean;
      const V<double> room = Prior::slack(prior, to);
      slack = room < slack ? room : slack;
    }
  Ends total;
  for (int a = 0; a < width<double>; a++) {
    total.first += first[a];
    total.last += last[a];
    total.slack = std::min(total.slack, slack[a]);
  }
  return total;
}

// eta += d, and the weights follow.
template <class Prior>
INLINE void move_rows(const BatchView& b, const Prior& prior, const Rows& rows, double* eta, double* weights) {
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * b.lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  const double* d = rows.d.data();
  for (size_t r = 0; r < rows.start.size(); r++, d += rows.width[r - 1]) {
    const int64_t start = rows.start[r];
    const int used = start < tied_start ? b.n_labels : b.n_tied;
    for (int a = 0; a < used; a++) {
      const int64_t k = start + a;
      eta[k] += d[a];
      const double mean = Prior::moments(prior, eta[k], &k).mean;
      if (start < matrix_start) {
        weights[k] = mean;
      } else if (start < tied_start) {  // both orientations
        const int64_t m = (start - matrix_start) / size, row = (start - matrix_start) % size / b.lanes;
        double* pair = weights + matrix_start + 2 * m * size;
        pair[row * b.lanes + a] = mean;
        pair[size + int64_t(a) * b.lanes + row] = mean;
      } else {
        weights[k + b.n_matrices() * size] = mean;
      }
    }
  }
}

}  // namespace

void exponentiated_gradient(const BatchView& b, const KernelPrior& prior, double C, double* weights, double* eta,
                            const double* cost, const int64_t* picks, int64_t n_picks, double most_spread, double grow,
                            double* steps, double* node_potentials, double* matrix_potentials, double* node_marginals,
                            double* matrix_marginals) {
  const bool quadratic = std::visit([](auto one) { return one.quadratic; }, prior);
  const int64_t size = b.matrix_size(), matrices = b.n_matrices() * size;
  Candidate c;
  c.rows.slot.assign(b.n_features, -1);
  const Weights<double> w(weights, b);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], n = b.offsets[i + 1] - begin;
    const double scale = C * b.weights[i];
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
      const Ends ends = std::visit([&](auto one) { return ends_of(one, c.rows, eta); }, prior);
      // Along the line from the old marginals to the new the dual is concave. It has not fallen if it still rises at the
      // end; a parabola, if on average over both ends it rises.
      const double rise = c.gain - ends.first, end = c.gain - ends.last;
      const bool inside = ends.slack > 0 && std::isfinite(end);
      if (!(rise > 0)) break;  // nothing to gain, to rounding
      if (inside && (quadratic ? end + rise >= 0 : end >= 0)) {
        std::visit([&](auto one) { move_rows(b, one, c.rows, eta, weights); }, prior);
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
  Candidate c;
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

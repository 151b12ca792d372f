// Generalised block-coordinate Frank-Wolfe on the dual: max over alpha of sum alpha l - sum_k phi(eta_k).
//
// The block of example i is kept as marginals: node coefficients (n_nodes, lanes), edge coefficients summed per matrix.
// Its share of eta is their product with the features, eta_i = X_i' A_i, so that nothing of the size of w is stored.
#include <cstring>

#include "forest.hpp"
#include "kernels.hpp"
#include "prior.hpp"

namespace maxendnet {
namespace {

// The coordinates that one update can change: rows of eta for the features of the example, all matrices, tied weights.
struct Segment {
  int64_t start;     // first coordinate, in the layout of eta
  const double* d;   // direction
  int64_t size;      // a multiple of 8
};

// x += c * y; the size is a multiple of 8
INLINE void add_scaled(double* x, double c, const double* y, int64_t size) {
  for (int64_t k = 0; k < size; k += width<double>) store(x + k, load(x + k) + c * load(y + k));
}

struct Slopes {
  double first = 0, second = 0, slack = 1;
};

// First and second derivative of gamma -> sum_k phi(eta_k + gamma d_k), and whether the point is inside the domain.
template <class Prior>
INLINE Slopes slopes(const Prior& prior, const double* eta, const std::vector<Segment>& segments, double gamma) {
  V<double> first = {}, second = {}, slack = spread(1.0);
  for (const Segment& segment : segments) {
    const double* e = eta + segment.start;
    for (int64_t k = 0; k < segment.size; k += width<double>) {
      const V<double> d = load(segment.d + k), x = load(e + k) + gamma * d;
      const Moments<V<double>> m = Prior::moments(prior, x, segment.start + k);
      first += d * m.mean;
      second += d * d * m.variance;
      const V<double> room = Prior::slack(prior, x);
      slack = room < slack ? room : slack;
    }
  }
  Slopes total;
  for (int a = 0; a < width<double>; a++) {
    total.first += first[a];
    total.second += second[a];
    total.slack = std::min(total.slack, slack[a]);
  }
  return total;
}

// The step in [0, 1] that maximises the dual along the direction, from the slopes at 0. `gain` is the linear part b.
template <class Prior>
INLINE double line_search(const Prior& prior, const double* eta, const std::vector<Segment>& segments, double gain,
                          const Slopes& at_zero) {
  const double gap = gain - at_zero.first;
  if (!(at_zero.second > 0)) return 1;  // the dual is linear along d
  if (Prior::quadratic) return std::min(1.0, gap / at_zero.second);
  double low = 0, high = 1, gamma = std::min(1.0, prior.start(gap, at_zero.second));
  bool high_tried = false;  // whether the slope at `high` is known
  for (int trial = 0; trial < 40; trial++) {
    const Slopes here = slopes(prior, eta, segments, gamma);
    const bool inside = here.slack > 0 && std::isfinite(here.first) && std::isfinite(here.second);
    const double slope = gain - here.first;  // of the dual
    if (inside && std::fabs(slope) <= 0.01 * gap) return gamma;  // within 1e-4 of the best gain, to second order
    if (!inside || slope < 0) {
      high = gamma;
      high_tried = true;
    } else {
      low = gamma;
      if (gamma == 1) return 1;
    }
    double next = inside ? gamma + slope / here.second : 0;
    if (!high_tried && next >= high) next = high;
    else if (!(next > low && next < high)) next = 0.5 * (low + high);
    gamma = next;
  }
  return low;  // the largest step known to be inside and uphill
}

template <class R, int W>
INLINE void gather_direction(int a0, const GroupsView& groups, int64_t distinct, const double* node, int lanes,
                             double* out) {
  constexpr int n = width<double>;
  V<double> sum[W / n];
  weighted_sum<double, W>(
      groups.entry_offsets[distinct], groups.entry_offsets[distinct + 1],
      [&](int64_t k) INLINED { return groups.entry_values[k]; },
      [&](int64_t k) INLINED { return node + int64_t(groups.entry_nodes[k]) * lanes + a0; }, sum);
  for (int a = 0; a < W / n; a++) store(out + a0 + a * n, sum[a]);
}

INLINE void add_edges(const BatchView& b, int64_t begin, int64_t end, const int32_t* labels, double u, double* matrix) {
  const int64_t size = b.matrix_size();
  for (int64_t t = begin; t < end; t++) {
    if (b.parent[t] < 0) continue;
    const int64_t child = labels[t - begin], parent = labels[b.parent[t] - begin];
    const int64_t cell = b.flipped[t] ? child * b.lanes + parent : parent * b.lanes + child;
    matrix[b.edge_type[t] * size + cell] += u;
    for (int f = 0; f < b.n_edge_features; f++)
      matrix[(b.n_edge_types + f) * size + cell] += u * b.edge_features[t * b.n_edge_features + f];
  }
}

template <class R, class Prior>
INLINE void updates(const BatchView& b, const GroupsView& groups, const Prior& prior, double C, R* weights,
                    const R* cost, const double* cost64, const int64_t* picks, int64_t n_picks,
                    const FrankWolfeState& s) {
  const int lanes = b.lanes, n_tied = padded(b.n_tied);
  const int64_t size = b.matrix_size(), edges_size = b.n_matrices() * size;
  const int64_t matrix_start = b.n_features * lanes, tied_start = matrix_start + edges_size;
  const std::vector<R> zeros(lanes, 0);
  std::vector<R> message(lanes);
  Workspace<R> work;
  std::vector<double> node, rows, edge(edges_size), tied(n_tied);
  std::vector<Segment> segments;
  const Weights<R> w(weights, b);
  R* matrices = weights + matrix_start;
  R* tied_weights = matrices + 2 * edges_size;
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
    if (n == 0) continue;
    const double full = C * b.weights[i];
    work.fit(n, b);
    R *scores = work.scores.data(), *own = work.matrices.data();
    score_nodes(b, w, begin, end, scores);
    forbid(b, begin, end, scores);
    if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
    for (int64_t t = begin; t < end; t++) {
      const R* row = cost + int64_t(b.y[t]) * lanes;
      add_row(scores + (t - begin) * lanes, row, lanes);
    }
    max_up<R, false>(b, w.matrix, own, begin, end, scores, message.data());
    int32_t* labels = work.labels.data();
    max_down(b, w.matrix, own, begin, end, scores, zeros.data(), labels);

    // direction: the found vertex minus the block
    double gain = -s.costs[i];
    node.resize(std::max(node.size(), size_t(n) * lanes));
    double* block = s.blocks_node + begin * lanes;
    for (int64_t k = 0; k < n * lanes; k++) node[k] = -block[k];
    bool any = false;
    for (int64_t t = begin; t < end; t++) {
      const int32_t found = labels[t - begin], right = b.y[t];
      if (found == right) continue;
      gain += full * cost64[int64_t(right) * lanes + found];
      node[(t - begin) * lanes + right] += full;
      node[(t - begin) * lanes + found] -= full;
    }
    for (int64_t k = 0; k < n * lanes; k++) any |= node[k] != 0;
    if (!any) {  // the block is the vertex
      s.gaps[i] = 0;
      continue;
    }
    segments.clear();
    const int64_t first = groups.feature_offsets[i], last = groups.feature_offsets[i + 1];
    rows.resize(std::max(rows.size(), size_t(last - first) * lanes));
    for (int64_t d = first; d < last; d++) {
      double* row = rows.data() + (d - first) * lanes;
      FOR_LANES(gather_direction, double, lanes, groups, d, node.data(), lanes, row);
      segments.push_back({int64_t(groups.features[d]) * lanes, row, lanes});
    }
    const int64_t edge_row = s.edge_block[i];
    double* edge_block = edge_row < 0 ? nullptr : s.blocks_edge + edge_row * edges_size;
    if (edge_block) {
      for (int64_t k = 0; k < edges_size; k++) edge[k] = -edge_block[k];
      add_edges(b, begin, end, b.y + begin, full, edge.data());
      add_edges(b, begin, end, labels, -full, edge.data());
      segments.push_back({matrix_start, edge.data(), edges_size});
    }
    if (b.n_tied) {
      for (int j = 0; j < b.n_tied; j++) tied[j] = -s.blocks_tied[i * b.n_tied + j];
      for (int64_t t = begin; t < end; t++)
        for (int j = 0; j < b.n_tied && labels[t - begin] != b.y[t]; j++)
          tied[j] += full * (b.label_features[(t * b.n_labels + b.y[t]) * b.n_tied + j] -
                             b.label_features[(t * b.n_labels + labels[t - begin]) * b.n_tied + j]);
      segments.push_back({tied_start, tied.data(), n_tied});
    }

    const Slopes at_zero = slopes(prior, s.eta, segments, 0);
    const double gap = gain - at_zero.first;
    s.gaps[i] = gap > 0 ? gap : 0;
    if (!(gap > 0)) continue;
    const double gamma = line_search(prior, s.eta, segments, gain, at_zero);
    if (!(gamma > 0)) continue;

    const double updated = s.n_updates[0] += 1, weight_so_far = 0.5 * updated * (updated - 1);
    for (const Segment& segment : segments) {
      add_scaled(s.eta + segment.start, gamma, segment.d, segment.size);
      if (s.average) add_scaled(s.average + segment.start, weight_so_far * gamma, segment.d, segment.size);
    }
    s.average_cost[0] += weight_so_far * gamma * gain;
    for (int64_t d = first; d < last; d++) {
      const int64_t start = int64_t(groups.features[d]) * lanes;
      for (int a = 0; a < lanes; a += width<double>) {
        const V<double> mean = Prior::moments(prior, load(s.eta + start + a), start + a).mean;
        for (int k = 0; k < width<double>; k++) weights[start + a + k] = R(mean[k]);
      }
    }
    for (int m = 0; edge_block && m < b.n_matrices(); m++) {
      R* pair = matrices + 2 * m * size;
      for (int a = 0; a < b.n_labels; a++)
        for (int c = 0; c < b.n_labels; c++) {
          const int64_t k = int64_t(a) * lanes + c;
          if (edge[m * size + k] == 0) continue;
          const int64_t position = matrix_start + m * size + k;
          const R mean = R(Prior::moments(prior, s.eta[position], position).mean);
          pair[k] = mean;
          pair[size + int64_t(c) * lanes + a] = mean;
        }
    }
    for (int j = 0; j < b.n_tied; j++) {
      tied_weights[j] = R(Prior::moments(prior, s.eta[tied_start + j], tied_start + j).mean);
      s.blocks_tied[i * b.n_tied + j] += gamma * tied[j];
    }
    add_scaled(block, gamma, node.data(), n * lanes);
    if (edge_block) add_scaled(edge_block, gamma, edge.data(), edges_size);
    s.costs[i] += gamma * gain;
  }
}

#define UPDATES(name, R, Prior)                                                                                      \
  CLONES void name(const BatchView& b, const GroupsView& groups, const PriorArgs& prior, double C, R* weights,       \
                   const R* cost, const double* cost64, const int64_t* picks, int64_t n_picks,                       \
                   const FrankWolfeState& state) {                                                                   \
    updates(b, groups, Prior(prior), C, weights, cost, cost64, picks, n_picks, state);                               \
  }
#define BOTH(name, Prior)           \
  UPDATES(name##_float, float, Prior)   \
  UPDATES(name##_double, double, Prior)
BOTH(gaussian_updates, GaussianPrior)
BOTH(diagonal_updates, DiagonalGaussianPrior)
BOTH(normal_gamma_updates, NormalGammaPrior)
BOTH(normal_inverse_gaussian_updates, NormalInverseGaussianPrior)
BOTH(spike_slab_updates, SpikeSlabPrior)
BOTH(exponential_updates, ExponentialPrior)
BOTH(uniform_updates, UniformPrior)

template <class Prior>
void means(const Prior& prior, const double* eta, int64_t n, double* mean) {
  for (int64_t k = 0; k < n; k++) mean[k] = Prior::moments(prior, eta[k], k).mean;
}

}  // namespace

#define CHOOSE(R, suffix)                                                                                             \
  template <>                                                                                                         \
  void block_frank_wolfe<R>(const BatchView& b, const GroupsView& g, const PriorArgs& p, double C, R* w, const R* cost, \
                            const double* cost64, const int64_t* picks, int64_t n, const FrankWolfeState& s) {        \
    switch (p.kind) {                                                                                                 \
      case gaussian:                                                                                                  \
        if (p.variance) return diagonal_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                    \
        return gaussian_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                                    \
      case normal_gamma: return normal_gamma_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);               \
      case normal_inverse_gaussian:                                                                                   \
        return normal_inverse_gaussian_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                     \
      case spike_slab: return spike_slab_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                   \
      case exponential: return exponential_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                 \
      case uniform: return uniform_updates##suffix(b, g, p, C, w, cost, cost64, picks, n, s);                         \
    }                                                                                                                 \
  }
CHOOSE(float, _float)
CHOOSE(double, _double)

void prior_mean(const PriorArgs& p, const double* eta, int64_t n, double* mean) {
  switch (p.kind) {
    case gaussian:
      return p.variance ? means(DiagonalGaussianPrior(p), eta, n, mean) : means(GaussianPrior(p), eta, n, mean);
    case normal_gamma: return means(NormalGammaPrior(p), eta, n, mean);
    case normal_inverse_gaussian: return means(NormalInverseGaussianPrior(p), eta, n, mean);
    case spike_slab: return means(SpikeSlabPrior(p), eta, n, mean);
    case exponential: return means(ExponentialPrior(p), eta, n, mean);
    case uniform: return means(UniformPrior(p), eta, n, mean);
  }
}

// Hinge of every example and the gap of its block, g_i = C u_i hinge_i - (l_i - mu.eta_i); their sum is primal - dual.
CLONES void block_gaps(const BatchView& b, const double* weights, const double* cost, double C, int64_t first,
                       int64_t last, const FrankWolfeState& s, double* values, double* gaps) {
  using R = double;
  const int lanes = b.lanes;
  const int64_t size = b.matrix_size(), edges_size = b.n_matrices() * size;
  const Weights<R> w(weights, b);
  const std::vector<R> zeros(lanes, 0);
  std::vector<R> message(lanes), plain;
  Workspace<R> work;
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    work.fit(end - begin, b);
    R *scores = work.scores.data(), *own = work.matrices.data();
    score_nodes(b, w, begin, end, scores);
    double projection = 0;  // mu . eta_i
    const double* block = s.blocks_node + begin * lanes;
    for (int64_t t = 0; t < end - begin; t++)
      for (int a = 0; a < b.n_labels; a++) projection += block[t * lanes + a] * scores[t * lanes + a];
    if (s.edge_block[i] >= 0) {
      const double* edge = s.blocks_edge + s.edge_block[i] * edges_size;
      for (int m = 0; m < b.n_matrices(); m++)
        for (int64_t k = 0; k < size; k++) projection += edge[m * size + k] * w.matrix[2 * m * size + k];
    }
    // (tied weights are part of the node scores already)
    forbid(b, begin, end, scores);
    if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
    for (int64_t t = begin; t < end; t++) {
      const R* row = cost + int64_t(b.y[t]) * lanes;
      add_row(scores + (t - begin) * lanes, row, lanes);
    }
    plain.assign(scores, scores + (end - begin) * lanes);
    max_up<R, false>(b, w.matrix, own, begin, end, scores, message.data());
    max_down(b, w.matrix, own, begin, end, scores, zeros.data(), work.labels.data());
    const double hinge = score_of(b, w.matrix, own, begin, end, plain.data(), work.labels.data()) -
                         score_of(b, w.matrix, own, begin, end, plain.data(), b.y + begin);
    values[i] = std::max(0.0, hinge);
    gaps[i] = std::max(0.0, C * b.weights[i] * values[i] - (s.costs[i] - projection));
  }
}

// eta = sum_i X_i' A_i, afresh from the blocks, so that rounding does not pile up over millions of updates.
CLONES void block_features(const BatchView& b, const FrankWolfeState& s, int64_t first, int64_t last, double* eta) {
  const int lanes = b.lanes;
  const int64_t edges_size = b.n_matrices() * b.matrix_size();
  double* matrix = eta + b.n_features * lanes;
  double* tied = matrix + edges_size;
  for (int64_t i = first; i < last; i++) {
    for (int64_t t = b.offsets[i]; t < b.offsets[i + 1]; t++) {
      const double* block = s.blocks_node + t * lanes;
      bool any = false;
      for (int a = 0; a < lanes; a++) any |= block[a] != 0;
      if (!any) continue;
      for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
        add_scaled(eta + int64_t(b.indices[k]) * lanes, b.data[k], block, lanes);
      }
    }
    if (s.edge_block[i] >= 0) {
      const double* edge = s.blocks_edge + s.edge_block[i] * edges_size;
      for (int64_t k = 0; k < edges_size; k++) matrix[k] += edge[k];
    }
    for (int j = 0; j < b.n_tied; j++) tied[j] += s.blocks_tied[i * b.n_tied + j];
  }
}

}  // namespace maxendnet

// Block coordinate ascent on the dual of the log loss (online exponentiated gradient, Collins et al. 2008). Block i is
// a distribution q_i over the labellings of example i. The dual objective is
//   sum_i C u_i (entropy(q_i) + E_q cost_i) - phi(eta), with eta = sum_i C u_i (f(x_i, y_i) - E_q f),
// sample weights u_i and the cumulant phi of the prior. Costs are zero unless the loss has a margin.
//
// The logarithm of q_i is stored, up to a constant, as potentials: a row for every node and a matrix for every edge type (all
// edges of a type have the same potentials). A step moves the potentials towards the scores under the current weights,
// theta <- theta + step (w . f + cost - theta); with step 1 and no costs, q_i becomes p(y | x_i; w). The marginals of nodes
// and the sums of the marginals of edges are stored too, since their change determines that of eta.
#include "common/kernels.hpp"
#include "recursions/sum_product.hpp"
#include "updates/prior.hpp"

namespace maxendnet {
namespace {

constexpr int most_trials = 6, most_first_trials = 20;
constexpr double least_step = 1e-3;

// Rare features are far apart in memory: the data of the next examples are prefetched. With seen pairs, first the offsets of
// the rows, then the rows.
INLINE void prefetch_offsets(const BatchView& b, int64_t i) {
  for (int64_t k = b.indptr[b.offsets[i]]; k < b.indptr[b.offsets[i + 1]]; k++) prefetch(b.row_offsets + b.indices[k]);
}
template <class R>
INLINE void prefetch_rows(const BatchView& b, int64_t i, const R* weights, const R* eta) {
  constexpr int64_t line = 64 / sizeof(R);
  for (int64_t k = b.indptr[b.offsets[i]]; k < b.indptr[b.offsets[i + 1]]; k++) {
    const int64_t j = b.indices[k], first = b.row_offsets ? b.row_offsets[j] : j * b.lanes;
    if (b.row_offsets) prefetch(b.row_labels + first);
    for (int64_t a = 0; a < (b.row_offsets ? 1 : b.lanes); a += line) {
      prefetch(weights + first + a);
      if (eta) prefetch(eta + first + a);
    }
  }
}

// A sum over the nodes of an example of values of features times rows of labels, for the features that occur.
template <class R>
class FeatureSum {
  struct Slot {
    int32_t sum = 0, row = 0;  // the row belongs to this sum if `sum` is the current number
  };
  std::vector<Slot> slots;  // for each feature
  int32_t number = 0;

 public:
  std::vector<int32_t> features;
  Rows<R> rows;  // (features.size(), lanes)

  explicit FeatureSum(int64_t n_features) : slots(n_features) {}
  void clear() {
    features.clear();
    if (++number == std::numeric_limits<int32_t>::max()) {
      std::fill(slots.begin(), slots.end(), Slot());
      number = 1;
    }
  }
  // Makes room for the features of nodes [begin, end).
  void reserve(const BatchView& b, int64_t begin, int64_t end) {
    const size_t most = size_t(b.indptr[end] - b.indptr[begin]) * b.lanes;
    if (rows.size() < most) rows.resize(most);
  }
  INLINED void add(const BatchView& b, int64_t t, const R* row) {
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const R x = R(b.data[k]);
      Slot& slot = slots[b.indices[k]];
      if (slot.sum != number) {
        slot = {number, int32_t(features.size())};
        features.push_back(b.indices[k]);
        R* sum = rows.data() + int64_t(slot.row) * b.lanes;
        for (int a = 0; a < b.lanes; a += width<R>) store(sum + a, x * load(row + a));
      } else {
        R* sum = rows.data() + int64_t(slot.row) * b.lanes;
        for (int a = 0; a < b.lanes; a += width<R>) store(sum + a, load(sum + a) + x * load(row + a));
      }
    }
  }
  // Calls f(feature, coordinate, value) for every weight of these features.
  template <class F>
  INLINED void each(const BatchView& b, F f) const {
    for (size_t j = 0; j < features.size(); j++) {
      const R* sum = rows.data() + int64_t(j) * b.lanes;
      if (b.row_offsets) {
        const int64_t end = b.row_offsets[features[j] + 1];
        for (int64_t k = b.row_offsets[features[j]]; k < end; k++) f(features[j], k, sum[b.row_labels[k]]);
      } else {
        for (int a = 0; a < b.n_labels; a++) f(features[j], int64_t(features[j]) * b.lanes + a, sum[a]);
      }
    }
  }
};

// Proposed potentials of one example, with their marginals.
template <class R>
struct Trial {
  SumProduct<R> sums;
  std::vector<R> goal;                  // (n, lanes) scores under the current weights, with costs
  std::vector<R> node, matrix;          // potentials
  std::vector<R> both, outer;           // matrices in both orientations; sums of outer products over edges
  std::vector<R> matrix_marginals;      // (n_edge_types, n_labels, lanes)
  std::vector<R> change, label_change;  // changes of node marginals and of expected label features
  FeatureSum<R> feature_change;         // change of expected node features
  std::vector<uint8_t> moves;           // nodes whose marginals change
  std::vector<int64_t> rows;
  double log_partition = 0;

  explicit Trial(int64_t n_features = 0) : feature_change(n_features) {}
  const R* node_marginals() const { return sums.work.results.data(); }
};

template <class R>
INLINE double range_of(const R* matrix, int n, int lanes) {
  R low = std::numeric_limits<R>::infinity(), high = -low;
  for (int a = 0; a < n; a++)
    for (int c = 0; c < n; c++) {
      low = std::min(low, matrix[int64_t(a) * lanes + c]);
      high = std::max(high, matrix[int64_t(a) * lanes + c]);
    }
  return double(high - low);
}

// Computes log Z and the marginals of the potentials `node` and `matrix`.
template <class R>
void find_marginals(const BatchView& b, int64_t begin, int64_t end, double most_spread, Trial<R>& c) {
  const int64_t size = b.matrix_size();
  const int n = b.n_labels, lanes = b.lanes;
  SumProduct<R>& s = c.sums;
  s.work.fit(end - begin, b);
  std::copy_n(c.node.data(), (end - begin) * lanes, s.work.scores.data());
  forbid(b, begin, end, s.work.scores.data());
  double spread = 0;
  for (int m = 0; m < b.n_edge_types; m++) spread = std::max(spread, range_of(c.matrix.data() + m * size, n, lanes));
  const bool joined = b.n_edge_types && end - begin > 1;
  s.mode = spread <= most_spread || !joined ? scaled : logarithmic;
  s.joint.resize(lanes);
  c.both.resize(size_t(b.n_edge_types) * 2 * size);
  s.exp_shared.resize(c.both.size());
  s.shift_shared.resize(b.n_edge_types);
  s.plain = c.both.data();
  for (int m = 0; joined && m < b.n_edge_types; m++) {
    const R* matrix = c.matrix.data() + m * size;
    R* pair = (s.mode == scaled ? s.exp_shared.data() : c.both.data()) + 2 * m * size;
    if (s.mode == scaled) s.shift_shared[m] = exp_matrix(matrix, n, lanes, pair);
    else std::copy_n(matrix, size, pair);
    for (int a = 0; a < n; a++)
      for (int z = 0; z < n; z++) pair[size + int64_t(z) * lanes + a] = pair[int64_t(a) * lanes + z];
  }
  c.log_partition = sum_up(b, begin, end, s);
  c.matrix_marginals.assign(size_t(b.n_edge_types) * size, R(0));
  if (s.mode == scaled) {
    sum_down(b, begin, end, 0, s, NoRows());
    c.outer.assign(s.exp_shared.size(), R(0));
    add_outer(b, begin, end, s, c.rows, c.outer.data());
    for (int64_t kind = 0; joined && kind < 2 * b.n_edge_types; kind++) {
      const R *matrix = s.exp_shared.data() + kind * size, *sums = c.outer.data() + kind * size;
      R* out = c.matrix_marginals.data() + kind / 2 * size;
      if (!(kind & 1)) {
        for (int64_t k = 0; k < size; k += width<R>) store(out + k, load(out + k) + load(matrix + k) * load(sums + k));
        continue;
      }
      for (int a = 0; a < n; a++)
        for (int z = 0; z < n; z++)
          out[int64_t(z) * lanes + a] += matrix[int64_t(a) * lanes + z] * sums[int64_t(a) * lanes + z];
    }
  } else {
    sum_down(b, begin, end, 0, s, [&](int64_t t, int a, const double* joint) INLINED {
      R* out = c.matrix_marginals.data() + b.edge_type[t] * size;
      for (int z = 0; z < n; z++) out[edge_cell(b, lanes, t, a, z)] += R(joint[z]);
    });
  }
}

// State shared by the steps of all examples.
template <class R>
struct Ascent {
  const BatchView& b;
  const Layout layout;
  R *weights, *eta;
  const double* row_variance;
  const Weights<R> w;

  Ascent(const BatchView& batch, R* all_weights, R* all_eta, const double* variances)
      : b(batch), layout(padded_layout(batch)), weights(all_weights), eta(all_eta), row_variance(variances),
        w(all_weights, batch) {}
  R* label_weights() const { return weights + layout.label_features + layout.label_features - layout.matrices; }
  // Prior variance of the weights of a feature relative to that of the prior; n_features stands for all other weights.
  INLINED double relative_variance(int64_t feature) const { return row_variance ? row_variance[feature] : 1.0; }
};

// One example with its potentials and marginals before a trial.
template <class R>
struct Visited {
  int64_t begin, n;
  double scale;              // C times its weight
  R *node, *matrix;          // potentials
  R *old_node, *old_matrix;  // marginals
};

// Curvature of phi along the change d of eta: sum of d (mean(eta + d) - mean(eta)).
template <class Prior, class R>
OUTLINE double curvature_with(Prior prior, const Ascent<R>& s, const Visited<R>& v, const Trial<R>& c) {
  const BatchView& b = s.b;
  const int64_t size = b.matrix_size();
  const FeatureSum<R>& sums = c.feature_change;
  const auto bend = [&](int64_t feature, int64_t k, double change, R weight) INLINED {
    const double d = -v.scale * change, relative = s.relative_variance(feature);
    if constexpr (Prior::quadratic) return d * d * relative * Prior::moments(prior, 0.0, &k).variance;
    else return d * (relative * Prior::moments(prior, double(s.eta[k]) + d, &k).mean - double(weight));
  };
  double curve = 0;
  if (Prior::uniform && !b.row_offsets) {
    for (size_t j = 0; j < sums.features.size(); j++) {
      const R* row = sums.rows.data() + int64_t(j) * b.lanes;
      V<R> square = {};
      for (int a = 0; a < b.lanes; a += width<R>) square += load(row + a) * load(row + a);
      curve += s.relative_variance(sums.features[j]) * double(lane_sum(square));
    }
    int64_t any = 0;
    curve *= v.scale * v.scale * Prior::moments(prior, 0.0, &any).variance;
  } else {
    sums.each(b, [&](int32_t feature, int64_t k, R change)
                     INLINED { curve += bend(feature, k, double(change), s.weights[k]); });
  }
  for (int m = 0; m < b.n_edge_types; m++)
    for (int64_t k = m * size; k < (m + 1) * size; k++)
      curve += bend(b.n_features, s.layout.matrices + k, double(c.matrix_marginals[k] - v.old_matrix[k]),
                    s.w.matrix[m * size + k]);
  for (int j = 0; j < b.n_label_features; j++)
    curve += bend(b.n_features, s.layout.label_features + j, double(c.label_change[j]), s.label_weights()[j]);
  return curve;
}

// Updates the weights after an accepted trial, and eta unless the prior is uniform.
template <class Prior, class R>
OUTLINE void follow_with(Prior prior, const Ascent<R>& s, const Visited<R>& v, const Trial<R>& c) {
  const BatchView& b = s.b;
  const int64_t size = b.matrix_size(), lanes = b.lanes;
  const FeatureSum<R>& sums = c.feature_change;
  int64_t any = 0;
  // change of the weights of a feature for a change of 1 of its marginals, if the prior is uniform
  const double variance = -v.scale * Prior::moments(prior, 0.0, &any).variance;
  const auto factor = [&](int64_t feature) INLINED { return R(variance * s.relative_variance(feature)); };
  const auto follow = [&](int64_t feature, int64_t k, R change, R& weight) INLINED {
    if constexpr (Prior::uniform) {
      weight += factor(feature) * change;
    } else if (change != 0) {
      s.eta[k] = R(double(s.eta[k]) - v.scale * double(change));
      weight = R(s.relative_variance(feature) * Prior::moments(prior, double(s.eta[k]), &k).mean);
    }
  };
  if (Prior::uniform && !b.row_offsets) {
    for (size_t j = 0; j < sums.features.size(); j++) {
      R* row = s.weights + int64_t(sums.features[j]) * lanes;
      const R* change = sums.rows.data() + int64_t(j) * lanes;
      const R x = factor(sums.features[j]);
      for (int64_t a = 0; a < lanes; a += width<R>) store(row + a, load(row + a) + x * load(change + a));
    }
  } else {
    sums.each(b, [&](int32_t feature, int64_t k, R change) INLINED { follow(feature, k, change, s.weights[k]); });
  }
  for (int m = 0; m < b.n_edge_types; m++) {
    R* pair = s.weights + s.layout.matrices + 2 * m * size;
    for (int64_t a = 0; a < b.n_labels; a++)
      for (int64_t z = 0; z < b.n_labels; z++) {
        const int64_t cell = m * size + a * lanes + z;
        const R change = c.matrix_marginals[cell] - v.old_matrix[cell];
        follow(b.n_features, s.layout.matrices + cell, change, pair[a * lanes + z]);
        pair[size + z * lanes + a] = pair[a * lanes + z];
      }
  }
  for (int j = 0; j < b.n_label_features; j++)
    follow(b.n_features, s.layout.label_features + j, c.label_change[j], s.label_weights()[j]);
}

// At the first visit, the share of the goal and of the bonus of the true labels. With a larger bonus, marginals would be
// rounded to 0 and 1, and later steps would not change them.
constexpr double most_bonus = 10;
INLINE double first_share(double bonus) { return std::min(1.0, most_bonus / bonus); }

// Potentials of a trial: a step towards the goal; at the first visit a share of the goal with a bonus for the true labels.
template <class R>
INLINE void propose(const Ascent<R>& s, const Visited<R>& v, bool first, double step, double added, Trial<R>& c) {
  const BatchView& b = s.b;
  const int64_t size = b.matrix_size(), n_node = v.n * b.lanes;
  const R share = R(first ? first_share(added) : step);
  if (first) {
    for (int64_t k = 0; k < n_node; k += width<R>) store(c.node.data() + k, share * load(c.goal.data() + k));
    for (int64_t t = 0; t < v.n; t++) c.node[t * b.lanes + b.y[v.begin + t]] += share * R(added);
  } else {
    for (int64_t k = 0; k < n_node; k += width<R>)
      store(c.node.data() + k, load(v.node + k) + share * (load(c.goal.data() + k) - load(v.node + k)));
  }
  for (int m = 0; m < b.n_edge_types; m++)
    for (int64_t k = 0; k < size; k++) {
      const R from = first ? R(0) : v.matrix[m * size + k];
      c.matrix[m * size + k] = from + share * (s.w.matrix[2 * m * size + k] - from);
    }
}

// Expected score of an example under the marginals of a trial.
template <class R>
OUTLINE double expected_goal(const Ascent<R>& s, const Visited<R>& v, const Trial<R>& c) {
  const int64_t size = s.b.matrix_size(), lanes = s.b.lanes;
  const R* now = c.node_marginals();
  double sum = 0;
  for (int64_t t = 0; t < v.n; t++)
    for (int64_t k = t * lanes; k < t * lanes + s.b.n_labels; k++)
      if (now[k] > 0) sum += double(now[k]) * double(c.goal[k]);
  for (int m = 0; m < s.b.n_edge_types; m++)
    for (int64_t k = 0; k < size; k++)
      sum += double(c.matrix_marginals[m * size + k]) * double(s.w.matrix[2 * m * size + k]);
  return sum;
}

// Computes the changes of all marginals; returns (marginals after - before) . (goal - potentials): the average variance of
// goal - potentials along the step, times the step.
template <class R>
INLINE double find_changes(const Ascent<R>& s, const Visited<R>& v, double least_change, Trial<R>& c) {
  const BatchView& b = s.b;
  const int lanes = b.lanes;
  const int64_t size = b.matrix_size();
  const R* now = c.node_marginals();
  double spread = 0;
  for (int64_t t = 0; t < v.n; t++) {
    V<R> sum = {}, most = {};
    for (int64_t k = t * lanes; k < (t + 1) * lanes; k += width<R>) {
      const V<R> d = load(now + k) - load(v.old_node + k);
      store(c.change.data() + k, d);
      sum += d * (load(c.goal.data() + k) - load(v.node + k));
      most = larger(larger(d, -d), most);
    }
    spread += double(lane_sum(sum));
    c.moves[t] = double(lane_max(most)) > least_change;
    if (!c.moves[t]) std::fill_n(c.change.data() + t * lanes, lanes, R(0));
  }
  for (int m = 0; m < b.n_edge_types; m++)
    for (int64_t k = 0; k < size; k++)
      spread += double((c.matrix_marginals[m * size + k] - v.old_matrix[m * size + k]) *
                       (s.w.matrix[2 * m * size + k] - v.matrix[m * size + k]));
  c.feature_change.clear();
  for (int64_t t = 0; t < v.n; t++)
    if (c.moves[t]) c.feature_change.add(b, v.begin + t, c.change.data() + t * lanes);
  std::fill(c.label_change.begin(), c.label_change.end(), R(0));
  for (int64_t t = 0; b.n_label_features && t < v.n; t++)
    for (int a = 0; a < b.n_labels; a++)
      for (int j = 0; j < b.n_label_features; j++)
        c.label_change[j] += c.change[t * lanes + a] * R(label_feature_values(b, v.begin + t, a)[j]);
  return spread;
}

}  // namespace

template <class R>
void potential_ascent(const BatchView& b, const KernelPrior& any_prior, const double* row_variance, double C,
                      R* weights, R* eta, const R* cost, const int64_t* picks, int64_t n_picks, double most_spread,
                      double least_change, double bonus, double* steps, R* node_potentials, R* matrix_potentials,
                      R* node_marginals, R* matrix_marginals, double* gaps) {
  const int lanes = b.lanes;
  const int64_t matrices = b.n_edge_types * b.matrix_size();
  const Ascent<R> s(b, weights, eta, row_variance);
  Trial<R> c(b.n_features);
  const bool uniform = std::visit([](const auto& prior) { return prior.uniform; }, any_prior);
  c.label_change.resize(b.n_label_features);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
    const double scale = C * b.sample_weight[i];
    if (b.row_offsets && pick + 2 < n_picks) prefetch_offsets(b, picks[pick + 2]);
    if (pick + 1 < n_picks) prefetch_rows(b, picks[pick + 1], weights, uniform ? nullptr : eta);
    const bool first = std::isinf(gaps[i]);  // first visit: all weight is on the truth
    gaps[i] = 0;
    if (n == 0 || scale == 0) continue;
    const Visited<R> v{begin,
                       n,
                       scale,
                       node_potentials + begin * lanes,
                       matrix_potentials + i * matrices,
                       node_marginals + begin * lanes,
                       matrix_marginals + i * matrices};
    const size_t n_node = size_t(n) * lanes;
    if (c.goal.size() < n_node) c.goal.resize(n_node), c.node.resize(n_node), c.change.resize(n_node);
    c.matrix.resize(matrices);
    c.feature_change.reserve(b, begin, end);
    c.moves.assign(size_t(n), 0);
    score_nodes(b, s.w, begin, end, c.goal.data());
    for (int64_t t = 0; t < n; t++) add_row(c.goal.data() + t * lanes, cost + int64_t(b.row[begin + t]) * lanes, lanes);
    // few trials for long examples, so that a call does not take too long
    const int n_trials = first ? most_first_trials : n < 10000 ? most_trials : 1;
    double added = bonus;
    for (int trial = 0; trial < n_trials; trial++, added *= 1.5) {
      const double step = steps[i];
      propose(s, v, first, step, added, c);
      find_marginals(b, begin, end, most_spread, c);
      const double spread = find_changes(s, v, least_change, c);
      const double curve = std::visit([&](const auto& prior) { return curvature_with(prior, s, v, c); }, any_prior);
      // the slope of the dual at a fraction s of the way is about scale [(1 - s) variance - s curve / (scale step^2)]
      const double variance = scale * spread / step, bent = curve / (step * step);
      const double best = variance > 0 ? variance / (variance + bent) : 0;
      bool accepted = variance > 0 && (step <= 1.8 * best || step <= least_step);
      const R* now = c.node_marginals();
      if (first) {
        // the dual changes by the gain of entropy and expected score minus half the curvature; at the best step the
        // curvature is equal to the gain (1e-4: tolerance for rounding)
        double right = 0;
        for (int64_t t = 0; t < n; t++) right += double(now[t * lanes + b.y[begin + t]]);
        const double truth =
            score_of(b, s.w.matrix, static_cast<const R*>(nullptr), begin, begin, end, c.goal.data(), b.y + begin);
        const double share = first_share(added);
        double gain = c.log_partition - share * added * right - truth;
        if (share < 1) gain += (1 - share) * expected_goal(s, v, c);
        accepted = curve <= scale * (1.4 * gain + 1e-4);
      }
      if (accepted) std::visit([&](const auto& prior) { follow_with(prior, s, v, c); }, any_prior);
      if (trial == 0 && !first) gaps[i] = std::max(0.0, 0.5 * variance);
      if (best > 0 && !first) steps[i] = std::min(1.0, std::max(least_step, best));
      if (first) gaps[i] = accepted ? scale * double(n) : std::numeric_limits<double>::infinity();
      if (!accepted && !first && !(variance > 0)) break;  // no improvement, up to rounding
      if (!accepted) continue;
      std::copy_n(c.node.data(), n_node, v.node);
      std::copy_n(c.matrix.data(), matrices, v.matrix);
      for (int64_t t = 0; t < n; t++)
        if (c.moves[t]) std::copy_n(now + t * lanes, lanes, v.old_node + t * lanes);
      std::copy_n(c.matrix_marginals.data(), matrices, v.old_matrix);
      break;
    }
  }
}

// Marginals, entropy plus expected cost, and log-probability of the truth for given potentials of examples [first, last), in
// double precision. Adds expected features minus those of the truth, weighted, to `features`.
template <class R>
void potential_look(const BatchView& b, const double* cost, int64_t first, int64_t last, double most_spread,
                    const R* node_potentials, const R* matrix_potentials, R* node_marginals, R* matrix_marginals,
                    double* entropies, double* truths, double* features) {
  const int64_t matrices = b.n_edge_types * b.matrix_size();
  const Layout layout = padded_layout(b);
  Trial<double> c;
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1], n_node = (end - begin) * b.lanes;
    const double u = b.sample_weight[i];
    entropies[i] = truths[i] = 0;
    if (begin == end) continue;
    c.node.assign(node_potentials + begin * b.lanes, node_potentials + end * b.lanes);
    c.matrix.assign(matrix_potentials + i * matrices, matrix_potentials + (i + 1) * matrices);
    find_marginals(b, begin, end, most_spread, c);
    const double* node = c.node_marginals();
    double expected = 0;
    for (int64_t k = 0; k < n_node; k++) expected += node[k] * c.node[k];
    for (int64_t k = 0; k < matrices; k++) expected += c.matrix_marginals[k] * c.matrix[k];
    entropies[i] = c.log_partition - expected;
    for (int64_t t = begin; t < end; t++) {
      const double *p = node + (t - begin) * b.lanes, *prices = cost + int64_t(b.row[t]) * b.lanes;
      for (int a = 0; a < b.n_labels; a++) entropies[i] += p[a] * prices[a];
    }
    truths[i] = -c.log_partition;
    for (int64_t t = begin; t < end; t++) truths[i] += c.node[(t - begin) * b.lanes + b.y[t]];
    labelled_edges(b, layout, begin, end, b.y + begin,
                   [&](int64_t k, double x) INLINED { truths[i] += x * c.matrix[k - layout.matrices]; });
    std::copy_n(node, n_node, node_marginals + begin * b.lanes);
    std::copy_n(c.matrix_marginals.data(), matrices, matrix_marginals + i * matrices);
    for (int64_t t = begin; t < end; t++) {
      double* row = c.node.data();  // reused
      for (int a = 0; a < b.n_labels; a++) row[a] = u * (node[(t - begin) * b.lanes + a] - (a == b.y[t]));
      node_expectation(b, layout, t, row, features);
    }
    for (int64_t k = 0; k < matrices; k++) features[layout.matrices + k] += u * c.matrix_marginals[k];
    labelled_edges(b, layout, begin, end, b.y + begin, [&](int64_t k, double x) INLINED { features[k] -= u * x; });
  }
}

#define FOR_PRECISION(R)                                                                                             \
  template void potential_ascent<R>(const BatchView&, const KernelPrior&, const double*, double, R*, R*, const R*,   \
                                    const int64_t*, int64_t, double, double, double, double*, R*, R*, R*, R*,        \
                                    double*);                                                                        \
  template void potential_look<R>(const BatchView&, const double*, int64_t, int64_t, double, const R*, const R*, R*, \
                                  R*, double*, double*, double*);
FOR_PRECISION(float)
FOR_PRECISION(double)
#undef FOR_PRECISION

}  // namespace maxendnet

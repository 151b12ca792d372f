// The log loss of forests: the values of many examples, and the gradient of their sum.
#include <algorithm>
#include <stdexcept>

#include "common/kernels.hpp"
#include "recursions/few_labels.hpp"
#include "recursions/sum_product.hpp"

namespace maxendnet {
namespace {

// Computes gradient row += sum of value * residual over the nodes that have the feature.
template <class R, int W>
INLINE void gather_lanes(int a0, bool ones, const GroupsView& groups, int64_t distinct, const R* residuals, int lanes,
                         double* out) {
  constexpr int n = width<R>;
  V<R> sum[W / n];
  weighted_sum<R, W>(
      groups.entry_offsets[distinct], groups.entry_offsets[distinct + 1],
      [&](int64_t k) INLINED { return ones ? R(1) : R(groups.entry_values[k]); },
      [&](int64_t k) INLINED { return residuals + int64_t(groups.entry_nodes[k]) * lanes + a0; }, sum);
  for (int a = 0; a < W; a++) out[a0 + a] += double(sum[a / n][a % n]);
}

// Moves row and column terms out of the exponentials of edge types, into `sides`: a row for each kind of edge, by label of
// the parent; that of the child is at `kind ^ 1`.
template <class R>
INLINE void centre_shared(const BatchView& b, SumProduct<R>& s, Rows<R>& sides) {
  const int64_t size = b.matrix_size(), n = b.n_labels, lanes = b.lanes;
  std::vector<R> centred(size);
  sides.resize(size_t(b.n_edge_types) * 2 * lanes);
  for (int64_t m = 0; m < b.n_edge_types; m++) {
    R *plain = s.exp_shared.data() + 2 * m * size, *transposed = plain + size, *first = sides.data() + 2 * m * lanes;
    centre(s.plain + 2 * m * size, b.n_labels, b.lanes, centred.data(), first, first + lanes);
    s.shift_shared[m] = exp_matrix(centred.data(), b.n_labels, b.lanes, plain);
    std::fill(transposed, transposed + size, R(0));
    for (int64_t c = 0; c < n; c++)
      for (int64_t a = 0; a < n; a++) transposed[a * lanes + c] = plain[c * lanes + a];
  }
}

// Pairs of labels per edge up to which FewLabels is faster than sums with logarithms.
constexpr int64_t max_relevant_pairs = 40;

// Number of the group that begins with an example.
int64_t group_at(const GroupsView& groups, int64_t example) {
  const int64_t *begin = groups.examples, *end = begin ? begin + groups.n_groups + 1 : begin;
  const int64_t* place = std::lower_bound(begin, end, example);
  if (place == end || *place != example)
    throw std::invalid_argument("the log loss of a forest needs groups; first and last must be borders of groups");
  return place - begin;
}

}  // namespace

template <class R>
void log_oracle(const BatchView& batch, const ForestView<R>& forest, const R* cost, const R* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient) {
  const GroupsView& groups = forest.groups;
  const Mode mode = forest.mode;
  const int64_t first_group = group_at(groups, first), last_group = group_at(groups, last);
  BatchView b = batch;
  const Weights<R> w(forest.weights, b);
  const Layout layout = padded_layout(b);
  const int n = b.n_labels, lanes = b.lanes;
  const int64_t size = b.matrix_size();
  // sum outer products over edges of one kind, and multiply them by the matrix of the kind once per group
  const bool by_kind = mode != logarithmic && !b.n_edge_features;
  SumProduct<R> s;
  Workspace<R>& work = s.work;
  set_shared(b, mode, w.matrix, s);
  Rows<R> sides, residuals, outer(by_kind ? s.exp_shared.size() : 0);
  if (by_kind) centre_shared(b, s, sides);
  std::vector<R> before;  // copy of the scores
  FewLabels few;
  const bool single = std::is_same_v<R, float>;
  const double widest = single && mode == careful && forest.steps ? widest_in_single(b, s, forest.steps) : -1;
  std::vector<int64_t> rows;  // edges of an example, as offsets of their rows in ratios and beliefs
  std::vector<double> gathered(b.row_offsets ? lanes : 0);
  std::vector<int32_t> order;
  const int64_t at_once = mode == scaled ? 2 : 1;
  for (int64_t group = first_group; group < last_group; group++) {
    const int64_t group_begin = groups.node_offsets[group], group_end = groups.node_offsets[group + 1];
    residuals.resize(std::max(residuals.size(), size_t(group_end - group_begin) * lanes));
    std::fill(outer.begin(), outer.end(), R(0));
    if (at_once == 2) b = in_pairs(batch, groups.examples[group], groups.examples[group + 1], order);
    for (int64_t i = groups.examples[group], after; i < groups.examples[group + 1]; i = after) {
      after = std::min(i + at_once, groups.examples[group + 1]);
      const int64_t begin = b.offsets[i], middle = b.offsets[i + 1], end = b.offsets[after];
      const auto weight = [&](int64_t t) INLINED { return b.sample_weight[t < middle ? i : i + 1]; };
      prepare(b, w, cost, begin, end, work);  // the cost of the true labelling is zero
      R *beliefs = work.scores.data(), *node_marginals = work.results.data();
      for (int64_t j = i; j < after; j++)
        values[j] =
            -score_of(b, w.matrix, work.matrices.data(), begin, b.offsets[j], b.offsets[j + 1], beliefs, b.y + begin);
      if (mode == logarithmic || (mode == careful && !single)) before.assign(beliefs, beliefs + (end - begin) * lanes);
      const R* per_edge = work.matrices.data();
      const bool few_matter = mode == logarithmic && find_few(b, w.matrix, per_edge, begin, end,
                                                              (end - begin) * max_relevant_pairs, work, few);
      if (mode == logarithmic && !few_matter) std::copy(before.begin(), before.end(), beliefs);
      for (int64_t t = begin; by_kind && t < end; t++) {
        if (b.parent[t] < 0) continue;
        const int64_t kind = b.edge_kind(t);
        add_row(beliefs + (b.parent[t] - begin) * lanes, sides.data() + kind * lanes, lanes);
        add_row(beliefs + (t - begin) * lanes, sides.data() + (kind ^ 1) * lanes, lanes);
      }
      if (mode == careful && single && !narrow_nodes(b, begin, end, beliefs, widest)) {
        values[i] = std::numeric_limits<double>::quiet_NaN();  // the caller repeats it in double precision
        continue;
      }
      double second = 0;
      values[i] += few_matter                  ? sum_few(b, w.matrix, per_edge, begin, end, work, few)
                   : mode != careful || single ? sum_up(b, begin, middle, end, s, &second)
                                               : sum_up_carefully(b, begin, end, s, [&](R* scores) INLINED {
                                                   std::copy(before.begin(), before.end(), scores);
                                                 });
      if (after > i + 1) values[i + 1] += second;
      if (!gradient) continue;

      const auto add_pair = [&](int64_t t, int64_t a, int64_t c, double share) INLINED {
        edge_features(b, layout, t, a, c, [&](int64_t k, double x) INLINED { gradient[k] += weight(t) * share * x; });
      };
      if (few_matter) {
        marginals_of_few(b, begin, end, few);
        std::fill_n(node_marginals, (end - begin) * lanes, R(0));
        spread_few(b, begin, end, few, node_marginals);
        each_pair(b, begin, end, few, add_pair);
      } else if (by_kind && s.mode == scaled) {
        sum_down(b, begin, end, 0, s, NoRows());
        for (int64_t t = begin; t < end; t++)
          if (weight(t) != 1 && b.parent[t] >= 0)
            scale_row(work.ratios.data() + (t - begin) * lanes, R(weight(t)), lanes);
        add_outer(b, begin, end, s, rows, outer.data());
      } else {
        // probabilities below 1e-18 are smaller than the rounding errors of the sums
        sum_down(b, begin, end, 1e-18, s, [&](int64_t t, int a, const double* joint) INLINED {
          for (int c = 0; c < n; c++)
            if (joint[c] != 0) add_pair(t, a, c, joint[c]);
        });
      }
      for (int64_t j = i; j < after; j++)
        labelled_edges(b, layout, b.offsets[j], b.offsets[j + 1], b.y + b.offsets[j],
                       [&](int64_t k, double x) INLINED { gradient[k] -= b.sample_weight[j] * x; });
      const R* reported = counted ? counted : cost;
      for (int64_t j = i; reported && j < after; j++) {
        V<R> sum = {};
        double total = 0;
        for (int64_t t = b.offsets[j]; t < b.offsets[j + 1]; t++) {
          const R *marginal = node_marginals + (t - begin) * lanes, *row = reported + int64_t(b.row[t]) * lanes;
          for (int a = 0; a < lanes; a += width<R>) sum += load(marginal + a) * load(row + a);
          if ((t - b.offsets[j]) % 64 == 63)
            total += double(lane_sum(sum)), sum = V<R>{};  // a long sum in float32 loses digits
        }
        costs[j] = total + double(lane_sum(sum));
      }
      for (int64_t t = begin; t < end; t++) {
        R* row = residuals.data() + (t - group_begin) * lanes;
        const R* marginal = node_marginals + (t - begin) * lanes;
        const R u = R(weight(t));
        for (int a = 0; a < lanes; a += width<R>) store(row + a, u * load(marginal + a));
        row[b.y[t]] -= u;
        for (int a = 0; b.n_label_features && a < n; a++)
          for (int j = 0; j < b.n_label_features; j++)
            gradient[layout.label_features + j] += double(row[a]) * label_feature_values(b, t, a)[j];
      }
    }
    if (!gradient) continue;
    for (int64_t d = groups.feature_offsets[group]; d < groups.feature_offsets[group + 1]; d++) {
      const int64_t feature = groups.features[d];
      double* row = gradient + feature * lanes;
      if (b.row_offsets) {
        std::fill(gathered.begin(), gathered.end(), 0.0);
        row = gathered.data();
      }
      if (b.ones) FOR_LANES(gather_lanes, R, lanes, true, groups, d, residuals.data(), lanes, row);
      else FOR_LANES(gather_lanes, R, lanes, false, groups, d, residuals.data(), lanes, row);
      for (int64_t e = b.row_offsets ? b.row_offsets[feature] : 0; b.row_offsets && e < b.row_offsets[feature + 1]; e++)
        gradient[e] += row[b.row_labels[e]];
    }
    for (int64_t kind = 0; by_kind && kind < 2 * b.n_edge_types; kind++) {
      const R *matrix = s.exp_shared.data() + kind * size, *sums = outer.data() + kind * size;
      double* out = gradient + layout.matrices + kind / 2 * size;
      for (int64_t a = 0; a < n; a++)
        for (int64_t c = 0; c < n; c++)
          out[kind & 1 ? c * lanes + a : a * lanes + c] += double(matrix[a * lanes + c]) * double(sums[a * lanes + c]);
    }
  }
}

template void log_oracle(const BatchView&, const ForestView<float>&, const float*, const float*, int64_t, int64_t,
                         double*, double*, double*);
template void log_oracle(const BatchView&, const ForestView<double>&, const double*, const double*, int64_t, int64_t,
                         double*, double*, double*);

}  // namespace maxendnet

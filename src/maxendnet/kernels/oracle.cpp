// The one big sum of learning: losses of many examples and the gradient of their sum.
#include "kernels.hpp"
#include "sum_product.hpp"

namespace maxendnet {
namespace {

struct Gradient {
  double *node, *matrix, *tied;
  Gradient(double* flat, const BatchView& b)
      : node(flat), matrix(flat + b.n_features * b.lanes), tied(matrix + b.n_matrices() * b.matrix_size()) {}
};

// Adds `u` times the features of a labelling (or subtracts them, with a negative u).
INLINE void add_labelling(const BatchView& b, int64_t begin, int64_t end, const int32_t* labels, double u,
                          const Gradient& g) {
  const int64_t size = b.matrix_size();
  for (int64_t t = begin; t < end; t++) {
    if (b.parent[t] < 0) continue;
    const int64_t child = labels[t - begin], parent = labels[b.parent[t] - begin];
    const int64_t cell = b.flipped[t] ? child * b.lanes + parent : parent * b.lanes + child;
    g.matrix[b.edge_type[t] * size + cell] += u;
    for (int f = 0; f < b.n_edge_features; f++)
      g.matrix[(b.n_edge_types + f) * size + cell] += u * b.edge_features[t * b.n_edge_features + f];
  }
}

// out[p, :] += sum over edges of ratio[p] * belief[:], for one row p: a matrix product kept in registers.
template <class R, int W>
INLINE void outer_block(int a0, const R* ratios, const R* beliefs, const int64_t* edges, int64_t n_edges, int n_labels,
                        int lanes, R* out) {
  constexpr int n = width<R>;
  for (int p = 0; p < n_labels; p++) {
    R* row = out + int64_t(p) * lanes + a0;
    V<R> sum[W / n];
    for (int a = 0; a < W / n; a++) sum[a] = load(row + a * n);
    for (int64_t e = 0; e < n_edges; e++) {
      const R r = ratios[edges[e] + p];
      const R* belief = beliefs + edges[e] + a0;
      for (int a = 0; a < W / n; a++) sum[a] += r * load(belief + a * n);
    }
    for (int a = 0; a < W / n; a++) store(row + a * n, sum[a]);
  }
}

// gradient row += sum over the nodes that have the feature of value * residual
template <class R, int W>
INLINE void gather_block(int a0, const GroupsView& groups, int64_t distinct, const R* residuals, int lanes,
                         double* out) {
  constexpr int n = width<R>;
  V<R> sum[W / n];
  weighted_sum<R, W>(
      groups.entry_offsets[distinct], groups.entry_offsets[distinct + 1],
      [&](int64_t k) INLINED { return R(groups.entry_values[k]); },
      [&](int64_t k) INLINED { return residuals + int64_t(groups.entry_nodes[k]) * lanes + a0; }, sum);
  for (int a = 0; a < W; a++) out[a0 + a] += double(sum[a / n][a % n]);
}

}  // namespace

template <class R>
void hinge_oracle(const BatchView& b, const R* weights, const R* cost, Slack slack, int64_t first, int64_t last,
                  double* values, double* gradient) {
  Workspace<R> work;
  const Weights<R> w(weights, b);
  const Gradient g(gradient, b);
  const std::vector<R> zeros(b.lanes, 0);
  std::vector<R> message(b.lanes);
  std::vector<R> plain;
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    const int32_t* truth = b.y + begin;
    work.fit(end - begin, b);
    R* scores = work.scores.data();
    R* own = work.matrices.data();
    score_nodes(b, w, begin, end, scores);
    forbid(b, begin, end, scores);
    if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
    for (int64_t t = begin; t < end; t++) {
      const R* row = cost + int64_t(b.y[t]) * b.lanes;
      add_row(scores + (t - begin) * b.lanes, row, b.lanes);
    }
    plain.assign(scores, scores + (end - begin) * b.lanes);
    max_up<R, false>(b, w.matrix, own, begin, end, scores, message.data());
    int32_t* labels = work.labels.data();
    max_down(b, w.matrix, own, begin, end, scores, zeros.data(), labels);
    // the cost of the true labelling is zero, so augmented scores serve for both
    values[i] = std::max(0.0, score_of(b, w.matrix, own, begin, end, plain.data(), labels) -
                                  score_of(b, w.matrix, own, begin, end, plain.data(), truth));
    if (!gradient) continue;
    const double u = b.weights[i] * slack.slope(values[i]);
    bool any = false;
    for (int64_t t = begin; t < end; t++) {
      const int32_t found = labels[t - begin], right = b.y[t];
      if (found == right) continue;
      any = true;
      for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
        double* row = g.node + int64_t(b.indices[k]) * b.lanes;
        row[found] += u * b.data[k];
        row[right] -= u * b.data[k];
      }
      for (int j = 0; j < b.n_tied; j++)
        g.tied[j] += u * (b.label_features[(t * b.n_labels + found) * b.n_tied + j] -
                          b.label_features[(t * b.n_labels + right) * b.n_tied + j]);
    }
    if (any) {
      add_labelling(b, begin, end, labels, u, g);
      add_labelling(b, begin, end, truth, -u, g);
    }
  }
}

template <class R>
void log_oracle(const BatchView& b, const GroupsView& groups, const int64_t* group_examples, const R* weights,
                const R* cost, const R* counted, Mode mode, int64_t first_group, int64_t last_group, double* values,
                double* costs, double* gradient) {
  Workspace<R> work;
  const Weights<R> w(weights, b);
  const Gradient g(gradient, b);
  const int n = b.n_labels, lanes = b.lanes;
  const int64_t size = b.matrix_size();
  const std::vector<R> zeros(lanes, 0);
  std::vector<R> residuals, exp_shared(size_t(b.n_edge_types) * 2 * size), exp_own, outer(exp_shared.size());
  std::vector<double> shift_shared(b.n_edge_types), shift_own, given(n);
  std::vector<int64_t> rows;  // edges of an example, as row starts into ratios and beliefs
  // per edge type, what was taken out of the matrix: by label of the user's first node, and of the second
  const bool centred = mode == scaled && !b.n_edge_features;
  std::vector<R> sides(centred ? size_t(b.n_edge_types) * 2 * lanes : 0), centred_matrix(centred ? size : 0);
  for (int m = 0; centred && m < b.n_edge_types; m++) {
    R *one = exp_shared.data() + 2 * int64_t(m) * size, *other = one + size, *first = sides.data() + 2 * m * lanes;
    centre(w.matrix + 2 * int64_t(m) * size, n, lanes, centred_matrix.data(), first, first + lanes);
    shift_shared[m] = exp_matrix(centred_matrix.data(), n, lanes, one);
    std::fill(other, other + size, R(0));
    for (int c = 0; c < n; c++)
      for (int a = 0; a < n; a++) other[int64_t(a) * lanes + c] = one[int64_t(c) * lanes + a];
  }
  for (int64_t group = first_group; group < last_group; group++) {
    const int64_t group_begin = groups.node_offsets[group], group_end = groups.node_offsets[group + 1];
    residuals.resize(std::max(residuals.size(), size_t(group_end - group_begin) * lanes));
    std::fill(outer.begin(), outer.end(), R(0));
    for (int64_t i = group_examples[group]; i < group_examples[group + 1]; i++) {
      const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
      const double u = b.weights[i];
      work.fit(end - begin, b);
      R *beliefs = work.scores.data(), *own = work.matrices.data(), *found = work.results.data();
      score_nodes(b, w, begin, end, beliefs);
      if (cost)  // that of the true labelling is zero
        for (int64_t t = begin; t < end; t++)
          add_row(beliefs + (t - begin) * lanes, cost + int64_t(b.y[t]) * lanes, lanes);
      forbid(b, begin, end, beliefs);
      if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
      const double truth = score_of(b, w.matrix, own, begin, end, beliefs, b.y + begin);
      double log_partition;
      for (int64_t t = begin; centred && t < end; t++) {
        if (b.parent[t] < 0) continue;
        const R* side = sides.data() + (2 * int64_t(b.edge_type[t]) + b.flipped[t]) * lanes;
        const R* own_side = sides.data() + (2 * int64_t(b.edge_type[t]) + 1 - b.flipped[t]) * lanes;
        add_row(beliefs + (b.parent[t] - begin) * lanes, side, lanes);
        add_row(beliefs + (t - begin) * lanes, own_side, lanes);
      }
      if (mode == scaled) {
        if (b.n_edge_features) {
          exp_own.resize(std::max(exp_own.size(), size_t(end - begin) * 2 * size));
          shift_own.resize(std::max(shift_own.size(), size_t(end - begin)));
          for (int64_t t = begin; t < end; t++)
            for (int side = 0; side < 2 && b.parent[t] >= 0; side++) {
              const int64_t k = (2 * (t - begin) + side) * size;
              shift_own[t - begin] = exp_matrix(own + k, n, lanes, exp_own.data() + k);
            }
        }
        log_partition = sum_up(b, exp_shared.data(), exp_own.data(), shift_shared.data(), shift_own.data(), begin, end,
                               beliefs, work.messages.data());
      } else {
        log_partition = log_up(b, w.matrix, own, zeros.data(), begin, end, beliefs);
      }
      values[i] = log_partition - truth;
      if (!gradient) continue;

      if (mode == scaled)
        sum_down(b, exp_shared.data(), exp_own.data(), begin, end, beliefs, work.messages.data(), work.ratios.data(),
                 found);
      if (mode == scaled && !b.n_edge_features) {
        // edges of one kind together: sum of outer products, to be multiplied by the matrix once per group
        for (int64_t t = begin; t < end;) {
          rows.clear();
          int kind = -1;
          for (; t < end; t++) {
            if (b.parent[t] < 0) continue;
            const int own_kind = 2 * b.edge_type[t] + b.flipped[t];
            if (kind >= 0 && own_kind != kind) break;
            kind = own_kind;
            rows.push_back((t - begin) * lanes);
          }
          if (rows.empty()) break;
          R* target = outer.data() + kind * size;
          if (u != 1)
            for (int64_t row : rows)
              scale_row(work.ratios.data() + row, R(u), lanes);
          FOR_LANES(outer_block, R, lanes, work.ratios.data(), beliefs, rows.data(), int64_t(rows.size()), n, lanes, target);
        }
      } else {
        for (int64_t k = begin; k < end; k++) {
          const int64_t t = b.order[k], p = b.parent[t], local = t - begin;
          const R* belief = beliefs + local * lanes;
          R* result = found + local * lanes;
          if (p < 0) {
            if (mode == logarithmic) {
              conditional(zeros.data(), belief, n, given.data());
              for (int a = 0; a < lanes; a++) result[a] = a < n ? R(given[a]) : R(0);
            }
            continue;
          }
          const EdgeMatrix<R> matrix = mode == scaled
                                           ? edge_matrix<R>(b, exp_shared.data(), exp_own.data(), t, local)
                                           : edge_matrix<R>(b, w.matrix, own, t, local);
          const R* above = found + (p - begin) * lanes;
          const R* ratio = work.ratios.data() + local * lanes;
          if (mode == logarithmic) std::fill(result, result + lanes, R(0));
          for (int a = 0; a < n; a++) {
            const R* row = matrix.by_parent + int64_t(a) * lanes;
            if (mode == logarithmic) {
              if (above[a] < R(1e-18)) continue;  // below any rounding of the sums
              conditional(row, belief, n, given.data());
            }
            for (int c = 0; c < n; c++) {
              const double joint = mode == logarithmic ? double(above[a]) * given[c]
                                                       : double(ratio[a]) * double(row[c]) * double(belief[c]);
              if (joint == 0) continue;
              if (mode == logarithmic) result[c] += R(joint);
              const int64_t cell = b.flipped[t] ? int64_t(c) * lanes + a : int64_t(a) * lanes + c;
              g.matrix[b.edge_type[t] * size + cell] += u * joint;
              for (int f = 0; f < b.n_edge_features; f++)
                g.matrix[(b.n_edge_types + f) * size + cell] += u * joint * b.edge_features[t * b.n_edge_features + f];
            }
          }
        }
      }
      add_labelling(b, begin, end, b.y + begin, -u, g);
      if (const R* reported = counted ? counted : cost) {
        V<R> sum = {};
        double total = 0;
        for (int64_t t = begin; t < end; t++) {
          const R *marginal = found + (t - begin) * lanes, *row = reported + int64_t(b.y[t]) * lanes;
          for (int a = 0; a < lanes; a += width<R>) sum += load(marginal + a) * load(row + a);
          if ((t - begin) % 64 == 63) total += double(lane_sum(sum)), sum = V<R>{};  // float32 forgets in a long sum
        }
        costs[i] = total + double(lane_sum(sum));
      }
      for (int64_t t = begin; t < end; t++) {
        R* row = residuals.data() + (t - group_begin) * lanes;
        const R* marginal = found + (t - begin) * lanes;
        for (int a = 0; a < lanes; a += width<R>) store(row + a, R(u) * load(marginal + a));
        row[b.y[t]] -= R(u);
        for (int a = 0; b.n_tied && a < n; a++)
          for (int j = 0; j < b.n_tied; j++)
            g.tied[j] += double(row[a]) * b.label_features[(t * n + a) * b.n_tied + j];
      }
    }
    if (!gradient) continue;
    for (int64_t d = groups.feature_offsets[group]; d < groups.feature_offsets[group + 1]; d++) {
      double* row = g.node + int64_t(groups.features[d]) * lanes;
      FOR_LANES(gather_block, R, lanes, groups, d, residuals.data(), lanes, row);
    }
    if (mode == scaled && !b.n_edge_features)
      for (int m = 0; m < b.n_edge_types; m++)
        for (int flip = 0; flip < 2; flip++) {
          const R* matrix = exp_shared.data() + (2 * int64_t(m) + flip) * size;
          const R* sums = outer.data() + (2 * int64_t(m) + flip) * size;
          for (int a = 0; a < n; a++)
            for (int c = 0; c < n; c++)
              g.matrix[m * size + (flip ? int64_t(c) * lanes + a : int64_t(a) * lanes + c)] +=
                  double(matrix[int64_t(a) * lanes + c]) * double(sums[int64_t(a) * lanes + c]);
        }
  }
}
template void hinge_oracle<float>(const BatchView&, const float*, const float*, Slack, int64_t, int64_t, double*,
                                  double*);
template void hinge_oracle<double>(const BatchView&, const double*, const double*, Slack, int64_t, int64_t, double*,
                                   double*);
template void log_oracle<float>(const BatchView&, const GroupsView&, const int64_t*, const float*, const float*,
                                const float*, Mode, int64_t, int64_t, double*, double*, double*);
template void log_oracle<double>(const BatchView&, const GroupsView&, const int64_t*, const double*, const double*,
                                 const double*, Mode, int64_t, int64_t, double*, double*, double*);

}  // namespace maxendnet

// Hierarchies: max-marginals, marginals, samples, and the log loss with its gradient.
#include "recursions/hierarchy_features.hpp"

namespace maxendnet {

void max_marginals(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, double* out) {
  Example e;
  for (int64_t i = first; i < last; i++) {
    prepare(b, m, nullptr, i, e);
    const double total = up<Max>(b, m, e);
    e.results.assign(size_t(e.size) * e.lanes, impossible);
    for (int64_t slot = 0; slot < e.size; slot++) {
      const int64_t t = b.order[e.begin + slot], p = t - e.begin;
      double* result = row_of(e.results, e, p);
      if (b.parent[t] < 0) {
        const double* belief = row_of(e.beliefs, e, p);
        // with the best labellings of the other trees
        const double others = total > impossible ? total - largest(belief, e.n_labels[p]) : impossible;
        for (int j = 0; j < e.n_labels[p]; j++) result[j] = belief[j] + others;
      }
      const int64_t begin = e.child_offsets[p], n_children = e.child_offsets[p + 1] - begin;
      for (int a = 0; n_children && a < e.n_labels[p]; a++) {
        if (!(result[a] > impossible)) continue;
        const int parent = labels_of(e, p)[a];
        const double beyond = result[a] - chain_of<Max>(b, m, p, parent, e);
        from_the_right<Max>(b, m, p, parent, e);
        for (int64_t k = 0; k < n_children; k++) {
          const int64_t c = e.children[begin + k];
          const double *alpha = row_of(e.alpha, e, k), *beta = row_of(e.beta, e, k);
          double* below = row_of(e.results, e, c);
          for (int j = 0; j < e.n_labels[c]; j++) below[j] = larger(below[j], beyond + alpha[j] + beta[j]);
        }
      }
    }
    for (int64_t k = 0; k < e.size; k++) {
      double* row = out + (e.begin + k) * b.n_labels;
      std::fill(row, row + b.n_labels, impossible);
      for (int j = 0; j < e.n_labels[k]; j++) row[labels_of(e, k)[j]] = row_of(e.results, e, k)[j];
    }
  }
}

void marginals(const BatchView& b, const HierarchyView& m, const double* cost, int64_t first, int64_t last,
               double* values, double* node_marginals, const Cliques<HierarchyView>& cliques) {
  Example e;
  double *edge_marginals = cliques[0], *sibling_marginals = cliques[1];
  const int64_t L = b.n_labels, triples = L * L * L;
  for (int64_t i = first; i < last; i++) {
    prepare(b, m, cost, i, e);
    values[i] = up<Sum>(b, m, e);
    if (!node_marginals) continue;
    sum_down(
        b, m, e,
        [&](int64_t t, int parent, int label, double p) INLINED {
          if (edge_marginals) edge_marginals[(t * L + parent) * L + label] += p;
        },
        [&](int64_t right, int64_t cell, double p) INLINED {
          if (sibling_marginals) sibling_marginals[right * triples + cell % triples] += p;
        });
    for (int64_t k = 0; k < e.size; k++)
      for (int j = 0; j < e.n_labels[k]; j++)
        node_marginals[(e.begin + k) * L + labels_of(e, k)[j]] = row_of(e.results, e, k)[j];
  }
}

void sample(const BatchView& b, const HierarchyView& m, const double* cost, const double* uniforms, int64_t n_draws,
            int64_t first, int64_t last, int32_t* labels) {
  Example e;
  for (int64_t i = first; i < last; i++) {
    prepare(b, m, cost, i, e);
    up<Sum>(b, m, e);
    for (int64_t draw = 0; draw < n_draws; draw++) {
      const double* uniform = uniforms + draw * b.n_nodes;
      label_down<Sum>(b, m, e, labels + draw * b.n_nodes + e.begin, [&](int64_t t, const double* x, int n) INLINED {
        const double best = largest(x, n);
        if (!(best > impossible)) return 0;
        double* share = e.scratch.data();
        exp_row(x, best, n, share);
        return draw_place(share, n, uniform[t]);
      });
    }
  }
}

void log_oracle(const BatchView& b, const HierarchyView& m, const double* cost, const double* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient) {
  Example e;
  const double* reported = counted ? counted : cost;
  for (int64_t i = first; i < last; i++) {
    prepare(b, m, cost, i, e);
    const int32_t* truth = b.y + e.begin;
    values[i] = up<Sum>(b, m, e) - score_of(b, m, e, truth);
    if (!gradient) continue;
    const double u = b.sample_weight[i];
    const auto on_edge = [&](int64_t t, int parent, int label, double p) INLINED {
      edge_features(b, m.layout, t, parent, label, [&](int64_t k, double x) INLINED { gradient[k] += u * p * x; });
    };
    const auto on_siblings = [&](int64_t, int64_t cell, double p)
                                 INLINED { gradient[m.layout.siblings + cell] += u * p; };
    sum_down(b, m, e, on_edge, on_siblings);
    for_cliques(
        b, e, truth,
        [&](int64_t t, int parent, int label) INLINED {
          if (parent >= 0) on_edge(t, parent, label, -1);
        },
        [&](int64_t right, int parent, int left_label, int label) INLINED {
          if (m.siblings) on_siblings(right, sibling_cell(b, right, parent, left_label, label), -1);
        });
    double expected = 0;
    for (int64_t k = 0; k < e.size; k++) {
      const int64_t t = e.begin + k;
      const double* marginal = row_of(e.results, e, k);
      for (int j = 0; j < e.n_labels[k]; j++) {
        const int label = labels_of(e, k)[j];
        if (reported) expected += marginal[j] * reported[int64_t(b.row[t]) * b.n_labels + label];
        const double residual = marginal[j] - (label == b.y[t] ? 1 : 0);
        if (std::fabs(residual) > negligible)
          node_features(b, m.layout, t, label, [&](int64_t k, double x) INLINED { gradient[k] += u * residual * x; });
      }
    }
    if (costs) costs[i] = expected;
  }
}

void find_impossible(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, int64_t* nodes) {
  Example e;
  std::vector<uint8_t> possible;
  for (int64_t i = first; i < last; i++) {
    find_labels(b, i, e);
    possible.assign(size_t(e.size) * e.lanes, 1);
    nodes[i] = -1;
    for (int64_t slot = e.size - 1; slot >= 0 && nodes[i] < 0; slot--) {
      const int64_t p = b.order[e.begin + slot] - e.begin;
      bool any = false;
      for (int a = 0; a < e.n_labels[p]; a++) {
        uint8_t& here = possible[p * e.lanes + a];
        const int64_t row = int64_t(labels_of(e, p)[a]) * b.n_labels;
        for (int64_t s = e.child_offsets[p]; here && s < e.child_offsets[p + 1]; s++) {
          const int64_t c = e.children[s];
          bool fits = false;
          for (int j = 0; j < e.n_labels[c]; j++)
            fits |= possible[c * e.lanes + j] && !(m.forbidden && m.forbidden[row + labels_of(e, c)[j]]);
          here = fits;
        }
        any |= bool(here);
      }
      if (!any) nodes[i] = e.begin + p;
    }
  }
}

}  // namespace maxendnet

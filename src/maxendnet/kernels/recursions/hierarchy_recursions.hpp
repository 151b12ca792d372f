// Recursions on hierarchies. The upward pass processes children before their parent. Given the label of their parent,
// the children form a chain; `chain_of` computes its maximum or sum. The downward pass recomputes the chains instead
// of storing them: it needs them only for the few likely labels of a parent, and storage would take (nodes, labels,
// labels).
#pragma once
#include <algorithm>

#include "recursions/hierarchy.hpp"

namespace maxendnet {

constexpr double impossible = minus_infinity<double>;
constexpr double negligible = 1e-18;  // probability below the rounding errors of the sums

INLINE double largest(const double* x, int n) {
  double best = impossible;
  for (int j = 0; j < n; j++) best = larger(best, x[j]);
  return best;
}

// out = exp(x - shift); rows are padded with -inf to whole registers
INLINE void exp_row(const double* x, double shift, int n, double* out) {
  for (int j = 0; j < n; j += width<double>) store(out + j, exp_negative(load(x + j) - shift));
}

struct Max {
  static constexpr bool sums = false;
};
struct Sum {
  static constexpr bool sums = true;
};

// Maximum, or logarithm of the sum of exponentials, of a padded row.
template <class Semiring>
INLINE double joined(const double* x, int n, double* scratch) {
  const double best = largest(x, n);
  if (!Semiring::sums || !(best > impossible)) return best;
  exp_row(x, best, n, scratch);
  double total = 0;
  for (int j = 0; j < n; j++) total += scratch[j];
  return best + std::log(total);
}

// One example: allowed labels of its nodes, their scores, and the children of each node. Entry j of a row belongs to the j-th
// allowed label; the rest of the `lanes` entries is -inf.
struct Example {
  int64_t begin = 0, size = 0;
  int lanes = 0;
  std::vector<int32_t> labels, n_labels;  // (size, lanes), (size)
  std::vector<double> scores, beliefs, results;
  std::vector<int64_t> child_offsets, children;
  // of the children of a parent, given its label: value of the subtree, and sums from the left and from the right
  std::vector<double> subtree, alpha, beta;
  std::vector<double> row, terms, scratch;
};

INLINE double* row_of(std::vector<double>& rows, const Example& e, int64_t k) { return rows.data() + k * e.lanes; }
INLINE const int32_t* labels_of(const Example& e, int64_t k) { return e.labels.data() + k * e.lanes; }

INLINE void find_labels(const BatchView& b, int64_t i, Example& e) {
  e.begin = b.offsets[i];
  e.size = b.offsets[i + 1] - e.begin;
  e.lanes = b.lanes;
  e.labels.assign(size_t(e.size) * e.lanes, 0);
  e.n_labels.assign(e.size, 0);
  e.child_offsets.assign(e.size + 1, 0);
  for (int64_t k = 0; k < e.size; k++) {
    const int64_t t = e.begin + k;
    int n = 0;
    for (int a = 0; a < b.n_labels; a++)
      if (!b.allowed || b.allowed[t * b.n_labels + a]) e.labels[k * e.lanes + n++] = a;
    e.n_labels[k] = n;
    if (b.parent[t] >= 0) e.child_offsets[b.parent[t] - e.begin + 1]++;
  }
  int64_t most = 0;
  for (int64_t k = 0; k < e.size; k++) {
    most = std::max(most, e.child_offsets[k + 1]);
    e.child_offsets[k + 1] += e.child_offsets[k];
  }
  e.children.resize(e.child_offsets[e.size]);
  std::vector<int64_t> next(e.child_offsets.begin(), e.child_offsets.end());
  for (int64_t k = 0; k < e.size; k++) {  // in the order of the nodes
    const int64_t p = b.parent[e.begin + k];
    if (p >= 0) e.children[next[p - e.begin]++] = k;
  }
  for (auto* rows : {&e.subtree, &e.alpha, &e.beta}) rows->assign(size_t(most) * e.lanes, impossible);
  for (auto* row : {&e.row, &e.terms, &e.scratch}) row->assign(e.lanes, impossible);
}

// Computes the scores of an example, with costs unless null.
INLINE void prepare(const BatchView& b, const HierarchyView& m, const double* cost, int64_t i, Example& e) {
  find_labels(b, i, e);
  e.scores.assign(size_t(e.size) * e.lanes, impossible);
  for (int64_t k = 0; k < e.size; k++) {
    const int64_t t = e.begin + k;
    const int n = e.n_labels[k];
    const int32_t* label = labels_of(e, k);
    double* score = row_of(e.scores, e, k);
    for (int j = 0; j < n; j++) score[j] = cost ? cost[int64_t(b.row[t]) * b.n_labels + label[j]] : 0;
    node_entries(b, m.layout, t, label, n,
                 [&](int64_t place, double x, int j) INLINED { score[j] += x * m.node[place]; });
    for (int j = 0; b.n_label_features && j < n; j++)
      for (int f = 0; f < b.n_label_features; f++)
        score[j] += m.label_features[f] * label_feature_values(b, t, label[j])[f];
  }
  e.beliefs = e.scores;
}

INLINE double edge_score(const BatchView& b, const HierarchyView& m, int64_t t, int parent, int child) {
  const int64_t size = int64_t(b.n_labels) * b.n_labels, cell = int64_t(parent) * b.n_labels + child;
  if (m.forbidden && m.forbidden[cell]) return impossible;
  double score = m.matrices[b.edge_type[t] * size + cell];
  for (int f = 0; f < b.n_edge_features; f++)
    score += b.edge_features[t * b.n_edge_features + f] * m.matrices[(b.n_edge_types + f) * size + cell];
  return score;
}

// out[j] = joined over i of x[i] + siblings(i, j), from left (i) to right (j); from right to left unless `forward`.
template <class Semiring, bool forward>
INLINE void across(const BatchView& b, const HierarchyView& m, int64_t right, int parent, const double* x, int n,
                   const int32_t* label, int n_out, const int32_t* label_out, Example& e, double* out) {
  const double best = largest(x, n);
  if (!(best > impossible)) {
    for (int j = 0; j < n_out; j++) out[j] = impossible;
    return;
  }
  const auto cell = [&](int i, int j) INLINED {
    return forward ? sibling_cell(b, right, parent, label[i], label_out[j])
                   : sibling_cell(b, right, parent, label_out[j], label[i]);
  };
  if (Semiring::sums && m.table) {
    double* share = e.scratch.data();
    exp_row(x, best, n, share);
    const double shift = best + m.shift[int64_t(b.edge_type[right]) * b.n_labels + parent];
    for (int j = 0; j < n_out; j++) {
      double total = 0;
      for (int i = 0; i < n; i++) total += share[i] * m.table[cell(i, j)];
      out[j] = shift + std::log(total);
    }
    return;
  }
  for (int j = 0; j < n_out; j++) {
    double* terms = e.terms.data();
    for (int i = 0; i < e.lanes; i++) terms[i] = i < n ? x[i] + m.siblings[cell(i, j)] : impossible;
    out[j] = joined<Semiring>(terms, n, e.scratch.data());
  }
}

// Chain of the children of node p, given its label: fills `subtree` and `alpha`, and returns the value of all labellings.
template <class Semiring>
INLINE double chain_of(const BatchView& b, const HierarchyView& m, int64_t p, int parent, Example& e) {
  const int64_t first = e.child_offsets[p], n_children = e.child_offsets[p + 1] - first;
  double total = 0;
  for (int64_t k = 0; k < n_children; k++) {
    const int64_t c = e.children[first + k], t = e.begin + c;
    const int n = e.n_labels[c];
    const int32_t* label = labels_of(e, c);
    const double* belief = row_of(e.beliefs, e, c);
    double *subtree = row_of(e.subtree, e, k), *alpha = row_of(e.alpha, e, k);
    for (int j = 0; j < e.lanes; j++)
      subtree[j] = j < n ? edge_score(b, m, t, parent, label[j]) + belief[j] : impossible;
    double* before = e.row.data();
    if (k && m.siblings) {
      const int64_t left = e.children[first + k - 1];
      across<Semiring, true>(b, m, t, parent, row_of(e.alpha, e, k - 1), e.n_labels[left], labels_of(e, left), n, label,
                             e, before);
    } else {
      for (int j = 0; j < n; j++) before[j] = total;
    }
    for (int j = 0; j < e.lanes; j++) alpha[j] = j < n ? subtree[j] + before[j] : impossible;
    if (!m.siblings || k + 1 == n_children) total = joined<Semiring>(alpha, n, e.scratch.data());
  }
  return total;
}

// After `chain_of`: fills `beta`, the value of all labellings to the right of a child, for each of its labels.
template <class Semiring>
INLINE void from_the_right(const BatchView& b, const HierarchyView& m, int64_t p, int parent, Example& e) {
  const int64_t first = e.child_offsets[p], n_children = e.child_offsets[p + 1] - first;
  for (int64_t k = n_children - 1; k >= 0; k--) {
    double* beta = row_of(e.beta, e, k);
    const int64_t c = e.children[first + k];
    const int n = e.n_labels[c];
    if (k + 1 == n_children) {
      for (int j = 0; j < n; j++) beta[j] = 0;
      continue;
    }
    const int64_t right = e.children[first + k + 1];
    const double *subtree = row_of(e.subtree, e, k + 1), *beyond = row_of(e.beta, e, k + 1);
    double* x = e.row.data();
    for (int j = 0; j < e.lanes; j++) x[j] = j < e.n_labels[right] ? subtree[j] + beyond[j] : impossible;
    if (m.siblings) {
      across<Semiring, false>(b, m, e.begin + right, parent, x, e.n_labels[right], labels_of(e, right), n,
                              labels_of(e, c), e, beta);
    } else {
      const double total = joined<Semiring>(x, e.n_labels[right], e.scratch.data());
      for (int j = 0; j < n; j++) beta[j] = total;
    }
  }
}

// Computes beliefs: the score of a node joined with its subtree. Returns the value of the example.
template <class Semiring>
INLINE double up(const BatchView& b, const HierarchyView& m, Example& e) {
  double total = 0;
  for (int64_t slot = e.size - 1; slot >= 0; slot--) {
    const int64_t t = b.order[e.begin + slot], k = t - e.begin;
    double* belief = row_of(e.beliefs, e, k);
    if (e.child_offsets[k] < e.child_offsets[k + 1])
      for (int j = 0; j < e.n_labels[k]; j++) belief[j] += chain_of<Semiring>(b, m, k, labels_of(e, k)[j], e);
    if (b.parent[t] < 0) total += joined<Semiring>(belief, e.n_labels[k], e.scratch.data());
  }
  return total;
}

INLINE int place_of_largest(const double* x, int n) {
  int best = 0;
  for (int j = 1; j < n; j++)
    if (x[j] > x[best]) best = j;
  return best;
}

// Chooses labels from the roots down: `pick(t, x, n)` chooses an index in a row of scores. The labels are arbitrary if no
// labelling is possible.
template <class Semiring, class Pick>
INLINE void label_down(const BatchView& b, const HierarchyView& m, Example& e, int32_t* labels, Pick pick) {
  for (int64_t slot = 0; slot < e.size; slot++) {
    const int64_t t = b.order[e.begin + slot], p = t - e.begin;
    if (b.parent[t] < 0) labels[p] = labels_of(e, p)[pick(t, row_of(e.beliefs, e, p), e.n_labels[p])];
    const int64_t first = e.child_offsets[p], n_children = e.child_offsets[p + 1] - first;
    if (!n_children) continue;
    chain_of<Semiring>(b, m, p, labels[p], e);
    for (int64_t k = n_children - 1; k >= 0; k--) {
      const int64_t c = e.children[first + k];
      const int n = e.n_labels[c];
      const double* alpha = row_of(e.alpha, e, k);
      double* x = e.row.data();
      for (int j = 0; j < e.lanes; j++) x[j] = alpha[j];
      if (m.siblings && k + 1 < n_children) {
        const int64_t right = e.children[first + k + 1];
        const double* weights = m.siblings + sibling_cell(b, e.begin + right, labels[p], 0, labels[right]);
        for (int j = 0; j < n; j++) x[j] += weights[int64_t(labels_of(e, c)[j]) * b.n_labels];
      }
      labels[c] = labels_of(e, c)[pick(e.begin + c, x, n)];
    }
  }
}

// Stores the marginals of all nodes in `results`. `on_edge(t, parent, label, p)` and `on_siblings(right node, cell, p)` get
// the marginals of edges and of neighbours.
template <class OnEdge, class OnSiblings>
INLINE void sum_down(const BatchView& b, const HierarchyView& m, Example& e, OnEdge on_edge, OnSiblings on_siblings) {
  e.results.assign(size_t(e.size) * e.lanes, 0);
  const int L = b.n_labels;
  for (int64_t slot = 0; slot < e.size; slot++) {
    const int64_t t = b.order[e.begin + slot], p = t - e.begin;
    double* result = row_of(e.results, e, p);
    if (b.parent[t] < 0) {
      const double* belief = row_of(e.beliefs, e, p);
      const double total = joined<Sum>(belief, e.n_labels[p], e.scratch.data());
      for (int j = 0; j < e.n_labels[p]; j++) result[j] = total > impossible ? std::exp(belief[j] - total) : 0;
    }
    const int64_t first = e.child_offsets[p], n_children = e.child_offsets[p + 1] - first;
    for (int a = 0; n_children && a < e.n_labels[p]; a++) {
      if (!(result[a] > negligible)) continue;
      const int parent = labels_of(e, p)[a];
      const double total = chain_of<Sum>(b, m, p, parent, e);
      from_the_right<Sum>(b, m, p, parent, e);
      for (int64_t k = 0; k < n_children; k++) {
        const int64_t c = e.children[first + k];
        const int n = e.n_labels[c];
        const int32_t* label = labels_of(e, c);
        const double *alpha = row_of(e.alpha, e, k), *beta = row_of(e.beta, e, k);
        double *below = row_of(e.results, e, c), *x = e.row.data();
        for (int j = 0; j < e.lanes; j++) x[j] = j < n ? alpha[j] + beta[j] : impossible;
        // because of rounding the largest may be slightly above the total
        const double best = larger(largest(x, n), total);
        exp_row(x, best, n, e.scratch.data());
        const double size = result[a] * std::exp(best - total);
        for (int j = 0; j < n; j++) {
          const double joint = size * e.scratch[j];
          if (joint == 0) continue;
          below[j] += joint;
          on_edge(e.begin + c, parent, int(label[j]), joint);
        }
        if (!k || !m.siblings) continue;
        const int64_t left = e.children[first + k - 1];
        const int n_left = e.n_labels[left];
        const int32_t* left_label = labels_of(e, left);
        const double *before = row_of(e.alpha, e, k - 1), *subtree = row_of(e.subtree, e, k);
        for (int j = 0; j < e.lanes; j++) x[j] = j < n ? subtree[j] + beta[j] : impossible;
        const double most_left = largest(before, n_left), most = largest(x, n);
        exp_row(before, most_left, n_left, e.terms.data());
        exp_row(x, most, n, e.scratch.data());
        const double scale = most_left + most - total;
        const double factor =
            m.table ? result[a] * std::exp(scale + m.shift[int64_t(b.edge_type[e.begin + c]) * L + parent]) : 0;
        for (int i = 0; i < n_left; i++)
          for (int j = 0; j < n; j++) {
            const int64_t cell = sibling_cell(b, e.begin + c, parent, left_label[i], label[j]);
            // without a table use a single exponential, because a product of exponentials could underflow
            const double joint = m.table ? factor * e.terms[i] * m.table[cell] * e.scratch[j]
                                         : result[a] * std::exp(before[i] + m.siblings[cell] + x[j] - total);
            if (joint > 0) on_siblings(e.begin + c, cell, joint);
          }
      }
    }
  }
}

}  // namespace maxendnet

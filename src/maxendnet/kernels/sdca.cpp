// Stochastic dual coordinate ascent for conditional random fields with a Gaussian prior: max over distributions q_i of
// sum_i C u_i entropy(q_i) - phi(eta), eta = sum_i C u_i (f(x_i, y_i) - E_q f).
//
// A q_i is kept as the marginals of its nodes and edges. Of all distributions with these marginals the one that
// factorises over the forest has the largest entropy, so that the sum over edges plus, for every node, (1 - its number
// of edges) times the entropy of the node is a concave function of the marginals, and the dual value.
//
// Marginals of nodes are rows of `lanes`; those of an edge are at its lower node, row the label of the parent.
#include "sum_product.hpp"

namespace maxendnet {
namespace {

// log(x) for x >= 1e-300 (less is taken for that): exponent, and 2 atanh((m - 1)/(m + 1)) on sqrt(1/2) <= m < sqrt(2).
INLINE V<double> log_positive(V<double> x) {
  typedef Vector<double>::bits Bits;
  x = x > 1e-300 ? x : spread(1e-300);
  // adding the difference to sqrt(1/2) puts the split between exponents there
  const Bits shifted = (Bits)x - 0x3fe6a09e667f3bcdLL;
  const Bits exponent = shifted >> 52;
  const V<double> m = (V<double>)((Bits)x - (exponent << 52));
  const V<double> f = (m - 1.0) / (m + 1.0), s = f * f;
  const V<double> p =
      polynomial(s, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19);
  // exponents are small whole numbers: exact as the difference of two doubles around 1.5 * 2^52
  const double magic = 6755399441055744.0;
  const V<double> e = (V<double>)(exponent + 0x4338000000000000LL) - magic;
  return e * 0.693147180559945309417 + 2.0 * f * p;
}

INLINE double total(V<double> v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// Marginals of one example, q or p - q.
struct Marginals {
  double *node, *edge;
};
INLINE Marginals of_example(const BatchView& b, double* node, double* edge, int64_t begin) {
  return {node + begin * b.lanes, edge + begin * b.matrix_size()};
}

struct Slopes {
  double first = 0, second = 0;
};

// First and second derivative of gamma -> sum of -m log m over one row, m = q + gamma d. The d sum to 0.
INLINE void add_slopes(const double* q, const double* d, double gamma, int64_t n, double share, Slopes& s) {
  V<double> first = {}, second = {};
  for (int64_t a = 0; a < n; a += width<double>) {
    const V<double> x = load(d + a);
    V<double> m = load(q + a) + gamma * x;
    m = m > 1e-300 ? m : spread(1e-300);
    first -= x * log_positive(m);
    second -= x * x / m;
  }
  s.first += share * total(first);
  s.second += share * total(second);
}
INLINE double row_entropy(const double* q, int64_t n) {
  V<double> sum = {};
  for (int64_t a = 0; a < n; a += width<double>) sum -= load(q + a) * log_positive(load(q + a));
  return total(sum);
}
INLINE double row_product(const double* x, const double* y, int64_t n) {
  V<double> sum = {};
  for (int64_t a = 0; a < n; a += width<double>) sum += load(x + a) * load(y + a);
  return total(sum);
}

// 1 - number of edges, for every node of an example
INLINE void count_edges(const BatchView& b, int64_t begin, int64_t end, std::vector<double>& shares) {
  shares.assign(size_t(end - begin), 1.0);
  for (int64_t t = begin; t < end; t++)
    if (b.parent[t] >= 0) {
      shares[t - begin]--;
      shares[b.parent[t] - begin]--;
    }
}

INLINE double entropy(const BatchView& b, int64_t begin, int64_t end, const Marginals& q, const double* shares) {
  double sum = 0;
  for (int64_t t = begin; t < end; t++) {
    const int64_t local = t - begin;
    if (shares[local] != 0) sum += shares[local] * row_entropy(q.node + local * b.lanes, b.lanes);
    if (b.parent[t] >= 0) sum += row_entropy(q.edge + local * b.matrix_size(), b.matrix_size());
  }
  return sum;
}

// E[w . f] under the marginals; `plain` are node scores without -inf.
INLINE double expected_score(const BatchView& b, const double* shared, const double* own, int64_t begin, int64_t end,
                             const double* plain, const Marginals& q) {
  double sum = 0;
  for (int64_t t = begin; t < end; t++) {
    const int64_t local = t - begin;
    sum += row_product(plain + local * b.lanes, q.node + local * b.lanes, b.lanes);
    if (b.parent[t] >= 0)
      sum += row_product(edge_matrix(b, shared, own, t, local).by_parent, q.edge + local * b.matrix_size(),
                         b.matrix_size());
  }
  return sum;
}

// What one example needs: scores, log Z, and if asked the marginals of p(y|x; w).
struct Model {
  SumProduct<double> sums;
  std::vector<double> plain, edge;
  double log_partition = 0;

  Marginals marginals() { return {sums.work.results.data(), edge.data()}; }
};

INLINE void look(const BatchView& b, const Weights<double>& w, int64_t begin, int64_t end, Model& m) {
  Workspace<double>& work = m.sums.work;
  work.fit(end - begin, b);
  score_nodes(b, w, begin, end, work.scores.data());
  m.plain.assign(work.scores.data(), work.scores.data() + (end - begin) * b.lanes);
  forbid(b, begin, end, work.scores.data());
  if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, work.matrices.data());
  m.log_partition = sum_up(b, begin, end, m.sums);
}

INLINE void find_marginals(const BatchView& b, int64_t begin, int64_t end, Model& m) {
  m.edge.resize(std::max(m.edge.size(), size_t((end - begin) * b.matrix_size())));
  sum_down(b, begin, end, 0, m.sums, [&](int64_t t, int a, const double* joint) INLINED {
    std::copy_n(joint, b.lanes, m.edge.data() + (t - begin) * b.matrix_size() + int64_t(a) * b.lanes);
  });
}

// E_d f for marginals d of one example.
INLINE void expect(const BatchView& b, int64_t begin, int64_t end, const Marginals& d, Expectation& v) {
  clear(b, begin, end, v);
  for (int64_t t = begin; t < end; t++) {
    add_node(b, t, d.node + (t - begin) * b.lanes, v);
    if (b.parent[t] >= 0) add_edge(b, t, d.edge + (t - begin) * b.matrix_size(), v);
  }
}

// The step in [0, 1] from q towards p (d = p - q) that maximises the dual: Newton on its slope, inside a bracket.
// `size` is C u_i, `gain` the rise of the expected score, `curve` the curvature by the prior.
INLINE double line_search(const BatchView& b, int64_t begin, int64_t end, const Marginals& q, const Marginals& d,
                          const double* shares, double size, double gain, double curve, double gap) {
  double low = 0, high = 1;
  // the entropy alone would go to 1, with a slope and a curvature of about twice the gap
  double gamma = curve > 0 ? 2 * gap / (2 * gap + curve) : 1;
  for (int trial = 0; trial < 30; trial++) {
    Slopes s;
    for (int64_t t = begin; t < end; t++) {
      const int64_t local = t - begin, row = local * b.lanes, matrix = local * b.matrix_size();
      if (shares[local] != 0) add_slopes(q.node + row, d.node + row, gamma, b.lanes, shares[local], s);
      if (b.parent[t] >= 0) add_slopes(q.edge + matrix, d.edge + matrix, gamma, b.matrix_size(), 1, s);
    }
    const double slope = size * (gain + s.first) - gamma * curve;
    const double bend = curve - size * s.second;
    // What is left to gain is slope^2 / (2 bend), and what was gained at least about gamma gap / 2.
    if (slope * slope <= 0.01 * gamma * gap * bend) return gamma;
    if (slope < 0) {
      high = gamma;
    } else {
      low = gamma;
      if (gamma == 1) return gamma;
    }
    const double next = bend > 0 ? gamma + slope / bend : -1;
    if (next >= 1 && high == 1) gamma = 1;
    else if (next > low && next < high) gamma = next;
    else gamma = low > 0 ? 0.5 * (low + high) : 0.1 * high;
  }
  return low;
}

}  // namespace

void sdca(const BatchView& b, const double* variance, const double* mean, double C, Mode mode, double* weights,
          double* eta, const int64_t* picks, int64_t n_picks, double* node, double* edge, double* gaps) {
  const Weights<double> w(weights, b);
  const int lanes = b.lanes;
  const int64_t size = b.matrix_size();
  Model model;
  Expectation change(b);
  std::vector<double> shares;
  set_shared(b, mode, w.matrix, model.sums);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
    const double weight = C * b.sample_weight[i];
    gaps[i] = 0;
    if (n == 0 || weight == 0) continue;
    const Marginals q = of_example(b, node, edge, begin);
    look(b, w, begin, end, model);
    find_marginals(b, begin, end, model);
    count_edges(b, begin, end, shares);
    const double* own = model.sums.work.matrices.data();
    const double before = expected_score(b, w.matrix, own, begin, end, model.plain.data(), q);
    gaps[i] = std::max(0.0, weight * (model.log_partition - before - entropy(b, begin, end, q, shares.data())));
    const Marginals d = model.marginals();
    for (int64_t k = 0; k < n * lanes; k += width<double>) store(d.node + k, load(d.node + k) - load(q.node + k));
    for (int64_t t = begin; t < end; t++)
      if (b.parent[t] >= 0)
        for (int64_t k = (t - begin) * size; k < (t - begin + 1) * size; k += width<double>)
          store(d.edge + k, load(d.edge + k) - load(q.edge + k));
    const double gain = expected_score(b, w.matrix, own, begin, end, model.plain.data(), d);
    expect(b, begin, end, d, change);
    double curve = 0;
    each_stretch(b, change, [&](int64_t k, const double* x, int64_t m) INLINED {
      for (int64_t j = 0; j < m; j++) curve += variance[k + j] * x[j] * x[j];
    });
    curve *= weight * weight;
    const double gamma = line_search(b, begin, end, q, d, shares.data(), weight, gain, curve, gaps[i]);
    if (!(gamma > 0)) continue;
    for (int64_t k = 0; k < n * lanes; k += width<double>)
      store(q.node + k, load(q.node + k) + gamma * load(d.node + k));
    for (int64_t t = begin; t < end; t++)
      if (b.parent[t] >= 0)
        for (int64_t k = (t - begin) * size; k < (t - begin + 1) * size; k += width<double>)
          store(q.edge + k, load(q.edge + k) + gamma * load(d.edge + k));
    each_stretch(b, change, [&](int64_t k, const double* x, int64_t m) INLINED {
      for (int64_t j = 0; j < m; j++) eta[k + j] -= gamma * weight * x[j];
      set_stretch(b, change.layout, k, m, weights, [&](int64_t j) INLINED { return mean[j] + variance[j] * eta[j]; });
    });
    for (int m = 0; m < b.n_edge_types && mode == scaled && !b.n_edge_features; m++)
      if (change.used[m]) set_type(b, m, model.sums);
  }
}

void sdca_look(const BatchView& b, const double* weights, double C, Mode mode, int64_t first, int64_t last,
               double* node, double* edge, double* losses, double* entropies, double* gaps) {
  const Weights<double> w(weights, b);
  Model model;
  std::vector<double> shares;
  set_shared(b, mode, w.matrix, model.sums);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    const Marginals q = of_example(b, node, edge, begin);
    look(b, w, begin, end, model);
    count_edges(b, begin, end, shares);
    const double *own = model.sums.work.matrices.data(), *plain = model.plain.data();
    losses[i] = model.log_partition - score_of(b, w.matrix, own, begin, end, plain, b.y + begin);
    entropies[i] = entropy(b, begin, end, q, shares.data());
    gaps[i] = model.log_partition - expected_score(b, w.matrix, own, begin, end, plain, q) - entropies[i];
    gaps[i] = std::max(0.0, C * b.sample_weight[i] * gaps[i]);
  }
}

void sdca_features(const BatchView& b, int64_t first, int64_t last, double* node, double* edge, double* total) {
  Expectation found(b);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    expect(b, begin, end, of_example(b, node, edge, begin), found);
    const double weight = b.sample_weight[i];
    each_stretch(b, found, [&](int64_t k, const double* x, int64_t m) INLINED {
      for (int64_t j = 0; j < m; j++) total[k + j] += weight * x[j];
    });
  }
}

}  // namespace maxendnet

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
  const V<double> p = polynomial(s, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19);
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
  Workspace<double> work;
  Exponentials exps;
  std::vector<double> plain, zeros, given, node, edge;
  double log_partition = 0;

  Model(const BatchView& b) : zeros(b.lanes, 0), given(b.n_labels) {}
  Marginals marginals() { return {node.data(), edge.data()}; }

  INLINE void look(Model& m, const BatchView& b, const Weights<double>& w, Mode mode, int64_t begin, int64_t end) {
    Workspace<double>& work = m.work;
    work.fit(end - begin, b);
    score_nodes(b, w, begin, end, work.scores.data());
    m.plain.assign(work.scores.data(), work.scores.data() + (end - begin) * b.lanes);
    m.log_partition = beliefs_up(b, w, mode, m.zeros.data(), begin, end, work, m.exps);
  }
  INLINE void find_marginals(Model& m, const BatchView& b, const Weights<double>& w, Mode mode, int64_t begin,
                             int64_t end) {
    const int64_t size = b.matrix_size(), n_nodes = end - begin;
    Workspace<double>& work = m.work;
    m.node.assign(size_t(n_nodes) * b.lanes, 0);
    m.edge.resize(std::max(m.edge.size(), size_t(n_nodes) * size));
    if (mode == scaled)
      sum_down(b, m.exps.shared.data(), m.exps.own.data(), begin, end, work.scores.data(), work.messages.data(),
               work.ratios.data(), m.node.data());
    for (int64_t k = begin; k < end; k++) {
      const int64_t t = b.order[k], p = b.parent[t], local = t - begin;
      const double* belief = work.scores.data() + local * b.lanes;
      double* result = m.node.data() + local * b.lanes;
      if (p < 0) {
        if (mode == logarithmic) conditional(m.zeros.data(), belief, b.n_labels, result);
        continue;
      }
      const EdgeMatrix<double> matrix = mode == scaled
                                            ? edge_matrix<double>(b, m.exps.shared.data(), m.exps.own.data(), t, local)
                                            : edge_matrix<double>(b, w.matrix, work.matrices.data(), t, local);
      const double *above = m.node.data() + (p - begin) * b.lanes, *ratio = work.ratios.data() + local * b.lanes;
      for (int a = 0; a < b.n_labels; a++) {
        const double* row = matrix.by_parent + int64_t(a) * b.lanes;
        double* joint = m.edge.data() + local * size + int64_t(a) * b.lanes;
        if (mode == scaled) {
          for (int c = 0; c < b.lanes; c += width<double>)
            store(joint + c, ratio[a] * load(row + c) * load(belief + c));
        } else {
          conditional(row, belief, b.n_labels, m.given.data());
          for (int c = 0; c < b.lanes; c++) joint[c] = c < b.n_labels ? above[a] * m.given[c] : 0;
          for (int c = 0; c < b.n_labels; c++) result[c] += joint[c];
        }
      }
    }
  }
};

// E_d f for marginals d of one example: rows of labels for the features it has, and matrices.
struct Features {
  std::vector<int32_t> slot;  // per feature: its row below, or -1
  std::vector<int64_t> found;
  std::vector<double> rows, matrices, tied;
  std::vector<uint8_t> used;  // matrices that are not 0

  Features(const BatchView& b)
      : slot(size_t(b.n_features), -1), matrices(size_t(b.n_matrices() * b.matrix_size())), tied(b.n_tied),
        used(b.n_matrices()) {}

  INLINE void gather(Features& v, const BatchView& b, int64_t begin, int64_t end, const Marginals& d) {
    const int lanes = b.lanes, n = b.n_labels;
    const int64_t size = b.matrix_size();
    for (int64_t j : v.found) v.slot[j] = -1;
    v.found.clear();
    for (int64_t k = b.indptr[begin]; k < b.indptr[end]; k++)
      if (v.slot[b.indices[k]] < 0) {
        v.slot[b.indices[k]] = int32_t(v.found.size());
        v.found.push_back(b.indices[k]);
      }
    v.rows.assign(v.found.size() * lanes, 0);
    for (size_t m = 0; m < v.used.size(); m++)
      if (v.used[m]) std::fill_n(v.matrices.data() + m * size, size, 0.0);
    std::fill(v.used.begin(), v.used.end(), 0);
    std::fill(v.tied.begin(), v.tied.end(), 0);
    for (int64_t t = begin; t < end; t++) {
      const double *node = d.node + (t - begin) * lanes, *edge = d.edge + (t - begin) * size;
      for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
        double* row = v.rows.data() + int64_t(v.slot[b.indices[k]]) * lanes;
        const double x = b.data[k];
        for (int a = 0; a < lanes; a += width<double>) store(row + a, load(row + a) + x * load(node + a));
      }
      for (int a = 0; b.n_tied && a < n; a++)
        for (int j = 0; j < b.n_tied; j++) v.tied[j] += node[a] * b.label_features[(t * n + a) * b.n_tied + j];
      if (b.parent[t] < 0) continue;
      for (int f = -1; f < b.n_edge_features; f++) {
        const int m = f < 0 ? b.edge_type[t] : b.n_edge_types + f;
        const double x = f < 0 ? 1 : b.edge_features[t * b.n_edge_features + f];
        double* out = v.matrices.data() + m * size;
        v.used[m] = 1;
        if (!b.flipped[t]) {
          for (int64_t k = 0; k < size; k += width<double>) store(out + k, load(out + k) + x * load(edge + k));
        } else {
          for (int a = 0; a < n; a++)
            for (int c = 0; c < n; c++) out[int64_t(c) * lanes + a] += x * edge[int64_t(a) * lanes + c];
        }
      }
    }
  }
  // f(first coordinate of eta, values, how many) for each stretch that is not 0
  template <class F>
  INLINE void each(Features& v, const BatchView& b, F f) {
    const int64_t size = b.matrix_size(), start = b.n_features * b.lanes;
    for (size_t j = 0; j < v.found.size(); j++) f(v.found[j] * b.lanes, v.rows.data() + j * b.lanes, int64_t(b.lanes));
    for (int m = 0; m < b.n_matrices(); m++)
      if (v.used[m]) f(start + m * size, v.matrices.data() + m * size, size);
    f(start + b.n_matrices() * size, v.tied.data(), int64_t(b.n_tied));
  }
};

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
  const int64_t size = b.matrix_size(), matrix_start = b.n_features * lanes;
  const int64_t tied_start = matrix_start + b.n_matrices() * size;
  Model model(b);
  Features change(b);
  std::vector<double> shares;
  if (mode == scaled) Exponentials::of_shared(model.exps, b, w.matrix);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
    const double weight = C * b.weights[i];
    gaps[i] = 0;
    if (n == 0 || weight == 0) continue;
    const Marginals q = of_example(b, node, edge, begin);
    Model::look(model, b, w, mode, begin, end);
    Model::find_marginals(model, b, w, mode, begin, end);
    count_edges(b, begin, end, shares);
    const double* own = model.work.matrices.data();
    const double before = expected_score(b, w.matrix, own, begin, end, model.plain.data(), q);
    gaps[i] = std::max(0.0, weight * (model.log_partition - before - entropy(b, begin, end, q, shares.data())));
    const Marginals d = model.marginals();
    for (int64_t k = 0; k < n * lanes; k += width<double>) store(d.node + k, load(d.node + k) - load(q.node + k));
    for (int64_t t = begin; t < end; t++)
      if (b.parent[t] >= 0)
        for (int64_t k = (t - begin) * size; k < (t - begin + 1) * size; k += width<double>)
          store(d.edge + k, load(d.edge + k) - load(q.edge + k));
    const double gain = expected_score(b, w.matrix, own, begin, end, model.plain.data(), d);
    Features::gather(change, b, begin, end, d);
    double curve = 0;
    Features::each(change, b, [&](int64_t k, const double* x, int64_t m) INLINED {
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
    Features::each(change, b, [&](int64_t k, const double* x, int64_t m) INLINED {
      for (int64_t j = 0; j < m; j++) eta[k + j] -= gamma * weight * x[j];
      if (k < matrix_start) {
        for (int64_t j = 0; j < m; j++) weights[k + j] = mean[k + j] + variance[k + j] * eta[k + j];
      } else if (k < tied_start) {  // both orientations of the matrix
        double* pair = weights + matrix_start + 2 * (k - matrix_start);
        for (int a = 0; a < b.n_labels; a++)
          for (int c = 0; c < b.n_labels; c++) {
            const int64_t cell = int64_t(a) * lanes + c;
            const double value = mean[k + cell] + variance[k + cell] * eta[k + cell];
            pair[cell] = pair[size + int64_t(c) * lanes + a] = value;
          }
      } else {
        for (int64_t j = 0; j < m; j++)
          weights[k + b.n_matrices() * size + j] = mean[k + j] + variance[k + j] * eta[k + j];
      }
    });
    for (int m = 0; m < b.n_edge_types && mode == scaled; m++)
      if (change.used[m]) Exponentials::of_type(model.exps, b, m, w.matrix);
  }
}

void sdca_look(const BatchView& b, const double* weights, double C, Mode mode, int64_t first, int64_t last,
               double* node, double* edge, double* losses, double* entropies, double* gaps) {
  const Weights<double> w(weights, b);
  Model model(b);
  std::vector<double> shares;
  if (mode == scaled) Exponentials::of_shared(model.exps, b, w.matrix);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    const Marginals q = of_example(b, node, edge, begin);
    Model::look(model, b, w, mode, begin, end);
    count_edges(b, begin, end, shares);
    const double *own = model.work.matrices.data(), *plain = model.plain.data();
    losses[i] = model.log_partition - score_of(b, w.matrix, own, begin, end, plain, b.y + begin);
    entropies[i] = entropy(b, begin, end, q, shares.data());
    gaps[i] = model.log_partition - expected_score(b, w.matrix, own, begin, end, plain, q) - entropies[i];
    gaps[i] = std::max(0.0, C * b.weights[i] * gaps[i]);
  }
}

void sdca_features(const BatchView& b, int64_t first, int64_t last, double* node, double* edge, double* total) {
  Features found(b);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    Features::gather(found, b, begin, end, of_example(b, node, edge, begin));
    const double weight = b.weights[i];
    Features::each(found, b, [&](int64_t k, const double* x, int64_t m) INLINED {
      for (int64_t j = 0; j < m; j++) total[k + j] += weight * x[j];
    });
  }
}

}  // namespace maxendnet

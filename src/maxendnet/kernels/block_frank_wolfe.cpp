// Generalised block-coordinate Frank-Wolfe with pairwise steps, on the dual: max over alpha of
// sum alpha l - sum_k phi(eta_k).
//
// The block of an example is its active set: the labellings that have dual weight, and how much. A step moves weight
// from the worst of them to the most violating labelling. The two mostly differ in a node or two, so that a step
// touches some hundred coordinates of eta where a step towards the vertex from the whole block touches thousands.
#include "active_sets.hpp"
#include "direction.hpp"
#include "forest.hpp"
#include "kernels.hpp"

namespace maxendnet {
namespace {

// Augmented scores of the active labellings, and which of those with weight is worst.
template <class R>
INLINE size_t score_active(const BatchView& b, const R* shared, const R* own, int64_t begin, int64_t end, const R* scores,
                           const Block& block, std::vector<double>& found) {
  found.resize(block.alpha.size());
  size_t worst = block.alpha.size();
  for (size_t j = 0; j < block.alpha.size(); j++) {
    found[j] = score_of(b, shared, own, begin, end, scores, block.labelling(j));
    if (block.alpha[j] > 0 && (worst == block.alpha.size() || found[j] < found[worst])) worst = j;
  }
  return worst;
}

// The labelling with the largest augmented score: along the edges or, for a choice, the best node of all. `scores` are
// changed.
template <class R>
INLINE void most_violating(const BatchView& b, const R* shared, const R* own, int64_t begin, int64_t end, R* scores,
                           const R* zeros, Workspace<R>& work) {
  if (b.rest < 0) {
    max_up<R, false>(b, shared, own, begin, end, scores, work.messages.data());
    max_down(b, shared, own, begin, end, scores, zeros, work.labels.data());
    return;
  }
  std::fill_n(work.labels.begin(), end - begin, b.rest);
  R best = 0;
  int64_t node = -1;
  int label = b.rest;
  for (int64_t t = 0; t < end - begin; t++) {
    const R *row = scores + t * b.lanes, from = row[b.rest];
    for (int a = 0; a < b.n_labels; a++)
      if (a != b.rest && row[a] - from > best) best = row[a] - from, node = t, label = a;
  }
  if (node >= 0) work.labels[node] = label;
}

// Half as far again as the best step. Other blocks will pull the same way, so that over-relaxation takes about a fifth
// fewer passes (OCR, C = 1); along a parabola any factor below 2 raises the dual. Only for quadratic priors: a cumulant
// with a border leaves no room behind the best step.
template <class Prior>
INLINE double over_relaxed(double gamma, double limit) {
  return Prior::quadratic ? std::min(1.5 * gamma, limit) : gamma;
}

// Moves dual weight from one active labelling to another, by the best step; returns how much, 0 when there is nothing to
// gain.
template <class R, class Prior>
INLINE double step(const BatchView& b, const Prior& prior, int64_t begin, int64_t end, size_t from, size_t to, R* weights,
                   double* eta, Block& block, Direction& v) {
  gather_difference(b, begin, end, block.labelling(from), block.labelling(to), eta, v);
  const double limit = block.alpha[from];
  const double gamma = over_relaxed<Prior>(line_search(prior, v, block.cost[to] - block.cost[from], limit), limit);
  if (gamma > 0) {
    move(b, prior, v, gamma, eta, weights);
    block.alpha[to] += gamma;
    block.alpha[from] = gamma < limit ? limit - gamma : 0;
  }
  // the one that is last in the list first, so that the other keeps its place
  block.drop_if_empty(std::max(from, to));
  block.drop_if_empty(std::min(from, to));
  return gamma;
}

template <class R, class Prior>
INLINE double updates(const BatchView& b, const Prior& prior, double C, R* weights, double* eta, const R* cost,
                    const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                    double* gaps) {
  const int lanes = b.lanes;
  const std::vector<R> zeros(lanes, 0);
  const Weights<R> w(weights, b);
  std::vector<R> plain;
  std::vector<uint16_t> labels;
  std::vector<double> active;
  Workspace<R> work;
  Direction v;
  double cost_change = 0;  // of sum alpha l
  v.sum.assign(size_t(b.n_features * lanes + b.n_matrices() * b.matrix_size() + b.n_tied), 0);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
    if (n == 0) continue;
    Block& block = sets.blocks[i];
    work.fit(n, b);
    R *scores = work.scores.data(), *own = work.matrices.data();
    for (int round = 0; round <= inner; round++) {
      score_nodes(b, w, begin, end, scores);
      forbid(b, begin, end, scores);
      if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
      for (int64_t t = begin; t < end; t++)
        add_row(scores + (t - begin) * lanes, cost + int64_t(b.y[t]) * lanes, lanes);
      const size_t worst = score_active(b, w.matrix, own, begin, end, scores, block, active);
      size_t target;
      if (round == 0) {  // the most violating of all labellings; later rounds make do with the active ones
        plain.assign(scores, scores + n * lanes);
        most_violating(b, w.matrix, own, begin, end, scores, zeros.data(), work);
        labels.assign(work.labels.begin(), work.labels.begin() + n);
        const double best = score_of(b, w.matrix, own, begin, end, plain.data(), labels.data());
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        gaps[i] = std::max(0.0, C * b.weights[i] * best - here);
        if (worst == active.size() || best <= active[worst]) break;
        double price = 0;
        for (int64_t t = 0; t < n; t++) price += cost64[int64_t(b.y[begin + t]) * lanes + labels[t]];
        target = block.find_or_add(labels.data(), price);
      } else {
        target = size_t(std::max_element(active.begin(), active.end()) - active.begin());
        // what can be gained among the active labellings, against the gap of the whole block
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        if (target == worst || C * b.weights[i] * active[target] - here < 0.3 * gaps[i]) break;
      }
      const double change = block.cost[target] - block.cost[worst];  // before the step may drop one of them
      const double moved = step(b, prior, begin, end, worst, target, weights, eta, block, v);
      if (!(moved > 0)) break;
      cost_change += moved * change;
    }
  }
  return cost_change;
}

#define UPDATES(name, R, Prior)                                                                                     \
  CLONES double name(const BatchView& b, const PriorArgs& prior, double C, R* weights, double* eta, const R* cost,  \
                     const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,      \
                     double* gaps) {                                                                                \
    return updates(b, Prior(prior), C, weights, eta, cost, cost64, picks, n_picks, inner, sets, gaps);                     \
  }
#define BOTH(name, Prior)             \
  UPDATES(name##_float, float, Prior)   \
  UPDATES(name##_double, double, Prior)
BOTH(gaussian_updates, GaussianPrior)
BOTH(diagonal_updates, DiagonalGaussianPrior)
BOTH(normal_gamma_updates, NormalGammaPrior)
BOTH(normal_inverse_gaussian_updates, NormalInverseGaussianPrior)
BOTH(spike_slab_updates, SpikeSlabPrior)
BOTH(exponential_updates, ExponentialPrior)
BOTH(uniform_updates, UniformPrior)
BOTH(proximal_l1_updates, ProximalL1)

template <class Prior>
void means(const Prior& prior, const double* eta, int64_t n, double* mean) {
  for (int64_t k = 0; k < n; k++) mean[k] = Prior::moments(prior, eta[k], &k).mean;
}

}  // namespace

#define CHOOSE(R, suffix)                                                                                              \
  template <>                                                                                                          \
  double block_frank_wolfe<R>(const BatchView& b, const PriorArgs& p, double C, R* w, double* eta, const R* cost,        \
                            const double* cost64, const int64_t* picks, int64_t n, int inner, ActiveSets& sets,        \
                            double* gaps) {                                                                            \
    switch (p.kind) {                                                                                                  \
      case gaussian:                                                                                                   \
        if (p.variance) return diagonal_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps);   \
        return gaussian_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps);                   \
      case normal_gamma: return normal_gamma_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps); \
      case normal_inverse_gaussian:                                                                                    \
        return normal_inverse_gaussian_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps);    \
      case spike_slab: return spike_slab_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps);  \
      case exponential: return exponential_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps); \
      case uniform: return uniform_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps);        \
      case proximal_l1: return proximal_l1_updates##suffix(b, p, C, w, eta, cost, cost64, picks, n, inner, sets, gaps); \
    }                                                                                                                  \
    return 0;                                                                                                          \
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
    case proximal_l1: return means(ProximalL1(p), eta, n, mean);
  }
}

// Hinge of every example and the gap of its block, g_i = C u_i max_y h(y) - sum_y alpha(y) h(y), where h(y) is the
// augmented score l(y) + mu.f(y); their sum is primal - dual.
CLONES void block_gaps(const BatchView& b, const double* weights, const double* cost, double C, int64_t first,
                       int64_t last, const ActiveSets& sets, double* values, double* gaps) {
  using R = double;
  const int lanes = b.lanes;
  const Weights<R> w(weights, b);
  const std::vector<R> zeros(lanes, 0);
  std::vector<R> plain;
  std::vector<double> active;
  Workspace<R> work;
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    work.fit(end - begin, b);
    R *scores = work.scores.data(), *own = work.matrices.data();
    score_nodes(b, w, begin, end, scores);
    forbid(b, begin, end, scores);
    if (b.n_edge_features) build_matrices(b, w.matrix, begin, end, own);
    for (int64_t t = begin; t < end; t++)
      add_row(scores + (t - begin) * lanes, cost + int64_t(b.y[t]) * lanes, lanes);
    plain.assign(scores, scores + (end - begin) * lanes);
    most_violating(b, w.matrix, own, begin, end, scores, zeros.data(), work);
    double best = score_of(b, w.matrix, own, begin, end, plain.data(), work.labels.data());
    const double truth = score_of(b, w.matrix, own, begin, end, plain.data(), b.y + begin);
    best = std::max(best, truth);
    values[i] = best - truth;
    score_active(b, w.matrix, own, begin, end, plain.data(), sets.blocks[i], active);
    double here = 0;
    for (size_t j = 0; j < active.size(); j++) here += sets.blocks[i].alpha[j] * (active[j] - truth);
    gaps[i] = std::max(0.0, C * b.weights[i] * values[i] - here);
  }
}

// eta = sum_i sum_y alpha_i(y) (f(x_i, y_i) - f(x_i, y)), afresh from the active sets, so that rounding does not pile up
// over millions of steps.
void active_features(const BatchView& b, const ActiveSets& sets, int64_t first, int64_t last, double* eta) {
  const int64_t size = b.matrix_size();
  double* matrix = eta + b.n_features * b.lanes;
  double* tied = matrix + b.n_matrices() * size;
  std::vector<uint16_t> truth;
  auto add = [&](int64_t begin, int64_t end, const uint16_t* labels, const uint16_t* other, double u) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t child = labels[t - begin];
      const bool differs = labels[t - begin] != other[t - begin];
      if (differs) {
        for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) eta[int64_t(b.indices[k]) * b.lanes + child] += u * b.data[k];
        for (int j = 0; j < b.n_tied; j++) tied[j] += u * b.label_features[(t * b.n_labels + child) * b.n_tied + j];
      }
      if (b.parent[t] < 0) continue;
      const int64_t p = b.parent[t] - begin, parent = labels[p];
      if (!differs && labels[p] == other[p]) continue;
      const int64_t cell = b.flipped[t] ? child * b.lanes + parent : parent * b.lanes + child;
      matrix[b.edge_type[t] * size + cell] += u;
      for (int f = 0; f < b.n_edge_features; f++)
        matrix[(b.n_edge_types + f) * size + cell] += u * b.edge_features[t * b.n_edge_features + f];
    }
  };
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    truth.assign(b.y + begin, b.y + end);
    const Block& block = sets.blocks[i];
    for (size_t j = 0; j < block.alpha.size(); j++) {
      if (block.alpha[j] == 0) continue;
      add(begin, end, truth.data(), block.labelling(j), block.alpha[j]);
      add(begin, end, block.labelling(j), truth.data(), -block.alpha[j]);
    }
  }
}

}  // namespace maxendnet

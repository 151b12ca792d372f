// Sequential minimal optimisation on clique marginals: per example, weight moves from the labelling that deserves it least
// of all that have some, to the one that deserves it most.
//
// The dual depends on the marginals of nodes and edges alone, and on a forest any consistent, non-negative marginals belong
// to some alpha. So a labelling has weight to give if all its nodes and edges have, and as much as the least of them.
#include "clique_marginals.hpp"
#include "direction.hpp"
#include "forest.hpp"
#include "kernels.hpp"

namespace maxendnet {
namespace {

struct Visit {
  Workspace<double> work;
  std::vector<double> plain;          // scores with costs
  std::vector<double> least;          // (n, lanes) least score of a labelling of the subtree within the support
  std::vector<uint16_t> best, worst;  // the two labellings
  double top = 0, bottom = 0, here = 0;
  Direction v;
};

constexpr double infinity = std::numeric_limits<double>::infinity();

// The most violating labelling, the least deserving one in the support, and the score of the marginals themselves.
void look(const BatchView& b, const double* weights, const double* cost, int64_t i, const CliqueMarginals& q,
          Visit& c) {
  const int64_t begin = b.offsets[i], end = b.offsets[i + 1], n = end - begin;
  const int lanes = b.lanes;
  const Weights<double> w(weights, b);
  prepare(b, w, cost, begin, end, c.work);
  const double* own = c.work.matrices.data();
  c.plain.assign(c.work.scores.data(), c.work.scores.data() + n * lanes);
  best_labelling(b, w, begin, end, c.work, c.work.labels.data());
  c.best.assign(c.work.labels.begin(), c.work.labels.begin() + n);
  c.top = score_of(b, w.matrix, own, begin, end, c.plain.data(), c.best.data());

  c.here = 0;
  c.least.assign(n * lanes, infinity);
  for (int64_t t = begin; t < end; t++)
    for (int a = 0; a < b.n_labels; a++) {
      const double weight = q.node[t * b.n_labels + a];
      if (!(weight > 0)) continue;
      c.least[(t - begin) * lanes + a] = c.plain[(t - begin) * lanes + a];
      c.here += weight * c.plain[(t - begin) * lanes + a];
    }
  double* message = c.work.messages.data();
  for (int64_t k = end - 1; k >= begin; k--) {
    const int64_t t = b.order[k], p = b.parent[t];
    if (p < 0) continue;
    const double* matrix = edge_matrix(b, w.matrix, own, t, t - begin).by_parent;
    const double* below = c.least.data() + (t - begin) * lanes;
    std::fill(message, message + lanes, infinity);
    for (const auto& cell : q.edges[t]) {
      const double score = matrix[int64_t(cell.parent) * lanes + cell.child];
      message[cell.parent] = std::min(message[cell.parent], score + below[cell.child]);
      c.here += cell.weight * score;
    }
    add_row(c.least.data() + (p - begin) * lanes, message, lanes);
  }
  c.worst.resize(n);
  for (int64_t k = begin; k < end; k++) {
    const int64_t t = b.order[k], p = b.parent[t];
    const double* below = c.least.data() + (t - begin) * lanes;
    double lowest = infinity;
    int found = b.y[t];
    if (p < 0) {
      for (int a = 0; a < b.n_labels; a++)
        if (below[a] < lowest) lowest = below[found = a];
    } else {
      const double* row = edge_matrix(b, w.matrix, own, t, t - begin).by_parent + int64_t(c.worst[p - begin]) * lanes;
      for (const auto& cell : q.edges[t])
        if (cell.parent == c.worst[p - begin] && row[cell.child] + below[cell.child] < lowest) {
          lowest = row[cell.child] + below[cell.child];
          found = cell.child;
        }
    }
    c.worst[t - begin] = uint16_t(found);
  }
  c.bottom = score_of(b, w.matrix, own, begin, end, c.plain.data(), c.worst.data());
}

// The weight that `worst` can give away: the least of its nodes and edges that `best` does not share.
double movable(const BatchView& b, int64_t begin, int64_t end, const CliqueMarginals& q, const Visit& c) {
  double limit = infinity;
  for (int64_t t = begin; t < end; t++) {
    const int64_t p = b.parent[t] < 0 ? -1 : b.parent[t] - begin;
    const uint16_t from = c.worst[t - begin], to = c.best[t - begin];
    if (from != to) limit = std::min(limit, q.node[t * b.n_labels + from]);
    if (p < 0 || (from == to && c.worst[p] == c.best[p])) continue;
    double weight = 0;
    for (const auto& cell : q.edges[t])
      if (cell.parent == c.worst[p] && cell.child == from) weight = cell.weight;
    limit = std::min(limit, weight);
  }
  return limit < infinity ? limit : 0;
}

void move_marginals(const BatchView& b, int64_t begin, int64_t end, double gamma, double least, const Visit& c,
                    CliqueMarginals& q) {
  for (int64_t t = begin; t < end; t++) {
    const int64_t p = b.parent[t] < 0 ? -1 : b.parent[t] - begin;
    const uint16_t from = c.worst[t - begin], to = c.best[t - begin];
    if (from != to) {
      double* row = q.node.data() + t * b.n_labels;
      row[from] = CliqueMarginals::less(row[from], gamma, least);
      row[to] += gamma;
    }
    if (p < 0 || (from == to && c.worst[p] == c.best[p])) continue;
    q.take(t, c.worst[p], from, gamma, least);
    q.at(t, c.best[p], to) += gamma;
  }
}

// The best step along worst -> best; 0 where the dual does not rise.
template <class Prior>
INLINE double step_of(const BatchView& b, const Prior& prior, int64_t begin, int64_t end, double gain, double limit,
                      double* eta, double* weights, Visit& c) {
  const Layout layout = padded_layout(b);
  gather_difference(b, layout, begin, end, c.worst.data(), c.best.data(), eta, c.v, [](auto) {});
  const double gamma = line_search(prior, c.v, gain, limit);
  if (gamma > 0)
    move(prior, c.v, gamma, eta, [&](int64_t k, double mean) INLINED { set_weight(b, layout, k, mean, weights); });
  return gamma;
}

}  // namespace

void smo(const BatchView& b, const KernelPrior& prior, double C, double* weights, double* eta, const double* cost,
         const int64_t* picks, int64_t n_picks, int rounds, CliqueMarginals& q, double* gaps) {
  Visit c;
  c.v.sum.assign(size_t(padded_layout(b).label_features + b.n_label_features), 0);
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], end = b.offsets[i + 1];
    const double size = C * b.sample_weight[i];
    if (begin == end || size == 0) {
      gaps[i] = 0;
      continue;
    }
    for (int round = 0; round < (end - begin < 10000 ? rounds : 1); round++) {  // a call must not last
      look(b, weights, cost, i, q, c);
      const double gap = std::max(0.0, size * c.top - c.here);
      if (round == 0) gaps[i] = gap;
      if (gap < 0.3 * gaps[i] || !(c.top > c.bottom)) break;  // most of what this example offered is taken
      double gain = 0;
      for (int64_t t = begin; t < end; t++)
        gain += cost[int64_t(b.row[t]) * b.lanes + c.best[t - begin]] -
                cost[int64_t(b.row[t]) * b.lanes + c.worst[t - begin]];
      const double limit = movable(b, begin, end, q, c);
      const auto step = [&](auto one) { return step_of(b, one, begin, end, gain, limit, eta, weights, c); };
      const double gamma = limit > 0 ? std::visit(step, prior) : 0;
      if (!(gamma > 0)) break;
      move_marginals(b, begin, end, gamma, 1e-15 * size, c, q);
    }
  }
}

}  // namespace maxendnet

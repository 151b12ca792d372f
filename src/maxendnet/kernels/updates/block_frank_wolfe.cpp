// Generalised block-coordinate Frank-Wolfe with pairwise steps, on the dual: max over alpha of
// sum alpha l - sum_k phi(eta_k).
//
// The block of an example is its active set: the labellings with dual weight. A step moves weight from the worst of them to
// the most violating labelling. The two often differ in only one or two nodes, so that a step changes a few hundred
// coordinates of eta; a step of the whole block towards the vertex would change thousands.
#include "common/kernels.hpp"
#include "recursions/search.hpp"
#include "updates/active_sets.hpp"
#include "updates/direction.hpp"

namespace maxendnet {
namespace {

// ---- coordinates that a step changes ----------------------------------------------------------------------------------

template <class R>
OUTLINE void gather(Search<ForestView<R>>& s, int64_t, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  gather_difference(s.b, s.layout, s.begin, s.end, from, to, eta, v, [](auto) {});
}
OUTLINE void gather(Search<HierarchyView>& s, int64_t, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  gather_difference(s.b, s.layout, s.e.begin, s.e.begin + s.e.size, from, to, eta, v,
                    [&](auto add) INLINED { sibling_differences(s.b, s.m, s.e, from, to, add); });
}
template <class R>
OUTLINE void gather(Search<PathsView<R>>& s, int64_t i, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  const int64_t begin = s.p.begin, end = begin + s.p.n;
  size_t n_fired = 0;
  gram_differences(s.m, from, to, s.p.n, [&](int64_t, double) INLINED { n_fired++; });
  begin_gathering(v, 2 * size_t(s.b.indptr[end] - s.b.indptr[begin] + s.p.n * s.b.n_label_features) + n_fired);
  const auto add = [&](int64_t k, double value) INLINED { Direction::add(v, k, value); };
  path_differences(s.b, s.m, i, from, to, add);
  take_gathered(v, eta, 0, int64_t(v.sum.size()));
  end_gathering(v);
}

// Sets the weights after a step.
template <class R>
INLINE void set_weights(Search<ForestView<R>>& s, const Direction& v, R* weights) {
  for (size_t j = 0; j < v.n; j++) set_weight(s.b, s.layout, v.index[j], R(v.mean[j]), weights);
}
INLINE void set_weights(Search<HierarchyView>&, const Direction& v, double* weights) {
  for (size_t j = 0; j < v.n; j++) weights[v.index[j]] = v.mean[j];
}
template <class R>
INLINE void set_weights(Search<PathsView<R>>& s, const Direction& v, R* weights) {
  for (size_t j = 0; j < v.n; j++) weights[v.index[j]] = R(v.mean[j]);
  for (size_t j = 0; j < v.n; j++) {
    const int64_t gram = v.index[j] - s.first;
    if (gram < 0) continue;
    for (int64_t e = s.m.user_offsets[gram]; e < s.m.user_offsets[gram + 1]; e++)
      s.scores[score_place(s.m, s.m.users[e])] = score_of_row<R>(s.m, s.grams, s.m.users[e]);
  }
}

// ---- steps ------------------------------------------------------------------------------------------------------------

// Computes the augmented scores of the active labellings; returns the index of the worst one with weight.
template <class View>
OUTLINE size_t score_active(Search<View>& s, int64_t i, const Block& block, std::vector<double>& scores) {
  scores.resize(block.alpha.size());
  size_t worst = block.alpha.size();
  for (size_t j = 0; j < block.alpha.size(); j++) {
    scores[j] = score(s, i, block.labelling(j));
    if (block.alpha[j] > 0 && (worst == block.alpha.size() || scores[j] < scores[worst])) worst = j;
  }
  return worst;
}

// Moves dual weight from one active labelling to another, by the best step. Returns the moved weight, or 0 if no step
// improves the dual.
template <class View>
INLINE double step(Search<View>& s, int64_t i, const KernelPrior& prior, size_t from, size_t to,
                   typename View::Real* weights, double* eta, Block& block, Direction& v) {
  gather(s, i, block.labelling(from), block.labelling(to), eta, v);
  const double limit = block.alpha[from];
  const double gamma = line_search(prior, v, block.cost[to] - block.cost[from], limit);
  if (gamma > 0) {
    move(prior, v, gamma, eta);
    set_weights(s, v, weights);
    block.alpha[to] += gamma;
    block.alpha[from] = gamma < limit ? limit - gamma : 0;
  }
  // drop the larger index first, so that the other index stays valid
  block.drop_if_empty(std::max(from, to));
  block.drop_if_empty(std::min(from, to));
  return gamma;
}

}  // namespace

template <class View>
double block_frank_wolfe(const BatchView& b, const View& recursion, const KernelPrior& prior, double C,
                         typename View::Real* weights, double* eta, const typename View::Real* cost,
                         const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                         double* gaps) {
  Search<View> s(b, recursion, cost);
  Direction v;
  std::vector<uint16_t> labels;
  std::vector<double> active;
  double cost_change = 0;                   // of sum alpha l
  v.sum.resize(size_t(s.n_coordinates()));  // zero, as after every step
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], n = b.offsets[i + 1] - begin;
    if (n == 0) continue;
    Block& block = sets.blocks[i];
    for (int round = 0; round <= inner; round++) {
      visit(s, i, i + 1);
      const size_t worst = score_active(s, i, block, active);
      size_t target;
      if (round == 0) {  // the most violating of all labellings; later rounds use only active ones
        most_violating(s, labels);
        const double best = score(s, i, labels.data());
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        gaps[i] = std::max(0.0, C * b.sample_weight[i] * best - here);
        if (worst == active.size() || best <= active[worst]) break;
        double price = 0;
        for (int64_t t = 0; t < n; t++) price += cost64[int64_t(b.row[begin + t]) * s.layout.stride + labels[t]];
        target = block.find_or_add(labels.data(), price);
      } else {
        target = size_t(std::max_element(active.begin(), active.end()) - active.begin());
        // stop if the gap among the active labellings is small compared to that of the block
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        if (target == worst || C * b.sample_weight[i] * active[target] - here < 0.3 * gaps[i]) break;
      }
      const double change =
          block.cost[target] - block.cost[worst];  // computed now, since the step may drop one of them
      const double moved = step(s, i, prior, worst, target, weights, eta, block, v);
      if (!(moved > 0)) break;
      cost_change += moved * change;
    }
  }
  return cost_change;
}

void prior_mean(const KernelPrior& prior, const double* eta, int64_t n, double* mean) {
  std::visit(
      [&](auto alternative) {
        for (int64_t k = 0; k < n; k++) mean[k] = alternative.moments(alternative, eta[k], &k).mean;
      },
      prior);
}

// Hinge of every example and the gap of its block, g_i = C u_i max_y h(y) - sum_y alpha(y) h(y), where h(y) is the
// augmented score l(y) + mu.f(y); their sum is primal - dual.
template <class View>
void block_gaps(const BatchView& b, const View& recursion, const double* cost, double C, int64_t first, int64_t last,
                const ActiveSets& sets, double* values, double* gaps) {
  Search<View> s(b, recursion, cost);
  std::vector<uint16_t> labels;
  std::vector<double> active;
  for (int64_t i = first; i < last; i++) {
    visit(s, i, i + 1);
    most_violating(s, labels);
    const double truth = score(s, i, b.y + b.offsets[i]);
    values[i] = std::max(score(s, i, labels.data()), truth) - truth;
    score_active(s, i, sets.blocks[i], active);
    double here = 0;
    for (size_t j = 0; j < active.size(); j++) here += sets.blocks[i].alpha[j] * (active[j] - truth);
    gaps[i] = std::max(0.0, C * b.sample_weight[i] * values[i] - here);
  }
}

namespace {

// Returns a function of (example, from, to, add) that adds where the features of two labellings of an example differ.
template <class R>
INLINE auto differences_of(const BatchView& b, const ForestView<R>&) {
  return [&b, layout = padded_layout(b)](int64_t i, const int32_t* from, const uint16_t* to, auto add)
             INLINED { differences(b, layout, b.offsets[i], b.offsets[i + 1], from, to, add); };
}
INLINE auto differences_of(const BatchView& b, const HierarchyView& m) {
  return [&b, &m, e = Example{}](int64_t i, const int32_t* from, const uint16_t* to, auto add) mutable {
    if (e.begin != b.offsets[i] || e.size != b.offsets[i + 1] - e.begin) find_labels(b, i, e);
    differences(b, m, e, from, to, add);
  };
}
template <class R>
INLINE auto differences_of(const BatchView& b, const PathsView<R>& paths) {
  return [&b, &m = *paths.automaton](int64_t i, const int32_t* from, const uint16_t* to, auto add)
             INLINED { path_differences(b, m, i, from, to, add); };
}

}  // namespace

// eta = sum_i sum_y alpha_i(y) (f(x_i, y_i) - f(x_i, y)), recomputed from the active sets, so that rounding errors do not
// accumulate over millions of steps.
template <class View>
void active_features(const BatchView& b, const View& recursion, const ActiveSets& sets, int64_t first, int64_t last,
                     double* eta) {
  auto differ = differences_of(b, recursion);
  for (int64_t i = first; i < last; i++) {
    const Block& block = sets.blocks[i];
    for (size_t j = 0; j < block.alpha.size(); j++)
      if (const double alpha = block.alpha[j]; alpha != 0)
        differ(i, b.y + b.offsets[i], block.labelling(j),
               [&](int64_t k, double value) INLINED { eta[k] += alpha * value; });
  }
}

#define INSTANTIATE_STEPS(View)                                                                                      \
  template double block_frank_wolfe(const BatchView&, const View&, const KernelPrior&, double, View::Real*, double*, \
                                    const View::Real*, const double*, const int64_t*, int64_t, int, ActiveSets&,     \
                                    double*);
#define INSTANTIATE(View)                                                                                             \
  INSTANTIATE_STEPS(View)                                                                                             \
  template void block_gaps(const BatchView&, const View&, const double*, double, int64_t, int64_t, const ActiveSets&, \
                           double*, double*);                                                                         \
  template void active_features(const BatchView&, const View&, const ActiveSets&, int64_t, int64_t, double*);
INSTANTIATE_STEPS(ForestView<float>)
INSTANTIATE_STEPS(PathsView<float>)
INSTANTIATE(ForestView<double>)
INSTANTIATE(PathsView<double>)
INSTANTIATE(HierarchyView)

}  // namespace maxendnet

// Generalised block-coordinate Frank-Wolfe with pairwise steps, on the dual: max over alpha of
// sum alpha l - sum_k phi(eta_k).
//
// The block of an example is its active set: the labellings that have dual weight, and how much. A step moves weight
// from the worst of them to the most violating labelling. The two mostly differ in a node or two, so that a step
// touches some hundred coordinates of eta where a step towards the vertex from the whole block touches thousands.
#include "common/kernels.hpp"
#include "recursions/automaton.hpp"
#include "recursions/forest.hpp"
#include "recursions/hierarchy_features.hpp"
#include "updates/active_sets.hpp"
#include "updates/direction.hpp"

namespace maxendnet {
namespace {

// ---- what the steps ask of a structure: to be scored with its costs added, its best labelling, differences of features

template <class View>
struct BlocksOf;

// A forest, or a choice. R is the precision of the search.
template <class R>
struct BlocksOf<ForestView<R>> {
  const BatchView& b;
  Weights<R> w;
  const R* cost;
  Layout layout;
  Workspace<R> work;
  std::vector<R> plain;  // the scores, which the search changes
  int64_t begin = 0, end = 0;

  BlocksOf(const BatchView& batch, const ForestView<R>& forest, const R* costs)
      : b(batch), w(forest.weights, batch), cost(costs), layout(padded_layout(batch)) {}
};

// Turns to an example, at the weights of now.
template <class R>
OUTLINE void visit(BlocksOf<ForestView<R>>& s, int64_t i) {
  s.begin = s.b.offsets[i];
  s.end = s.b.offsets[i + 1];
  prepare(s.b, s.w, s.cost, s.begin, s.end, s.work);
  s.plain.assign(s.work.scores.data(), s.work.scores.data() + (s.end - s.begin) * s.b.lanes);
}

template <class R, class Label>
OUTLINE double augmented_score(BlocksOf<ForestView<R>>& s, const Label* labels) {
  return score_of(s.b, s.w.matrix, s.work.matrices.data(), s.begin, s.end, s.plain.data(), labels);
}

// The labelling with the largest augmented score: along the edges or, for a choice, the best node of all.
template <class R>
OUTLINE void most_violating(BlocksOf<ForestView<R>>& s, std::vector<uint16_t>& labels) {
  const BatchView& b = s.b;
  const int64_t n = s.end - s.begin;
  if (b.rest < 0) {
    best_labelling(b, s.w, s.begin, s.end, s.work, s.work.labels.data());
    labels.assign(s.work.labels.begin(), s.work.labels.begin() + n);
    return;
  }
  labels.assign(n, uint16_t(b.rest));
  R best = 0;
  int64_t node = -1;
  int label = b.rest;
  for (int64_t t = 0; t < n; t++) {
    const R *row = s.work.scores.data() + t * b.lanes, from = row[b.rest];
    for (int a = 0; a < b.n_labels; a++)
      if (a != b.rest && row[a] - from > best) best = row[a] - from, node = t, label = a;
  }
  if (node >= 0) labels[node] = uint16_t(label);
}

template <class R>
OUTLINE void gather(BlocksOf<ForestView<R>>& s, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  gather_difference(s.b, s.layout, s.begin, s.end, from, to, eta, v, [](auto) {});
}

// Sets the weights behind a step.
template <class R>
INLINE void set_weights(BlocksOf<ForestView<R>>& s, const Direction& v, R* weights) {
  for (size_t j = 0; j < v.n; j++) set_weight(s.b, s.layout, v.index[j], R(v.mean[j]), weights);
}

// A hierarchy: its recursions are in hierarchy.cpp, weights are laid out like eta.
template <>
struct BlocksOf<HierarchyView> {
  const BatchView& b;
  const HierarchyView& m;
  const double* cost;
  const Layout& layout;
  Example e{};
  std::vector<int32_t> best{};

  BlocksOf(const BatchView& batch, const HierarchyView& hierarchy, const double* costs)
      : b(batch), m(hierarchy), cost(costs), layout(hierarchy.layout) {}
};

OUTLINE void visit(BlocksOf<HierarchyView>& s, int64_t i) { hierarchy_prepare(s.b, s.m, s.cost, i, s.e); }

template <class Label>
OUTLINE double augmented_score(BlocksOf<HierarchyView>& s, const Label* labels) {
  return score_of(s.b, s.m, s.e, labels);
}

OUTLINE void most_violating(BlocksOf<HierarchyView>& s, std::vector<uint16_t>& labels) {
  s.best.resize(s.e.size);
  hierarchy_best(s.b, s.m, s.e, s.best.data());
  labels.assign(s.best.begin(), s.best.end());
}

OUTLINE void gather(BlocksOf<HierarchyView>& s, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  gather_difference(s.b, s.layout, s.e.begin, s.e.begin + s.e.size, from, to, eta, v,
                    [&](auto add) INLINED { sibling_differences(s.b, s.m, s.e, from, to, add); });
}

INLINE void set_weights(BlocksOf<HierarchyView>&, const Direction& v, double* weights) {
  for (size_t j = 0; j < v.n; j++) weights[v.index[j]] = v.mean[j];
}

// A chain that an automaton reads. Scores of arcs follow from the weights of n-grams, and are kept beside them.
template <class R>
struct BlocksOf<PathsView<R>> {
  const BatchView& b;
  const AutomatonView& m;
  Weights<R> w;
  const R* cost;
  R *grams, *scores;
  Layout layout;
  int64_t first;
  Paths<R> p;

  // the weights of n-grams and the scores of arcs change by steps alone
  BlocksOf(const BatchView& batch, const PathsView<R>& paths, const R* costs)
      : b(batch), m(*paths.automaton), w(paths.weights, batch), cost(costs),
        grams(const_cast<R*>(paths.weights) + first_gram(batch)), scores(grams + m.n_grams),
        layout(automaton_layout(batch)), first(first_gram(batch)) {}
};

template <class R>
OUTLINE void visit(BlocksOf<PathsView<R>>& s, int64_t i) {
  visit_example(s.b, s.m, s.w, s.cost, i, s.p);
}

template <class R, class Label>
OUTLINE double augmented_score(BlocksOf<PathsView<R>>& s, const Label* labels) {
  return path_score(s.m, s.scores, s.p, labels);
}

template <class R>
OUTLINE void most_violating(BlocksOf<PathsView<R>>& s, std::vector<uint16_t>& labels) {
  max_back<true>(s.m, s.scores, s.p);
  best_walk(s.m, s.scores, s.p, s.p.nodes.labels.data());
  labels.assign(s.p.nodes.labels.begin(), s.p.nodes.labels.begin() + s.p.n);
}

template <class R>
OUTLINE void gather(BlocksOf<PathsView<R>>& s, const uint16_t* from, const uint16_t* to, const double* eta,
                    Direction& v) {
  const int64_t begin = s.p.begin, end = begin + s.p.n;
  size_t n_fired = 0;
  gram_differences(s.m, from, to, s.p.n, [&](int64_t, double) INLINED { n_fired++; });
  begin_gathering(v, 2 * size_t(s.b.indptr[end] - s.b.indptr[begin] + s.p.n * s.b.n_label_features) + n_fired);
  const auto add = [&](int64_t k, double value) INLINED { Direction::add(v, k, value); };
  differences(s.b, s.layout, begin, end, from, to, add);
  gram_differences(s.m, from, to, s.p.n, [&](int64_t k, double value) INLINED { add(s.first + k, value); });
  take_gathered(v, eta, 0, int64_t(v.sum.size()));
  end_gathering(v);
}

template <class R>
INLINE void set_weights(BlocksOf<PathsView<R>>& s, const Direction& v, R* weights) {
  for (size_t j = 0; j < v.n; j++) weights[v.index[j]] = R(v.mean[j]);
  for (size_t j = 0; j < v.n; j++) {
    const int64_t gram = v.index[j] - s.first;
    if (gram < 0) continue;
    for (int64_t e = s.m.user_offsets[gram]; e < s.m.user_offsets[gram + 1]; e++)
      s.scores[score_place(s.m, s.m.users[e])] = score_of_row<R>(s.m, s.grams, s.m.users[e]);
  }
}

// How many coordinates a structure's eta has.
template <class R>
INLINE int64_t n_coordinates(const BlocksOf<PathsView<R>>& s) {
  return s.first + s.m.n_grams;
}
template <class Blocks>
INLINE int64_t n_coordinates(const Blocks& s) {
  return s.layout.label_features + s.b.n_label_features;
}

// ---- steps ------------------------------------------------------------------------------------------------------------

// Augmented scores of the active labellings, and which of those with weight is worst.
template <class Blocks>
OUTLINE size_t score_active(Blocks& s, const Block& block, std::vector<double>& found) {
  found.resize(block.alpha.size());
  size_t worst = block.alpha.size();
  for (size_t j = 0; j < block.alpha.size(); j++) {
    found[j] = augmented_score(s, block.labelling(j));
    if (block.alpha[j] > 0 && (worst == block.alpha.size() || found[j] < found[worst])) worst = j;
  }
  return worst;
}

// Moves dual weight from one active labelling to another, by the best step; returns how much, 0 when there is nothing to
// gain.
template <class R, class Blocks>
INLINE double step(Blocks& s, const KernelPrior& prior, size_t from, size_t to, R* weights, double* eta, Block& block,
                   Direction& v) {
  gather(s, block.labelling(from), block.labelling(to), eta, v);
  const double limit = block.alpha[from];
  const double gamma = line_search(prior, v, block.cost[to] - block.cost[from], limit);
  if (gamma > 0) {
    move(prior, v, gamma, eta);
    set_weights(s, v, weights);
    block.alpha[to] += gamma;
    block.alpha[from] = gamma < limit ? limit - gamma : 0;
  }
  // the one that is last in the list first, so that the other keeps its place
  block.drop_if_empty(std::max(from, to));
  block.drop_if_empty(std::min(from, to));
  return gamma;
}

template <class R, class Blocks>
INLINE double updates(Blocks& s, const KernelPrior& prior, double C, R* weights, double* eta, const double* cost64,
                      const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets, double* gaps, Direction& v) {
  const BatchView& b = s.b;
  std::vector<uint16_t> labels;
  std::vector<double> active;
  double cost_change = 0;                  // of sum alpha l
  v.sum.resize(size_t(n_coordinates(s)));  // zero, as after every step
  for (int64_t pick = 0; pick < n_picks; pick++) {
    const int64_t i = picks[pick], begin = b.offsets[i], n = b.offsets[i + 1] - begin;
    if (n == 0) continue;
    Block& block = sets.blocks[i];
    for (int round = 0; round <= inner; round++) {
      visit(s, i);
      const size_t worst = score_active(s, block, active);
      size_t target;
      if (round == 0) {  // the most violating of all labellings; later rounds make do with the active ones
        most_violating(s, labels);
        const double best = augmented_score(s, labels.data());
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        gaps[i] = std::max(0.0, C * b.sample_weight[i] * best - here);
        if (worst == active.size() || best <= active[worst]) break;
        double price = 0;
        for (int64_t t = 0; t < n; t++) price += cost64[int64_t(b.row[begin + t]) * s.layout.stride + labels[t]];
        target = block.find_or_add(labels.data(), price);
      } else {
        target = size_t(std::max_element(active.begin(), active.end()) - active.begin());
        // what can be gained among the active labellings, against the gap of the whole block
        double here = 0;
        for (size_t j = 0; j < active.size(); j++) here += block.alpha[j] * active[j];
        if (target == worst || C * b.sample_weight[i] * active[target] - here < 0.3 * gaps[i]) break;
      }
      const double change = block.cost[target] - block.cost[worst];  // before the step may drop one of them
      const double moved = step(s, prior, worst, target, weights, eta, block, v);
      if (!(moved > 0)) break;
      cost_change += moved * change;
    }
  }
  return cost_change;
}

}  // namespace

template <class View>
double block_frank_wolfe(const BatchView& b, const View& recursion, const KernelPrior& prior, double C,
                         typename View::Real* weights, double* eta, const typename View::Real* cost,
                         const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                         double* gaps) {
  BlocksOf<View> s(b, recursion, cost);
  Direction v;
  return updates(s, prior, C, weights, eta, cost64, picks, n_picks, inner, sets, gaps, v);
}

void prior_mean(const KernelPrior& prior, const double* eta, int64_t n, double* mean) {
  std::visit(
      [&](auto one) {
        for (int64_t k = 0; k < n; k++) mean[k] = one.moments(one, eta[k], &k).mean;
      },
      prior);
}

// Hinge of every example and the gap of its block, g_i = C u_i max_y h(y) - sum_y alpha(y) h(y), where h(y) is the
// augmented score l(y) + mu.f(y); their sum is primal - dual.
template <class View>
void block_gaps(const BatchView& b, const View& recursion, const double* cost, double C, int64_t first, int64_t last,
                const ActiveSets& sets, double* values, double* gaps) {
  BlocksOf<View> s(b, recursion, cost);
  std::vector<uint16_t> labels;
  std::vector<double> active;
  for (int64_t i = first; i < last; i++) {
    visit(s, i);
    most_violating(s, labels);
    const double truth = augmented_score(s, b.y + b.offsets[i]);
    values[i] = std::max(augmented_score(s, labels.data()), truth) - truth;
    score_active(s, sets.blocks[i], active);
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
  return [&b, &m = *paths.automaton, layout = automaton_layout(b), grams = first_gram(b)](
             int64_t i, const int32_t* from, const uint16_t* to, auto add) INLINED {
    differences(b, layout, b.offsets[i], b.offsets[i + 1], from, to, add);
    gram_differences(m, from, to, b.offsets[i + 1] - b.offsets[i],
                     [&](int64_t k, double value) INLINED { add(grams + k, value); });
  };
}

}  // namespace

// eta = sum_i sum_y alpha_i(y) (f(x_i, y_i) - f(x_i, y)), afresh from the active sets, so that rounding does not pile up
// over millions of steps.
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

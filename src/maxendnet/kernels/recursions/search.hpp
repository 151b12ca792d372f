// Search for the best labelling, with the same interface for all recursions. `visit(s, first, last)` computes the scores of
// at most `at_once` examples, with costs. Then `most_violating` finds their best labelling, `score` is the score of any
// labelling of one of them, and `differences` adds f(x, from) - f(x, to). Labels begin at the first visited node.
#pragma once
#include "recursions/automaton.hpp"
#include "recursions/forest.hpp"
#include "recursions/hierarchy_features.hpp"

namespace maxendnet {

template <class View>
struct Search;

// ---- forests and choices; R is the precision of the search --------------------------------------------------------------

template <class R>
struct Search<ForestView<R>> {
  static constexpr int64_t at_once = 2;  // in the order of `in_pairs`
  const BatchView& b;
  Weights<R> w;
  const R* cost;
  Layout layout;
  Workspace<R> work;
  bool keep_scores;
  std::vector<R> plain;  // copy of the scores for `score`, since the search overwrites them
  int64_t begin = 0, end = 0;

  Search(const BatchView& batch, const ForestView<R>& forest, const R* costs, bool calls_score = true)
      : b(batch), w(forest.weights, batch), cost(costs), layout(padded_layout(batch)), keep_scores(calls_score) {}
  int64_t n_coordinates() const { return layout.label_features + b.n_label_features; }
};

template <class R>
OUTLINE void visit(Search<ForestView<R>>& s, int64_t first, int64_t last) {
  s.begin = s.b.offsets[first];
  s.end = s.b.offsets[last];
  prepare(s.b, s.w, s.cost, s.begin, s.end, s.work);
  if (s.keep_scores) s.plain.assign(s.work.scores.data(), s.work.scores.data() + (s.end - s.begin) * s.b.lanes);
}

template <class R, class Label>
OUTLINE double score(Search<ForestView<R>>& s, int64_t i, const Label* labels) {
  return score_of(s.b, s.w.matrix, s.work.matrices.data(), s.begin, s.b.offsets[i], s.b.offsets[i + 1], s.plain.data(),
                  labels);
}

// For choices, the best node of the example.
template <class R, class Label>
OUTLINE void most_violating(Search<ForestView<R>>& s, std::vector<Label>& labels) {
  const BatchView& b = s.b;
  const int64_t n = s.end - s.begin;
  if (b.rest < 0) {
    best_labelling(b, s.w, s.begin, s.end, s.work, s.work.labels.data());
    labels.assign(s.work.labels.begin(), s.work.labels.begin() + n);
    return;
  }
  labels.assign(n, Label(b.rest));
  R best = 0;
  int64_t node = -1;
  int label = b.rest;
  for (int64_t t = 0; t < n; t++) {
    const R *row = s.work.scores.data() + t * b.lanes, from = row[b.rest];
    for (int a = 0; a < b.n_labels; a++)
      if (a != b.rest && row[a] - from > best) best = row[a] - from, node = t, label = a;
  }
  if (node >= 0) labels[node] = Label(label);
}

template <class R, class Label, class Other, class Add>
INLINE void differences(const Search<ForestView<R>>& s, int64_t i, const Label* from, const Other* to, Add add) {
  const int64_t begin = s.b.offsets[i], skipped = begin - s.begin;
  differences(s.b, s.layout, begin, s.b.offsets[i + 1], from + skipped, to + skipped, add);
}

// ---- hierarchies; weights have the layout of eta ------------------------------------------------------------------------

template <>
struct Search<HierarchyView> {
  static constexpr int64_t at_once = 1;
  const BatchView& b;
  const HierarchyView& m;
  const double* cost;
  const Layout& layout;
  Example e{};
  std::vector<int32_t> best{};

  Search(const BatchView& batch, const HierarchyView& hierarchy, const double* costs, bool = true)
      : b(batch), m(hierarchy), cost(costs), layout(hierarchy.layout) {}
  int64_t n_coordinates() const { return layout.label_features + b.n_label_features; }
};

OUTLINE void visit(Search<HierarchyView>& s, int64_t i, int64_t) { prepare(s.b, s.m, s.cost, i, s.e); }

template <class Label>
OUTLINE double score(Search<HierarchyView>& s, int64_t, const Label* labels) {
  return score_of(s.b, s.m, s.e, labels);
}

template <class Label>
OUTLINE void most_violating(Search<HierarchyView>& s, std::vector<Label>& labels) {
  s.best.resize(s.e.size);
  up<Max>(s.b, s.m, s.e);
  label_down<Max>(s.b, s.m, s.e, s.best.data(),
                  [](int64_t, const double* x, int n) INLINED { return place_of_largest(x, n); });
  labels.assign(s.best.begin(), s.best.end());
}

template <class Label, class Other, class Add>
INLINE void differences(const Search<HierarchyView>& s, int64_t, const Label* from, const Other* to, Add add) {
  differences(s.b, s.m, s.e, from, to, add);
}

// ---- chains with an automaton; scores of arcs, computed from n-gram weights, are stored after them -------------------------

template <class R>
struct Search<PathsView<R>> {
  static constexpr int64_t at_once = 1;
  const BatchView& b;
  const AutomatonView& m;
  Weights<R> w;
  const R* cost;
  R *grams, *scores;
  Layout layout;
  int64_t first;
  Paths<R> p;

  // only block updates change the weights of n-grams and the scores of arcs
  Search(const BatchView& batch, const PathsView<R>& paths, const R* costs, bool = true)
      : b(batch), m(*paths.automaton), w(paths.weights, batch), cost(costs),
        grams(const_cast<R*>(paths.weights) + first_gram(batch)), scores(grams + m.n_grams),
        layout(automaton_layout(batch)), first(first_gram(batch)) {}
  int64_t n_coordinates() const { return first + m.n_grams; }
};

template <class R>
OUTLINE void visit(Search<PathsView<R>>& s, int64_t i, int64_t) {
  visit_example(s.b, s.m, s.w, s.cost, i, s.p);
}

template <class R, class Label>
OUTLINE double score(Search<PathsView<R>>& s, int64_t, const Label* labels) {
  return path_score(s.m, s.scores, s.p, labels);
}

template <class R, class Label>
OUTLINE void most_violating(Search<PathsView<R>>& s, std::vector<Label>& labels) {
  max_back<true>(s.m, s.scores, s.p);
  best_walk(s.m, s.scores, s.p, s.p.nodes.labels.data());
  labels.assign(s.p.nodes.labels.begin(), s.p.nodes.labels.begin() + s.p.n);
}

template <class R, class Label, class Other, class Add>
INLINE void differences(const Search<PathsView<R>>& s, int64_t i, const Label* from, const Other* to, Add add) {
  path_differences(s.b, s.m, i, from, to, add);
}

}  // namespace maxendnet

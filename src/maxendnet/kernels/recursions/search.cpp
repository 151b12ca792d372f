// Best labellings and hinge losses, for every recursion.
#include "recursions/search.hpp"

namespace maxendnet {
namespace {

// f(s, i, after) for examples [first, last), at most `at_once` of them at a time; `calls_score`: whether f needs `score`.
template <class View, class F>
INLINE void each_search(const BatchView& batch, const View& recursion, const typename View::Real* cost, int64_t first,
                        int64_t last, bool calls_score, F f) {
  std::vector<int32_t> order;
  const BatchView b = Search<View>::at_once == 2 ? in_pairs(batch, first, last, order) : batch;
  Search<View> s(b, recursion, cost, calls_score);
  for (int64_t i = first, after; i < last; i = after) {
    after = std::min(i + s.at_once, last);
    visit(s, i, after);
    f(s, i, after);
  }
}

}  // namespace

template <class View>
void decode(const BatchView& b, const View& recursion, const typename View::Real* cost, int64_t first, int64_t last,
            double* values, int32_t* labels) {
  std::vector<int32_t> best;
  each_search(b, recursion, cost, first, last, values, [&](Search<View>& s, int64_t i, int64_t after) {
    most_violating(s, best);
    std::copy(best.begin(), best.end(), labels + b.offsets[i]);
    for (int64_t j = i; values && j < after; j++) values[j] = score(s, j, best.data());
  });
}

template <class View>
void hinge_oracle(const BatchView& b, const View& recursion, const typename View::Real* cost, Slack slack,
                  int64_t first, int64_t last, double* values, double* gradient) {
  std::vector<int32_t> best;
  each_search(b, recursion, cost, first, last, true, [&](Search<View>& s, int64_t i, int64_t after) {
    most_violating(s, best);
    const int32_t* truth = b.y + b.offsets[i];
    for (int64_t j = i; j < after; j++) {
      // the cost of the true labelling is zero, so its augmented score is its score
      values[j] = std::max(0.0, score(s, j, best.data()) - score(s, j, truth));
      if (!gradient) continue;
      const double u = b.sample_weight[j] * slack.slope(values[j]);
      differences(s, j, best.data(), truth, [&](int64_t k, double x) INLINED { gradient[k] += u * x; });
    }
  });
}

#define INSTANTIATE(View)                                                                                        \
  template void decode(const BatchView&, const View&, const View::Real*, int64_t, int64_t, double*, int32_t*);   \
  template void hinge_oracle(const BatchView&, const View&, const View::Real*, Slack, int64_t, int64_t, double*, \
                             double*);
INSTANTIATE(ForestView<float>)
INSTANTIATE(ForestView<double>)
INSTANTIATE(PathsView<float>)
INSTANTIATE(PathsView<double>)
INSTANTIATE(HierarchyView)

}  // namespace maxendnet

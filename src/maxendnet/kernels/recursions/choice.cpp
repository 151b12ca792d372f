// Choices: node scores of allowed labels, and sums of features for gradients.
#include "recursions/choice.hpp"

#include <algorithm>

#include "common/features.hpp"

namespace maxendnet {

void node_scores(const BatchView& b, const double* weights, int64_t first, int64_t last, double* scores) {
  const int64_t L = b.n_labels;
  const Layout layout = padded_layout(b);
  const double* label_weights = weights + layout.label_features;
  std::vector<int64_t> labels;
  std::vector<double> sums(L);
  for (int64_t t = b.offsets[first]; t < b.offsets[last]; t++) {
    double* row = scores + t * L;
    labels.clear();
    for (int a = 0; a < L; a++)
      if (!b.allowed || b.allowed[t * L + a]) labels.push_back(a);
    const int n = int(labels.size());
    std::fill(sums.begin(), sums.end(), 0.0);
    node_entries(b, layout, t, labels.data(), n,
                 [&](int64_t k, double x, int j) INLINED { sums[j] += x * weights[k]; });
    std::fill(row, row + L, minus_infinity<double>);
    for (int j = 0; j < n; j++) {
      for (int f = 0; f < b.n_label_features; f++)
        sums[j] += label_feature_values(b, t, labels[j])[f] * label_weights[f];
      row[labels[j]] = sums[j];
    }
  }
}

void add_features(const BatchView& b, const double* shares, int64_t first, int64_t last, double* gradient) {
  const Layout layout = padded_layout(b);
  for (int64_t t = b.offsets[first]; t < b.offsets[last]; t++) {
    const double* share = shares + t * b.n_labels;
    if (std::any_of(share, share + b.n_labels, [](double x) { return x != 0; }))
      node_expectation(b, layout, t, share, gradient);
  }
}

}  // namespace maxendnet

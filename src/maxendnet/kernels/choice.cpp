// Choices: scores of nodes for the labels that they may have, and the sum of features by which gradients are made.
#include "choice.hpp"

#include <algorithm>

namespace maxendnet {

void node_scores(const BatchView& b, const double* weights, int64_t first, int64_t last, double* scores) {
  const int64_t L = b.n_labels;
  const double* tied = weights + b.n_features * b.lanes;
  std::vector<int> labels;
  std::vector<double> sums(L);
  for (int64_t t = b.offsets[first]; t < b.offsets[last]; t++) {
    double* row = scores + t * L;
    labels.clear();
    for (int a = 0; a < L; a++)
      if (!b.allowed || b.allowed[t * L + a]) labels.push_back(a);
    const int n = int(labels.size());
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const double x = b.data[k], *w = weights + int64_t(b.indices[k]) * b.lanes;
      for (int j = 0; j < n; j++) sums[j] += x * w[labels[j]];
    }
    std::fill(row, row + L, minus_infinity<double>);
    for (int j = 0; j < n; j++) {
      const double* features = b.label_features + (t * L + labels[j]) * b.n_tied;
      for (int f = 0; f < b.n_tied; f++) sums[j] += features[f] * tied[f];
      row[labels[j]] = sums[j];
    }
  }
}

void add_features(const BatchView& b, const double* shares, int64_t first, int64_t last, double* gradient) {
  const int64_t L = b.n_labels;
  double* tied = gradient + b.n_features * b.lanes;
  std::vector<int> labels;
  for (int64_t t = b.offsets[first]; t < b.offsets[last]; t++) {
    const double* row = shares + t * L;
    labels.clear();
    for (int a = 0; a < L; a++)
      if (row[a] != 0) labels.push_back(a);
    if (labels.empty()) continue;
    for (int64_t k = b.indptr[t]; k < b.indptr[t + 1]; k++) {
      const double x = b.data[k];
      double* g = gradient + int64_t(b.indices[k]) * b.lanes;
      for (const int a : labels) g[a] += x * row[a];
    }
    for (const int a : labels)
      for (int f = 0; f < b.n_tied; f++) tied[f] += row[a] * b.label_features[(t * L + a) * b.n_tied + f];
  }
}

}  // namespace maxendnet

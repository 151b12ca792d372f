// Hierarchies: forests with scores of neighbouring children given the label of their parent, and with forbidden pairs
// (label of the parent, label of the child).
#pragma once
#include "common/features.hpp"
#include "common/kernels.hpp"

namespace maxendnet {

// View of a model. Weights have the layout of features, without padding; the rows of matrices are labels of parents.
struct HierarchyView {
  using Real = double;
  static constexpr size_t n_cliques = 2;                      // edges, siblings
  const double *node, *matrices, *siblings, *label_features;  // siblings: null without such weights
  // exp(siblings - maximum over their type and label of the parent), and these maxima (n_edge_types, n_labels); null if the
  // range of the weights is too wide
  const double *table, *shift;
  const uint8_t* forbidden;  // (n_labels, n_labels), row: the parent; null if all pairs are allowed
  Layout layout;
  bool has_siblings() const { return layout.label_features > layout.siblings; }
};

void max_marginals(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, double* out);
void marginals(const BatchView& b, const HierarchyView& m, const double* cost, int64_t first, int64_t last,
               double* values, double* node_marginals, const Cliques<HierarchyView>& cliques);
void sample(const BatchView& b, const HierarchyView& m, const double* cost, const double* uniforms, int64_t n_draws,
            int64_t first, int64_t last, int32_t* labels);
// the gradient has the layout of the weights
void log_oracle(const BatchView& b, const HierarchyView& m, const double* cost, const double* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient);
// Finds, for each example, a node for which the allowed labels of its subtree leave no possible label; -1 if there is
// none. Weights are not read.
void find_impossible(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, int64_t* nodes);

}  // namespace maxendnet

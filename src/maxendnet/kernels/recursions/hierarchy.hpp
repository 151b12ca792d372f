// Hierarchies: a forest in which neighbouring children are scored together, given the label of their parent, and in
// which some pairs (label of the parent, label of the child) cannot occur.
#pragma once
#include "common/features.hpp"
#include "common/kernels.hpp"

namespace maxendnet {

// A model as the kernels read it. Weights are laid out as features are, not padded; the rows of matrices are the parents.
struct HierarchyView {
  using Real = double;
  static constexpr size_t n_cliques = 2;                      // edges, siblings
  const double *node, *matrices, *siblings, *label_features;  // siblings: null if there are no such weights
  // exp(siblings - the largest of their type and label of the parent), and those largest ones (n_edge_types, n_labels);
  // null where the weights are too far apart for that
  const double *table, *shift;
  const uint8_t* forbidden;  // (n_labels, n_labels), row the parent; null if every pair may occur
  Layout layout;
  bool has_siblings() const { return layout.label_features > layout.siblings; }
};

void max_marginals(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, double* out);
void marginals(const BatchView& b, const HierarchyView& m, const double* cost, int64_t first, int64_t last,
               double* values, double* node_marginals, const Cliques<HierarchyView>& cliques);
void sample(const BatchView& b, const HierarchyView& m, const double* cost, const double* uniforms, int64_t n_draws,
            int64_t first, int64_t last, int32_t* labels);
// the gradient is laid out as the weights
void log_oracle(const BatchView& b, const HierarchyView& m, const double* cost, const double* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient);
// Of every example a node none of whose labels is possible with what lies below it, or -1. Reads no weights.
void find_impossible(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, int64_t* nodes);

}  // namespace maxendnet

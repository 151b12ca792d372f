// Hierarchies: a forest in which neighbouring children are scored together, given the label of their parent, and in
// which some pairs (label of the parent, label of the child) cannot occur.
#pragma once
#include "features.hpp"
#include "kernels.hpp"

namespace maxendnet {

// A model as the kernels read it. Weights are laid out as features are, not padded; the rows of matrices are the parents.
struct HierarchyView {
  const double *node, *matrices, *siblings, *label_features;  // siblings: null if the model has no such weights
  // exp(siblings - the largest of their type and label of the parent), and those largest ones (n_edge_types, n_labels);
  // null where the weights are too far apart for that
  const double *table, *shift;
  const uint8_t* forbidden;  // (n_labels, n_labels), row the parent; null if every pair may occur
  Layout layout;
};

void hierarchy_decode(const BatchView& b, const HierarchyView& m, const double* cost, int64_t first, int64_t last,
                      double* values, int32_t* labels);
void hierarchy_max_marginals(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, double* out);
void hierarchy_marginals(const BatchView& b, const HierarchyView& m, const double* cost, int64_t first, int64_t last,
                         double* values, double* node_marginals, double* edge_marginals, double* sibling_marginals);
void hierarchy_sample(const BatchView& b, const HierarchyView& m, const double* uniforms, int64_t n_draws,
                      int64_t first, int64_t last, int32_t* labels);
// as hinge_oracle and log_oracle; the gradient is laid out as the weights
void hierarchy_hinge(const BatchView& b, const HierarchyView& m, const double* cost, Slack slack, int64_t first,
                     int64_t last, double* values, double* gradient);
void hierarchy_log(const BatchView& b, const HierarchyView& m, const double* cost, const double* counted, int64_t first,
                   int64_t last, double* values, double* costs, double* gradient);
// Of every example a node none of whose labels is possible with what lies below it, or -1.
void hierarchy_impossible(const BatchView& b, const HierarchyView& m, int64_t first, int64_t last, int64_t* nodes);
// The steps of an example apart: its scores with costs added, then the labelling with the largest score.
struct Example;
void hierarchy_prepare(const BatchView& b, const HierarchyView& m, const double* cost, int64_t i, Example& e);
void hierarchy_best(const BatchView& b, const HierarchyView& m, Example& e, int32_t* labels);

// block_frank_wolfe.cpp -- as for forests; `weights` are those that the view shows, and change
double hierarchy_block_frank_wolfe(const BatchView& b, const KernelPrior& prior, double C, const HierarchyView& m,
                                   double* weights, double* eta, const double* cost, const int64_t* picks,
                                   int64_t n_picks, int inner, ActiveSets& sets, double* gaps);
void hierarchy_block_gaps(const BatchView& b, const HierarchyView& m, const double* cost, double C, int64_t first,
                          int64_t last, const ActiveSets& sets, double* values, double* gaps);
void hierarchy_active_features(const BatchView& b, const HierarchyView& m, const ActiveSets& sets, int64_t first,
                               int64_t last, double* eta);

}  // namespace maxendnet

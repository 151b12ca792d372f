// Choices: at most one node of an example has another label than all the others. Which is best, and how much better,
// is easily told from the scores of nodes; what takes time is here.
#pragma once
#include "common/kernels.hpp"

namespace maxendnet {

// Of the nodes of examples [first, last); -inf where a label is not allowed.
void node_scores(const BatchView& b, const double* weights, int64_t first, int64_t last, double* scores);
// Adds sum_t shares[t, a] f(x_t, a) to `gradient`, [ node (n_features, lanes) | label features ]. Nodes whose shares are all 0 are skipped.
void add_features(const BatchView& b, const double* shares, int64_t first, int64_t last, double* gradient);

}  // namespace maxendnet

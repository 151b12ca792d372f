// Choices: at most one node of an example is selected; all others have the rest label. The expensive steps are here; Python
// computes maxima and sums from the node scores.
#pragma once
#include "common/kernels.hpp"

namespace maxendnet {

// Scores of the nodes of examples [first, last); -inf for labels that are not allowed.
void node_scores(const BatchView& b, const double* weights, int64_t first, int64_t last, double* scores);
// Adds sum_t shares[t, a] f(x_t, a) to `gradient`, [ node (n_features, lanes) | label features ]. Nodes with zero shares are
// skipped.
void add_features(const BatchView& b, const double* shares, int64_t first, int64_t last, double* gradient);

}  // namespace maxendnet

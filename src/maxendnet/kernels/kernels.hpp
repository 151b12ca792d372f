// The kernels, as free functions on flat arrays. Each works on examples [first, last), so that the caller can share
// them out among threads and look for Ctrl-C in between. R is float (for searching) or double (for reporting).
#pragma once
#include <functional>

#include "active_sets.hpp"
#include "common.hpp"
#include "prior.hpp"

namespace maxendnet {

// How sums over labellings are kept from underflow; `careful` is for forests with forbidden pairs: scaled, and an example in
// which a number comes near underflow is summed again with logarithms.
enum Mode { scaled = 0, logarithmic = 1, careful = 2 };

// What a kernel calls now and then if one example may take seconds; it may throw, and the kernel is left.
using Pause = std::function<void()>;

// forest.cpp -- prediction
template <class R>
void decode(const BatchView& b, const R* weights, const R* cost, int64_t first, int64_t last, double* values,
            int32_t* labels);
void max_marginals(const BatchView& b, const double* weights, int64_t first, int64_t last, double* out);
void marginals(const BatchView& b, const double* weights, const double* cost, Mode mode, int64_t first, int64_t last,
               double* values, double* node_marginals, double* edge_marginals);
void sample(const BatchView& b, const double* weights, const double* cost, Mode mode, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels);
void top(const BatchView& b, const double* weights, int k, int64_t first, int64_t last, double* values, int32_t* labels,
         const Pause& pause);

// gram.cpp -- adds the outer product of every row with itself to a matrix of shape (n_columns, n_columns): of the lower
// triangle the rows [low, high). The columns of a row are in increasing order.
struct SparseRows {
  int64_t n_rows;
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};
void add_gram(const SparseRows& rows, int64_t n_columns, int64_t low, int64_t high, float* out);

// oracle.cpp -- losses: value per example, gradient of their weighted sum added to `gradient`, which is laid out as
// [ node (n_features, lanes) | matrices (n_matrices, n_labels, lanes) as the user sees them | label features ]
enum SlackKind { linear_slack = 0, squared_slack, kl_slack };  // as in losses/slack.py

struct Slack {
  SlackKind kind;
  double C;
  // dU/dh, divided by C: what the subgradient of an example with hinge h is multiplied by
  double slope(double h) const {
    if (kind == squared_slack) return h;
    if (kind == kl_slack) return C * h > 1 ? 1 - 1 / (C * h) : 0;
    return 1;
  }
};
template <class R>
void hinge_oracle(const BatchView& b, const R* weights, const R* cost, Slack slack, int64_t first, int64_t last,
                  double* values, double* gradient);
// `cost` is added to the scores. With it or with `counted`, where there is a gradient, `costs` gets the expected value of
// `counted`, or else of `cost`, for every example.
// In float32 with mode `careful`, any label can follow any other after `steps` nodes; an example that is not safe has the value NaN.
template <class R>
void log_oracle(const BatchView& b, const GroupsView& groups, const int64_t* group_examples, const R* weights,
                const R* cost, const R* counted, Mode mode, int64_t first_group, int64_t last_group, double* values,
                double* costs, double* gradient, int steps);

// block_frank_wolfe.cpp
template <class R>
double block_frank_wolfe(const BatchView& b, const KernelPrior& prior, double C, R* weights, double* eta, const R* cost,
                         const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                         double* gaps);  // returns the change of sum alpha l
void block_gaps(const BatchView& b, const double* weights, const double* cost, double C, int64_t first, int64_t last,
                const ActiveSets& sets, double* values, double* gaps);
void active_features(const BatchView& b, const ActiveSets& sets, int64_t first, int64_t last, double* eta);
void prior_mean(const KernelPrior& prior, const double* eta, int64_t n, double* mean);

// potential_ascent.cpp -- potentials and marginals of nodes (n_nodes, lanes), and of the matrices of an example
// (n_examples, n_edge_types, n_labels, lanes); `scratch` is as long as the node weights, and 0; costs are in rows of
// `lanes`
template <class R>
void potential_ascent(const BatchView& b, const KernelPrior& prior, double C, R* weights, R* eta, const R* cost,
                      const int64_t* picks, int64_t n_picks, double most_spread, double least_change, double bonus,
                      R* scratch, double* steps, R* node_potentials, R* matrix_potentials, R* node_marginals,
                      R* matrix_marginals, double* gaps);
template <class R>
void potential_look(const BatchView& b, const double* cost, int64_t first, int64_t last, double most_spread,
                    const R* node_potentials, const R* matrix_potentials, R* node_marginals, R* matrix_marginals,
                    double* entropies, double* truths, double* features);

}  // namespace maxendnet

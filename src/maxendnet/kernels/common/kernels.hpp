// Kernels: free functions on flat arrays. Each processes examples [first, last), so that callers can distribute them
// over threads and check for Ctrl-C between calls. R is float (for searches) or double (for reported values).
#pragma once
#include <array>
#include <functional>

#include "common/common.hpp"
#include "updates/active_sets.hpp"
#include "updates/prior.hpp"

namespace maxendnet {

// How sums over labellings avoid underflow. `careful`, for forests with forbidden pairs, uses scaling, and repeats
// examples that come near underflow in log space.
enum Mode { scaled = 0, logarithmic = 1, careful = 2 };

// Called regularly by kernels in which one example may take seconds; it may throw to interrupt the kernel.
using Pause = std::function<void()>;

// A recursion is a view of the arrays of a structure except the batch, such as its weights. Operations are overloaded on
// the type of recursion: here for forests, in automaton.hpp for chains with an automaton, in hierarchy.hpp for hierarchies.
// `Real` is the precision of weights and costs, `n_cliques` the number of tables of clique marginals besides those of nodes.
template <class R>
struct ForestView {
  using Real = R;
  static constexpr size_t n_cliques = 1;  // edges
  const R* weights;
  Mode mode;
  int steps;  // for log_oracle in float32 with mode `careful`: number of nodes after which any label can follow any other
  GroupsView groups;  // for log_oracle, which processes whole groups
};

// Tables of marginals of cliques; null if not requested.
template <class View>
using Cliques = std::array<double*, View::n_cliques>;

// Losses: value per example, gradient of their weighted sum added to `gradient`, which is laid out as
// [ node (n_features, lanes) | matrices (n_matrices, n_labels, lanes) as the user sees them | label features ]
enum SlackKind { linear_slack = 0, squared_slack, kl_slack };  // as in losses/slack.py

struct Slack {
  SlackKind kind;
  double C;
  // U'(h) / C: factor of the subgradient of an example with hinge h
  double slope(double h) const {
    if (kind == squared_slack) return h;
    if (kind == kl_slack) return C * h > 1 ? 1 - 1 / (C * h) : 0;
    return 1;
  }
};

// search.cpp, for every recursion -- best labellings with their scores, and the hinge loss
template <class View>
void decode(const BatchView& b, const View& recursion, const typename View::Real* cost, int64_t first, int64_t last,
            double* values, int32_t* labels);
template <class View>
void hinge_oracle(const BatchView& b, const View& recursion, const typename View::Real* cost, Slack slack,
                  int64_t first, int64_t last, double* values, double* gradient);

// forest.cpp -- prediction
void max_marginals(const BatchView& b, const ForestView<double>& forest, int64_t first, int64_t last, double* out);
void marginals(const BatchView& b, const ForestView<double>& forest, const double* cost, int64_t first, int64_t last,
               double* values, double* node_marginals, const Cliques<ForestView<double>>& cliques);
// `uniforms` contains a random number in [0, 1) for every draw and node.
void sample(const BatchView& b, const ForestView<double>& forest, const double* cost, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels);
void top(const BatchView& b, const ForestView<double>& forest, int k, int64_t first, int64_t last, double* values,
         int32_t* labels, const Pause& pause);

// gram.cpp -- adds the outer product of every row with itself to a matrix of shape (n_columns, n_columns), but only to rows
// [low, high) of its lower triangle. The columns of a row are in increasing order.
struct SparseRows {
  int64_t n_rows;
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};
void add_gram(const SparseRows& rows, int64_t n_columns, int64_t low, int64_t high, float* out);

// oracle.cpp -- the log loss of forests
// `cost` is added to the scores. With a gradient, `costs` receives the expected value of `counted` (default: `cost`) for
// every example. Examples [first, last) must be whole groups. In float32 with mode `careful`, the value of an example that
// could underflow is NaN.
template <class R>
void log_oracle(const BatchView& b, const ForestView<R>& forest, const R* cost, const R* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient);

// block_frank_wolfe.cpp, for every recursion
// Updates `weights`, which must be those of the recursion, and returns the change of sum alpha l.
template <class View>
double block_frank_wolfe(const BatchView& b, const View& recursion, const KernelPrior& prior, double C,
                         typename View::Real* weights, double* eta, const typename View::Real* cost,
                         const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                         double* gaps);
template <class View>
void block_gaps(const BatchView& b, const View& recursion, const double* cost, double C, int64_t first, int64_t last,
                const ActiveSets& sets, double* values, double* gaps);
// This kernel does not read weights.
template <class View>
void active_features(const BatchView& b, const View& recursion, const ActiveSets& sets, int64_t first, int64_t last,
                     double* eta);
void prior_mean(const KernelPrior& prior, const double* eta, int64_t n, double* mean);

// potential_ascent.cpp -- potentials and marginals of nodes have shape (n_nodes, lanes), those of the matrices of examples
// (n_examples, n_edge_types, n_labels, lanes). Costs are in rows of `lanes`. If all weights have the same prior variance,
// `eta` is not updated, because the weights determine it. `row_variance`, unless null, multiplies the prior means of the
// weights of each feature, and its last number those of all other weights.
template <class R>
void potential_ascent(const BatchView& b, const KernelPrior& prior, const double* row_variance, double C, R* weights,
                      R* eta, const R* cost, const int64_t* picks, int64_t n_picks, double most_spread,
                      double least_change, double bonus, double* steps, R* node_potentials, R* matrix_potentials,
                      R* node_marginals, R* matrix_marginals, double* gaps);
template <class R>
void potential_look(const BatchView& b, const double* cost, int64_t first, int64_t last, double most_spread,
                    const R* node_potentials, const R* matrix_potentials, R* node_marginals, R* matrix_marginals,
                    double* entropies, double* truths, double* features);

}  // namespace maxendnet

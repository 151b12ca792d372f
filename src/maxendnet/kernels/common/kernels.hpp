// The kernels, as free functions on flat arrays. Each works on examples [first, last), so that the caller can share
// them out among threads and look for Ctrl-C in between. R is float (for searching) or double (for reporting).
#pragma once
#include <array>
#include <functional>

#include "common/common.hpp"
#include "updates/active_sets.hpp"
#include "updates/prior.hpp"

namespace maxendnet {

// How sums over labellings are kept from underflow; `careful` is for forests with forbidden pairs: scaled, and an example in
// which a number comes near underflow is summed again with logarithms.
enum Mode { scaled = 0, logarithmic = 1, careful = 2 };

// What a kernel calls now and then if one example may take seconds; it may throw, and the kernel is left.
using Pause = std::function<void()>;

// A recursion is what a structure computes with: its weights and whatever else it reads beside the batch. The operations
// are overloaded on it: here for forests, in automaton.hpp for chains that an automaton reads, in hierarchy.hpp for
// hierarchies. `Real` is the precision of its weights and of costs; `n_cliques` is the number of tables of marginals that
// it has beside those of nodes.
template <class R>
struct ForestView {
  using Real = R;
  static constexpr size_t n_cliques = 1;  // edges
  const R* weights;
  Mode mode;          // of sums
  int steps;          // of log_oracle in float32 with mode `careful`: after these any label can follow any other
  GroupsView groups;  // of log_oracle, which takes whole groups
};

// Tables of marginals of cliques, null where one is not requested.
template <class View>
using Cliques = std::array<double*, View::n_cliques>;

// Losses: value per example, gradient of their weighted sum added to `gradient`, which is laid out as
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
// `uniforms` holds one number in [0, 1) for every draw and node.
void sample(const BatchView& b, const ForestView<double>& forest, const double* cost, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels);
void top(const BatchView& b, const ForestView<double>& forest, int k, int64_t first, int64_t last, double* values,
         int32_t* labels, const Pause& pause);

// gram.cpp -- adds the outer product of every row with itself to a matrix of shape (n_columns, n_columns): of the lower
// triangle the rows [low, high). The columns of a row are in increasing order.
struct SparseRows {
  int64_t n_rows;
  const int64_t* indptr;
  const int32_t* indices;
  const float* data;
};
void add_gram(const SparseRows& rows, int64_t n_columns, int64_t low, int64_t high, float* out);

// oracle.cpp -- the log loss of forests
// `cost` is added to the scores. With it or with `counted`, where there is a gradient, `costs` gets the expected value of
// `counted`, or else of `cost`, for every example.
// Here examples [first, last) are whole groups. In float32 with mode `careful`, an example that is not safe has the value
// NaN.
template <class R>
void log_oracle(const BatchView& b, const ForestView<R>& forest, const R* cost, const R* counted, int64_t first,
                int64_t last, double* values, double* costs, double* gradient);

// block_frank_wolfe.cpp, for every recursion
// `weights` are those of the recursion, and change; returns the change of sum alpha l
template <class View>
double block_frank_wolfe(const BatchView& b, const View& recursion, const KernelPrior& prior, double C,
                         typename View::Real* weights, double* eta, const typename View::Real* cost,
                         const double* cost64, const int64_t* picks, int64_t n_picks, int inner, ActiveSets& sets,
                         double* gaps);
template <class View>
void block_gaps(const BatchView& b, const View& recursion, const double* cost, double C, int64_t first, int64_t last,
                const ActiveSets& sets, double* values, double* gaps);
// reads no weights
template <class View>
void active_features(const BatchView& b, const View& recursion, const ActiveSets& sets, int64_t first, int64_t last,
                     double* eta);
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

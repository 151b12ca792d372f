// Table of the kernels of one level of vector instructions. The kernels of a level are a shared library that exports only
// `maxendnet_kernels`; the bindings load one library per level, with local symbols, and call the kernels through its table.
#pragma once
#include <cstdint>
#include <tuple>

#include "common/kernels.hpp"
#include "recursions/automaton.hpp"
#include "recursions/choice.hpp"
#include "recursions/graph.hpp"
#include "recursions/hierarchy.hpp"

namespace maxendnet {

// Operations of a recursion. Those that do not exist for a recursion or its precision are null; they are not bound.
template <class View>
struct RecursionKernels {
  using R = typename View::Real;
  decltype(&maxendnet::decode<View>) decode;
  decltype(&maxendnet::hinge_oracle<View>) hinge_oracle;
  decltype(&maxendnet::block_frank_wolfe<View>) block_frank_wolfe;
  void (*log_oracle)(const BatchView&, const View&, const R*, const R*, int64_t, int64_t, double*, double*, double*);
  void (*max_marginals)(const BatchView&, const View&, int64_t, int64_t, double*);
  void (*marginals)(const BatchView&, const View&, const double*, int64_t, int64_t, double*, double*,
                    const Cliques<View>&);
  void (*sample)(const BatchView&, const View&, const double*, const double*, int64_t, int64_t, int64_t, int32_t*);
  decltype(&maxendnet::block_gaps<View>) block_gaps;
  decltype(&maxendnet::active_features<View>) active_features;
  void (*find_impossible)(const BatchView&, const View&, int64_t, int64_t, int64_t*);
};

// Kernels in one precision.
template <class R>
struct RealKernels {
  decltype(&maxendnet::potential_ascent<R>) potential_ascent;
  decltype(&maxendnet::potential_look<R>) potential_look;
  decltype(&maxendnet::automaton_scores<R>) automaton_scores;
};

struct KernelTable {
  int64_t size;  // of this table: that of a library from another build differs
  std::tuple<RecursionKernels<ForestView<float>>, RecursionKernels<ForestView<double>>,
             RecursionKernels<PathsView<float>>, RecursionKernels<PathsView<double>>, RecursionKernels<HierarchyView>>
      recursions;
  std::tuple<RealKernels<float>, RealKernels<double>> real;
  decltype(&maxendnet::top) top;
  decltype(&maxendnet::add_gram) add_gram;
  decltype(&maxendnet::prior_mean) prior_mean;
  decltype(&maxendnet::node_scores) node_scores;
  decltype(&maxendnet::add_features) add_features;
  decltype(&maxendnet::graph_orders) graph_orders;
  decltype(&maxendnet::graph_maximum) graph_maximum;
  decltype(&maxendnet::graph_logsum) graph_logsum;
  decltype(&maxendnet::graph_max_marginals) graph_max_marginals;
  decltype(&maxendnet::graph_sample) graph_sample;
  decltype(&maxendnet::graph_relaxed) graph_relaxed;
};

}  // namespace maxendnet

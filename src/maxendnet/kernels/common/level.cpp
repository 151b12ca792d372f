// The only exported function of the library of a level.
#include "common/kernel_table.hpp"

namespace maxendnet {
namespace {

// Operations that exist in every precision.
template <class View>
RecursionKernels<View> search() {
  RecursionKernels<View> kernels{};
  kernels.decode = &decode<View>;
  kernels.hinge_oracle = &hinge_oracle<View>;
  kernels.block_frank_wolfe = &block_frank_wolfe<View>;
  return kernels;
}

// Operations in double precision.
template <class View>
RecursionKernels<View> reports() {
  RecursionKernels<View> kernels = search<View>();
  kernels.log_oracle = &log_oracle;
  kernels.max_marginals = &max_marginals;
  kernels.marginals = &marginals;
  kernels.sample = &sample;
  kernels.block_gaps = &block_gaps<View>;
  kernels.active_features = &active_features<View>;
  return kernels;
}

template <class View>
RecursionKernels<View> with_impossible() {
  RecursionKernels<View> kernels = reports<View>();
  kernels.find_impossible = &find_impossible;
  return kernels;
}

RecursionKernels<ForestView<float>> single_forest() {
  auto kernels = search<ForestView<float>>();
  kernels.log_oracle = &log_oracle<float>;
  return kernels;
}

template <class R>
RealKernels<R> real() {
  return {&potential_ascent<R>, &potential_look<R>, &automaton_scores<R>};
}

}  // namespace
}  // namespace maxendnet

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

extern "C" EXPORTED const void* maxendnet_kernels() {
  using namespace maxendnet;
  static const KernelTable table{int64_t(sizeof(KernelTable)),
                                 {single_forest(), reports<ForestView<double>>(), search<PathsView<float>>(),
                                  with_impossible<PathsView<double>>(), with_impossible<HierarchyView>()},
                                 {real<float>(), real<double>()},
                                 &top,
                                 &add_gram,
                                 &prior_mean,
                                 &node_scores,
                                 &add_features,
                                 &graph_orders,
                                 &graph_maximum,
                                 &graph_logsum,
                                 &graph_max_marginals,
                                 &graph_sample,
                                 &graph_relaxed};
  return &table;
}

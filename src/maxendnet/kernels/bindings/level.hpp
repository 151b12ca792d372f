// The level of vector instructions in use.
#pragma once
#include <string>

#include "common/kernel_table.hpp"

namespace maxendnet {

// Kernels of the level in use. A level must have been loaded.
const KernelTable& kernels();

template <class View>
const RecursionKernels<View>& kernels_of() {
  return std::get<RecursionKernels<View>>(kernels().recursions);
}
template <class R>
const RealKernels<R>& real_kernels() {
  return std::get<RealKernels<R>>(kernels().real);
}

// Loads the library of a level, once per process, and uses its kernels for all further calls. Objects such as `ActiveSets`
// do not depend on the level.
void use_library(const std::string& path);

}  // namespace maxendnet

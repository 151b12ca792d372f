// The extension module of one level: this file and the kernels are compiled once per level, the bindings once for all.
#include "binding.hpp"

namespace {

// Levels of vector instructions that the processor has, from the least on; called in the module of the baseline.
nb::list processor_levels() {
  nb::list levels;
  levels.append("baseline");
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) levels.append("avx2");
  if (__builtin_cpu_supports("x86-64-v4")) levels.append("avx512");
#endif
  return levels;
}

}  // namespace

NB_MODULE(MODULE_NAME, m) {
  // an object that is still referred to when the interpreter ends, say by a traceback, is no leak that a user can mend
  nanobind::set_leak_warnings(false);
  maxendnet::bind_kernels(m);
  m.def("_processor_levels", &processor_levels);
}

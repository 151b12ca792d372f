// The extension module of one level: the kernels are compiled once per level, this file and the bindings for the least
// processor.
#include "bindings/binding.hpp"
#include "common/processor.hpp"

namespace {

// Levels of vector instructions that the processor has, from the least on.
nb::list processor_levels() {
  nb::list levels;
  levels.append("baseline");
  if (maxendnet::has_avx2()) levels.append("avx2");
  return levels;
}

}  // namespace

NB_MODULE(MODULE_NAME, m) {
  // an object that is still referred to when the interpreter ends, say by a traceback, is no leak that a user can mend
  nanobind::set_leak_warnings(false);
  maxendnet::bind_kernels(m);
  m.def("_processor_levels", &processor_levels);
}

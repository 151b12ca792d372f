// Extension module of one instruction level. Only the kernels are compiled for the level; this file and the bindings run on
// every processor.
#include "bindings/binding.hpp"
#include "common/processor.hpp"

namespace {

// Instruction levels that the processor supports, in ascending order.
nb::list processor_levels() {
  nb::list levels;
  levels.append("baseline");
  if (maxendnet::has_avx2()) levels.append("avx2");
  return levels;
}

}  // namespace

NB_MODULE(MODULE_NAME, m) {
  // objects that are still referenced at exit, for instance by a traceback, are not leaks that users can fix
  nanobind::set_leak_warnings(false);
  maxendnet::bind_kernels(m);
  m.def("_processor_levels", &processor_levels);
}

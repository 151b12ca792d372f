// Detection of the vector instructions of the processor.
#pragma once

namespace maxendnet {

// Whether the processor supports the instructions of x86-64-v3 that the kernels use. They are tested one by one, because
// not every compiler knows the name x86-64-v3.
inline bool has_avx2() {
#if defined(__GNUC__) && defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

}  // namespace maxendnet

// Which vector instructions this processor has.
#pragma once

namespace maxendnet {

// Those of x86-64-v3, as far as they come separately; named one by one, because not every compiler knows that name.
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

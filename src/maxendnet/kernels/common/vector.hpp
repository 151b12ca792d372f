// Vectors of 32 bytes. The hot loops use them explicitly, because automatic vectorisation varies between compiler versions
// (one unrolled the wrong loop and was ten times slower). With GCC and Clang they are the compilers' vector extension;
// otherwise, or with MAXENDNET_PLAIN, structs in plain C++17 with the same operators.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__GNUC__)
// Everything that a hot loop calls must be inlined, including lambdas (INLINED, after their parameters).
#define INLINE static inline __attribute__((always_inline))
#define INLINED __attribute__((always_inline))
// For large functions that are called once per example or step, where inlining would only cost compile time.
#define OUTLINE static __attribute__((noinline))
#else
#define INLINE static inline
#define INLINED
#define OUTLINE static
#endif

namespace maxendnet {

#if defined(__GNUC__) && !defined(MAXENDNET_PLAIN)

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(32)));
};
template <class T>
using Vec = typename VectorOf<T>::type;

template <class R>
INLINE Vec<R> load(const R* p) {
  typedef R Unaligned __attribute__((vector_size(32), aligned(sizeof(R)), may_alias));
  return *reinterpret_cast<const Unaligned*>(p);
}
template <class R>
INLINE void store(R* p, Vec<R> v) {
  typedef R Unaligned __attribute__((vector_size(32), aligned(sizeof(R)), may_alias));
  *reinterpret_cast<Unaligned*>(p) = v;
}

// `yes` in lanes where a comparison holds, else `no`.
template <class Mask, class T>
INLINE T select(Mask holds, T yes, T no) {
  return holds ? yes : no;
}

#if defined(__clang__) || __GNUC__ >= 12
#define MAXENDNET_SHUFFLE(x, type, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define MAXENDNET_SHUFFLE(x, type, ...) __builtin_shuffle(x, Vec<type>{__VA_ARGS__})
#endif
INLINE Vec<float> swapped_halves(Vec<float> x) { return MAXENDNET_SHUFFLE(x, int32_t, 4, 5, 6, 7, 0, 1, 2, 3); }
INLINE Vec<float> swapped_quarters(Vec<float> x) { return MAXENDNET_SHUFFLE(x, int32_t, 2, 3, 0, 1, 6, 7, 4, 5); }
INLINE Vec<double> swapped_halves(Vec<double> x) { return MAXENDNET_SHUFFLE(x, int64_t, 2, 3, 0, 1); }
#undef MAXENDNET_SHUFFLE

#else

template <class T>
struct Vec {
  T lane[32 / sizeof(T)];
  T& operator[](int k) { return lane[k]; }
  const T& operator[](int k) const { return lane[k]; }
};

// Result of comparisons: -1 where they hold, else 0.
template <class T>
using Mask = Vec<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;

template <class T, class F>
INLINE Vec<T> each_lane(F f) {
  Vec<T> out;
  for (int k = 0; k < int(32 / sizeof(T)); k++) out[k] = f(k);
  return out;
}
template <class T, class F>
INLINE Mask<T> each_test(F f) {
  Mask<T> out;
  for (int k = 0; k < int(32 / sizeof(T)); k++) out[k] = f(k) ? -1 : 0;
  return out;
}

// Defines x op y, also with a number on either side; `each` computes the result.
#define MAXENDNET_OPERATOR(op, each, Result)                                      \
  template <class T>                                                              \
  INLINE Result<T> operator op(const Vec<T>& x, const Vec<T>& y) {                \
    return each<T>([&](int k) { return x[k] op y[k]; });                          \
  }                                                                               \
  template <class T, class S, std::enable_if_t<std::is_arithmetic_v<S>, int> = 0> \
  INLINE Result<T> operator op(const Vec<T>& x, S y) {                            \
    return each<T>([&](int k) { return x[k] op T(y); });                          \
  }                                                                               \
  template <class T, class S, std::enable_if_t<std::is_arithmetic_v<S>, int> = 0> \
  INLINE Result<T> operator op(S x, const Vec<T>& y) {                            \
    return each<T>([&](int k) { return T(x) op y[k]; });                          \
  }
MAXENDNET_OPERATOR(+, each_lane, Vec)
MAXENDNET_OPERATOR(-, each_lane, Vec)
MAXENDNET_OPERATOR(*, each_lane, Vec)
MAXENDNET_OPERATOR(/, each_lane, Vec)
MAXENDNET_OPERATOR(&, each_lane, Vec)
MAXENDNET_OPERATOR(|, each_lane, Vec)
MAXENDNET_OPERATOR(<<, each_lane, Vec)
MAXENDNET_OPERATOR(>>, each_lane, Vec)
MAXENDNET_OPERATOR(<, each_test, Mask)
MAXENDNET_OPERATOR(>, each_test, Mask)
MAXENDNET_OPERATOR(<=, each_test, Mask)
MAXENDNET_OPERATOR(>=, each_test, Mask)
MAXENDNET_OPERATOR(==, each_test, Mask)
MAXENDNET_OPERATOR(!=, each_test, Mask)
#undef MAXENDNET_OPERATOR

template <class T>
INLINE Vec<T> operator-(const Vec<T>& x) {
  return each_lane<T>([&](int k) { return -x[k]; });
}
template <class T>
INLINE Mask<T> operator!(const Vec<T>& x) {
  return each_test<T>([&](int k) { return !x[k]; });
}
template <class T, class Y>
INLINE Vec<T>& operator+=(Vec<T>& x, const Y& y) {
  return x = x + y;
}
template <class T, class Y>
INLINE Vec<T>& operator-=(Vec<T>& x, const Y& y) {
  return x = x - y;
}
template <class T, class Y>
INLINE Vec<T>& operator|=(Vec<T>& x, const Y& y) {
  return x = x | y;
}

template <class R>
INLINE Vec<R> load(const R* p) {
  Vec<R> out;
  std::memcpy(&out, p, sizeof(out));
  return out;
}
template <class R>
INLINE void store(R* p, const Vec<R>& v) {
  std::memcpy(p, &v, sizeof(v));
}

template <class M, class T>
INLINE Vec<T> select(const Vec<M>& holds, const Vec<T>& yes, const Vec<T>& no) {
  return each_lane<T>([&](int k) { return holds[k] ? yes[k] : no[k]; });
}

template <class T>
INLINE Vec<T> swapped_halves(const Vec<T>& x) {
  return each_lane<T>([&](int k) { return x[k ^ int(16 / sizeof(T))]; });
}
template <class T>
INLINE Vec<T> swapped_quarters(const Vec<T>& x) {
  return each_lane<T>([&](int k) { return x[k ^ int(8 / sizeof(T))]; });
}

#endif

INLINE double select(bool holds, double yes, double no) { return holds ? yes : no; }

template <class R>
using V = Vec<R>;
template <class R>
constexpr int width = 32 / sizeof(R);
// Integers of the size of R: signed, and unsigned for sums and shifts that wrap around.
template <class R>
using Bits = Vec<std::conditional_t<sizeof(R) == 4, int32_t, int64_t>>;
template <class R>
using Words = Vec<std::conditional_t<sizeof(R) == 4, uint32_t, uint64_t>>;

// Reinterprets the 32 bytes as another vector type.
template <class To, class From>
INLINE To as(const From& x) {
  static_assert(sizeof(To) == sizeof(From));
  To out;
  std::memcpy(&out, &x, sizeof(out));
  return out;
}

template <class R>
INLINE V<R> spread(R x) {
  return x - V<R>{};
}

template <class T>
INLINE T larger(T x, T y) {
  if constexpr (std::is_arithmetic_v<T>) return x > y ? x : y;
  else return select(x > y, x, y);
}

// Reductions of a register to a number.
INLINE float lane_sum(V<float> x) {
  x += swapped_halves(x);
  x += swapped_quarters(x);
  return x[0] + x[1];
}
INLINE double lane_sum(V<double> x) {
  x += swapped_halves(x);
  return x[0] + x[1];
}
INLINE float lane_max(V<float> x) {
  x = larger(x, swapped_halves(x));
  x = larger(x, swapped_quarters(x));
  return larger(x[0], x[1]);
}
INLINE double lane_max(V<double> x) {
  x = larger(x, swapped_halves(x));
  return larger(x[0], x[1]);
}

INLINE uint32_t one_word(Words<double> x) { return uint32_t(x[0] | x[1] | x[2] | x[3]); }
INLINE uint32_t one_word(Words<float> x) {
  const auto w = as<Words<double>>(x);
  const uint64_t all = w[0] | w[1] | w[2] | w[3];
  return uint32_t(all | all >> 32);
}
template <class Lanes>
INLINE bool any_of(const Lanes& mask) {
  const auto w = as<Words<double>>(mask);
  return (w[0] | w[1] | w[2] | w[3]) != 0;
}

INLINE int first_bit(uint32_t x) {
#if defined(__GNUC__)
  return __builtin_ctz(x);
#else
  int k = 0;
  while (!(x >> k & 1)) k++;
  return k;
#endif
}
template <class T>
INLINE void prefetch(const T* p) {
#if defined(__GNUC__)
  __builtin_prefetch(p);
#else
  (void)p;
#endif
}

}  // namespace maxendnet

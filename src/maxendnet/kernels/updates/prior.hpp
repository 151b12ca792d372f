// Priors of the compiled solvers: mean phi' and variance phi'' of a weight, given eta and the index of the weight. `room` is
// positive exactly inside the domain of phi. Each struct implements a class of maxendnet/priors; tests compare them.
// To add a prior, write a struct and add it to the list `KernelPrior` at the end.
#pragma once
#include <stdexcept>
#include <string>
#include <variant>

#include "common/common.hpp"

namespace maxendnet {

struct PriorArgs {
  double a, b;             // scalar hyper-parameters
  const double* variance;  // gaussian: per weight, in the layout of eta
  const double* mean;      // gaussian and proximal_l1: the same
};

// T is a double or a vector of doubles.
template <class T>
struct Moments {
  T mean, variance;
};

INLINE double exp_negative(double x) { return exp_negative(spread(x))[0]; }
INLINE double square_root(double x) { return std::sqrt(x); }
INLINE V<double> square_root(V<double> x) {
  for (int a = 0; a < width<double>; a++) x[a] = std::sqrt(x[a]);
  return x;
}
template <class T>
INLINE T absolute(T x) {
  return larger(x, -x);
}
INLINE double weights_at(const double* p, const int64_t* k, double) { return p[*k]; }
INLINE V<double> weights_at(const double* p, const int64_t* k, V<double>) {
  return V<double>{p[k[0]], p[k[1]], p[k[2]], p[k[3]]};
}

// Defaults: not quadratic, an unbounded domain, and a Newton step as start of the line search. `uniform`: quadratic, with the
// same variance for all weights.
struct AnyPrior {
  static constexpr bool quadratic = false, uniform = false;
  static bool takes(const PriorArgs&) { return true; }
  double start(double g, double curvature) const { return g / curvature; }
  template <class T>
  INLINE T room(const AnyPrior&, T eta) {
    return 1 + 0 * eta;
  }
};

// Equal variances and means of all weights, so that no array is read.
struct GaussianPrior : AnyPrior {
  static constexpr const char* name = "gaussian";
  double variance, centre;
  explicit GaussianPrior(const PriorArgs& p) : variance(p.a), centre(p.b) {}
  static constexpr bool quadratic = true, uniform = true;
  template <class T>
  INLINE Moments<T> moments(const GaussianPrior& p, T eta, const int64_t*) {
    return {p.centre + p.variance * eta, p.variance + 0 * eta};
  }
};

struct DiagonalGaussianPrior : AnyPrior {
  static constexpr const char* name = "gaussian";
  const double *variance, *centre;
  explicit DiagonalGaussianPrior(const PriorArgs& p) : variance(p.variance), centre(p.mean) {}
  static bool takes(const PriorArgs& p) { return p.variance; }
  static constexpr bool quadratic = true;
  template <class T>
  INLINE Moments<T> moments(const DiagonalGaussianPrior& p, T eta, const int64_t* k) {
    const T v = weights_at(p.variance, k, eta);
    return {weights_at(p.centre, k, eta) + v * eta, v};
  }
};

// Laplace is the case a = 1.
struct NormalGammaPrior : AnyPrior {
  static constexpr const char* name = "normal_gamma";
  double a, lam;
  explicit NormalGammaPrior(const PriorArgs& p) : a(p.a), lam(p.b) {}
  // phi / a is self-concordant: this step stays inside the domain and increases the dual
  double start(double g, double curvature) const { return g / (curvature + g * std::sqrt(curvature / a)); }
  template <class T>
  INLINE Moments<T> moments(const NormalGammaPrior& p, T eta, const int64_t*) {
    const T r = 1 / (p.lam - eta * eta);
    return {2 * p.a * eta * r, 2 * p.a * (p.lam + eta * eta) * r * r};
  }
  template <class T>
  INLINE T room(const NormalGammaPrior& p, T eta) {
    return p.lam - eta * eta;
  }
};

struct NormalInverseGaussianPrior : AnyPrior {
  static constexpr const char* name = "normal_inverse_gaussian";
  double A, d;
  explicit NormalInverseGaussianPrior(const PriorArgs& p) : A(p.a), d(p.b) {}
  template <class T>
  INLINE Moments<T> moments(const NormalInverseGaussianPrior& p, T eta, const int64_t*) {
    const T q = p.A * p.A - eta * eta, r = 1 / square_root(q);
    return {p.d * eta * r, p.d * p.A * p.A * r / q};
  }
  template <class T>
  INLINE T room(const NormalInverseGaussianPrior& p, T eta) {
    return p.A - absolute(eta);
  }
};

struct SpikeSlabPrior : AnyPrior {
  static constexpr const char* name = "spike_slab";
  double odds, v;  // odds = (1 - p) / p
  explicit SpikeSlabPrior(const PriorArgs& p) : odds((1 - p.a) / p.a), v(p.b) {}
  template <class T>
  INLINE Moments<T> moments(const SpikeSlabPrior& p, T eta, const int64_t*) {
    const T inclusion = 1 / (1 + p.odds * exp_negative(-0.5 * p.v * eta * eta));
    const T slab = p.v * eta;
    return {slab * inclusion, p.v * inclusion + slab * slab * inclusion * (1 - inclusion)};
  }
};

struct ExponentialPrior : AnyPrior {
  static constexpr const char* name = "exponential";
  double lam;
  explicit ExponentialPrior(const PriorArgs& p) : lam(p.a) {}
  // -log(1 - eta/lam) is self-concordant
  double start(double g, double curvature) const { return g / (curvature + g * std::sqrt(curvature)); }
  template <class T>
  INLINE Moments<T> moments(const ExponentialPrior& p, T eta, const int64_t*) {
    const T r = 1 / (p.lam - eta);
    return {r, r * r};
  }
  template <class T>
  INLINE T room(const ExponentialPrior& p, T eta) {
    return p.lam - eta;
  }
};

// L1 penalty rho |w|_1 plus a proximal term |w - centre|^2 / (2 tau), for solvers of L1 problems. The mean is the soft
// threshold of centre + tau eta at tau rho. The centre is 0 if there is no array.
struct ProximalL1 : AnyPrior {
  static constexpr const char* name = "proximal_l1";
  double rho, tau;
  const double* centre;
  explicit ProximalL1(const PriorArgs& p) : rho(p.a), tau(p.b), centre(p.mean) {}
  template <class T>
  INLINE Moments<T> moments(const ProximalL1& p, T eta, const int64_t* k) {
    const T zero = 0 * eta, z = (p.centre ? weights_at(p.centre, k, eta) : zero) + p.tau * eta;
    const T over = absolute(z) - p.tau * p.rho, size = select(over > 0, over, zero);
    return {select(z < 0, -size, size), select(over > 0, zero + p.tau, zero)};
  }
};

struct UniformPrior : AnyPrior {
  static constexpr const char* name = "uniform";
  double a;
  explicit UniformPrior(const PriorArgs& p) : a(p.a) {}
  template <class T>
  INLINE Moments<T> moments(const UniformPrior& p, T eta, const int64_t*) {
    const T z = p.a * eta, z2 = z * z, zero = 0 * z;
    // series of coth(z) - 1/z and of its derivative; at |z| < 0.05 the next terms are below 1e-14
    const T small_mean = z * (1.0 / 3 - z2 * (1.0 / 45 - z2 * (2.0 / 945 - z2 / 4725)));
    const T small_variance = 1.0 / 3 - z2 * (1.0 / 15 - z2 * (2.0 / 189 - z2 / 675));
    const auto small = absolute(z) < 0.05;
    const T y = select(small, zero + 1.0, absolute(z)), e = exp_negative(-2 * y);
    const T coth = (1 + e) / (1 - e), size = coth - 1 / y, mean = select(z < 0, -size, size);
    const T variance = 1 / (y * y) - 4 * e / ((1 - e) * (1 - e));
    return {p.a * select(small, small_mean, mean), p.a * p.a * select(small, small_variance, variance)};
  }
};

// Any of the priors. Solvers use `std::visit([&](auto prior) {...}, prior)`: by value, so that the compiler knows that its
// members do not change.
using KernelPrior = std::variant<DiagonalGaussianPrior, GaussianPrior, NormalGammaPrior, NormalInverseGaussianPrior,
                                 SpikeSlabPrior, ExponentialPrior, UniformPrior, ProximalL1>;

// Returns the first prior of the list that has this name and accepts the arguments.
template <size_t k = 0>
KernelPrior find_prior(const std::string& name, const PriorArgs& p) {
  if constexpr (k == std::variant_size_v<KernelPrior>) {
    throw std::invalid_argument("the kernels have no prior of kind '" + name + "'");
  } else {
    using Here = std::variant_alternative_t<k, KernelPrior>;
    return name == Here::name && Here::takes(p) ? KernelPrior(Here(p)) : find_prior<k + 1>(name, p);
  }
}

}  // namespace maxendnet

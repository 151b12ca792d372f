// Steps from example to example in several parts at the same time: parts begin a round at the same eta, and the changes of
// all are added at its end. What comes out depends on the number of parts, and not on that of threads.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "features.hpp"
#include "kernels.hpp"

namespace maxendnet {

// Where threads wait for each other: awake for some 20 microseconds, which is enough where every thread has a processor,
// and then asleep, so that the others get theirs.
class Meeting {
  static constexpr int most_spins = 20000;
  std::atomic<int> n_here{0};
  std::atomic<int64_t> n_met{0};
  std::mutex mutex;
  std::condition_variable all_here;

 public:
  void wait(int n_threads) {
    const int64_t before = n_met.load();
    if (n_here.fetch_add(1) + 1 == n_threads) {
      n_here.store(0);
      {
        const std::lock_guard<std::mutex> lock(mutex);
        n_met.store(before + 1);
      }
      all_here.notify_all();
      return;
    }
    for (int spins = 0; spins < most_spins; spins++)
      if (n_met.load() != before) return;
    std::unique_lock<std::mutex> lock(mutex);
    all_here.wait(lock, [&] { return n_met.load() != before; });
  }
};

// In every round work(part, round) for all parts, then join(share, n_shares) for all shares.
template <class Work, class Join>
void in_rounds(int n_parts, int n_threads, int64_t n_rounds, Work work, Join join) {
  Meeting meeting;
  std::atomic<int> n_ready{0};  // how many threads there are, once it is known
  std::atomic<bool> failed{false};
  std::vector<std::exception_ptr> errors(static_cast<size_t>(std::max(1, n_threads)));
  const auto go = [&](int thread) {
    while (n_ready.load() == 0) std::this_thread::yield();
    const int n = n_ready.load();
    for (int64_t round = 0; round < n_rounds; round++) {
      try {
        for (int part = thread; part < n_parts; part += n) work(part, round);
      } catch (...) {
        errors[static_cast<size_t>(thread)] = std::current_exception();
        failed.store(true);
      }
      meeting.wait(n);
      if (failed.load()) return;
      join(thread, n);
      meeting.wait(n);
    }
  };
  std::vector<std::thread> others;
  try {
    for (int thread = 1; thread < std::min(n_threads, n_parts); thread++) others.emplace_back(go, thread);
  } catch (const std::system_error&) {  // no more threads to be had: fewer do the same
  }
  n_ready.store(int(others.size()) + 1);
  go(0);
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

constexpr int W = width<double>;
INLINE V<double> widened(const double* p) { return load(p); }
INLINE V<double> widened(const float* p) {
  typedef float Half __attribute__((vector_size(W * sizeof(float))));
  Half half;
  std::memcpy(&half, p, sizeof(half));
  return __builtin_convertvector(half, V<double>);
}
INLINE void narrowed(V<double> v, double* p) { store(p, v); }
INLINE void narrowed(V<double> v, float* p) {
  typedef float Half __attribute__((vector_size(W * sizeof(float))));
  const Half half = __builtin_convertvector(v, Half);
  std::memcpy(p, &half, sizeof(half));
}
template <class Mask>
INLINE bool any_of(Mask mask) {
  int64_t any = 0;
  for (int a = 0; a < W; a++) any |= int64_t(mask[a]);
  return any;
}

// work(part, picks, how many, eta of the part, its weights) for some picks at a time; an example is always in the same
// part. Returns whether eta stayed in the domain of the prior; if not, it is of no use any more.
template <class R, class E, class Work>
bool in_parts(const BatchView& b, const KernelPrior& prior_of_any_kind, const Parts<R, E>& parts, const int64_t* picks,
              int64_t n_picks, E* eta, R* weights, Work work) {
  const Layout layout = padded_layout(b);
  const int K = parts.n_parts;
  const int64_t size = parts.size;
  const auto eta_of = [&](int part) { return parts.etas + part * size; };
  const auto weights_of = [&](int part) { return parts.copies + part * parts.n_weights; };
  std::vector<std::vector<int64_t>> own(static_cast<size_t>(K));
  for (int64_t k = 0; k < n_picks; k++) own[static_cast<size_t>(picks[k] % K)].push_back(picks[k]);
  size_t longest = 0;
  for (const auto& some : own) longest = std::max(longest, some.size());
  const int64_t n_rounds = (int64_t(longest) + parts.round - 1) / parts.round;
  std::atomic<bool> outside{false};
  std::visit(
      [&](auto prior) {
        using Prior = decltype(prior);
        // the sum of all changes of W coordinates from k on, none of which is of label features
        const auto add_up = [&](int64_t k) INLINED {
          const V<double> base = widened(eta + k);
          V<double> now = base;
          auto moved = base != base;
          for (int part = 0; part < K; part++) {
            const V<double> own = widened(eta_of(part) + k);
            now += own - base;
            moved |= own != base;  // even if the changes of all parts cancel
          }
          if (!any_of(moved)) return;  // as mostly, where there are many weights
          narrowed(now, eta + k);
          now = widened(eta + k);
          int64_t places[W];
          for (int j = 0; j < W; j++) places[j] = k + j;
          const V<double> mean = Prior::moments(prior, now, places).mean;
          if (any_of(!(Prior::room(prior, now) > 0))) outside.store(true);
          // rows begin at multiples of 8, see `padded`: all are in the same row of a matrix
          const int64_t m = (k - layout.matrices) / b.matrix_size(), cell = k - layout.matrices - m * b.matrix_size();
          const int64_t place = k < layout.matrices ? k : k + m * b.matrix_size();
          const int64_t turned = place - cell + b.matrix_size() + cell % b.lanes * b.lanes + cell / b.lanes;
          for (int part = 0; part < K; part++) {
            R* own = weights_of(part);
            narrowed(now, eta_of(part) + k);
            narrowed(moved ? mean : widened(own + place), own + place);
            for (int j = 0; k >= layout.matrices && j < W; j++)
              if (moved[j]) own[turned + j * b.lanes] = R(mean[j]);
          }
        };
        const auto add_one = [&](int64_t k) {
          double now = double(eta[k]);
          for (int part = 0; part < K; part++) now += double(eta_of(part)[k]) - double(eta[k]);
          eta[k] = E(now);
          if (!(Prior::room(prior, double(eta[k])) > 0)) outside.store(true);
          for (int part = 0; part < K; part++) {
            eta_of(part)[k] = eta[k];
            set_weight(b, layout, k, R(Prior::moments(prior, double(eta[k]), &k).mean), weights_of(part));
          }
        };
        const auto join = [&](int share, int n_shares) {
          const int64_t n = layout.label_features, first = n * share / n_shares / W * W;
          const int64_t last = share + 1 == n_shares ? n : n * (share + 1) / n_shares / W * W;
          for (int64_t k = first; k < last; k += W) add_up(k);
          for (int64_t k = n; share == 0 && k < n + b.n_label_features; k++) add_one(k);
        };
        in_rounds(
            K, parts.n_threads, n_rounds,
            [&](int part, int64_t round) {
              const auto& some = own[static_cast<size_t>(part)];
              const int64_t first = round * parts.round, last = std::min(first + parts.round, int64_t(some.size()));
              if (first < last && !outside.load())
                work(part, some.data() + first, last - first, eta_of(part), weights_of(part));
            },
            join);
      },
      prior_of_any_kind);
  std::copy_n(weights_of(0), parts.n_weights, weights);
  return !outside.load();
}

}  // namespace maxendnet

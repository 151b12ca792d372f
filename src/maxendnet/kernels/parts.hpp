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

// Which coordinates a round may have changed, in groups of W: those of the features of its examples, and all matrices.
class Touched {
  const BatchView& b;
  const Layout layout;
  const int n_parts;
  const int64_t n_groups;  // a multiple of 8, so that flags can be read eight at a time
  mutable std::vector<uint8_t> flags;

 public:
  Touched(const BatchView& batch, const Layout& l, int parts)
      : b(batch), layout(l), n_parts(parts), n_groups((layout.label_features / W + 8) / 8 * 8),
        flags(static_cast<size_t>(parts * n_groups), 0) {}

  // Where the coordinates of a share begin.
  static int64_t cut(int64_t n, int share, int n_shares) { return n * share / n_shares / (8 * W) * (8 * W); }

  void mark(int part, const int64_t* picks, int64_t n_picks) const {
    uint8_t* own = flags.data() + part * n_groups;
    for (int64_t i = 0; i < n_picks; i++)
      for (int64_t k = b.indptr[b.offsets[picks[i]]]; k < b.indptr[b.offsets[picks[i] + 1]]; k++) {
        const int64_t f = b.indices[k];
        const int64_t begin = b.row_offsets ? b.row_offsets[f] : f * layout.stride;
        const int64_t end = b.row_offsets ? b.row_offsets[f + 1] : begin + layout.stride;
        for (int64_t group = begin / W; group * W < end; group++) own[group] = 1;
      }
    for (int64_t group = layout.matrices / W; group * W < layout.label_features; group++) own[group] = 1;
  }

  // visit(k) for the first coordinate of every group that some part marked, from `first` to before `last`; takes off the marks.
  template <class Visit>
  void each(int64_t first, int64_t last, Visit visit) const {
    for (int64_t eight = first / W; eight * W < last; eight += 8) {
      uint64_t any = 0;
      for (int part = 0; part < n_parts; part++) {
        uint64_t own;
        std::memcpy(&own, flags.data() + part * n_groups + eight, 8);
        any |= own;
      }
      if (!any) continue;
      uint8_t marked[8];
      std::memcpy(marked, &any, 8);
      for (int part = 0; part < n_parts; part++) std::memset(flags.data() + part * n_groups + eight, 0, 8);
      for (int64_t group = 0; group < 8; group++)
        if (marked[group] && (eight + group) * W < last) visit((eight + group) * W);
    }
  }
};

// The etas and weights of all parts, and the sum of their changes at the end of a round.
template <class R, class E>
struct Joined {
  const BatchView& b;
  const Layout layout;
  const Parts<R, E>& parts;
  E* eta;

  E* eta_of(int part) const { return parts.etas + part * parts.size; }
  R* weights_of(int part) const { return parts.copies + part * parts.n_weights; }
};

// Adds up W coordinates from k on, without those of label features; returns whether eta stayed in the domain.
template <class R, class E, class Prior>
INLINE bool add_up(const Joined<R, E>& joined, const Prior& prior, int64_t k) {
  const BatchView& b = joined.b;
  const V<double> base = widened(joined.eta + k);
  V<double> now = base;
  auto moved = base != base;
  for (int part = 0; part < joined.parts.n_parts; part++) {
    const V<double> own = widened(joined.eta_of(part) + k);
    now += own - base;
    moved |= own != base;  // even if the changes of all parts cancel
  }
  if (!any_of(moved)) return true;  // as mostly, where there are many weights
  narrowed(now, joined.eta + k);
  now = widened(joined.eta + k);
  int64_t places[W];
  for (int j = 0; j < W; j++) places[j] = k + j;
  const V<double> mean = Prior::moments(prior, now, places).mean;
  // rows begin at multiples of 8, see `padded`: all are in the same row of a matrix
  const int64_t first = joined.layout.matrices, size = b.matrix_size();
  const int64_t m = (k - first) / size, cell = k - first - m * size, place = k < first ? k : k + m * size;
  const int64_t turned = place - cell + size + cell % b.lanes * b.lanes + cell / b.lanes;
  for (int part = 0; part < joined.parts.n_parts; part++) {
    R* own = joined.weights_of(part);
    narrowed(now, joined.eta_of(part) + k);
    narrowed(select(moved, mean, widened(own + place)), own + place);
    for (int j = 0; k >= first && j < W; j++)
      if (moved[j]) own[turned + j * b.lanes] = R(mean[j]);
  }
  return !any_of(!(Prior::room(prior, now) > 0));
}

// The same for one coordinate.
template <class R, class E, class Prior>
INLINE bool add_one(const Joined<R, E>& joined, const Prior& prior, int64_t k) {
  E* eta = joined.eta;
  double now = double(eta[k]);
  for (int part = 0; part < joined.parts.n_parts; part++) now += double(joined.eta_of(part)[k]) - double(eta[k]);
  eta[k] = E(now);
  const R mean = R(Prior::moments(prior, double(eta[k]), &k).mean);
  for (int part = 0; part < joined.parts.n_parts; part++) {
    joined.eta_of(part)[k] = eta[k];
    set_weight(joined.b, joined.layout, k, mean, joined.weights_of(part));
  }
  return Prior::room(prior, double(eta[k])) > 0;
}

// One of n_shares of the coordinates, by one thread.
template <class R, class E, class Prior>
OUTLINE bool add_share(const Joined<R, E>& joined, Prior prior, const Touched& touched, int share, int n_shares) {
  const int64_t n = joined.layout.label_features, first = Touched::cut(n, share, n_shares);
  const int64_t last = share + 1 == n_shares ? n : Touched::cut(n, share + 1, n_shares);
  bool inside = true;
  touched.each(first, last, [&](int64_t k) INLINED { inside &= add_up(joined, prior, k); });
  for (int64_t k = n; share == 0 && k < n + joined.b.n_label_features; k++) inside &= add_one(joined, prior, k);
  return inside;
}

// work(part, picks, how many, eta of the part, its weights) for some picks at a time; an example is always in the same
// part. Returns whether eta stayed in the domain of the prior; if not, it is of no use any more.
template <class R, class E, class Work>
bool in_parts(const BatchView& b, const KernelPrior& any_prior, const Parts<R, E>& parts, const int64_t* picks,
              int64_t n_picks, E* eta, R* weights, Work work) {
  const Joined<R, E> joined{b, padded_layout(b), parts, eta};
  const int K = parts.n_parts;
  std::vector<std::vector<int64_t>> own(static_cast<size_t>(K));
  for (int64_t k = 0; k < n_picks; k++) own[static_cast<size_t>(picks[k] % K)].push_back(picks[k]);
  size_t longest = 0;
  for (const auto& picks_of_part : own) longest = std::max(longest, picks_of_part.size());
  const int64_t n_rounds = (int64_t(longest) + parts.round - 1) / parts.round;
  std::atomic<bool> outside{false};
  const Touched touched(b, joined.layout, K);
  in_rounds(
      K, parts.n_threads, n_rounds,
      [&](int part, int64_t round) {
        const auto& mine = own[static_cast<size_t>(part)];
        const int64_t first = round * parts.round, last = std::min(first + parts.round, int64_t(mine.size()));
        if (first >= last || outside.load()) return;
        touched.mark(part, mine.data() + first, last - first);
        work(part, mine.data() + first, last - first, joined.eta_of(part), joined.weights_of(part));
      },
      [&](int share, int n_shares) {
        const bool inside = std::visit(
            [&](const auto& prior) { return add_share(joined, prior, touched, share, n_shares); }, any_prior);
        if (!inside) outside.store(true);
      });
  std::copy_n(joined.weights_of(0), parts.n_weights, weights);
  return !outside.load();
}

}  // namespace maxendnet

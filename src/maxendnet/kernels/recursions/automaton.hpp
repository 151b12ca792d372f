// Chains whose labellings are read by a finite automaton: recursions over its states from the last node to the first
// (`..._back`), over a semiring, and then from the first node on (`best_walk`, `spread_forward`) for the results.
//
// Loops are vectorised over labels. For most labels, all states of a group have the same next state, so that the values
// behind these arcs form one row for the group. The few arcs of a state that lead elsewhere are called loose arcs, and are
// processed one by one.
#pragma once
#include <algorithm>

#include "recursions/sum_product.hpp"

namespace maxendnet {

// Flat arrays of a Python `Automaton`, with states in the order of their groups.
struct AutomatonView {
  int64_t n_states, n_groups, n_loose, n_grams;
  int n_labels, lanes;
  int32_t start;
  const int32_t* arcs;       // (n_states, n_labels), -1 if there is no arc
  const uint8_t* accepting;  // (n_states)
  // n-grams that are fired by arc (s, a): row s * n_labels + a; by the end at s: row n_states * n_labels + s
  const int64_t* fired_offsets;
  const int32_t* fired;
  const int64_t* groups;         // (n_groups + 1)
  const int32_t* targets;        // (n_groups, lanes), -1 if there is no arc in the group
  const int64_t* loose_offsets;  // (n_states + 1) loose arcs of a state
  const int32_t* loose_labels;   // (n_loose)
  const int64_t* places;         // (n_states * n_labels) index of an arc in the scores, -1 if there is none
  const int64_t* user_offsets;   // (n_grams + 1) rows of `fired` that contain an n-gram
  const int32_t* users;

  // Scores of arcs: [ rows (n_states, lanes), -inf for missing and loose arcs | loose arcs | ends (n_states) ]
  int64_t loose() const { return n_states * lanes; }
  int64_t ends() const { return loose() + n_loose; }
  int64_t n_scores() const { return ends() + n_states; }
  int64_t n_arcs() const { return n_states * n_labels; }
};

// The recursion over the paths of an automaton.
template <class R>
struct PathsView {
  using Real = R;
  static constexpr size_t n_cliques = 1;  // expected counts of n-grams (n_examples, n_grams)
  const AutomatonView* automaton;
  const R* weights;  // [ node | label features, as for forests without edges | n-grams | scores of arcs ]
};

INLINE int32_t next_state(const AutomatonView& m, int32_t s, int64_t label) {
  return m.arcs[s * int64_t(m.n_labels) + label];
}
// Index of the score of a row of `fired`, -1 if there is no such arc.
INLINE int64_t score_place(const AutomatonView& m, int64_t row) {
  return row < m.n_arcs() ? m.places[row] : m.ends() + (row - m.n_arcs());
}

// Offset of n-grams in the weights. Eta and gradients have the same layout, without the scores of arcs.
inline int64_t first_gram(const Sizes& s) { return s.node_size() + padded(s.n_label_features); }
inline Layout automaton_layout(const BatchView& b) {
  const int64_t size = b.node_size();
  return {b.lanes, size, size, size};
}

template <class R>
INLINE R score_of_row(const AutomatonView& m, const R* grams, int64_t row) {
  if (row >= m.n_arcs() && !m.accepting[row - m.n_arcs()]) return minus_infinity<R>;
  R sum = 0;
  for (int64_t k = m.fired_offsets[row]; k < m.fired_offsets[row + 1]; k++) sum += grams[m.fired[k]];
  return sum;
}

// ---- labellings ---------------------------------------------------------------------------------------------------------

// Calls visit(row of `fired`, index of its score, t) for every arc of a path and for its end (t = n). Returns false if there
// is no path.
template <class Label, class Visit>
INLINE bool along(const AutomatonView& m, const Label* labels, int64_t n, Visit visit) {
  int32_t s = m.start;
  for (int64_t t = 0; t < n; t++) {
    const int64_t row = s * int64_t(m.n_labels) + labels[t];
    if (m.arcs[row] < 0) return false;
    visit(row, m.places[row], t);
    s = m.arcs[row];
  }
  if (!n) return true;  // an example without nodes has one labelling, which is always allowed
  if (!m.accepting[s]) return false;
  visit(m.n_arcs() + s, m.ends() + s, n);
  return true;
}

// Calls add(number of an n-gram, value) for the n-grams that only one of two labellings fires at a node.
template <class Label, class Other, class Add>
INLINE void gram_differences(const AutomatonView& m, const Label* from, const Other* to, int64_t n, Add add) {
  int32_t s = m.start, r = m.start;
  auto fire = [&](int64_t row, double value) INLINED {
    for (int64_t k = m.fired_offsets[row]; k < m.fired_offsets[row + 1]; k++) add(int64_t(m.fired[k]), value);
  };
  for (int64_t t = 0; t <= n; t++) {
    const bool inside = t < n;
    const int64_t from_row = inside ? s * int64_t(m.n_labels) + from[t] : m.n_arcs() + s;
    const int64_t to_row = inside ? r * int64_t(m.n_labels) + to[t] : m.n_arcs() + r;
    if (from_row != to_row && n) {
      fire(from_row, 1);
      fire(to_row, -1);
    }
    if (!inside) break;
    s = m.arcs[from_row];
    r = m.arcs[to_row];
  }
}

// Calls add(index of a weight, value) for the terms of f(x, from) - f(x, to) of example i, including n-grams.
template <class Label, class Other, class Add>
INLINE void path_differences(const BatchView& b, const AutomatonView& m, int64_t i, const Label* from, const Other* to,
                             Add add) {
  differences(b, automaton_layout(b), b.offsets[i], b.offsets[i + 1], from, to, add);
  gram_differences(m, from, to, b.offsets[i + 1] - b.offsets[i],
                   [&](int64_t k, double value) INLINED { add(first_gram(b) + k, value); });
}

// ---- recursions ---------------------------------------------------------------------------------------------------------

template <class R>
struct Paths {
  Workspace<R> nodes;     // scores of nodes
  std::vector<R> behind;  // (n + 1, n_states) value of all paths from a state at a node to the end
  std::vector<R> row;     // (lanes) values behind the arcs of a group
  std::vector<double> shares, reached, next;
  int64_t begin = 0, n = 0;
};

// Computes the scores of the nodes of an example, with costs.
template <class R>
INLINE void visit_example(const BatchView& b, const AutomatonView& m, const Weights<R>& w, const R* cost, int64_t i,
                          Paths<R>& p) {
  p.begin = b.offsets[i];
  p.n = b.offsets[i + 1] - p.begin;
  prepare(b, w, cost, p.begin, b.offsets[i + 1], p.nodes);
  p.behind.resize(std::max(p.behind.size(), size_t(p.n + 1) * m.n_states));
  p.row.resize(b.lanes);
}

// Calls f with the number of lanes as a compile-time constant if it is at most 32, else with 0.
template <class F>
INLINE void with_lanes(int lanes, F f) {
  switch (lanes) {
    case 8: f(std::integral_constant<int, 8>()); break;
    case 16: f(std::integral_constant<int, 16>()); break;
    case 24: f(std::integral_constant<int, 24>()); break;
    case 32: f(std::integral_constant<int, 32>()); break;
    default: f(std::integral_constant<int, 0>());
  }
}

// The sum of u * v over the lanes of two rows.
template <class R, int W>
INLINE R dot(const R* u, const R* v, int lanes) {
  const int n = W ? W : lanes;
  V<R> sum = load(u) * load(v);
  for (int a = width<R>; a < n; a += width<R>) sum += load(u + a) * load(v + a);
  return lane_sum(sum);
}

INLINE double log_add(double x, double y) {
  const double top = std::max(x, y);
  return top > minus_infinity<double> ? top + std::log1p(std::exp(std::min(x, y) - top)) : top;
}

// A semiring defines `zero`, `joined(node, behind)` for a label, `of_row` for the arcs of a state, and `with_loose`.
template <class R>
struct MaxOverPaths {
  static constexpr R zero = minus_infinity<R>;
  INLINED static R joined(R node, R behind) { return node + behind; }
  template <int W>
  INLINED static R of_row(const R* scores, const R* row, int lanes) {
    return row_max(scores, row, W ? W : lanes);
  }
  INLINED static R with_loose(R sum, R score, R row) { return std::max(sum, score + row); }
};
struct LogSumOverPaths {
  static constexpr double zero = minus_infinity<double>;
  INLINED static double joined(double node, double behind) { return node + behind; }
  template <int W>
  INLINED static double of_row(const double* scores, const double* row, int lanes) {
    return log_sum_row(scores, row, lanes);
  }
  INLINED static double with_loose(double sum, double score, double row) { return log_add(sum, score + row); }
};
struct ScaledSumOverPaths {
  static constexpr double zero = 0;
  INLINED static double joined(double node, double behind) { return node * behind; }
  template <int W>
  INLINED static double of_row(const double* scores, const double* row, int lanes) {
    return dot<double, W>(scores, row, lanes);
  }
  INLINED static double with_loose(double sum, double score, double row) { return sum + score * row; }
};

// Row of a group: the value behind each label, at a node with these scores.
template <class Semiring, class R>
INLINE void group_row(const AutomatonView& m, int64_t g, const R* node, const R* behind, R* row) {
  const int32_t* targets = m.targets + g * m.lanes;
  for (int a = 0; a < m.lanes; a++)
    row[a] = targets[a] < 0 ? Semiring::zero : Semiring::joined(node[a], behind[targets[a]]);
}

// One step of the recursion: `here` from `behind`.
template <class Semiring, class R>
INLINE void step_back(const AutomatonView& m, const R* scores, const R* node, const R* behind, R* here, R* row) {
  with_lanes(m.lanes, [&](auto lanes) INLINED {
    constexpr int W = decltype(lanes)::value;
    for (int64_t g = 0; g < m.n_groups; g++) {
      group_row<Semiring>(m, g, node, behind, row);
      for (int64_t s = m.groups[g]; s < m.groups[g + 1]; s++)
        here[s] = Semiring::template of_row<W>(scores + s * m.lanes, row, m.lanes);
    }
  });
  for (int64_t s = 0; m.n_loose && s < m.n_states; s++)
    for (int64_t k = m.loose_offsets[s]; k < m.loose_offsets[s + 1]; k++) {
      const int label = m.loose_labels[k];
      const R value = Semiring::joined(node[label], behind[next_state(m, int32_t(s), label)]);
      here[s] = Semiring::with_loose(here[s], scores[m.loose() + k], value);
    }
}

// Fills `behind` with best scores. If only differences matter (`Shifted`), large values are subtracted, because float32
// would otherwise lose digits in long chains.
template <bool Shifted, class R>
INLINE void max_back(const AutomatonView& m, const R* scores, Paths<R>& p) {
  std::copy_n(scores + m.ends(), m.n_states, p.behind.data() + p.n * m.n_states);
  for (int64_t t = p.n - 1; t >= 0; t--) {
    R *here = p.behind.data() + t * m.n_states, *behind = here + m.n_states;
    step_back<MaxOverPaths<R>>(m, scores, p.nodes.scores.data() + t * m.lanes, behind, here, p.row.data());
    if (Shifted && t % 16 == 0) {
      const R top = *std::max_element(here, here + m.n_states);
      if (std::isfinite(top))
        for (int64_t s = 0; s < m.n_states; s++) here[s] -= top;
    }
  }
}

// Returns the labelling with the largest score. Call max_back first.
template <class R>
INLINE void best_walk(const AutomatonView& m, const R* scores, const Paths<R>& p, int32_t* labels) {
  int32_t s = m.start;
  for (int64_t t = 0; t < p.n; t++) {
    const R *node = p.nodes.scores.data() + t * m.lanes, *behind = p.behind.data() + (t + 1) * m.n_states;
    int32_t best = -1;
    R top = minus_infinity<R>;
    for (int a = 0; a < m.n_labels; a++) {
      const int64_t row = s * int64_t(m.n_labels) + a;
      if (m.arcs[row] < 0) continue;
      const R value = scores[m.places[row]] + node[a] + behind[m.arcs[row]];
      if (best < 0 || value > top) best = a, top = value;  // for NaN scores, choose the first arc
    }
    labels[t] = std::max(best, 0);
    if (best >= 0) s = next_state(m, s, best);
  }
}

// Score of a labelling, -inf if there is no such path.
template <class R, class Label>
INLINE double path_score(const AutomatonView& m, const R* scores, const Paths<R>& p, const Label* labels) {
  double total = 0;
  const bool there = along(m, labels, p.n, [&](int64_t, int64_t place, int64_t t) INLINED {
    total += double(scores[place]);
    if (t < p.n) total += double(p.nodes.scores[t * m.lanes + labels[t]]);
  });
  return there ? total : minus_infinity<double>;
}

// ---- sums -----------------------------------------------------------------------------------------------------------------

// Sums in double precision. Scaled probabilities are used if each factor of a product is 0 or at least 1e-100, so that none
// comes near underflow. Otherwise the example is summed in log space. (Because of rules, a path with a low score at one node
// may be the only one that can be completed, so the whole sum may consist of terms that would underflow.)
constexpr double least_factor = 1e-100, most_spread = 230;  // log(1e100)
constexpr double least_share = 1e-18;                       // states with smaller shares are below the rounding errors

struct PathSums {
  Paths<double> paths;
  const double* scores = nullptr;
  std::vector<double> factors, powers;  // exponentials of the scores of arcs, and of nodes (n, lanes)
  std::vector<double> scales;           // (n) scale of each node: its values were divided by it
  double shift = 0, end_shift = 0;      // subtracted from the scores of arcs and of ends
  bool may_scale = false, is_scaled = false;
};

// Whether the range of the finite numbers is at most `most_spread`; `top` is the largest.
INLINE bool narrow(const double* x, int64_t n, double* top) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (int64_t k = 0; k < n; k++)
    if (x[k] > minus_infinity<double>) low = std::min(low, x[k]), high = std::max(high, x[k]);
  *top = high > minus_infinity<double> ? high : 0;
  return !(high - low > most_spread) && std::isfinite(*top);
}

INLINE void set_scores(const AutomatonView& m, const double* scores, PathSums& s) {
  s.scores = scores;
  const bool ends_narrow = narrow(scores + m.ends(), m.n_states, &s.end_shift);
  s.may_scale = narrow(scores, m.ends(), &s.shift) && ends_narrow;
  if (!s.may_scale) return;
  s.factors.resize(size_t(m.n_scores()) + width<double>);
  const auto exponentials = [&](int64_t first, int64_t last, double shift) INLINED {
    int64_t k = first;
    for (; k + width<double> <= last; k += width<double>)
      store(s.factors.data() + k, exp_negative(load(scores + k) - shift));
    for (; k < last; k++) s.factors[k] = std::exp(scores[k] - shift);
  };
  exponentials(0, m.ends(), s.shift);
  exponentials(m.ends(), m.n_scores(), s.end_shift);
}

// Sums scaled probabilities; false if a factor is too small.
INLINE bool scaled_back(const AutomatonView& m, PathSums& s, double* total) {
  Paths<double>& p = s.paths;
  s.powers.resize(std::max(s.powers.size(), size_t(p.n) * m.lanes));
  s.scales.resize(std::max(s.scales.size(), size_t(p.n)));
  LogScale scale;
  for (int64_t t = 0; t < p.n; t++) {
    const double* node = p.nodes.scores.data() + t * m.lanes;
    double* power = s.powers.data() + t * m.lanes;
    const double top = lane_max(node, m.lanes);
    if (!std::isfinite(top)) return false;
    scale.log += top + s.shift;
    V<double> low = {};
    for (int a = 0; a < m.lanes; a += width<double>) {
      const V<double> x = load(node + a) - top;
      const V<double> e = exp_negative(x);
      const auto small = (x < -most_spread) & (x > minus_infinity<double>);
      low = select(small, spread(1.0), low);
      store(power + a, e);
    }
    if (lane_sum(low) > 0) return false;
  }
  std::copy_n(s.factors.data() + m.ends(), m.n_states, p.behind.data() + p.n * m.n_states);
  for (int64_t t = p.n - 1; t >= 0; t--) {
    double *here = p.behind.data() + t * m.n_states, *behind = here + m.n_states;
    step_back<ScaledSumOverPaths>(m, s.factors.data(), s.powers.data() + t * m.lanes, behind, here, p.row.data());
    double sum = 0;
    for (int64_t k = 0; k < m.n_states; k++) sum += here[k];
    if (!(sum > 0) || !std::isfinite(sum)) return false;
    const double inverse = 1 / sum;
    int small = 0;
    for (int64_t k = 0; k < m.n_states; k++) {
      here[k] *= inverse;
      small |= int(here[k] < least_factor) & int(here[k] > 0);
    }
    if (small) return false;
    s.scales[t] = sum;
    LogScale::multiply(scale, sum);
  }
  const double first = p.behind[m.start];
  if (!(first > 0)) return false;
  *total = scale.total() + s.end_shift + std::log(first);
  return true;
}

// log Z of an example, after visit_example; -inf if it has no labelling.
inline double sum_back(const AutomatonView& m, PathSums& s) {
  Paths<double>& p = s.paths;
  s.is_scaled = false;
  if (!p.n) return 0;
  double total = 0;
  if (s.may_scale && scaled_back(m, s, &total)) {
    s.is_scaled = true;
    return total;
  }
  std::copy_n(s.scores + m.ends(), m.n_states, p.behind.data() + p.n * m.n_states);
  for (int64_t t = p.n - 1; t >= 0; t--) {
    double *here = p.behind.data() + t * m.n_states, *behind = here + m.n_states;
    step_back<LogSumOverPaths>(m, s.scores, p.nodes.scores.data() + t * m.lanes, behind, here, p.row.data());
  }
  return p.behind[m.start];
}

// Probabilities of the arcs of a state with probability `reached`, given the row of its group: `shares` gets those of labels
// (lanes), which are also added to `of_group`, then those of loose arcs.
INLINE void spread_state(const AutomatonView& m, const PathSums& s, int64_t t, int64_t state, double reached,
                         const double* row, double* shares, double* of_group) {
  const int64_t first = m.loose_offsets[state], n_loose = m.loose_offsets[state + 1] - first;
  const Paths<double>& p = s.paths;
  const double *here = p.behind.data() + t * m.n_states, *behind = here + m.n_states;
  double* loose = shares + m.lanes;
  if (s.is_scaled) {
    const double *factors = s.factors.data() + state * m.lanes, *power = s.powers.data() + t * m.lanes;
    const double part = here[state] > 0 ? reached / (here[state] * s.scales[t]) : 0;
    with_lanes(m.lanes, [&](auto lanes) INLINED {
      const int n = decltype(lanes)::value ? decltype(lanes)::value : m.lanes;
      for (int a = 0; a < n; a += width<double>) {
        const V<double> x = load(factors + a) * (load(row + a) * part);
        store(shares + a, x);
        store(of_group + a, load(of_group + a) + x);
      }
    });
    for (int64_t k = 0; k < n_loose; k++) {
      const int label = m.loose_labels[first + k];
      loose[k] = s.factors[m.loose() + first + k] * power[label] * behind[next_state(m, int32_t(state), label)] * part;
    }
    return;
  }
  const double *scores = s.scores + state * m.lanes, *node = p.nodes.scores.data() + t * m.lanes;
  double top = row_max(scores, row, m.lanes);
  for (int64_t k = 0; k < n_loose; k++) {
    const int label = m.loose_labels[first + k];
    loose[k] = s.scores[m.loose() + first + k] + node[label] + behind[next_state(m, int32_t(state), label)];
    top = std::max(top, loose[k]);
  }
  if (!std::isfinite(top)) {
    std::fill(shares, shares + m.lanes + n_loose, 0.0);
    return;
  }
  // divided by their sum, because its logarithm would be lost when added to a large score
  V<double> sum = {};
  for (int a = 0; a < m.lanes; a += width<double>) {
    const V<double> x = exp_negative(load(scores + a) + load(row + a) - top);
    store(shares + a, x);
    sum += x;
  }
  double total = lane_sum(sum);
  for (int64_t k = 0; k < n_loose; k++) total += loose[k] = std::exp(loose[k] - top);
  const double part = reached / total;
  for (int a = 0; a < m.lanes; a += width<double>) {
    const V<double> x = load(shares + a) * part;
    store(shares + a, x);
    store(of_group + a, load(of_group + a) + x);
  }
  for (int64_t k = 0; k < n_loose; k++) loose[k] *= part;
}

INLINE void sum_row(const AutomatonView& m, PathSums& s, int64_t t, int64_t g) {
  Paths<double>& p = s.paths;
  const double* behind = p.behind.data() + (t + 1) * m.n_states;
  if (s.is_scaled) group_row<ScaledSumOverPaths>(m, g, s.powers.data() + t * m.lanes, behind, p.row.data());
  else group_row<LogSumOverPaths>(m, g, p.nodes.scores.data() + t * m.lanes, behind, p.row.data());
}

// Probabilities from the first node on, after sum_back. on_state(t, state, p) gets those of its arcs (lanes), then of its
// loose arcs; on_end(state, p) that of ending in a state; on_node(t, p) those of labels (lanes).
template <class OnState, class OnEnd, class OnNode>
INLINE void spread_forward(const AutomatonView& m, PathSums& s, OnState on_state, OnEnd on_end, OnNode on_node) {
  Paths<double>& p = s.paths;
  if (!p.n) return;
  const int64_t most = m.lanes + m.n_labels;
  p.shares.resize(size_t(most) + 2 * m.lanes + width<double>);
  p.reached.assign(m.n_states, 0.0);
  p.reached[m.start] = 1;
  double *shares = p.shares.data(), *of_group = shares + most, *of_labels = of_group + m.lanes;
  for (int64_t t = 0; t < p.n; t++) {
    p.next.assign(m.n_states, 0.0);
    std::fill(of_labels, of_labels + m.lanes, 0.0);
    for (int64_t g = 0; g < m.n_groups; g++) {
      bool ready = false;
      for (int64_t k = m.groups[g]; k < m.groups[g + 1]; k++) {
        if (!(p.reached[k] >= least_share)) continue;
        if (!ready) {
          sum_row(m, s, t, g);
          std::fill(of_group, of_group + m.lanes, 0.0);
          ready = true;
        }
        spread_state(m, s, t, k, p.reached[k], p.row.data(), shares, of_group);
        const int64_t first = m.loose_offsets[k], n_loose = m.loose_offsets[k + 1] - first;
        for (int64_t j = 0; j < n_loose; j++) {
          const int label = m.loose_labels[first + j];
          of_labels[label] += shares[m.lanes + j];
          p.next[next_state(m, int32_t(k), label)] += shares[m.lanes + j];
        }
        on_state(t, k, shares);
      }
      if (!ready) continue;
      const int32_t* targets = m.targets + g * m.lanes;
      for (int a = 0; a < m.n_labels; a++) {
        of_labels[a] += of_group[a];
        if (of_group[a] > 0) p.next[targets[a]] += of_group[a];
      }
    }
    on_node(t, of_labels);
    p.reached.swap(p.next);
  }
  for (int64_t k = 0; k < m.n_states; k++)
    if (p.reached[k] > 0) on_end(k, p.reached[k]);
}

// Computes counts += weight * p for the arcs of a state, in the layout of scores.
INLINE void count_arcs(const AutomatonView& m, int64_t state, const double* p, double weight, double* counts) {
  double* row = counts + state * m.lanes;
  with_lanes(m.lanes, [&](auto lanes) INLINED {
    const int n = decltype(lanes)::value ? decltype(lanes)::value : m.lanes;
    for (int a = 0; a < n; a += width<double>) store(row + a, load(row + a) + weight * load(p + a));
  });
  for (int64_t k = m.loose_offsets[state]; k < m.loose_offsets[state + 1]; k++)
    counts[m.loose() + k] += weight * p[m.lanes + k - m.loose_offsets[state]];
}

// Computes grams += counts of n-grams, from counts of arcs and ends.
INLINE void fire_counts(const AutomatonView& m, const double* counts, double* grams) {
  for (int64_t row = 0; row < m.n_arcs() + m.n_states; row++) {
    const int64_t place = score_place(m, row);
    if (place < 0 || counts[place] == 0) continue;
    for (int64_t k = m.fired_offsets[row]; k < m.fired_offsets[row + 1]; k++) grams[m.fired[k]] += counts[place];
  }
}

// ---- functions of automaton.cpp ---------------------------------------------------------------------------------------------

template <class R>
void automaton_scores(const AutomatonView& m, const R* grams, R* scores);
void max_marginals(const BatchView& b, const PathsView<double>& paths, int64_t first, int64_t last, double* out);
void marginals(const BatchView& b, const PathsView<double>& paths, const double* cost, int64_t first, int64_t last,
               double* values, double* node, const Cliques<PathsView<double>>& cliques);
void sample(const BatchView& b, const PathsView<double>& paths, const double* cost, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels);
// the gradient has the layout [ node | label features | n-grams ]
void log_oracle(const BatchView& b, const PathsView<double>& paths, const double* cost, const double* counted,
                int64_t first, int64_t last, double* values, double* costs, double* gradient);
// Finds the first node of every example that no path reaches, or the last node if no path can end there; -1 if there is a
// path. Weights are not read.
void find_impossible(const BatchView& b, const PathsView<double>& paths, int64_t first, int64_t last, int64_t* nodes);

}  // namespace maxendnet

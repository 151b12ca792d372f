// Chains that an automaton reads: max-marginals, marginals, samples, and the log loss with its gradient.
#include "recursions/automaton.hpp"

namespace maxendnet {
namespace {

template <class R>
const R* arc_scores(const BatchView& b, const PathsView<R>& paths) {
  return paths.weights + first_gram(b) + paths.automaton->n_grams;
}

}  // namespace

template <class R>
void automaton_scores(const AutomatonView& m, const R* grams, R* scores) {
  std::fill(scores, scores + m.n_scores(), minus_infinity<R>);
  for (int64_t row = 0; row < m.n_arcs() + m.n_states; row++) {
    const int64_t place = score_place(m, row);
    if (place >= 0) scores[place] = score_of_row(m, grams, row);
  }
}

void max_marginals(const BatchView& b, const PathsView<double>& paths, int64_t first, int64_t last, double* out) {
  const AutomatonView& m = *paths.automaton;
  const Weights<double> w(paths.weights, b);
  const double* scores = arc_scores(b, paths);
  Paths<double> p;
  std::vector<double> best(m.lanes);
  for (int64_t i = first; i < last; i++) {
    visit_example<double>(b, m, w, nullptr, i, p);
    max_back<false>(m, scores, p);
    p.reached.assign(m.n_states, minus_infinity<double>);
    p.reached[m.start] = 0;
    for (int64_t t = 0; t < p.n; t++) {
      const double *node = p.nodes.scores.data() + t * m.lanes, *behind = p.behind.data() + (t + 1) * m.n_states;
      p.next.assign(m.n_states, minus_infinity<double>);
      std::fill(best.begin(), best.end(), minus_infinity<double>);
      const auto take = [&](int a, double so_far, int32_t to) INLINED {
        p.next[to] = std::max(p.next[to], so_far + node[a]);
        best[a] = std::max(best[a], so_far + node[a] + behind[to]);
      };
      for (int64_t g = 0; g < m.n_groups; g++) {
        const int64_t n = m.groups[g + 1] - m.groups[g];
        const double *matrix = scores + m.groups[g] * m.lanes, *reached = p.reached.data() + m.groups[g];
        if (*std::max_element(reached, reached + n) == minus_infinity<double>) continue;
        FOR_LANES(max_lanes, double, m.lanes, matrix, reached, int(n), m.lanes, p.row.data());
        for (int a = 0; a < m.n_labels; a++)
          if (m.targets[g * m.lanes + a] >= 0) take(a, p.row[a], m.targets[g * m.lanes + a]);
      }
      for (int64_t s = 0; m.n_loose && s < m.n_states; s++)
        for (int64_t k = m.loose_offsets[s]; k < m.loose_offsets[s + 1]; k++)
          take(m.loose_labels[k], p.reached[s] + scores[m.loose() + k], next_state(m, int32_t(s), m.loose_labels[k]));
      std::copy_n(best.data(), m.n_labels, out + (p.begin + t) * m.n_labels);
      p.reached.swap(p.next);
    }
  }
}

void marginals(const BatchView& b, const PathsView<double>& paths, const double* cost, int64_t first, int64_t last,
               double* values, double* node, const Cliques<PathsView<double>>& cliques) {
  const AutomatonView& m = *paths.automaton;
  double* grams = cliques[0];
  const Weights<double> w(paths.weights, b);
  PathSums s;
  set_scores(m, arc_scores(b, paths), s);
  std::vector<double> counts(grams ? size_t(m.n_scores()) : 0);
  for (int64_t i = first; i < last; i++) {
    visit_example(b, m, w, cost, i, s.paths);
    values[i] = sum_back(m, s);
    if (!node || !(values[i] > minus_infinity<double>)) continue;
    std::fill(counts.begin(), counts.end(), 0.0);
    spread_forward(
        m, s,
        [&](int64_t, int64_t state, const double* p) INLINED {
          if (grams) count_arcs(m, state, p, 1, counts.data());
        },
        [&](int64_t state, double p) INLINED {
          if (grams) counts[m.ends() + state] += p;
        },
        [&](int64_t t, const double* p)
            INLINED { std::copy_n(p, m.n_labels, node + (s.paths.begin + t) * m.n_labels); });
    if (grams) fire_counts(m, counts.data(), grams + i * m.n_grams);
  }
}

void sample(const BatchView& b, const PathsView<double>& paths, const double* cost, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels) {
  const AutomatonView& m = *paths.automaton;
  const Weights<double> w(paths.weights, b);
  PathSums s;
  set_scores(m, arc_scores(b, paths), s);
  std::vector<double> shares(m.n_labels);
  for (int64_t i = first; i < last; i++) {
    visit_example(b, m, w, cost, i, s.paths);
    sum_back(m, s);
    const Paths<double>& p = s.paths;
    const double* scores = s.is_scaled ? s.factors.data() : s.scores;
    for (int64_t draw = 0; draw < n_draws; draw++) {
      int32_t state = m.start;
      for (int64_t t = 0; t < p.n; t++) {
        const double* node = (s.is_scaled ? s.powers.data() : p.nodes.scores.data()) + t * m.lanes;
        const double* behind = p.behind.data() + (t + 1) * m.n_states;
        double top = minus_infinity<double>;
        for (int a = 0; a < m.n_labels; a++) {
          const int64_t row = state * int64_t(m.n_labels) + a;
          shares[a] = s.is_scaled ? 0 : minus_infinity<double>;
          if (m.arcs[row] < 0) continue;
          const double score = scores[m.places[row]], rest = behind[m.arcs[row]];
          shares[a] = s.is_scaled ? score * node[a] * rest : score + node[a] + rest;
          top = std::max(top, shares[a]);
        }
        for (int a = 0; a < m.n_labels && !s.is_scaled; a++)
          shares[a] = std::isfinite(top) ? std::exp(shares[a] - top) : 0;
        const int label = draw_place(shares.data(), m.n_labels, uniforms[draw * b.n_nodes + p.begin + t]);
        labels[draw * b.n_nodes + p.begin + t] = label;
        state = std::max(next_state(m, state, label), int32_t(0));
      }
    }
  }
}

void log_oracle(const BatchView& b, const PathsView<double>& paths, const double* cost, const double* counted,
                int64_t first, int64_t last, double* values, double* costs, double* gradient) {
  const AutomatonView& m = *paths.automaton;
  const Weights<double> w(paths.weights, b);
  const Layout layout = automaton_layout(b);
  const double* reported = counted ? counted : cost;
  PathSums s;
  set_scores(m, arc_scores(b, paths), s);
  std::vector<double> counts(gradient ? size_t(m.n_scores()) : 0), residual(m.lanes);
  double* grams = gradient ? gradient + first_gram(b) : nullptr;
  for (int64_t i = first; i < last; i++) {
    visit_example(b, m, w, cost, i, s.paths);
    const int32_t* truth = b.y + s.paths.begin;
    values[i] = sum_back(m, s) - path_score(m, s.scores, s.paths, truth);
    if (!gradient) continue;
    const double u = b.sample_weight[i];
    double expected = 0;
    spread_forward(
        m, s, [&](int64_t, int64_t state, const double* p) INLINED { count_arcs(m, state, p, u, counts.data()); },
        [&](int64_t state, double p) INLINED { counts[m.ends() + state] += u * p; },
        [&](int64_t t, const double* p) INLINED {
          const int64_t node = s.paths.begin + t;
          for (int a = 0; reported && a < m.n_labels; a++)
            expected += p[a] * reported[int64_t(b.row[node]) * m.lanes + a];
          for (int a = 0; a < m.lanes; a++) residual[a] = u * p[a];
          residual[b.y[node]] -= u;
          node_expectation(b, layout, node, residual.data(), gradient);
        });
    along(m, truth, s.paths.n, [&](int64_t, int64_t place, int64_t) INLINED { counts[place] -= u; });
    if (costs) costs[i] = expected;
  }
  if (gradient) fire_counts(m, counts.data(), grams);
}

void find_impossible(const BatchView& b, const PathsView<double>& paths, int64_t first, int64_t last, int64_t* nodes) {
  const AutomatonView& m = *paths.automaton;
  std::vector<uint8_t> reached, next;
  for (int64_t i = first; i < last; i++) {
    nodes[i] = -1;
    if (b.offsets[i] == b.offsets[i + 1]) continue;
    reached.assign(m.n_states, 0);
    reached[m.start] = 1;
    for (int64_t t = b.offsets[i]; t < b.offsets[i + 1] && nodes[i] < 0; t++) {
      next.assign(m.n_states, 0);
      bool any = false;
      for (int64_t s = 0; s < m.n_states; s++)
        for (int a = 0; reached[s] && a < m.n_labels; a++) {
          const int32_t to = m.arcs[s * m.n_labels + a];
          if (to < 0 || (b.allowed && !b.allowed[t * m.n_labels + a])) continue;
          next[to] = 1;
          any = true;
        }
      if (!any) nodes[i] = t;
      reached.swap(next);
    }
    bool ends = false;
    for (int64_t s = 0; s < m.n_states; s++) ends |= reached[s] && m.accepting[s];
    if (nodes[i] < 0 && !ends) nodes[i] = b.offsets[i + 1] - 1;
  }
}

template void automaton_scores<float>(const AutomatonView&, const float*, float*);
template void automaton_scores<double>(const AutomatonView&, const double*, double*);

}  // namespace maxendnet

// Maxima over the local polytope: tables of nodes and edges that sum to one and are consistent. With a temperature T and
// weights of entropies (c_e of edges and c_t of nodes; at every node c_t and the c_e of its edges sum to one),
//
//   max over mu of <scores, mu> + T (sum_t c_t H(mu_t) + sum_e c_e H(mu_e))
//     = min over messages of  sum_t c_t T logsum((score_t + sum_e message_et) / (c_t T))
//                           + sum_e c_e T logsum((score_e - message_es - message_et) / (c_e T)).
//
// Any messages give an upper bound, also of the maximum without entropies, and any consistent tables a lower bound. By
// Shearer's inequality the weighted sum of entropies is at least the joint entropy, so that at T = 1 the upper bound is one of
// the log-partition. The messages of one node have an optimum in closed form; sweeps update node by node (norm-product). Then
// the contribution of the node to the bound is T logsum((score_t + sum_e received_e) / T), and that of its edges 0.
#include <algorithm>

#include "recursions/graph.hpp"

namespace maxendnet {

namespace {

typedef V<double> Lanes;
constexpr double infinity = std::numeric_limits<double>::infinity();

// log(x) for normal x > 0: exponent and 2 atanh((m - 1) / (m + 1)) of the mantissa m in [sqrt(1/2), sqrt(2)).
INLINE Lanes log_positive(Lanes x) {
  typedef Words<double> Wrapping;
  const Wrapping bits = as<Wrapping>(x), shifted = bits - 0x3fe6a09e667f3bcdULL;  // bits of sqrt(1/2)
  const Wrapping exponent = as<Wrapping>(as<Bits<double>>(shifted) >> 52);
  const Lanes m = as<Lanes>(bits - (exponent << 52));
  const double magic = 6755399441055744.0;  // 1.5 * 2^52: small integers are in its low bits
  const Lanes n = as<Lanes>(exponent + as<Wrapping>(spread(magic))) - magic;
  const Lanes s = (m - 1.0) / (m + 1.0), z = s * s;
  const Lanes p = polynomial(z, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17,
                             1.0 / 19, 1.0 / 21);
  return n * 0.693147180559945309417 + 2.0 * s * p;
}

// Sum of -p log(p).
INLINE double entropy(const double* p, int n) {
  Lanes sum = {};
  for (int k = 0; k < n; k += 4) {
    const Lanes x = load(p + k);
    sum -= x * log_positive(larger(x, spread(1e-300)));
  }
  return lane_sum(sum);
}

struct Local {
  struct Incident {
    int64_t edge;
    int side;
  };
  const GraphView& g;
  const double*
      both;  // matrices in both orientations, padded to lanes: rows are labels of the second node, then of the first
  double* messages;
  const int64_t first_node, first_edge;
  const int n, m, L, P;
  std::vector<Incident> incident;
  std::vector<int> begin;
  std::vector<double> share, score, level, received, log_belief, belief, table, rows, columns;
  // For every edge and direction: the terms of its last sum, with the message, the maxima and the temperature (0: none) that
  // they were computed with. While the message changes little, the next sum is this table times factors of the message.
  std::vector<double> terms, reference, tops, temperature, factors;

  Local(const GraphView& view, const double* matrices, double* all_messages, int64_t i)
      : g(view), both(matrices), messages(all_messages), first_node(g.offsets[i]), first_edge(g.edge_offsets[i]),
        n(int(g.offsets[i + 1] - first_node)), m(int(g.edge_offsets[i + 1] - first_edge)), L(g.n_labels),
        P(message_lanes(L)), begin(n + 1, 0), share(m), score(size_t(n) * P, -infinity), level(n),
        log_belief(size_t(n) * P), belief(size_t(n) * P), table(size_t(L) * P), rows(L), columns(P),
        terms(size_t(2) * m * L * P), reference(size_t(2) * m * P), tops(size_t(2) * m * P),
        temperature(size_t(2) * m, 0.0), factors(P) {
    const int32_t* nodes = g.edges + 2 * first_edge;
    for (int k = 0; k < 2 * m; k++) begin[nodes[k] + 1]++;
    int widest = 0;
    for (int t = 0; t < n; t++) {
      widest = std::max(widest, begin[t + 1]);
      begin[t + 1] += begin[t];
      std::copy_n(g.node_scores + (first_node + t) * L, L, &score[size_t(t) * P]);
    }
    incident.resize(2 * m);
    std::vector<int> at(begin.begin(), begin.end() - 1);
    for (int e = 0; e < m; e++)
      for (int side = 0; side < 2; side++) incident[at[nodes[2 * e + side]]++] = {e, side};
    received.resize(size_t(std::max(widest, 1)) * P);
    for (int e = 0; e < m; e++) {
      share[e] = 1.0 / std::max(degree(nodes[2 * e]), degree(nodes[2 * e + 1]));
      for (int side = 0; side < 2; side++) {  // the message of a forbidden label is infinite
        const double* scores = &score[size_t(nodes[2 * e + side]) * P];
        double* message = message_of(e, side);
        for (int a = 0; a < P; a++)
          if (scores[a] == -infinity) message[a] = infinity;
          else if (!std::isfinite(message[a])) message[a] = 0;
      }
    }
  }
  int degree(int t) const { return begin[t + 1] - begin[t]; }
  double* message_of(int64_t e, int side) { return messages + ((first_edge + e) * 2 + side) * P; }
  // Rows are labels of the node at the other side.
  const double* matrix(int64_t e, int side) const {
    return both + (int64_t(g.matrix[first_edge + e]) * 2 + side) * L * P;
  }

  // For every label of the node at `side` of an edge: soft maximum at temperature T over the labels of the other node.
  void receive(int64_t e, int side, double T, double* out) {
    const size_t k = 2 * e + side;
    const double *message = message_of(e, 1 - side), *scores = matrix(e, side), scale = 1 / T;
    double *term = &terms[k * L * P], *before = &reference[k * P], *top = &tops[k * P];
    bool near = temperature[k] == T;
    for (int b = 0; near && b < P; b += 4) {
      const Lanes moved = (load(before + b) - load(message + b)) * scale;  // NaN for forbidden labels
      if (any_of((moved > 100.0) | (moved < -100.0))) near = false;
      store(&factors[b], exp_negative(moved));
    }
    if (!near) {
      temperature[k] = T;
      std::copy_n(message, P, before);
      for (int b = 0; b < P; b++) factors[b] = message[b] < infinity ? 1.0 : 0.0;
      for (int a = 0; a < P; a += 4) {
        Lanes best = spread(-infinity);
        for (int b = 0; b < L; b++) best = larger(load(scores + b * P + a) - message[b], best);
        for (int b = 0; b < L; b++)
          store(term + b * P + a, exp_negative((load(scores + b * P + a) - message[b] - best) * scale));
        store(top + a, best);
      }
    }
    for (int a = 0; a < P; a += 4) {
      Lanes even = {}, odd = {};
      int b = 0;
      for (; b + 1 < L; b += 2) {
        even += load(term + b * P + a) * factors[b];
        odd += load(term + (b + 1) * P + a) * factors[b + 1];
      }
      if (b < L) even += load(term + b * P + a) * factors[b];
      store(out + a, load(top + a) + T * log_positive(even + odd));
    }
  }

  // Sets the messages of one node to their optimum.
  void update(int t, double T) {
    double* sum = &log_belief[size_t(t) * P];
    std::copy_n(&score[size_t(t) * P], P, sum);
    for (int k = begin[t]; k < begin[t + 1]; k++) {
      const auto [e, side] = incident[k];
      double* out = &received[size_t(k - begin[t]) * P];
      receive(e, side, share[e] * T, out);
      add_row(sum, out, P);
    }
    const double top = lane_max(sum, P);
    Lanes total = {};
    for (int a = 0; a < P; a += 4) total += exp_negative((load(sum + a) - top) * (1 / T));
    level[t] = top + T * std::log(lane_sum(total));
    for (int a = 0; a < P; a++) sum[a] -= level[t];  // T times the logarithm of the belief
    for (int k = begin[t]; k < begin[t + 1]; k++) {
      const auto [e, side] = incident[k];
      const double* in = &received[size_t(k - begin[t]) * P];
      double* out = message_of(e, side);
      for (int a = 0; a < P; a += 4) store(out + a, load(in + a) - share[e] * load(sum + a));
    }
  }

  // Updates all nodes, forwards or backwards; returns the bound.
  double sweep(bool forwards, double T) {
    for (int k = 0; k < n; k++) update(forwards ? k : n - 1 - k, T);
    double sum = 0;
    for (const double x : level) sum += x;
    return sum;
  }

  // Upper bound of the maximum without entropies.
  double upper() {
    double sum = 0;
    for (int t = 0; t < n; t++) {
      double best = -infinity;
      for (int a = 0; a < L; a++) {
        double x = score[size_t(t) * P + a];
        if (x == -infinity) continue;
        for (int k = begin[t]; k < begin[t + 1]; k++) x += message_of(incident[k].edge, incident[k].side)[a];
        best = std::max(best, x);
      }
      sum += best;
    }
    for (int e = 0; e < m; e++) {
      const double *first = message_of(e, 0), *second = message_of(e, 1), *scores = matrix(e, 1);
      Lanes best = spread(-infinity);
      for (int a = 0; a < L; a++)
        if (first[a] < infinity)
          for (int b = 0; b < P; b += 4) best = larger(load(scores + a * P + b) - load(second + b) - first[a], best);
      sum += lane_max(best);
    }
    return sum;
  }

  struct Attained {
    double score, entropy;
  };

  // Consistent tables from the beliefs at temperature T: tables of nodes are the beliefs; tables of edges are scaled to match
  // them (Sinkhorn) and corrected for the remaining difference (Altschuler, Weed & Rigollet 2017, Algorithm 2).
  Attained feasible(double T, double* edge_out) {
    Attained attained{0, 0};
    std::vector<double> node_share(n, 1.0);
    for (int t = 0; t < n; t++) {
      double* p = &belief[size_t(t) * P];
      for (int a = 0; a < P; a += 4) store(p + a, exp_negative(load(&log_belief[size_t(t) * P + a]) * (1 / T)));
      scale_row(p, 1 / lane_sum(p, P), P);
      for (int a = 0; a < L; a++)
        if (p[a] > 0) attained.score += p[a] * score[size_t(t) * P + a];
    }
    const int32_t* nodes = g.edges + 2 * first_edge;
    for (int e = 0; e < m; e++) {
      const double* scores = matrix(e, 1);
      couple(e, T, &belief[size_t(nodes[2 * e]) * P], &belief[size_t(nodes[2 * e + 1]) * P]);
      Lanes sum = {};
      for (int k = 0; k < L * P; k += 4) sum += load(&table[k]) * load(scores + k);
      attained.score += lane_sum(sum);
      attained.entropy += share[e] * entropy(table.data(), L * P);
      for (int side = 0; side < 2; side++) node_share[nodes[2 * e + side]] -= share[e];
      if (edge_out)
        for (int a = 0; a < L; a++) std::copy_n(&table[size_t(a) * P], L, edge_out + (size_t(e) * L + a) * L);
    }
    for (int t = 0; t < n; t++) attained.entropy += std::max(node_share[t], 0.0) * entropy(&belief[size_t(t) * P], P);
    return attained;
  }

  // Table of an edge that is consistent with the beliefs of its nodes.
  void couple(int e, double T, const double* first, const double* second) {
    const double *to_first = message_of(e, 0), *to_second = message_of(e, 1), *scores = matrix(e, 1);
    const double scale = 1 / (share[e] * T);
    for (int a = 0; a < L; a++)
      for (int b = 0; b < P; b += 4) {
        const Lanes x = (load(scores + a * P + b) - load(to_second + b) - to_first[a]) * scale;
        store(&table[size_t(a) * P + b], exp_negative(select(x > 1.0, spread(1.0), x)));
      }
    const auto factor = [](double target, double sum) { return sum > 0 ? target / sum : 0.0; };
    const auto scale_columns = [&](bool down_only) {
      for (int b = 0; b < P; b += 4) {
        Lanes sum = {};
        for (int a = 0; a < L; a++) sum += load(&table[size_t(a) * P + b]);
        for (int k = 0; k < 4; k++) {
          const double f = factor(second[b + k], sum[k]);
          columns[b + k] = down_only ? std::min(f, 1.0) : f;
        }
        for (int a = 0; a < L; a++)
          store(&table[size_t(a) * P + b], load(&table[size_t(a) * P + b]) * load(&columns[b]));
      }
    };
    for (int turn = 0; turn < 10; turn++) {
      scale_columns(false);
      double wrong = 0;
      for (int a = 0; a < L; a++) {
        rows[a] = lane_sum(&table[size_t(a) * P], P);
        wrong += std::abs(first[a] - rows[a]);
      }
      if (wrong < 1e-13) break;
      for (int a = 0; a < L; a++) scale_row(&table[size_t(a) * P], factor(first[a], rows[a]), P);
    }
    double missing = 0;
    for (int a = 0; a < L; a++) {
      const double f = std::min(factor(first[a], lane_sum(&table[size_t(a) * P], P)), 1.0);
      scale_row(&table[size_t(a) * P], f, P);
    }
    scale_columns(true);
    for (int a = 0; a < L; a++) {
      rows[a] = std::max(first[a] - lane_sum(&table[size_t(a) * P], P), 0.0);
      missing += rows[a];
    }
    if (!(missing > 0)) return;
    for (int b = 0; b < P; b += 4) {
      Lanes sum = load(second + b);
      for (int a = 0; a < L; a++) sum -= load(&table[size_t(a) * P + b]);
      const Lanes zero = {};
      store(&columns[b], larger(sum, zero));
    }
    const double total = lane_sum(columns.data(), P);
    if (!(total > 0)) return;
    for (int a = 0; a < L; a++)
      if (rows[a] > 0)
        for (int b = 0; b < P; b += 4)
          store(&table[size_t(a) * P + b], load(&table[size_t(a) * P + b]) + load(&columns[b]) * (rows[a] / total));
  }

  // Rounds to a labelling: the most likely label of every node, improved by coordinate ascent. Returns its score.
  double round(std::vector<int>& labels) {
    const int32_t* nodes = g.edges + 2 * first_edge;
    for (int t = 0; t < n; t++) {
      const double* p = &log_belief[size_t(t) * P];
      labels[t] = int(std::max_element(p, p + L) - p);
    }
    std::vector<double> here(P);
    bool changed = true;
    for (int turn = 0; changed && turn < 50; turn++) {
      changed = false;
      for (int t = 0; t < n; t++) {
        std::copy_n(&score[size_t(t) * P], P, here.begin());
        for (int k = begin[t]; k < begin[t + 1]; k++) {
          const auto [e, side] = incident[k];
          add_row(here.data(), matrix(e, side) + size_t(labels[nodes[2 * e + 1 - side]]) * P, P);
        }
        const int best = int(std::max_element(here.begin(), here.begin() + L) - here.begin());
        if (here[best] > here[labels[t]] + 1e-12 * std::abs(here[best])) {
          labels[t] = best;
          changed = true;
        }
      }
    }
    double sum = 0;
    for (int t = 0; t < n; t++) sum += score[size_t(t) * P + labels[t]];
    for (int e = 0; e < m; e++) sum += matrix(e, 1)[size_t(labels[nodes[2 * e]]) * P + labels[nodes[2 * e + 1]]];
    return sum;
  }

  // Average range of the scores of a node and its edges.
  double spread_of_scores() {
    const auto range = [&](const double* x, int k) {
      double low = infinity, high = -infinity;
      for (int a = 0; a < k; a++)
        if (std::isfinite(x[a])) low = std::min(low, x[a]), high = std::max(high, x[a]);
      return high > low ? high - low : 0.0;
    };
    double sum = 0;
    for (int t = 0; t < n; t++) sum += range(&score[size_t(t) * P], L);
    for (int e = 0; e < m; e++) sum += range(g.matrices + int64_t(g.matrix[first_edge + e]) * L * L, L * L);
    return sum / std::max(n, 1);
  }

  void write(const std::vector<double>& tables, double* node) const {
    for (int t = 0; t < n; t++) std::copy_n(&tables[size_t(t) * P], L, node + (first_node + t) * L);
  }
};

// Soft maximum, at temperature 1.
void solve_soft(Local& local, const Relaxation& r, double& upper, double& attained, double* node, double* edge,
                int32_t& n_sweeps) {
  double value = local.sweep(true, 1.0), step = 0.1 * r.tol * local.n;
  n_sweeps = 1;
  while (true) {
    while (n_sweeps < r.max_sweeps) {
      const double before = value;
      value = local.sweep(n_sweeps % 2 == 0, 1.0);
      n_sweeps++;
      if (before - value <= step) break;
    }
    const auto feasible = local.feasible(1.0, edge ? edge + local.first_edge * local.L * local.L : nullptr);
    attained = feasible.score + feasible.entropy;
    upper = value;
    if (value - attained <= r.tol * local.n || n_sweeps >= r.max_sweeps) break;
    step *= 0.1;
  }
  local.write(local.belief, node);
}

// Maximum, at decreasing temperatures until the entropies are negligible.
void solve_hard(Local& local, const Relaxation& r, double& T, double& upper, double& attained, double* node,
                double* edge, int32_t* labels, double& labels_score, int32_t& n_sweeps) {
  const int L = local.L;
  std::vector<int> rounded(local.n);
  const double scale = local.spread_of_scores();
  T = T > 0 ? std::min(T, 0.1 * scale) : 0.1 * scale;
  T = std::max(T, 1e-12 * std::max(scale, 1e-300));
  std::vector<double> tables(edge ? size_t(local.m) * local.L * local.L : 0);
  upper = infinity;
  attained = labels_score = -infinity;
  n_sweeps = 0;
  while (true) {
    double value = infinity;
    for (int k = 0; k < 8 && n_sweeps < r.max_sweeps; k++) {
      const double before = value;
      value = local.sweep(n_sweeps % 2 == 0, T);
      n_sweeps++;
      if (before - value <= 0.01 * T * local.n) break;
    }
    upper = std::min(upper, local.upper());
    const auto feasible = local.feasible(T, edge ? tables.data() : nullptr);
    if (feasible.score > attained) {
      attained = feasible.score;
      local.write(local.belief, node);
      if (edge) std::copy(tables.begin(), tables.end(), edge + local.first_edge * L * L);
    }
    const double score = local.round(rounded);
    if (score > labels_score) {
      labels_score = score;
      std::copy(rounded.begin(), rounded.end(), labels + local.first_node);
      if (score >= attained) {  // integral tables
        attained = score;
        std::fill_n(node + local.first_node * L, size_t(local.n) * L, 0.0);
        for (int t = 0; t < local.n; t++) node[(local.first_node + t) * L + rounded[t]] = 1;
        if (edge) {
          double* out = edge + local.first_edge * L * L;
          std::fill_n(out, size_t(local.m) * L * L, 0.0);
          const int32_t* nodes = local.g.edges + 2 * local.first_edge;
          for (int e = 0; e < local.m; e++)
            out[(size_t(e) * L + rounded[nodes[2 * e]]) * L + rounded[nodes[2 * e + 1]]] = 1;
        }
      }
    }
    if (upper - attained <= r.tol * local.n || n_sweeps >= r.max_sweeps || !(T > 1e-12 * scale)) break;
    // halve the temperature if the contribution of the entropies exceeds the gap of the messages
    if (value - (feasible.score + T * feasible.entropy) <= T * feasible.entropy + 1e-3 * r.tol * local.n) T *= 0.5;
  }
}

}  // namespace

void graph_relaxed(const GraphView& g, const Relaxation& r, double* messages, double* temperature, double* upper,
                   double* attained, double* node, double* edge, int32_t* labels, double* labels_score,
                   int32_t* n_sweeps) {
  const int L = g.n_labels, P = message_lanes(L);
  int64_t n_matrices = 0;
  for (int64_t e = 0; e < g.edge_offsets[g.n_examples]; e++)
    n_matrices = std::max<int64_t>(n_matrices, g.matrix[e] + 1);
  std::vector<double> both(size_t(n_matrices) * 2 * L * P, 0.0);
  for (int64_t k = 0; k < n_matrices; k++)
    for (int a = 0; a < L; a++)
      for (int b = 0; b < L; b++) {
        const double x = g.matrices[(k * L + a) * L + b];
        both[((2 * k) * L + b) * P + a] = x;
        both[((2 * k + 1) * L + a) * P + b] = x;
      }
  for (int64_t i = 0; i < g.n_examples; i++) {
    if (g.exact[i]) continue;
    Local local(g, both.data(), messages, i);
    if (r.soft) solve_soft(local, r, upper[i], attained[i], node, edge, n_sweeps[i]);
    else solve_hard(local, r, temperature[i], upper[i], attained[i], node, edge, labels, labels_score[i], n_sweeps[i]);
  }
}

}  // namespace maxendnet

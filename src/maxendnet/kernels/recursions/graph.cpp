// Variable elimination: one recursion over two semirings. A node is summed (or maximised) out of a table over its labels and
// those of its remaining neighbours; the result is a message to the neighbour that is eliminated next.
#include "recursions/graph.hpp"

#include <algorithm>
#include <set>

namespace maxendnet {

namespace {

// ---- semirings --------------------------------------------------------------------------------------------------------

struct Maximum {
  static constexpr double zero = minus_infinity<double>;
  static double plus(double x, double y) { return std::max(x, y); }
  // out[j] = max over a of table[a, j]
  static void reduce(const double* table, int n, int64_t m, double* out) {
    std::copy(table, table + m, out);
    for (int a = 1; a < n; a++)
      for (int64_t j = 0; j < m; j++) out[j] = std::max(out[j], table[a * m + j]);
  }
};

struct LogSum {
  static constexpr double zero = 0;
  static double plus(double x, double y) { return x + y; }
  static void reduce(const double* table, int n, int64_t m, double* out) {
    Maximum::reduce(table, n, m, out);
    int64_t j = 0;
    for (; j + 4 <= m; j += 4) {
      const V<double> top = load(out + j);
      V<double> sum = {};
      for (int a = 0; a < n; a++) sum += exp_negative(load(table + a * m + j) - top);
      for (int k = 0; k < 4; k++) out[j + k] += std::log(sum[k]);
    }
    for (; j < m; j++) {
      double sum = 0;
      for (int a = 0; a < n; a++) sum += std::exp(table[a * m + j] - out[j]);
      out[j] += std::log(sum);
    }
  }
};

// ---- tables -----------------------------------------------------------------------------------------------------------

// Calls f(index in a large table, index in a small table, step, n) for runs of n consecutive entries of the large table,
// along which the index in the small table increases by `step`. The small table has the strides `strides` along the axes of
// the large one, 0 for axes that it does not have.
template <class F>
void walk(const std::vector<int>& sizes, const std::vector<int64_t>& strides, F f) {
  // merge neighbouring axes along which both tables are contiguous
  std::vector<int64_t> n, step;
  for (size_t k = 0; k < sizes.size(); k++) {
    if (sizes[k] == 1) continue;
    if (!n.empty() && step.back() == strides[k] * sizes[k]) {
      n.back() *= sizes[k];
      step.back() = strides[k];
    } else {
      n.push_back(sizes[k]);
      step.push_back(strides[k]);
    }
  }
  if (n.empty()) return f(int64_t(0), int64_t(0), int64_t(0), int64_t(1));
  const int last = int(n.size()) - 1;
  std::vector<int64_t> at(n.size(), 0);
  int64_t large = 0, small = 0;
  while (true) {
    f(large, small, step[last], n[last]);
    large += n[last];
    int k = last - 1;
    for (; k >= 0; k--) {
      small += step[k];
      if (++at[k] < n[k]) break;
      small -= step[k] * n[k];
      at[k] = 0;
    }
    if (k < 0) return;
  }
}

void add_to(double* table, const std::vector<int>& sizes, const double* message, const std::vector<int64_t>& strides) {
  walk(sizes, strides, [&](int64_t large, int64_t small, int64_t step, int64_t n) {
    if (step == 1)
      for (int64_t k = 0; k < n; k++) table[large + k] += message[small + k];
    else
      for (int64_t k = 0; k < n; k++) table[large + k] += message[small + k * step];
  });
}

template <class Semiring>
void gather(const double* table, const std::vector<int>& sizes, double* out, const std::vector<int64_t>& strides) {
  walk(sizes, strides, [&](int64_t large, int64_t small, int64_t step, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
      double& sum = out[small + k * step];
      sum = Semiring::plus(sum, table[large + k]);
    }
  });
}

// ---- one example --------------------------------------------------------------------------------------------------------

struct Elimination {
  struct Link {
    int64_t edge;
    int neighbour;
    bool first;  // whether the eliminated node is the user's first node
  };
  // Nodes are identified by their position in the elimination order.
  struct Step {
    int node;
    std::vector<int> labels;       // allowed labels
    std::vector<Link> links;       // edges to nodes that are eliminated later
    std::vector<int> scope;        // nodes of its message, in the order of elimination
    std::vector<int> children;     // nodes that send it messages
    std::vector<int64_t> strides;  // strides of its message, for each axis of its parent's table
    std::vector<double> message, down;
    int64_t size = 1;  // entries of the message
  };

  const GraphView& g;
  int64_t first_node, first_edge;
  std::vector<Step> steps;
  std::vector<double> table, row, folded;
  double total = 0;

  Elimination(const GraphView& view, int64_t i) : g(view), first_node(g.offsets[i]), first_edge(g.edge_offsets[i]) {
    const int n = int(g.offsets[i + 1] - first_node);
    steps.resize(n);
    std::vector<int> place(n);
    for (int k = 0; k < n; k++) {
      steps[k].node = g.order[first_node + k];
      place[steps[k].node] = k;
      const double* scores = g.node_scores + (first_node + steps[k].node) * g.n_labels;
      for (int a = 0; a < g.n_labels; a++)
        if (scores[a] > minus_infinity<double>) steps[k].labels.push_back(a);
    }
    std::vector<std::set<int>> scopes(n);
    for (int64_t e = first_edge; e < g.edge_offsets[i + 1]; e++) {
      const int s = place[g.edges[2 * e]], t = place[g.edges[2 * e + 1]];
      steps[std::min(s, t)].links.push_back({e, std::max(s, t), s < t});
      scopes[std::min(s, t)].insert(std::max(s, t));
    }
    for (int k = 0; k < n; k++) {
      Step& step = steps[k];
      step.scope.assign(scopes[k].begin(), scopes[k].end());
      for (const int s : step.scope) step.size *= int64_t(steps[s].labels.size());
      if (step.scope.empty()) continue;
      const int parent = step.scope[0];
      scopes[parent].insert(step.scope.begin() + 1, step.scope.end());
      steps[parent].children.push_back(k);
    }
    for (Step& step : steps)
      for (const int c : step.children) {
        Step& child = steps[c];
        int64_t stride = child.size;
        child.strides.assign(step.scope.size() + 1, 0);
        for (const int s : child.scope) {
          stride /= int64_t(steps[s].labels.size());
          const auto at = std::find(step.scope.begin(), step.scope.end(), s);
          child.strides[at == step.scope.end() ? 0 : 1 + (at - step.scope.begin())] = stride;
        }
      }
  }

  std::vector<int> sizes(const Step& step) const {
    std::vector<int> axes{int(step.labels.size())};
    for (const int s : step.scope) axes.push_back(int(steps[s].labels.size()));
    return axes;
  }
  // The edge between two nodes, null if there is none.
  static const Link* link_to(const Step& step, int neighbour) {
    for (const Link& link : step.links)
      if (link.neighbour == neighbour) return &link;
    return nullptr;
  }
  double node_score(const Step& step, int a) const {
    return g.node_scores[(first_node + step.node) * g.n_labels + step.labels[a]];
  }
  double edge_score(const Step& step, const Link& link, int a, int b) const {
    const int label = step.labels[a], other_label = steps[link.neighbour].labels[b], L = g.n_labels;
    const double* matrix = g.matrices + int64_t(g.matrix[link.edge]) * L * L;
    return link.first ? matrix[label * L + other_label] : matrix[other_label * L + label];
  }

  // Fills the table of a node: its score, those of its edges, and the messages to it.
  void fill(const Step& step) {
    const int n = int(step.labels.size());
    table.resize(size_t(n) * step.size);
    row.resize(step.size);
    for (int a = 0; a < n; a++) {
      // a sum of functions of one axis each: from the last axis to the first, repeat the table for each label
      double* out = table.data() + a * step.size;
      out[0] = node_score(step, a);
      int64_t size = 1;
      for (size_t k = step.scope.size(); k-- > 0;) {
        const int s = step.scope[k], m = int(steps[s].labels.size());
        const Link* link = link_to(step, s);
        for (int b = m - 1; b >= 0; b--) {
          const double extra = link ? edge_score(step, *link, a, b) : 0.0;
          for (int64_t j = 0; j < size; j++) out[b * size + j] = out[j] + extra;
        }
        size *= m;
      }
    }
    const std::vector<int> axes = sizes(step);
    for (const int c : step.children) add_to(table.data(), axes, steps[c].message.data(), steps[c].strides);
  }

  template <class Semiring>
  double forward() {
    total = 0;
    for (Step& step : steps) {
      fill(step);
      step.message.resize(step.size);
      Semiring::reduce(table.data(), int(step.labels.size()), step.size, step.message.data());
      if (step.scope.empty()) total += step.message[0];
    }
    return total;
  }

  // Labels from the last node to the first: choose(scores of the allowed labels, their number, node) returns an index.
  template <class Choose>
  void backtrack(int32_t* labels, Choose choose) {
    std::vector<int> chosen(steps.size());
    std::vector<double> scores;
    for (size_t k = steps.size(); k-- > 0;) {
      const Step& step = steps[k];
      const int n = int(step.labels.size());
      scores.resize(n);
      for (int a = 0; a < n; a++) scores[a] = node_score(step, a);
      for (const Link& link : step.links)
        for (int a = 0; a < n; a++) scores[a] += edge_score(step, link, a, chosen[link.neighbour]);
      for (const int c : step.children) {
        int64_t at = 0;
        for (size_t s = 0; s < step.scope.size(); s++) at += steps[c].strides[s + 1] * chosen[step.scope[s]];
        for (int a = 0; a < n; a++) scores[a] += steps[c].message[at + a * steps[c].strides[0]];
      }
      chosen[k] = choose(scores.data(), n, step.node);
      labels[first_node + step.node] = step.labels[chosen[k]];
    }
  }

  // From the last node to the first, completes `table` with the scores of all other nodes and calls `visit(step)`. The
  // entries are probabilities for sums, and scores of the best labellings for maxima.
  template <class Semiring, class Visit>
  void backward(Visit visit) {
    constexpr bool sum = std::is_same_v<Semiring, LogSum>;
    for (size_t k = steps.size(); k-- > 0;) {
      Step& step = steps[k];
      fill(step);
      const int n = int(step.labels.size());
      for (int a = 0; a < n; a++) {
        double* out = table.data() + a * step.size;
        if (step.scope.empty()) out[0] += sum ? -step.message[0] : total - step.message[0];
        else
          for (int64_t j = 0; j < step.size; j++) out[j] += step.down[j];
      }
      if (sum) {
        const int64_t m = int64_t(n) * step.size;
        int64_t j = 0;
        for (; j + 4 <= m; j += 4) store(&table[j], exp_negative(load(&table[j])));
        for (; j < m; j++) table[j] = std::exp(table[j]);
      }
      visit(step);
      const std::vector<int> axes = sizes(step);
      for (const int c : step.children) {
        Step& child = steps[c];
        child.down.assign(child.size, Semiring::zero);
        gather<Semiring>(table.data(), axes, child.down.data(), child.strides);
        for (int64_t j = 0; j < child.size; j++)
          child.down[j] = (sum ? std::log(child.down[j]) : child.down[j]) - child.message[j];
      }
    }
  }

  void marginals(double* node, double* edge) {
    const int L = g.n_labels;
    backward<LogSum>([&](const Step& step) {
      for (size_t a = 0; a < step.labels.size(); a++) {
        folded.assign(table.begin() + a * step.size, table.begin() + (a + 1) * step.size);
        int64_t size = step.size;
        for (size_t k = step.scope.size(); k-- > 0;) {  // add the marginal of the last axis, then sum it out
          const Step& neighbour = steps[step.scope[k]];
          const int m = int(neighbour.labels.size());
          const Link* link = link_to(step, step.scope[k]);
          size /= m;
          double* out = edge && link ? edge + link->edge * L * L : nullptr;
          for (int64_t j = 0; j < size; j++) {
            double sum = 0;
            for (int b = 0; b < m; b++) {
              const double p = folded[j * m + b];
              if (out) {
                const int label = step.labels[a], other_label = neighbour.labels[b];
                out[link->first ? label * L + other_label : other_label * L + label] += p;
              }
              sum += p;
            }
            folded[j] = sum;
          }
        }
        node[(first_node + step.node) * L + step.labels[a]] = folded[0];
      }
    });
  }

  void max_marginals(double* out) {
    backward<Maximum>([&](const Step& step) {
      for (size_t a = 0; a < step.labels.size(); a++)
        out[(first_node + step.node) * g.n_labels + step.labels[a]] =
            *std::max_element(table.begin() + a * step.size, table.begin() + (a + 1) * step.size);
    });
  }
};

template <class F>
void each_exact(const GraphView& g, F f) {
  for (int64_t i = 0; i < g.n_examples; i++)
    if (g.exact[i]) {
      Elimination elimination(g, i);
      f(i, elimination);
    }
}

int place_of_best(const double* scores, int n) { return int(std::max_element(scores, scores + n) - scores); }

// ---- orders -------------------------------------------------------------------------------------------------------------

// Writes an elimination order by the min-fill heuristic. Returns the number of entries of its largest table, or
// infinity if the heuristic finds no order whose tables have at most `max_table` entries.
double least_fill(int n, std::vector<std::set<int>>& near, const int32_t* sizes, double max_table, int32_t* order) {
  std::vector<int64_t> fill(n, 0);
  std::vector<double> table(n, 0);
  std::vector<uint8_t> gone(n, 0);
  const auto update = [&](int v) {
    fill[v] = 0;
    table[v] = sizes[v];
    for (auto s = near[v].begin(); s != near[v].end(); s++) {
      table[v] *= sizes[*s];
      for (auto t = std::next(s); t != near[v].end(); t++) fill[v] += !near[*s].count(*t);
    }
  };
  for (int v = 0; v < n; v++) update(v);
  double largest = 0;
  for (int k = 0; k < n; k++) {
    int best = -1;
    for (int v = 0; v < n; v++)
      if (!gone[v] && table[v] <= max_table &&
          (best < 0 || fill[v] < fill[best] || (fill[v] == fill[best] && table[v] < table[best])))
        best = v;
    if (best < 0) return std::numeric_limits<double>::infinity();
    order[k] = best;
    largest = std::max(largest, table[best]);
    gone[best] = 1;
    std::set<int> changed(near[best]);
    for (const int s : near[best]) {
      near[s].erase(best);
      for (const int t : near[best])
        if (t != s) near[s].insert(t);
    }
    for (const int s : near[best]) changed.insert(near[s].begin(), near[s].end());
    near[best].clear();
    for (const int v : changed) update(v);
  }
  return largest;
}

}  // namespace

void graph_orders(const int64_t* offsets, const int64_t* edge_offsets, const int32_t* edges, const int32_t* sizes,
                  double max_table, int64_t n_examples, int32_t* order, double* largest) {
  for (int64_t i = 0; i < n_examples; i++) {
    const int64_t begin = offsets[i], n = offsets[i + 1] - begin, m = edge_offsets[i + 1] - edge_offsets[i];
    const int32_t* here = edges + 2 * edge_offsets[i];
    // often the previous example has the same graph
    if (i && n == begin - offsets[i - 1] && m == edge_offsets[i] - edge_offsets[i - 1] &&
        std::equal(here, here + 2 * m, here - 2 * m) &&
        std::equal(sizes + begin, sizes + begin + n, sizes + begin - n)) {
      std::copy(order + begin - n, order + begin, order + begin);
      largest[i] = largest[i - 1];
      continue;
    }
    std::vector<std::set<int>> near(n);
    for (int64_t e = 0; e < m; e++) {
      near[here[2 * e]].insert(here[2 * e + 1]);
      near[here[2 * e + 1]].insert(here[2 * e]);
    }
    for (int64_t t = 0; t < n; t++) order[begin + t] = int32_t(t);
    largest[i] = least_fill(int(n), near, sizes + begin, max_table, order + begin);
  }
}

void graph_maximum(const GraphView& g, double* values, int32_t* labels) {
  each_exact(g, [&](int64_t i, Elimination& e) {
    values[i] = e.forward<Maximum>();
    e.backtrack(labels, [](const double* scores, int n, int) { return place_of_best(scores, n); });
  });
}

void graph_logsum(const GraphView& g, double* values, double* node, double* edge) {
  each_exact(g, [&](int64_t i, Elimination& e) {
    values[i] = e.forward<LogSum>();
    if (node) e.marginals(node, edge);
  });
}

void graph_max_marginals(const GraphView& g, double* out) {
  each_exact(g, [&](int64_t, Elimination& e) {
    e.forward<Maximum>();
    e.max_marginals(out);
  });
}

void graph_sample(const GraphView& g, const double* uniforms, int64_t n_draws, int64_t n_nodes, int32_t* labels) {
  each_exact(g, [&](int64_t, Elimination& e) {
    e.forward<LogSum>();
    std::vector<double> shares;
    for (int64_t d = 0; d < n_draws; d++)
      e.backtrack(labels + d * n_nodes, [&](const double* scores, int n, int node) {
        const double top = scores[place_of_best(scores, n)];
        shares.resize(n);
        for (int a = 0; a < n; a++) shares[a] = std::exp(scores[a] - top);
        return draw_place(shares.data(), n, uniforms[d * n_nodes + e.first_node + node]);
      });
  });
}

}  // namespace maxendnet

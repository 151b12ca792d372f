// Dual variables by their clique marginals: what the dual needs to know of sum alpha, for any number of labellings.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace maxendnet {

struct CliqueMarginals {
  struct Cell {
    int32_t parent, child;  // labels
    double weight;
  };
  int n_labels;
  std::vector<double> node;              // (n_nodes, n_labels)
  std::vector<std::vector<Cell>> edges;  // of the edge from a node to its parent: the pairs of labels that have weight

  // all weight on the true labellings
  CliqueMarginals(int64_t n_examples, int n_labels, const int64_t* offsets, const int32_t* y, const int32_t* parent,
                  const double* sample_weight, double C)
      : n_labels(n_labels), node(size_t(offsets[n_examples]) * n_labels, 0.0), edges(offsets[n_examples]) {
    for (int64_t i = 0; i < n_examples; i++)
      for (int64_t t = offsets[i]; t < offsets[i + 1]; t++) {
        node[t * n_labels + y[t]] = C * sample_weight[i];
        if (parent[t] >= 0 && C * sample_weight[i] > 0) edges[t] = {{y[parent[t]], y[t], C * sample_weight[i]}};
      }
  }

  // from numbers that were kept: of all nodes, and of every pair of labels with weight, in the order of their nodes
  CliqueMarginals(int n_labels, const double* nodes, size_t n_numbers, const int64_t* at, const int32_t* parent,
                  const int32_t* child, const double* weight, size_t n_cells)
      : n_labels(n_labels), node(nodes, nodes + n_numbers), edges(n_labels > 0 ? n_numbers / size_t(n_labels) : 0) {
    for (size_t k = 0; k < n_cells; k++) {
      const bool fits = at[k] >= 0 && uint64_t(at[k]) < edges.size() && parent[k] >= 0 && parent[k] < n_labels &&
                        child[k] >= 0 && child[k] < n_labels;
      if (!fits) throw std::invalid_argument("these numbers are no marginals");
      edges[at[k]].push_back({parent[k], child[k], weight[k]});
    }
  }

  double& at(int64_t t, int32_t parent, int32_t child) {
    for (Cell& cell : edges[t])
      if (cell.parent == parent && cell.child == child) return cell.weight;
    edges[t].push_back({parent, child, 0.0});
    return edges[t].back().weight;
  }

  // Takes weight away; what only rounding leaves over, `least` or less, goes too.
  static double less(double weight, double taken, double least) { return weight - taken > least ? weight - taken : 0; }
  void take(int64_t t, int32_t parent, int32_t child, double taken, double least) {
    std::vector<Cell>& cells = edges[t];
    for (size_t k = 0; k < cells.size(); k++) {
      if (cells[k].parent != parent || cells[k].child != child) continue;
      cells[k].weight = less(cells[k].weight, taken, least);
      if (cells[k].weight == 0) {
        cells[k] = cells.back();
        cells.pop_back();
      }
      return;
    }
  }

  // a dual point for another C: everything times `factor`, of which the share 1 - `share` goes to the true labelling
  void scale(const int64_t n_examples, const int64_t* offsets, const int32_t* y, const int32_t* parent,
             const double* sample_weight, double C, double factor, double share) {
    for (int64_t i = 0; i < n_examples; i++)
      for (int64_t t = offsets[i]; t < offsets[i + 1]; t++) {
        const double back = (1 - share) * C * sample_weight[i];
        for (int a = 0; a < n_labels; a++) node[t * n_labels + a] *= factor * share;
        node[t * n_labels + y[t]] += back;
        for (Cell& cell : edges[t]) cell.weight *= factor * share;
        if (parent[t] >= 0 && back > 0) at(t, y[parent[t]], y[t]) += back;
      }
  }
};

}  // namespace maxendnet

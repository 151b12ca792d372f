// Dual variables of a hinge problem: for each example, the labellings with positive dual weight.
#pragma once
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace maxendnet {

struct Block {
  int64_t n = 0;                 // nodes
  std::vector<uint16_t> labels;  // (n_active, n)
  std::vector<double> alpha, cost;

  const uint16_t* labelling(size_t j) const { return labels.data() + j * n; }

  // Returns the index of a labelling. A new labelling is added with weight 0.
  size_t find_or_add(const uint16_t* candidate, double price) {
    for (size_t j = 0; j < alpha.size(); j++)
      if (std::equal(candidate, candidate + n, labelling(j))) return j;
    labels.insert(labels.end(), candidate, candidate + n);
    alpha.push_back(0);
    cost.push_back(price);
    return alpha.size() - 1;
  }
  // The true labelling, at index 0, is never dropped: all weight may return to it.
  void drop_if_empty(size_t j) {
    if (j == 0 || alpha[j] > 0) return;
    const size_t last = alpha.size() - 1;
    std::copy(labelling(last), labelling(last) + n, labels.begin() + j * n);
    alpha[j] = alpha[last];
    cost[j] = cost[last];
    labels.resize(last * n);
    alpha.pop_back();
    cost.pop_back();
  }
};

struct ActiveSets {
  std::vector<Block> blocks;

  // Puts all dual weight on the true labellings.
  ActiveSets(int64_t n_examples, const int64_t* offsets, const int32_t* y, const double* sample_weight, double C)
      : blocks(n_examples) {
    for (int64_t i = 0; i < n_examples; i++) {
      blocks[i].n = offsets[i + 1] - offsets[i];
      blocks[i].labels.assign(y + offsets[i], y + offsets[i + 1]);
      blocks[i].alpha = {C * sample_weight[i]};
      blocks[i].cost = {0};
    }
  }

  // from saved arrays: numbers of nodes and of active labellings of every example; then labels, weights and costs, concatenated
  ActiveSets(int64_t n_examples, const int64_t* nodes, const int64_t* active, const uint16_t* labels, size_t n_labels,
             const double* alpha, const double* cost, size_t n_alpha)
      : blocks(n_examples) {
    size_t label = 0, k = 0;
    for (int64_t i = 0; i < n_examples; i++) {
      // the true labelling is always there
      const bool fits = nodes[i] >= 0 && active[i] >= 1 && uint64_t(active[i]) <= n_alpha - k &&
                        (nodes[i] == 0 || uint64_t(active[i]) <= (n_labels - label) / uint64_t(nodes[i]));
      if (!fits) throw std::invalid_argument("the arrays of the active sets are inconsistent");
      const size_t n = size_t(active[i]), all = n * size_t(nodes[i]);
      blocks[i].n = nodes[i];
      blocks[i].labels.assign(labels + label, labels + label + all);
      blocks[i].alpha.assign(alpha + k, alpha + k + n);
      blocks[i].cost.assign(cost + k, cost + k + n);
      label += all;
      k += n;
    }
    if (label != n_labels || k != n_alpha)
      throw std::invalid_argument("the arrays of the active sets are inconsistent");
  }

  double total_cost() const {
    double total = 0;
    for (const Block& block : blocks)
      for (size_t j = 0; j < block.alpha.size(); j++) total += block.alpha[j] * block.cost[j];
    return total;
  }

  // dual point for another C: all weights times `factor`; labellings other than the truth keep a share of them
  void scale(double factor, double share) {
    for (Block& block : blocks) {
      double moved = 0;
      for (size_t j = 0; j < block.alpha.size(); j++) {
        block.alpha[j] *= factor;
        if (j == 0) continue;
        moved += (1 - share) * block.alpha[j];
        block.alpha[j] *= share;
      }
      block.alpha[0] += moved;
      for (size_t j = block.alpha.size(); j-- > 1;) block.drop_if_empty(j);
    }
  }
};

}  // namespace maxendnet

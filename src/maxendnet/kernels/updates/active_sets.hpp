// The dual variables of a hinge problem: per example, the labellings that have dual weight.
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

  // the place of a labelling, which is added without weight if it is not there yet
  size_t find_or_add(const uint16_t* wanted, double price) {
    for (size_t j = 0; j < alpha.size(); j++)
      if (std::equal(wanted, wanted + n, labelling(j))) return j;
    labels.insert(labels.end(), wanted, wanted + n);
    alpha.push_back(0);
    cost.push_back(price);
    return alpha.size() - 1;
  }
  // The true labelling, at place 0, stays: all weight may have to return to it.
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

  // all weight on the true labellings
  ActiveSets(int64_t n_examples, const int64_t* offsets, const int32_t* y, const double* sample_weight, double C)
      : blocks(n_examples) {
    for (int64_t i = 0; i < n_examples; i++) {
      blocks[i].n = offsets[i + 1] - offsets[i];
      blocks[i].labels.assign(y + offsets[i], y + offsets[i + 1]);
      blocks[i].alpha = {C * sample_weight[i]};
      blocks[i].cost = {0};
    }
  }

  // from numbers that were kept: nodes and active labellings of every example, and what belongs to these in a row
  ActiveSets(int64_t n_examples, const int64_t* nodes, const int64_t* active, const uint16_t* labels, size_t n_labels,
             const double* alpha, const double* cost, size_t n_alpha)
      : blocks(n_examples) {
    size_t label = 0, k = 0;
    for (int64_t i = 0; i < n_examples; i++) {
      // the true labelling is always there
      const bool fits = nodes[i] >= 0 && active[i] >= 1 && uint64_t(active[i]) <= n_alpha - k &&
                        (nodes[i] == 0 || uint64_t(active[i]) <= (n_labels - label) / uint64_t(nodes[i]));
      if (!fits) throw std::invalid_argument("these numbers are no active sets");
      const size_t n = size_t(active[i]), all = n * size_t(nodes[i]);
      blocks[i].n = nodes[i];
      blocks[i].labels.assign(labels + label, labels + label + all);
      blocks[i].alpha.assign(alpha + k, alpha + k + n);
      blocks[i].cost.assign(cost + k, cost + k + n);
      label += all;
      k += n;
    }
    if (label != n_labels || k != n_alpha) throw std::invalid_argument("these numbers are no active sets");
  }

  double total_cost() const {
    double total = 0;
    for (const Block& block : blocks)
      for (size_t j = 0; j < block.alpha.size(); j++) total += block.alpha[j] * block.cost[j];
    return total;
  }

  // a dual point for another C: everything times `factor`, of which labellings other than the truth keep `share`
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

// Labellings of hierarchies: scores, and differences of features.
#pragma once
#include "recursions/hierarchy_recursions.hpp"

namespace maxendnet {

// Calls `node(t, label of the parent or -1, label)` for every node, and
// `siblings(right node, label of the parent, label of the left node, label)` for every pair of neighbours.
template <class Label, class Node, class Siblings>
INLINE void for_cliques(const BatchView& b, const Example& e, const Label* labels, Node node, Siblings siblings) {
  for (int64_t k = 0; k < e.size; k++) {
    const int64_t p = b.parent[e.begin + k] - e.begin;
    node(e.begin + k, b.parent[e.begin + k] < 0 ? -1 : int(labels[p]), int(labels[k]));
    for (int64_t s = e.child_offsets[k] + 1; s < e.child_offsets[k + 1]; s++)
      siblings(e.begin + e.children[s], int(labels[k]), int(labels[e.children[s - 1]]), int(labels[e.children[s]]));
  }
}

template <class Label>
INLINE double score_of(const BatchView& b, const HierarchyView& m, Example& e, const Label* labels) {
  double total = 0;
  for_cliques(
      b, e, labels,
      [&](int64_t t, int parent, int label) INLINED {
        const int32_t* allowed = labels_of(e, t - e.begin);
        const int n = e.n_labels[t - e.begin];
        const int64_t j = std::lower_bound(allowed, allowed + n, label) - allowed;
        total += j < n && allowed[j] == label ? row_of(e.scores, e, t - e.begin)[j] : impossible;
        if (parent >= 0) total += edge_score(b, m, t, parent, label);
      },
      [&](int64_t right, int parent, int left_label, int label) INLINED {
        if (m.siblings) total += m.siblings[sibling_cell(b, right, parent, left_label, label)];
      });
  return total;
}

// add(coordinate, value) for f(x, from) - f(x, to): of neighbours; of all. A coordinate may be added several times.
template <class Label, class Other, class Add>
INLINE void sibling_differences(const BatchView& b, const HierarchyView& m, const Example& e, const Label* from,
                                const Other* to, Add add) {
  for (int64_t k = 0; k < e.size; k++)
    for (int64_t s = e.child_offsets[k] + 1; m.has_siblings() && s < e.child_offsets[k + 1]; s++) {
      const int64_t left = e.children[s - 1], right = e.children[s];
      if (from[k] == to[k] && from[left] == to[left] && from[right] == to[right]) continue;
      add(m.layout.siblings + sibling_cell(b, e.begin + right, from[k], from[left], from[right]), 1);
      add(m.layout.siblings + sibling_cell(b, e.begin + right, to[k], to[left], to[right]), -1);
    }
}
template <class Label, class Other, class Add>
INLINE void differences(const BatchView& b, const HierarchyView& m, const Example& e, const Label* from,
                        const Other* to, Add add) {
  differences(b, m.layout, e.begin, e.begin + e.size, from, to, add);
  sibling_differences(b, m, e, from, to, add);
}

}  // namespace maxendnet

// Prediction on forests: max-marginals, marginals, samples, k best.
#include "recursions/sum_product.hpp"

namespace maxendnet {

// Best score of a labelling with label a at node t: the belief of the node plus the best score outside its subtree.
void max_marginals(const BatchView& b, const ForestView<double>& forest, int64_t first, int64_t last, double* out) {
  using R = double;
  Workspace<R> work;
  const Weights<R> w(forest.weights, b);
  std::vector<R> beyond(b.lanes), outside(b.lanes);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    prepare<R>(b, w, nullptr, begin, end, work);
    R *beliefs = work.scores.data(), *results = work.results.data();
    MaxPlus<R, true> semiring{b, w.matrix, work.matrices.data(), work.messages.data()};
    up(b, begin, end, beliefs, semiring);
    double total = 0;  // best score of the forest
    for (int64_t k = begin; k < end; k++) {
      const int64_t t = b.order[k], p = b.parent[t], local = t - begin;
      const R* belief = beliefs + local * b.lanes;
      R* result = results + local * b.lanes;
      if (p < 0) {
        total += lane_max(belief, b.lanes);
        for (int a = 0; a < b.lanes; a++) result[a] = belief[a];
        continue;
      }
      const R *above = results + (p - begin) * b.lanes, *message = work.messages.data() + local * b.lanes;
      for (int a = 0; a < b.lanes; a++)
        beyond[a] = above[a] > minus_infinity<R> ? above[a] - message[a] : minus_infinity<R>;
      const R* matrix = edge_matrix(b, w.matrix, work.matrices.data(), t, local).by_parent;
      FOR_LANES(max_lanes, R, b.lanes, matrix, beyond.data(), b.n_labels, b.lanes, outside.data());
      for (int a = 0; a < b.lanes; a++) result[a] = belief[a] + outside[a];
    }
    for (int64_t t = begin; t < end; t++) {
      const R* result = results + (t - begin) * b.lanes;
      const double tree = lane_max(result, b.lanes);  // best score of the tree, the same for all of its nodes
      for (int a = 0; a < b.n_labels; a++) out[t * b.n_labels + a] = result[a] + (total - tree);
    }
  }
}

namespace {

double sum_in_mode(const BatchView& b, Mode mode, int64_t begin, int64_t end, SumProduct<double>& s,
                   std::vector<double>& before) {
  if (mode != careful) return sum_up(b, begin, end, s);
  before.assign(s.work.scores.data(), s.work.scores.data() + (end - begin) * b.lanes);
  return sum_up_carefully(b, begin, end, s, [&](double* scores) { std::copy(before.begin(), before.end(), scores); });
}

}  // namespace

void marginals(const BatchView& b, const ForestView<double>& forest, const double* cost, int64_t first, int64_t last,
               double* values, double* node_marginals, const Cliques<ForestView<double>>& cliques) {
  double* edge_marginals = cliques[0];
  const Weights<double> w(forest.weights, b);
  const int64_t n = b.n_labels;
  SumProduct<double> s;
  std::vector<double> before;
  set_shared(b, forest.mode, w.matrix, s);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    prepare<double>(b, w, cost, begin, end, s.work);
    values[i] = sum_in_mode(b, forest.mode, begin, end, s, before);
    if (!node_marginals) continue;
    if (edge_marginals)
      sum_down(b, begin, end, 0, s, [&](int64_t t, int a, const double* joint) INLINED {
        for (int c = 0; c < n; c++) edge_marginals[t * n * n + edge_cell(b, n, t, a, c)] = joint[c];
      });
    else sum_down(b, begin, end, 0, s, NoRows());
    for (int64_t t = begin; t < end; t++)
      std::copy_n(s.work.results.data() + (t - begin) * b.lanes, n, node_marginals + t * n);
  }
}

// Labels are drawn from the roots down.
void sample(const BatchView& b, const ForestView<double>& forest, const double* cost, const double* uniforms,
            int64_t n_draws, int64_t first, int64_t last, int32_t* labels) {
  const Weights<double> w(forest.weights, b);
  const std::vector<double> ones(b.lanes, 1), zeros(b.lanes, 0);
  const int n = b.n_labels;
  std::vector<double> chance(n);
  SumProduct<double> s;
  std::vector<double> before;
  set_shared(b, forest.mode, w.matrix, s);
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1];
    prepare<double>(b, w, cost, begin, end, s.work);
    sum_in_mode(b, forest.mode, begin, end, s, before);
    for (int64_t draw = 0; draw < n_draws; draw++)
      label_down(b, s.shared(), s.per_edge(), (s.mode == scaled ? ones : zeros).data(), begin, end,
                 labels + draw * b.n_nodes + begin, [&](int64_t t, const double* row) INLINED {
                   const double* belief = s.work.scores.data() + (t - begin) * b.lanes;
                   if (s.mode == logarithmic) conditional(row, belief, n, chance.data());
                   else
                     for (int a = 0; a < n; a++) chance[a] = row[a] * belief[a];
                   return draw_place(chance.data(), n, uniforms[draw * b.n_nodes + t]);
                 });
  }
}

namespace {

// A "way": one of the k best labellings of a subtree, given the label of its root. It refers to the way of the previously
// joined children that it extends, and to the label and the way of the child that was joined last.
struct Way {
  double score;
  int32_t earlier, child_label, child_way;
};

}  // namespace

// Computes the k best labellings. Every node stores the k best ways for each label; a child is joined to its parent by
// the k best sums of two sorted lists. The time is O(n_nodes * n_labels^2 * k log k).
void top(const BatchView& b, const ForestView<double>& forest, int k, int64_t first, int64_t last, double* values,
         int32_t* labels, const Pause& pause) {
  Workspace<double> work;
  const Weights<double> w(forest.weights, b);
  const int n = b.n_labels;
  // by node and label: ways of the node so far; and, except for roots, ways of its parent after the node was joined
  std::vector<std::vector<std::vector<Way>>> current, joined;
  std::vector<int64_t> roots;
  // pause about every ten milliseconds; the constant includes the logarithm for sorting
  const int64_t nodes_between_pauses = std::max<int64_t>(1, int64_t(2e5 / (double(n) * n * k)));
  auto better = [](const Way& u, const Way& v) { return u.score > v.score; };
  // the k best sums of elements of two sorted lists; only pairs with (i + 1)(j + 1) <= k can be among them
  auto join = [&](const std::vector<Way>& left, const std::vector<Way>& right, auto make) {
    std::vector<Way> sums;
    for (size_t i = 0; i < left.size(); i++)
      for (size_t j = 0; j < right.size() && (i + 1) * (j + 1) <= size_t(k); j++) sums.push_back(make(i, j));
    std::stable_sort(sums.begin(), sums.end(), better);
    if (sums.size() > size_t(k)) sums.resize(k);
    return sums;
  };
  for (int64_t i = first; i < last; i++) {
    const int64_t begin = b.offsets[i], end = b.offsets[i + 1], size = end - begin;
    prepare<double>(b, w, nullptr, begin, end, work);
    joined.assign(size, {});
    current.assign(size, {});
    roots.clear();
    for (int64_t local = 0; local < size; local++) {
      current[local].resize(n);
      for (int a = 0; a < n; a++) {
        const double s = work.scores[local * b.lanes + a];
        if (s > minus_infinity<double>) current[local][a].push_back({s, -1, -1, -1});
      }
    }
    for (int64_t slot = end - 1; slot >= begin; slot--) {
      if ((end - slot) % nodes_between_pauses == 0) pause();
      const int64_t t = b.order[slot], p = b.parent[t], local = t - begin;
      if (p < 0) {
        roots.push_back(local);
        continue;
      }
      const double* matrix = edge_matrix<double>(b, w.matrix, work.matrices.data(), t, local).by_parent;
      auto& above = current[p - begin];
      for (int a = 0; a < n; a++) {
        std::vector<Way> message;
        for (int c = 0; c < n; c++) {
          const double s = matrix[int64_t(a) * b.lanes + c];
          if (!(s > minus_infinity<double>)) continue;
          for (size_t j = 0; j < current[local][c].size(); j++)
            message.push_back({s + current[local][c][j].score, -1, c, int32_t(j)});
        }
        std::stable_sort(message.begin(), message.end(), better);
        if (message.size() > size_t(k)) message.resize(k);
        above[a] = join(above[a], message, [&](size_t u, size_t v) {
          return Way{above[a][u].score + message[v].score, int32_t(u), message[v].child_label, message[v].child_way};
        });
      }
      joined[local] = above;
    }
    // join the trees of the forest in the same way; `combined[r]` contains the k best labellings of trees 0 to r
    std::vector<std::vector<Way>> combined;
    for (size_t r = 0; r < roots.size(); r++) {
      std::vector<Way> tree;
      for (int a = 0; a < n; a++)
        for (size_t j = 0; j < current[roots[r]][a].size(); j++)
          tree.push_back({current[roots[r]][a][j].score, -1, a, int32_t(j)});
      std::stable_sort(tree.begin(), tree.end(), better);
      if (tree.size() > size_t(k)) tree.resize(k);
      if (r > 0)
        tree = join(combined.back(), tree, [&](size_t u, size_t v) {
          return Way{combined.back()[u].score + tree[v].score, int32_t(u), tree[v].child_label, tree[v].child_way};
        });
      combined.push_back(std::move(tree));
    }
    std::vector<int32_t> way(size);
    for (int rank = 0; rank < k; rank++) {
      if (size > 10000) pause();
      int32_t* out = labels + rank * b.n_nodes + begin;
      const bool exists = size > 0 && size_t(rank) < combined.back().size();
      values[i * k + rank] =
          exists ? combined.back()[rank].score : (size == 0 && rank == 0 ? 0 : minus_infinity<double>);
      if (!exists) {
        std::fill(out, out + size, -1);
        continue;
      }
      int32_t entry = rank;
      for (size_t r = roots.size(); r-- > 0;) {
        const Way& chosen = combined[r][entry];
        out[roots[r]] = chosen.child_label;
        way[roots[r]] = chosen.child_way;
        entry = chosen.earlier;
      }
      // children were joined in descending order of slots; follow the way of the parent back from the child joined last
      for (int64_t slot = begin; slot < end; slot++) {
        const int64_t t = b.order[slot], p = b.parent[t], local = t - begin;
        if (p < 0) continue;
        const Way& chosen = joined[local][out[p - begin]][way[p - begin]];
        out[local] = chosen.child_label;
        way[local] = chosen.child_way;
        way[p - begin] = chosen.earlier;
      }
    }
  }
}

}  // namespace maxendnet

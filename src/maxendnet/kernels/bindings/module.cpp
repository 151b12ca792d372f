// Bindings: they check dtype and contiguity, release the GIL and call the kernel. Kernels use no Python objects.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings/binding.hpp"
#include "common/processor.hpp"

namespace maxendnet {
namespace {

struct Groups {
  In<int64_t> examples, node_offsets, feature_offsets;
  In<int32_t> features;
  In<int64_t> entry_offsets;
  In<int32_t> entry_nodes;
  In<double> entry_values;
  GroupsView view() const {
    return {int64_t(examples.size()) - 1, examples.data(),    node_offsets.data(),
            feature_offsets.data(),       features.data(),    entry_offsets.data(),
            entry_nodes.data(),           entry_values.data()};
  }
};

// Transposes X within every group of nodes, by counting sort in linear time.
nb::tuple group_features(In<int64_t> indptr, In<int32_t> indices, In<double> data, In<int64_t> node_offsets,
                         int64_t n_features) {
  const int64_t n_groups = int64_t(node_offsets.size()) - 1;
  const int64_t nnz = int64_t(indices.size());
  std::vector<int64_t> feature_offsets(n_groups + 1, 0), entry_offsets;
  std::vector<int32_t> features, entry_nodes(nnz);
  std::vector<double> entry_values(nnz);
  {
    nb::gil_scoped_release release;
    std::vector<int64_t> last_seen(n_features, -1), slot(n_features), cursor;
    const int64_t *ptr = indptr.data(), *groups = node_offsets.data();
    const int32_t* index = indices.data();
    for (int64_t g = 0; g < n_groups; g++) {
      const int64_t first = int64_t(features.size());
      cursor.clear();
      for (int64_t k = ptr[groups[g]]; k < ptr[groups[g + 1]]; k++) {
        const int32_t f = index[k];
        if (last_seen[f] != g) {
          last_seen[f] = g;
          slot[f] = int64_t(cursor.size());
          features.push_back(f);
          cursor.push_back(0);
        }
        cursor[slot[f]]++;
      }
      int64_t position = ptr[groups[g]];
      for (int64_t& count : cursor) {
        const int64_t size = count;
        entry_offsets.push_back(position);
        count = position;
        position += size;
      }
      for (int64_t t = groups[g]; t < groups[g + 1]; t++)
        for (int64_t k = ptr[t]; k < ptr[t + 1]; k++) {
          const int64_t place = cursor[slot[index[k]]]++;
          entry_nodes[place] = int32_t(t - groups[g]);
          entry_values[place] = data.data()[k];
        }
      feature_offsets[g + 1] = first + int64_t(cursor.size());
    }
    entry_offsets.push_back(nnz);
  }
  return nb::make_tuple(to_numpy(std::move(feature_offsets)), to_numpy(std::move(features)),
                        to_numpy(std::move(entry_offsets)), to_numpy(std::move(entry_nodes)),
                        to_numpy(std::move(entry_values)));
}

template <class R>
void bind_precision(nb::module_& m) {
  m.def(
      "potential_ascent",
      [](nb::handle batch, const Shape& shape, const std::string& kind, double a, double b2, nb::handle variance,
         nb::handle mean, nb::handle row_variance, double C, Out<R> weights, Out<R> eta, In<R> cost, In<int64_t> picks,
         double most_spread, double least_change, double bonus, Out<double> steps, Out<R> node_potentials,
         Out<R> matrix_potentials, Out<R> node_marginals, Out<R> matrix_marginals, Out<double> gaps) {
        const BatchView b = view(batch, shape);
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        const double* rows =
            row_variance.is_none() ? nullptr : sized<double>(row_variance, shape.n_features + 1, "row_variance");
        nb::gil_scoped_release release;
        real_kernels<R>().potential_ascent(b, prior, rows, C, weights.data(), eta.data(), cost.data(), picks.data(),
                                           int64_t(picks.size()), most_spread, least_change, bonus, steps.data(),
                                           node_potentials.data(), matrix_potentials.data(), node_marginals.data(),
                                           matrix_marginals.data(), gaps.data());
      },
      "batch"_a, "shape"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "row_variance"_a.none(),
      "C"_a, "weights"_a.noconvert(), "eta"_a.noconvert(), "cost"_a.noconvert(), "picks"_a, "most_spread"_a,
      "least_change"_a, "bonus"_a, "steps"_a.noconvert(), "node_potentials"_a.noconvert(),
      "matrix_potentials"_a.noconvert(), "node_marginals"_a.noconvert(), "matrix_marginals"_a.noconvert(),
      "gaps"_a.noconvert(),
      "Block ascent on potentials for the log loss: one step per pick; updates all arrays except `picks` and `cost`, "
      "and `eta` only if prior variances differ.");
  m.def(
      "potential_look",
      [](nb::handle batch, const Shape& shape, In<double> cost, int64_t first, int64_t last, double most_spread,
         In<R> node_potentials, In<R> matrix_potentials, Out<R> node_marginals, Out<R> matrix_marginals,
         Out<double> entropies, Out<double> truths, Out<double> features) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        real_kernels<R>().potential_look(b, cost.data(), first, last, most_spread, node_potentials.data(),
                                         matrix_potentials.data(), node_marginals.data(), matrix_marginals.data(),
                                         entropies.data(), truths.data(), features.data());
      },
      "batch"_a, "shape"_a, "cost"_a.noconvert(), "first"_a, "last"_a, "most_spread"_a, "node_potentials"_a.noconvert(),
      "matrix_potentials"_a.noconvert(), "node_marginals"_a.noconvert(), "matrix_marginals"_a.noconvert(),
      "entropies"_a.noconvert(), "truths"_a.noconvert(), "features"_a.noconvert(),
      "Marginals, entropies plus expected costs, and log-probabilities of the truth for potentials; `features` += "
      "expected features minus those of the truth.");
}

// Instruction levels that the processor supports, in ascending order.
nb::list processor_levels() {
  nb::list levels;
  levels.append("baseline");
  if (has_avx2()) levels.append("avx2");
  return levels;
}

}  // namespace

NB_MODULE(_bindings, m) {
  // objects that are still referenced at exit, for instance by a traceback, are not leaks that users can fix
  nb::set_leak_warnings(false);
  m.doc() = "Bindings of the kernels of maxendnet, on flat arrays.";
  m.def("_processor_levels", &processor_levels);
  m.def("_use", &use_library, "path"_a);
  nb::class_<Shape>(m, "Shape")
      .def(nb::init<int64_t, int, int, int, int, int, nb::object, nb::object>(), "n_features"_a, "n_labels"_a,
           "n_edge_types"_a, "n_edge_features"_a, "n_label_features"_a, "rest"_a = -1, "row_offsets"_a = nb::none(),
           "row_labels"_a = nb::none());
  nb::class_<Groups>(m, "Groups")
      .def(nb::init<In<int64_t>, In<int64_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, In<double>>());
  nb::class_<Recursion<ForestView<float>>>(m, "Forest32", "Recursion of a forest, in float32.");
  nb::class_<Recursion<ForestView<double>>>(m, "Forest64", "Recursion of a forest, in float64.");
  m.def(
      "forest",
      [](const Shape& shape, nb::object weights, int mode, int steps, const Groups* groups) {
        const int64_t matrices = 2 * shape.n_matrices() * shape.matrix_size();
        const int64_t size = shape.node_size() + matrices + shape.n_label_features;
        return in_precision(weights, [&](auto zero) {
          using R = decltype(zero);
          const ForestView<R> view{weights_of<R>(weights, size), Mode(mode), steps,
                                   groups ? groups->view() : GroupsView{}};
          return Recursion<ForestView<R>>{shape, weights, groups ? nb::find(groups) : nb::none(), view};
        });
      },
      "shape"_a, "weights"_a.none(), "mode"_a = 0, "steps"_a = 0, "groups"_a.none() = nb::none(),
      "Create the recursion of a forest or a choice, in the precision of the weights. `mode` is how sums avoid "
      "underflow; "
      "log_oracle needs groups.");
  m.def("padded", &padded, "n_labels"_a, "Number of lanes of a padded row of labels.");
  m.def("group_features", &group_features, "indptr"_a, "indices"_a, "data"_a, "node_offsets"_a, "n_features"_a,
        "Transpose the features of groups of nodes.");
  bind_precision<float>(m);
  bind_precision<double>(m);
  m.def(
      "add_gram",
      [](In<int64_t> indptr, In<int32_t> indices, In<float> data, int64_t low, int64_t high, Out<float> out) {
        nb::gil_scoped_release release;
        kernels().add_gram({int64_t(indptr.size()) - 1, indptr.data(), indices.data(), data.data()},
                           int64_t(out.shape(1)), low, high, out.data());
      },
      "indptr"_a, "indices"_a, "data"_a, "low"_a, "high"_a, "out"_a.noconvert(),
      "Add the outer products of sparse rows with themselves to rows [low, high) of a lower triangle.");
  m.def(
      "top",
      [](nb::handle batch, const Recursion<ForestView<double>>& forest, int k, int64_t first, int64_t last,
         Out<double> values, Out<int32_t> labels, nb::callable pause) {
        const BatchView b = view(batch, forest.shape);
        const ForestView<double>& weighted = forest.with_weights();
        nb::gil_scoped_release release;
        kernels().top(b, weighted, k, first, last, values.data(), labels.data(), [&] {
          nb::gil_scoped_acquire acquire;
          pause();
        });
      },
      "batch"_a, "forest"_a, "k"_a, "first"_a, "last"_a, "values"_a.noconvert(), "labels"_a.noconvert(), "pause"_a,
      "Find the k best labellings. `pause` is called regularly; an exception in it stops the search.");
  nb::class_<ActiveSets>(m, "ActiveSets", "Dual variables: for each example, the labellings with dual weight.")
      .def("__init__",
           [](ActiveSets* self, In<int64_t> offsets, In<int32_t> y, In<double> sample_weight, double C) {
             new (self) ActiveSets(int64_t(offsets.size()) - 1, offsets.data(), y.data(), sample_weight.data(), C);
           })
      .def("copy", [](const ActiveSets& self) { return ActiveSets(self); })
      .def("__getstate__",
           [](const ActiveSets& self) {
             // numbers of nodes and active labellings of every example; then labels, weights and costs, concatenated
             std::vector<int64_t> nodes, active;
             std::vector<uint16_t> labels;
             std::vector<double> alpha, cost;
             for (const Block& block : self.blocks) {
               nodes.push_back(block.n);
               active.push_back(int64_t(block.alpha.size()));
               labels.insert(labels.end(), block.labels.begin(), block.labels.end());
               alpha.insert(alpha.end(), block.alpha.begin(), block.alpha.end());
               cost.insert(cost.end(), block.cost.begin(), block.cost.end());
             }
             return nb::make_tuple(to_numpy(std::move(nodes)), to_numpy(std::move(active)), to_numpy(std::move(labels)),
                                   to_numpy(std::move(alpha)), to_numpy(std::move(cost)));
           })
      .def("__setstate__",
           [](ActiveSets& self, std::tuple<In<int64_t>, In<int64_t>, In<uint16_t>, In<double>, In<double>> state) {
             const auto& [nodes, active, labels, alpha, cost] = state;
             new (&self) ActiveSets(int64_t(nodes.size()), nodes.data(), active.data(), labels.data(), labels.size(),
                                    alpha.data(), cost.data(), std::min(alpha.size(), cost.size()));
           })
      .def("labellings",
           [](const ActiveSets& self) {
             // active labellings except the true ones: example, dual weight and cost, and concatenated labels
             std::vector<int64_t> examples;
             std::vector<double> alpha, cost;
             std::vector<int32_t> labels;
             for (size_t i = 0; i < self.blocks.size(); i++)
               for (size_t j = 1; j < self.blocks[i].alpha.size(); j++) {
                 const Block& block = self.blocks[i];
                 examples.push_back(int64_t(i));
                 alpha.push_back(block.alpha[j]);
                 cost.push_back(block.cost[j]);
                 labels.insert(labels.end(), block.labelling(j), block.labelling(j) + block.n);
               }
             return nb::make_tuple(to_numpy(std::move(examples)), to_numpy(std::move(alpha)), to_numpy(std::move(cost)),
                                   to_numpy(std::move(labels)));
           })
      .def("set_truth",
           [](ActiveSets& self, In<int64_t> offsets, In<int32_t> y) {
             // keep the dual weights, but move the new targets to index 0
             for (size_t i = 0; i < self.blocks.size(); i++) {
               Block& block = self.blocks[i];
               const std::vector<uint16_t> truth(y.data() + offsets.data()[i], y.data() + offsets.data()[i + 1]);
               const size_t j = block.find_or_add(truth.data(), 0);
               if (j == 0) continue;
               std::swap_ranges(block.labels.begin(), block.labels.begin() + block.n,
                                block.labels.begin() + j * block.n);
               std::swap(block.alpha[0], block.alpha[j]);
               std::swap(block.cost[0], block.cost[j]);
               block.drop_if_empty(j);
             }
           })
      .def("total_cost", &ActiveSets::total_cost)
      .def("scale", &ActiveSets::scale, "factor"_a, "share"_a)
      .def("__len__", [](const ActiveSets& self) { return self.blocks.size(); })
      .def("fits", [](const ActiveSets& self, In<int64_t> offsets, In<int32_t> y) {
        // whether the examples have these true labellings
        if (self.blocks.size() + 1 != offsets.size()) return false;
        for (size_t i = 0; i < self.blocks.size(); i++) {
          const int64_t begin = offsets.data()[i], n = offsets.data()[i + 1] - begin;
          if (self.blocks[i].n != n ||
              !std::equal(y.data() + begin, y.data() + begin + n, self.blocks[i].labels.begin()))
            return false;
        }
        return true;
      });
  m.def(
      "prior_mean",
      [](const std::string& kind, double a, double b, nb::handle variance, nb::handle mean, In<double> eta,
         Out<double> out) {
        kernels().prior_mean(prior_of(kind, a, b, variance, mean), eta.data(), int64_t(eta.size()), out.data());
      },
      "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "eta"_a, "out"_a,
      "Posterior mean of a kernel prior, to compare with the Python class.");
  bind_hierarchy(m);
  bind_choice(m);
  bind_automaton(m);
  bind_operations(m);
  bind_graph(m);
  bind_text(m);
}

}  // namespace maxendnet

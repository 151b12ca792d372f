// The binding of the solvers on clique marginals.
#include "binding.hpp"

namespace maxendnet {

// every pair of labels with weight: the child's node, the labels of parent and child, the weight
nb::tuple edges_of(const CliqueMarginals& self) {
  std::vector<int64_t> node;
  std::vector<int32_t> parent, child;
  std::vector<double> weight;
  for (size_t t = 0; t < self.edges.size(); t++)
    for (const auto& cell : self.edges[t]) {
      node.push_back(int64_t(t));
      parent.push_back(cell.parent);
      child.push_back(cell.child);
      weight.push_back(cell.weight);
    }
  return nb::make_tuple(to_numpy(std::move(node)), to_numpy(std::move(parent)), to_numpy(std::move(child)),
                        to_numpy(std::move(weight)));
}

void bind_clique_marginals(nb::module_& m) {
  m.def(
      "exponentiated_gradient",
      [](nb::handle batch, const Shape& shape, const std::string& kind, double a, double b2, nb::handle variance,
         nb::handle mean, double C, Out<double> weights, Out<double> eta, In<double> cost, In<int64_t> picks,
         double most_spread, double grow, Out<double> steps, Out<double> node_potentials, Out<double> matrix_potentials,
         Out<double> node_marginals, Out<double> matrix_marginals) {
        const BatchView b = view(batch, shape);
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        nb::gil_scoped_release release;
        exponentiated_gradient(b, prior, C, weights.data(), eta.data(), cost.data(), picks.data(),
                               int64_t(picks.size()), most_spread, grow, steps.data(), node_potentials.data(),
                               matrix_potentials.data(), node_marginals.data(), matrix_marginals.data());
      },
      "batch"_a, "shape"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "C"_a,
      "weights"_a.noconvert(), "eta"_a.noconvert(), "cost"_a.noconvert(), "picks"_a, "most_spread"_a, "grow"_a,
      "steps"_a.noconvert(), "node_potentials"_a.noconvert(), "matrix_potentials"_a.noconvert(),
      "node_marginals"_a.noconvert(), "matrix_marginals"_a.noconvert(),
      "An exponentiated gradient step for every picked example; all but the data changes.");
  m.def(
      "potential_marginals",
      [](nb::handle batch, const Shape& shape, int64_t first, int64_t last, double most_spread,
         In<double> node_potentials, In<double> matrix_potentials, Out<double> node_marginals,
         Out<double> matrix_marginals) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        potential_marginals(b, first, last, most_spread, node_potentials.data(), matrix_potentials.data(),
                            node_marginals.data(), matrix_marginals.data());
      },
      "batch"_a, "shape"_a, "first"_a, "last"_a, "most_spread"_a, "node_potentials"_a.noconvert(),
      "matrix_potentials"_a.noconvert(), "node_marginals"_a.noconvert(), "matrix_marginals"_a.noconvert(),
      "Marginals of potentials that every example has of its own.");
  nb::class_<CliqueMarginals>(m, "CliqueMarginals", "Dual variables by their marginals on nodes and edges.")
      .def("__init__",
           [](CliqueMarginals* self, nb::handle batch, const Shape& shape, double C) {
             const BatchView b = view(batch, shape);
             new (self) CliqueMarginals(b.n_examples, b.n_labels, b.offsets, b.y, b.parent, b.sample_weight, C);
           })
      .def("copy", [](const CliqueMarginals& self) { return CliqueMarginals(self); })
      .def(
          "scale",
          [](CliqueMarginals& self, nb::handle batch, const Shape& shape, double C, double factor, double share) {
            const BatchView b = view(batch, shape);
            self.scale(b.n_examples, b.offsets, b.y, b.parent, b.sample_weight, C, factor, share);
          },
          "batch"_a, "shape"_a, "C"_a, "factor"_a, "share"_a)
      .def("nodes", [](const CliqueMarginals& self) { return to_numpy(std::vector<double>(self.node)); })
      .def("edges", edges_of)
      .def("__getstate__",
           [](const CliqueMarginals& self) {
             return nb::make_tuple(self.n_labels, to_numpy(std::vector<double>(self.node)), edges_of(self));
           })
      .def("__setstate__",
           [](CliqueMarginals& self,
              std::tuple<int, In<double>, std::tuple<In<int64_t>, In<int32_t>, In<int32_t>, In<double>>> state) {
             const auto& [n_labels, node, cells] = state;
             const auto& [at, parent, child, weight] = cells;
             const size_t n = std::min({at.size(), parent.size(), child.size(), weight.size()});
             new (&self) CliqueMarginals(n_labels, node.data(), node.size(), at.data(), parent.data(), child.data(),
                                         weight.data(), n);
           });
  m.def(
      "smo",
      [](nb::handle batch, const Shape& shape, const std::string& kind, double a, double b2, nb::handle variance,
         nb::handle mean, double C, Out<double> weights, Out<double> eta, In<double> cost, In<int64_t> picks,
         int rounds, CliqueMarginals& marginals, Out<double> gaps) {
        const BatchView b = view(batch, shape);
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        nb::gil_scoped_release release;
        smo(b, prior, C, weights.data(), eta.data(), cost.data(), picks.data(), int64_t(picks.size()), rounds,
            marginals, gaps.data());
      },
      "batch"_a, "shape"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "C"_a,
      "weights"_a.noconvert(), "eta"_a.noconvert(), "cost"_a.noconvert(), "picks"_a, "rounds"_a, "marginals"_a,
      "gaps"_a.noconvert(),
      "Steps between two labellings for every picked example; `weights`, `eta`, `marginals` and `gaps` change.");
}

}  // namespace maxendnet

// Bindings of the operations of recursions: each is defined once, and overloaded on the recursion.
#include "bindings/binding.hpp"

namespace maxendnet {
namespace {

// Operations in the precision of the weights.
template <class View>
void bind_search(nb::module_& m) {
  using R = typename View::Real;
  m.def(
      "decode",
      [](nb::handle batch, const Recursion<View>& recursion, nb::handle cost, int64_t first, int64_t last,
         nb::handle values, Out<int32_t> labels) {
        const BatchView b = view(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        const R* added = optional<R>(cost, "cost");
        double* v = writable<double>(values, "values");
        nb::gil_scoped_release release;
        kernels_of<View>().decode(b, weighted, added, first, last, v, labels.data());
      },
      "batch"_a, "recursion"_a, "cost"_a.none(), "first"_a, "last"_a, "values"_a.none(), "labels"_a.noconvert(),
      "Find the best labellings of examples [first, last) and their scores; loss-augmented with a cost matrix.");
  m.def(
      "hinge_oracle",
      [](nb::handle batch, const Recursion<View>& recursion, In<R> cost, int64_t first, int64_t last,
         Out<double> values, nb::handle gradient, int slack, double C) {
        const BatchView b = labelled(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        double* g = writable<double>(gradient, "gradient");
        nb::gil_scoped_release release;
        kernels_of<View>().hinge_oracle(b, weighted, cost.data(), Slack{SlackKind(slack), C}, first, last,
                                        values.data(), g);
      },
      "batch"_a, "recursion"_a, "cost"_a.noconvert(), "first"_a, "last"_a, "values"_a.noconvert(), "gradient"_a.none(),
      "slack"_a, "C"_a,
      "Compute the hinge h of every example, and add a subgradient of the weighted sum of U(h)/C to `gradient`.");
  m.def(
      "block_frank_wolfe",
      [](nb::handle batch, const Recursion<View>& recursion, const std::string& kind, double a, double b2,
         nb::handle variance, nb::handle mean, double C, Out<double> eta, In<R> cost, In<double> cost64,
         In<int64_t> picks, int inner, ActiveSets& sets, Out<double> gaps) {
        const BatchView b = labelled(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        R* weights = writable<R>(recursion.weights, "weights");
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        nb::gil_scoped_release release;
        return kernels_of<View>().block_frank_wolfe(b, weighted, prior, C, weights, eta.data(), cost.data(),
                                                    cost64.data(), picks.data(), int64_t(picks.size()), inner, sets,
                                                    gaps.data());
      },
      "batch"_a, "recursion"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "C"_a,
      "eta"_a.noconvert(), "cost"_a.noconvert(), "cost64"_a.noconvert(), "picks"_a, "inner"_a, "sets"_a,
      "gaps"_a.noconvert(),
      "Update the blocks of the picked examples: the weights of the recursion, `eta`, `sets` and `gaps`. Returns the "
      "change of sum alpha l.");
}

template <class View>
void bind_log(nb::module_& m) {
  using R = typename View::Real;
  m.def(
      "log_oracle",
      [](nb::handle batch, const Recursion<View>& recursion, nb::handle cost, nb::handle counted, int64_t first,
         int64_t last, Out<double> values, nb::handle costs, nb::handle gradient) {
        const BatchView b = labelled(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        const R *added = optional<R>(cost, "cost"), *reported = optional<R>(counted, "counted");
        double *expected = writable<double>(costs, "costs"), *g = writable<double>(gradient, "gradient");
        if ((added || reported) && g && !expected)
          throw nb::value_error("with cost or counted, a gradient needs an array of costs");
        nb::gil_scoped_release release;
        kernels_of<View>().log_oracle(b, weighted, added, reported, first, last, values.data(), expected, g);
      },
      "batch"_a, "recursion"_a, "cost"_a.none(), "counted"_a.none(), "first"_a, "last"_a, "values"_a.noconvert(),
      "costs"_a.none(), "gradient"_a.none(),
      "Compute the log loss of every example, and add the gradient of the weighted sum to `gradient`. `cost` is added "
      "to "
      "the scores; `costs` receives the expected value of `counted` (default: `cost`). For forests, examples "
      "[first, last) must be whole groups.");
}

// Operations in double precision.
template <class View>
void bind_reports(nb::module_& m) {
  bind_log<View>(m);
  m.def(
      "max_marginals",
      [](nb::handle batch, const Recursion<View>& recursion, int64_t first, int64_t last, Out<double> out) {
        const BatchView b = view(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        nb::gil_scoped_release release;
        kernels_of<View>().max_marginals(b, weighted, first, last, out.data());
      },
      "batch"_a, "recursion"_a, "first"_a, "last"_a, "out"_a.noconvert(),
      "Max-marginals: the best score for every label of every node.");
  m.def(
      "marginals",
      [](nb::handle batch, const Recursion<View>& recursion, nb::handle cost, int64_t first, int64_t last,
         Out<double> values, nb::handle node, nb::args cliques) {
        const BatchView b = view(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        const double* added = optional<double>(cost, "cost");
        double* n = writable<double>(node, "node");
        Cliques<View> tables{};
        if (cliques.size() > tables.size()) throw nb::value_error("there are more arrays than clique types");
        for (size_t k = 0; k < cliques.size(); k++) tables[k] = writable<double>(cliques[k], "cliques");
        nb::gil_scoped_release release;
        kernels_of<View>().marginals(b, weighted, added, first, last, values.data(), n, tables);
      },
      "batch"_a, "recursion"_a, "cost"_a.none(), "first"_a, "last"_a, "values"_a.noconvert(), "node"_a.none(),
      "cliques"_a,
      "Log-partition of every example and, if requested, marginals of nodes and cliques, in arrays of zeros. Cliques "
      "are "
      "edges (forest), edges and siblings (hierarchy), or expected counts of n-grams (automaton).");
  m.def(
      "sample",
      [](nb::handle batch, const Recursion<View>& recursion, nb::handle cost, In<double> uniforms, int64_t n_draws,
         int64_t first, int64_t last, Out<int32_t> labels) {
        const BatchView b = view(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        const double* added = optional<double>(cost, "cost");
        nb::gil_scoped_release release;
        kernels_of<View>().sample(b, weighted, added, uniforms.data(), n_draws, first, last, labels.data());
      },
      "batch"_a, "recursion"_a, "cost"_a.none(), "uniforms"_a, "n_draws"_a, "first"_a, "last"_a, "labels"_a.noconvert(),
      "Draw labellings from p(y|x).");
  m.def(
      "block_gaps",
      [](nb::handle batch, const Recursion<View>& recursion, In<double> cost, double C, int64_t first, int64_t last,
         const ActiveSets& sets, Out<double> values, Out<double> gaps) {
        const BatchView b = labelled(batch, recursion.shape);
        const View& weighted = recursion.with_weights();
        nb::gil_scoped_release release;
        kernels_of<View>().block_gaps(b, weighted, cost.data(), C, first, last, sets, values.data(), gaps.data());
      },
      "batch"_a, "recursion"_a, "cost"_a.noconvert(), "C"_a, "first"_a, "last"_a, "sets"_a, "values"_a.noconvert(),
      "gaps"_a.noconvert(), "Compute the hinge of every example and the duality gap of its block.");
  m.def(
      "active_features",
      [](nb::handle batch, const Recursion<View>& recursion, const ActiveSets& sets, int64_t first, int64_t last,
         Out<double> eta) {
        const BatchView b = labelled(batch, recursion.shape);
        nb::gil_scoped_release release;
        kernels_of<View>().active_features(b, recursion.view, sets, first, last, eta.data());
      },
      "batch"_a, "recursion"_a, "sets"_a, "first"_a, "last"_a, "eta"_a.noconvert(),
      "Add the features of the active sets to `eta`; weights are not read.");
}

template <class View>
void bind_impossible(nb::module_& m) {
  m.def(
      "impossible",
      [](nb::handle batch, const Recursion<View>& recursion, int64_t first, int64_t last, Out<int64_t> nodes) {
        const BatchView b = view(batch, recursion.shape);
        nb::gil_scoped_release release;
        kernels_of<View>().find_impossible(b, recursion.view, first, last, nodes.data());
      },
      "batch"_a, "recursion"_a, "first"_a, "last"_a, "nodes"_a.noconvert(),
      "For every example without an allowed labelling, a node where the search fails; else -1. Weights are not read.");
}

}  // namespace

void bind_operations(nb::module_& m) {
  bind_search<ForestView<float>>(m);
  bind_search<ForestView<double>>(m);
  bind_search<PathsView<float>>(m);
  bind_search<PathsView<double>>(m);
  bind_search<HierarchyView>(m);
  bind_log<ForestView<float>>(m);
  bind_reports<ForestView<double>>(m);
  bind_reports<PathsView<double>>(m);
  bind_reports<HierarchyView>(m);
  bind_impossible<PathsView<double>>(m);
  bind_impossible<HierarchyView>(m);
}

}  // namespace maxendnet

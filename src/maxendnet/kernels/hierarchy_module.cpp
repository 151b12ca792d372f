// The binding of hierarchies.
#include "binding.hpp"
#include "hierarchy.hpp"

namespace maxendnet {
namespace {

// Sizes, weights and forbidden pairs of a model; the arrays are kept, not copied.
struct HierarchyModel {
  Shape shape;
  bool has_siblings;
  In<double> weights;
  nb::object table, shift, forbidden;
  HierarchyView view{};

  HierarchyModel(const Shape& s, bool siblings, In<double> w, nb::object t, nb::object h, nb::object f)
      : shape(s), has_siblings(siblings), weights(w), table(t), shift(h), forbidden(f) {
    const int64_t L = s.n_labels, matrices = int64_t(s.n_edge_types) + s.n_edge_features;
    const int64_t n_siblings = siblings ? s.n_edge_types * L * L * L : 0;
    Layout& layout = view.layout = {L, s.n_pairs(), s.n_pairs() + matrices * L * L, 0};
    layout.label_features = layout.siblings + n_siblings;
    if (int64_t(w.size()) != layout.label_features + s.n_label_features)
      throw nb::value_error("weights have the wrong size");
    view.node = w.data();
    view.matrices = w.data() + layout.matrices;
    view.siblings = n_siblings ? w.data() + layout.siblings : nullptr;
    view.label_features = w.data() + layout.label_features;
    if (!t.is_none() && n_siblings) {
      view.table = sized<double>(t, n_siblings, "table");
      view.shift = sized<double>(h, s.n_edge_types * L, "shift");
    }
    if (!f.is_none()) view.forbidden = sized<uint8_t>(f, L * L, "forbidden");
  }

  template <class T>
  static const T* sized(nb::handle value, int64_t size, const char* name) {
    In<T> array;
    if (!nb::try_cast(value, array, false) || int64_t(array.size()) != size)
      throw nb::value_error((std::string(name) + " has the wrong dtype or size").c_str());
    return array.data();
  }
};

}  // namespace

void bind_hierarchy(nb::module_& m) {
  nb::class_<HierarchyModel>(m, "HierarchyModel", "Sizes, weights and forbidden pairs of a hierarchy.")
      .def(nb::init<const Shape&, bool, In<double>, nb::object, nb::object, nb::object>(), "shape"_a, "siblings"_a,
           "weights"_a.noconvert(), "table"_a.none(), "shift"_a.none(), "forbidden"_a.none());
  m.def(
      "hierarchy_decode",
      [](nb::handle batch, const HierarchyModel& model, nb::handle cost, int64_t first, int64_t last, nb::handle values,
         Out<int32_t> labels) {
        const BatchView b = view(batch, model.shape);
        const double* costs = optional<double>(cost, "cost");
        double* v = writable<double>(values, "values");
        nb::gil_scoped_release release;
        hierarchy_decode(b, model.view, costs, first, last, v, labels.data());
      },
      "batch"_a, "model"_a, "cost"_a.none(), "first"_a, "last"_a, "values"_a.none(), "labels"_a.noconvert(),
      "Best labelling of examples [first, last) and its score; with a cost matrix, loss-augmented.");
  m.def(
      "hierarchy_max_marginals",
      [](nb::handle batch, const HierarchyModel& model, int64_t first, int64_t last, Out<double> out) {
        const BatchView b = view(batch, model.shape);
        nb::gil_scoped_release release;
        hierarchy_max_marginals(b, model.view, first, last, out.data());
      },
      "batch"_a, "model"_a, "first"_a, "last"_a, "out"_a.noconvert(), "Best score for every label of every node.");
  m.def(
      "hierarchy_marginals",
      [](nb::handle batch, const HierarchyModel& model, nb::handle cost, int64_t first, int64_t last,
         Out<double> values, nb::handle node, nb::handle edge, nb::handle siblings) {
        const BatchView b = view(batch, model.shape);
        const double* added = optional<double>(cost, "cost");
        double *n = writable<double>(node, "node"), *e = writable<double>(edge, "edge");
        double* s = writable<double>(siblings, "siblings");
        nb::gil_scoped_release release;
        hierarchy_marginals(b, model.view, added, first, last, values.data(), n, e, s);
      },
      "batch"_a, "model"_a, "cost"_a.none(), "first"_a, "last"_a, "values"_a.noconvert(), "node"_a.none(),
      "edge"_a.none(), "siblings"_a.none(),
      "Log-partition of every example and, if asked, marginals of nodes, edges and siblings, in arrays of zeros.");
  m.def(
      "hierarchy_sample",
      [](nb::handle batch, const HierarchyModel& model, In<double> uniforms, int64_t n_draws, int64_t first,
         int64_t last, Out<int32_t> labels) {
        const BatchView b = view(batch, model.shape);
        nb::gil_scoped_release release;
        hierarchy_sample(b, model.view, uniforms.data(), n_draws, first, last, labels.data());
      },
      "batch"_a, "model"_a, "uniforms"_a, "n_draws"_a, "first"_a, "last"_a, "labels"_a.noconvert(),
      "Labellings drawn from p(y|x).");
  m.def(
      "hierarchy_hinge",
      [](nb::handle batch, const HierarchyModel& model, In<double> cost, int64_t first, int64_t last,
         Out<double> values, nb::handle gradient, int slack, double C) {
        const BatchView b = view(batch, model.shape);
        double* g = writable<double>(gradient, "gradient");
        nb::gil_scoped_release release;
        hierarchy_hinge(b, model.view, cost.data(), Slack{SlackKind(slack), C}, first, last, values.data(), g);
      },
      "batch"_a, "model"_a, "cost"_a.noconvert(), "first"_a, "last"_a, "values"_a.noconvert(), "gradient"_a.none(),
      "slack"_a, "C"_a,
      "Hinge h of every example, and a subgradient of the weighted sum of their U(h)/C, added to `gradient`.");
  m.def(
      "hierarchy_log",
      [](nb::handle batch, const HierarchyModel& model, nb::handle cost, nb::handle counted, int64_t first,
         int64_t last, Out<double> values, nb::handle costs, nb::handle gradient) {
        const BatchView b = view(batch, model.shape);
        const double *added = optional<double>(cost, "cost"), *reported = optional<double>(counted, "counted");
        double *expected = writable<double>(costs, "costs"), *g = writable<double>(gradient, "gradient");
        nb::gil_scoped_release release;
        hierarchy_log(b, model.view, added, reported, first, last, values.data(), expected, g);
      },
      "batch"_a, "model"_a, "cost"_a.none(), "counted"_a.none(), "first"_a, "last"_a, "values"_a.noconvert(),
      "costs"_a.none(), "gradient"_a.none(),
      "Log loss of every example, and the gradient of their weighted sum, added to `gradient`. `cost` is added to the "
      "scores; `costs` gets the expected value of `counted`, or else of `cost`.");
  m.def(
      "hierarchy_block_frank_wolfe",
      [](nb::handle batch, const HierarchyModel& model, const std::string& kind, double a, double b2,
         nb::handle variance, nb::handle mean, double C, Out<double> weights, Out<double> eta, In<double> cost,
         In<int64_t> picks, int inner, ActiveSets& sets, Out<double> gaps) {
        if (weights.data() != model.weights.data()) throw nb::value_error("weights are not those of the model");
        const BatchView b = view(batch, model.shape);
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        nb::gil_scoped_release release;
        return hierarchy_block_frank_wolfe(b, prior, C, model.view, weights.data(), eta.data(), cost.data(),
                                           picks.data(), int64_t(picks.size()), inner, sets, gaps.data());
      },
      "batch"_a, "model"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "C"_a,
      "weights"_a.noconvert(), "eta"_a.noconvert(), "cost"_a.noconvert(), "picks"_a, "inner"_a, "sets"_a,
      "gaps"_a.noconvert(), "As block_frank_wolfe; `weights` are those of the model, and change.");
  m.def(
      "hierarchy_block_gaps",
      [](nb::handle batch, const HierarchyModel& model, In<double> cost, double C, int64_t first, int64_t last,
         const ActiveSets& sets, Out<double> values, Out<double> gaps) {
        const BatchView b = view(batch, model.shape);
        nb::gil_scoped_release release;
        hierarchy_block_gaps(b, model.view, cost.data(), C, first, last, sets, values.data(), gaps.data());
      },
      "batch"_a, "model"_a, "cost"_a.noconvert(), "C"_a, "first"_a, "last"_a, "sets"_a, "values"_a.noconvert(),
      "gaps"_a.noconvert(), "Hinge of every example and duality gap of its block.");
  m.def(
      "hierarchy_active_features",
      [](nb::handle batch, const HierarchyModel& model, const ActiveSets& sets, int64_t first, int64_t last,
         Out<double> eta) {
        const BatchView b = view(batch, model.shape);
        nb::gil_scoped_release release;
        hierarchy_active_features(b, model.view, sets, first, last, eta.data());
      },
      "batch"_a, "model"_a, "sets"_a, "first"_a, "last"_a, "eta"_a.noconvert(), "eta afresh from the active sets.");
  m.def(
      "hierarchy_impossible",
      [](nb::handle batch, const HierarchyModel& model, int64_t first, int64_t last, Out<int64_t> nodes) {
        const BatchView b = view(batch, model.shape);
        nb::gil_scoped_release release;
        hierarchy_impossible(b, model.view, first, last, nodes.data());
      },
      "batch"_a, "model"_a, "first"_a, "last"_a, "nodes"_a.noconvert(),
      "Of every example a node none of whose labels is possible with what lies below it, or -1.");
}

}  // namespace maxendnet

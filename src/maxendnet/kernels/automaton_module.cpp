// The binding of chains that an automaton reads.
#include "automaton.hpp"
#include "binding.hpp"

namespace maxendnet {
namespace {

// The arrays of an automaton are kept, not copied; places of arcs and the rows that fire an n-gram are found here.
struct Automaton {
  In<int32_t> arcs;
  In<uint8_t> accepting;
  In<int64_t> fired_offsets;
  In<int32_t> fired;
  In<int64_t> groups;
  In<int32_t> targets;
  std::vector<int64_t> loose_offsets, places, user_offsets;
  std::vector<int32_t> loose_labels, users;
  AutomatonView view{};

  Automaton(In<int32_t> arcs_, In<uint8_t> accepting_, In<int64_t> fired_offsets_, In<int32_t> fired_,
            In<int64_t> groups_, In<int32_t> targets_, int start, int64_t n_grams)
      : arcs(arcs_), accepting(accepting_), fired_offsets(fired_offsets_), fired(fired_), groups(groups_),
        targets(targets_) {
    AutomatonView& m = view;
    if (arcs.ndim() != 2 || targets.ndim() != 2) throw nb::value_error("arcs and targets must have two axes");
    m.n_states = int64_t(arcs.shape(0));
    m.n_labels = int(arcs.shape(1));
    m.lanes = padded(m.n_labels);
    m.n_groups = int64_t(groups.size()) - 1;
    m.n_grams = n_grams;
    m.start = start;
    m.arcs = arcs.data();
    m.accepting = accepting.data();
    m.fired_offsets = fired_offsets.data();
    m.fired = fired.data();
    m.groups = groups.data();
    m.targets = targets.data();
    check();
    find_places();
    find_users();
    m.loose_offsets = loose_offsets.data();
    m.loose_labels = loose_labels.data();
    m.n_loose = int64_t(loose_labels.size());
    for (int64_t& place : places)
      if (place <= -2) place = m.loose() + (-2 - place);
    m.places = places.data();
    m.user_offsets = user_offsets.data();
    m.users = users.data();
  }
  Automaton(const Automaton&) = delete;

  void check() const {
    const AutomatonView& m = view;
    const int64_t n_rows = m.n_arcs() + m.n_states;
    bool right = int64_t(accepting.size()) == m.n_states && int64_t(fired_offsets.size()) == n_rows + 1 &&
                 m.n_groups >= 1 && int64_t(targets.shape(0)) == m.n_groups && int(targets.shape(1)) == m.lanes &&
                 m.start >= 0 && m.start < m.n_states && m.groups[0] == 0 && m.groups[m.n_groups] == m.n_states;
    right = right && m.fired_offsets[0] == 0 && m.fired_offsets[n_rows] == int64_t(fired.size());
    for (int64_t k = 0; right && k < n_rows; k++) right = m.fired_offsets[k] <= m.fired_offsets[k + 1];
    for (int64_t k = 0; right && k < m.n_groups; k++) right = m.groups[k] <= m.groups[k + 1];
    for (int64_t k = 0; right && k < m.n_arcs(); k++) right = m.arcs[k] >= -1 && m.arcs[k] < m.n_states;
    for (int64_t k = 0; right && k < m.n_groups * m.lanes; k++) right = m.targets[k] >= -1 && m.targets[k] < m.n_states;
    for (size_t k = 0; right && k < fired.size(); k++) right = m.fired[k] >= 0 && m.fired[k] < m.n_grams;
    if (!right) throw nb::value_error("the arrays of the automaton do not fit each other");
  }

  // a place below -1 is that of a loose arc, for the moment
  void find_places() {
    const AutomatonView& m = view;
    places.assign(size_t(m.n_arcs()), -1);
    loose_offsets.assign(size_t(m.n_states) + 1, 0);
    for (int64_t g = 0; g < m.n_groups; g++)
      for (int64_t s = m.groups[g]; s < m.groups[g + 1]; s++) {
        for (int a = 0; a < m.n_labels; a++) {
          const int32_t to = m.arcs[s * m.n_labels + a];
          if (to < 0) continue;
          if (to == m.targets[g * m.lanes + a]) {
            places[s * m.n_labels + a] = s * m.lanes + a;
          } else {
            places[s * m.n_labels + a] = -2 - int64_t(loose_labels.size());
            loose_labels.push_back(a);
          }
        }
        loose_offsets[s + 1] = int64_t(loose_labels.size());
      }
  }

  void find_users() {
    const AutomatonView& m = view;
    const int64_t n_rows = m.n_arcs() + m.n_states;
    user_offsets.assign(size_t(m.n_grams) + 1, 0);
    for (size_t k = 0; k < fired.size(); k++) user_offsets[m.fired[k] + 1]++;
    for (int64_t k = 0; k < m.n_grams; k++) user_offsets[k + 1] += user_offsets[k];
    users.resize(fired.size());
    std::vector<int64_t> cursor(user_offsets.begin(), user_offsets.end() - 1);
    for (int64_t row = 0; row < n_rows; row++)
      for (int64_t k = m.fired_offsets[row]; k < m.fired_offsets[row + 1]; k++)
        users[cursor[m.fired[k]]++] = int32_t(row);
  }
};

template <class R>
void bind_precision(nb::module_& m) {
  m.def(
      "automaton_scores",
      [](const Automaton& automaton, In<R> grams, Out<R> scores) {
        if (int64_t(grams.size()) != automaton.view.n_grams || int64_t(scores.size()) != automaton.view.n_scores())
          throw nb::value_error("n-grams or scores have the wrong size");
        automaton_scores<R>(automaton.view, grams.data(), scores.data());
      },
      "automaton"_a, "grams"_a.noconvert(), "scores"_a.noconvert(), "Scores of arcs and ends from weights of n-grams.");
  m.def(
      "automaton_decode",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<R> weights, nb::handle cost,
         int64_t first, int64_t last, nb::handle values, Out<int32_t> labels) {
        const BatchView b = view(batch, shape);
        const R* costs = optional<R>(cost, "cost");
        double* v = writable<double>(values, "values");
        nb::gil_scoped_release release;
        automaton_decode<R>(b, automaton.view, weights.data(), costs, first, last, v, labels.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "cost"_a.none(), "first"_a, "last"_a,
      "values"_a.none(), "labels"_a.noconvert(),
      "Best labelling of examples [first, last) and its score; with a cost matrix, loss-augmented.");
  m.def(
      "automaton_hinge",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<R> weights, In<R> cost, int64_t first,
         int64_t last, Out<double> values, nb::handle gradient, int slack, double C) {
        const BatchView b = view(batch, shape);
        double* g = writable<double>(gradient, "gradient");
        nb::gil_scoped_release release;
        automaton_hinge<R>(b, automaton.view, weights.data(), cost.data(), Slack{SlackKind(slack), C}, first, last,
                           values.data(), g);
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "cost"_a.noconvert(), "first"_a, "last"_a,
      "values"_a.noconvert(), "gradient"_a.none(), "slack"_a, "C"_a,
      "Hinge h of every example, and a subgradient of the weighted sum of their U(h)/C, added to `gradient`.");
  m.def(
      "automaton_block_frank_wolfe",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, const std::string& kind, double a, double b2,
         nb::handle variance, nb::handle mean, double C, Out<R> weights, Out<double> eta, In<R> cost, In<double> cost64,
         In<int64_t> picks, int inner, ActiveSets& sets, Out<double> gaps) {
        const BatchView b = view(batch, shape);
        const KernelPrior prior = prior_of(kind, a, b2, variance, mean);
        nb::gil_scoped_release release;
        return automaton_block_frank_wolfe<R>(b, automaton.view, prior, C, weights.data(), eta.data(), cost.data(),
                                              cost64.data(), picks.data(), int64_t(picks.size()), inner, sets,
                                              gaps.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "kind"_a, "a"_a, "b"_a, "variance"_a.none(), "mean"_a.none(), "C"_a,
      "weights"_a.noconvert(), "eta"_a.noconvert(), "cost"_a.noconvert(), "cost64"_a.noconvert(), "picks"_a, "inner"_a,
      "sets"_a, "gaps"_a.noconvert(),
      "Steps for every picked example; `weights`, `eta`, `sets` and `gaps` change. Returns the change of sum alpha l.");
}

}  // namespace

void bind_automaton(nb::module_& m) {
  nb::class_<Automaton>(m, "Automaton", "States in groups, arcs, and the n-grams that they fire.")
      .def(nb::init<In<int32_t>, In<uint8_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, int, int64_t>(),
           "arcs"_a.noconvert(), "accepting"_a.noconvert(), "fired_offsets"_a.noconvert(), "fired"_a.noconvert(),
           "groups"_a.noconvert(), "targets"_a.noconvert(), "start"_a, "n_grams"_a)
      .def_prop_ro("n_scores", [](const Automaton& self) { return self.view.n_scores(); })
      .def_prop_ro("n_loose", [](const Automaton& self) { return self.view.n_loose; });
  bind_precision<float>(m);
  bind_precision<double>(m);
  m.def(
      "automaton_max_marginals",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<double> weights, int64_t first,
         int64_t last, Out<double> out) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        automaton_max_marginals(b, automaton.view, weights.data(), first, last, out.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "first"_a, "last"_a, "out"_a.noconvert(),
      "Best score for every label of every node.");
  m.def(
      "automaton_marginals",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<double> weights, nb::handle cost,
         int64_t first, int64_t last, Out<double> values, nb::handle node, nb::handle grams) {
        const BatchView b = view(batch, shape);
        const double* added = optional<double>(cost, "cost");
        double *n = writable<double>(node, "node"), *g = writable<double>(grams, "grams");
        nb::gil_scoped_release release;
        automaton_marginals(b, automaton.view, weights.data(), added, first, last, values.data(), n, g);
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "cost"_a.none(), "first"_a, "last"_a,
      "values"_a.noconvert(), "node"_a.none(), "grams"_a.none(),
      "Log-partition of every example and, if asked, marginals of nodes and expected numbers of n-grams, in arrays of "
      "zeros.");
  m.def(
      "automaton_sample",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<double> weights, In<double> uniforms,
         int64_t n_draws, int64_t first, int64_t last, Out<int32_t> labels) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        automaton_sample(b, automaton.view, weights.data(), uniforms.data(), n_draws, first, last, labels.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "uniforms"_a, "n_draws"_a, "first"_a, "last"_a,
      "labels"_a.noconvert(), "Labellings drawn from p(y|x).");
  m.def(
      "automaton_log",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<double> weights, nb::handle cost,
         nb::handle counted, int64_t first, int64_t last, Out<double> values, nb::handle costs, nb::handle gradient) {
        const BatchView b = view(batch, shape);
        const double *added = optional<double>(cost, "cost"), *reported = optional<double>(counted, "counted");
        double *expected = writable<double>(costs, "costs"), *g = writable<double>(gradient, "gradient");
        nb::gil_scoped_release release;
        automaton_log(b, automaton.view, weights.data(), added, reported, first, last, values.data(), expected, g);
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "cost"_a.none(), "counted"_a.none(), "first"_a,
      "last"_a, "values"_a.noconvert(), "costs"_a.none(), "gradient"_a.none(),
      "Log loss of every example, and the gradient of their weighted sum, added to `gradient`. `cost` is added to the "
      "scores; `costs` gets the expected value of `counted`, or else of `cost`.");
  m.def(
      "automaton_impossible",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, int64_t first, int64_t last,
         Out<int64_t> nodes) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        automaton_impossible(b, automaton.view, first, last, nodes.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "first"_a, "last"_a, "nodes"_a.noconvert(),
      "Of every example the first node that no path reaches, the last one if none may end there, or -1.");
  m.def(
      "automaton_block_gaps",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, In<double> weights, In<double> cost,
         double C, int64_t first, int64_t last, const ActiveSets& sets, Out<double> hinges, Out<double> gaps) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        automaton_block_gaps(b, automaton.view, weights.data(), cost.data(), C, first, last, sets, hinges.data(),
                             gaps.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "weights"_a.noconvert(), "cost"_a.noconvert(), "C"_a, "first"_a, "last"_a,
      "sets"_a, "hinges"_a.noconvert(), "gaps"_a.noconvert(), "Hinge of every example and the gap of its block.");
  m.def(
      "automaton_active_features",
      [](nb::handle batch, const Shape& shape, const Automaton& automaton, const ActiveSets& sets, int64_t first,
         int64_t last, Out<double> eta) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        automaton_active_features(b, automaton.view, sets, first, last, eta.data());
      },
      "batch"_a, "shape"_a, "automaton"_a, "sets"_a, "first"_a, "last"_a, "eta"_a.noconvert(),
      "Add up eta of active sets.");
}

}  // namespace maxendnet

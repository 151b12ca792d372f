// Bindings of chains with an automaton.
#include "bindings/binding.hpp"

namespace maxendnet {
namespace {

// Holds references to the Python arrays, and computes the indices of arcs and the rows that fire an n-gram.
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
    bool valid = int64_t(accepting.size()) == m.n_states && int64_t(fired_offsets.size()) == n_rows + 1 &&
                 m.n_groups >= 1 && int64_t(targets.shape(0)) == m.n_groups && int(targets.shape(1)) == m.lanes &&
                 m.start >= 0 && m.start < m.n_states && m.groups[0] == 0 && m.groups[m.n_groups] == m.n_states;
    valid = valid && m.fired_offsets[0] == 0 && m.fired_offsets[n_rows] == int64_t(fired.size());
    for (int64_t k = 0; valid && k < n_rows; k++) valid = m.fired_offsets[k] <= m.fired_offsets[k + 1];
    for (int64_t k = 0; valid && k < m.n_groups; k++) valid = m.groups[k] <= m.groups[k + 1];
    for (int64_t k = 0; valid && k < m.n_arcs(); k++) valid = m.arcs[k] >= -1 && m.arcs[k] < m.n_states;
    for (int64_t k = 0; valid && k < m.n_groups * m.lanes; k++) valid = m.targets[k] >= -1 && m.targets[k] < m.n_states;
    for (size_t k = 0; valid && k < fired.size(); k++) valid = m.fired[k] >= 0 && m.fired[k] < m.n_grams;
    if (!valid) throw nb::value_error("the arrays of the automaton are inconsistent");
  }

  // until the number of loose arcs is known, their indices are -2, -3, ...
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
void bind_scores(nb::module_& m) {
  m.def(
      "automaton_scores",
      [](const Automaton& automaton, In<R> grams, Out<R> scores) {
        if (int64_t(grams.size()) != automaton.view.n_grams || int64_t(scores.size()) != automaton.view.n_scores())
          throw nb::value_error("n-grams or scores have the wrong size");
        real_kernels<R>().automaton_scores(automaton.view, grams.data(), scores.data());
      },
      "automaton"_a, "grams"_a.noconvert(), "scores"_a.noconvert(),
      "Compute scores of arcs and ends from weights of n-grams.");
}

}  // namespace

void bind_automaton(nb::module_& m) {
  nb::class_<Automaton>(m, "Automaton", "Automaton: states in groups, arcs, and the n-grams that they fire.")
      .def(nb::init<In<int32_t>, In<uint8_t>, In<int64_t>, In<int32_t>, In<int64_t>, In<int32_t>, int, int64_t>(),
           "arcs"_a.noconvert(), "accepting"_a.noconvert(), "fired_offsets"_a.noconvert(), "fired"_a.noconvert(),
           "groups"_a.noconvert(), "targets"_a.noconvert(), "start"_a, "n_grams"_a)
      .def_prop_ro("n_scores", [](const Automaton& self) { return self.view.n_scores(); });
  bind_scores<float>(m);
  bind_scores<double>(m);
  nb::class_<Recursion<PathsView<float>>>(m, "Paths32", "Recursion over the paths of an automaton, in float32.");
  nb::class_<Recursion<PathsView<double>>>(m, "Paths64", "Recursion over the paths of an automaton, in float64.");
  m.def(
      "paths",
      [](const Shape& shape, const Automaton& automaton, nb::object weights) {
        const AutomatonView& m = automaton.view;
        if (m.n_labels != shape.n_labels) throw nb::value_error("the numbers of labels of shape and automaton differ");
        const int64_t size = first_gram(shape) + m.n_grams + m.n_scores();
        return in_precision(weights, [&](auto zero) {
          using R = decltype(zero);
          return Recursion<PathsView<R>>{shape, weights, nb::find(automaton), {&m, weights_of<R>(weights, size)}};
        });
      },
      "shape"_a, "automaton"_a, "weights"_a.none(),
      "Create the recursion over the paths of an automaton, in the precision of the weights.");
}

}  // namespace maxendnet

// Bindings of hierarchies.
#include "bindings/binding.hpp"

namespace maxendnet {

void bind_hierarchy(nb::module_& m) {
  nb::class_<Recursion<HierarchyView>>(m, "Hierarchy", "Recursion of a hierarchy.");
  m.def(
      "hierarchy",
      [](const Shape& s, bool siblings, nb::object weights, nb::object table, nb::object shift, nb::object forbidden) {
        const int64_t L = s.n_labels, matrices = int64_t(s.n_edge_types) + s.n_edge_features;
        const int64_t n_siblings = siblings ? s.n_edge_types * L * L * L : 0;
        HierarchyView view{};
        Layout& layout = view.layout = {L, s.n_pairs(), s.n_pairs() + matrices * L * L, 0};
        layout.label_features = layout.siblings + n_siblings;
        if (!weights.is_none()) {
          const double* w = sized<double>(weights, layout.label_features + s.n_label_features, "weights");
          view.node = w;
          view.matrices = w + layout.matrices;
          view.siblings = n_siblings ? w + layout.siblings : nullptr;
          view.label_features = w + layout.label_features;
        }
        if (n_siblings && !table.is_none()) {
          view.table = sized<double>(table, n_siblings, "table");
          view.shift = sized<double>(shift, s.n_edge_types * L, "shift");
        }
        if (!forbidden.is_none()) view.forbidden = sized<uint8_t>(forbidden, L * L, "forbidden");
        return Recursion<HierarchyView>{s, weights, nb::make_tuple(table, shift, forbidden), view};
      },
      "shape"_a, "siblings"_a, "weights"_a.none(), "table"_a.none(), "shift"_a.none(), "forbidden"_a.none(),
      "Create the recursion of a hierarchy.");
}

}  // namespace maxendnet

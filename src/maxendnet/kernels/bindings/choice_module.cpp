// The binding of choices.
#include "bindings/binding.hpp"
#include "recursions/choice.hpp"

namespace maxendnet {

void bind_choice(nb::module_& m) {
  m.def(
      "node_scores",
      [](nb::handle batch, const Shape& shape, In<double> weights, int64_t first, int64_t last, Out<double> scores) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        node_scores(b, weights.data(), first, last, scores.data());
      },
      "batch"_a, "shape"_a, "weights"_a.noconvert(), "first"_a, "last"_a, "scores"_a.noconvert(),
      "Score of every label of every node of examples [first, last); -inf where it is not allowed.");
  m.def(
      "add_features",
      [](nb::handle batch, const Shape& shape, In<double> shares, int64_t first, int64_t last, Out<double> gradient) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        add_features(b, shares.data(), first, last, gradient.data());
      },
      "batch"_a, "shape"_a, "shares"_a.noconvert(), "first"_a, "last"_a, "gradient"_a.noconvert(),
      "Add the features of labels of nodes, in the given shares, to `gradient`.");
}

}  // namespace maxendnet

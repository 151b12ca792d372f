// Bindings of choices.
#include "bindings/binding.hpp"

namespace maxendnet {

void bind_choice(nb::module_& m) {
  m.def(
      "node_scores",
      [](nb::handle batch, const Shape& shape, In<double> weights, int64_t first, int64_t last, Out<double> scores) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        kernels().node_scores(b, weights.data(), first, last, scores.data());
      },
      "batch"_a, "shape"_a, "weights"_a.noconvert(), "first"_a, "last"_a, "scores"_a.noconvert(),
      "Compute the score of every label and node of examples [first, last); -inf for forbidden labels.");
  m.def(
      "add_features",
      [](nb::handle batch, const Shape& shape, In<double> shares, int64_t first, int64_t last, Out<double> gradient) {
        const BatchView b = view(batch, shape);
        nb::gil_scoped_release release;
        kernels().add_features(b, shares.data(), first, last, gradient.data());
      },
      "batch"_a, "shape"_a, "shares"_a.noconvert(), "first"_a, "last"_a, "gradient"_a.noconvert(),
      "Add the features of all labels of nodes, times their shares, to `gradient`.");
}

}  // namespace maxendnet

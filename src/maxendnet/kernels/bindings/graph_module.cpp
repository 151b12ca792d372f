// Bindings of graphs with cycles.
#include "bindings/binding.hpp"

namespace maxendnet {

namespace {

// Arrays of a Python `GraphScores` (structures/bound/graph.py).
GraphView view(nb::handle graph) {
  GraphView g{};
  g.offsets = data_of<int64_t>(graph.attr("offsets"), "offsets");
  g.edge_offsets = data_of<int64_t>(graph.attr("edge_offsets"), "edge_offsets");
  g.edges = data_of<int32_t>(graph.attr("edges"), "edges");
  g.matrix = data_of<int32_t>(graph.attr("matrix"), "matrix");
  g.node_scores = data_of<double>(graph.attr("node_scores"), "node_scores");
  g.matrices = data_of<double>(graph.attr("matrices"), "matrices");
  g.order = data_of<int32_t>(graph.attr("order"), "order");
  g.exact = data_of<uint8_t>(graph.attr("exact"), "exact");
  g.n_examples = int64_t(extent(graph, "offsets", 0)) - 1;
  g.n_labels = int(extent(graph, "node_scores", 1));
  return g;
}

}  // namespace

void bind_graph(nb::module_& m) {
  m.def(
      "graph_orders",
      [](In<int64_t> offsets, In<int64_t> edge_offsets, In<int32_t> edges, In<int32_t> sizes, double max_table,
         Out<int32_t> order, Out<double> largest) {
        nb::gil_scoped_release release;
        kernels().graph_orders(offsets.data(), edge_offsets.data(), edges.data(), sizes.data(), max_table,
                               int64_t(offsets.size()) - 1, order.data(), largest.data());
      },
      "offsets"_a.noconvert(), "edge_offsets"_a.noconvert(), "edges"_a.noconvert(), "sizes"_a.noconvert(),
      "max_table"_a, "order"_a.noconvert(), "largest"_a.noconvert(),
      "Find elimination orders by minimum fill, and their largest tables; infinity if above max_table.");
  m.def(
      "graph_maximum",
      [](nb::handle graph, Out<double> values, Out<int32_t> labels) {
        const GraphView g = view(graph);
        nb::gil_scoped_release release;
        kernels().graph_maximum(g, values.data(), labels.data());
      },
      "graph"_a, "values"_a.noconvert(), "labels"_a.noconvert(),
      "Best score and labelling of the examples with an elimination order.");
  m.def(
      "graph_logsum",
      [](nb::handle graph, Out<double> values, nb::handle node, nb::handle edge) {
        const GraphView g = view(graph);
        double *to_node = writable<double>(node, "node"), *to_edge = writable<double>(edge, "edge");
        nb::gil_scoped_release release;
        kernels().graph_logsum(g, values.data(), to_node, to_edge);
      },
      "graph"_a, "values"_a.noconvert(), "node"_a.none(), "edge"_a.none(),
      "Log-partition and marginals of the examples with an elimination order; edge must be zero.");
  m.def(
      "graph_max_marginals",
      [](nb::handle graph, Out<double> out) {
        const GraphView g = view(graph);
        nb::gil_scoped_release release;
        kernels().graph_max_marginals(g, out.data());
      },
      "graph"_a, "out"_a.noconvert(), "Max-marginals of the examples with an elimination order.");
  m.def(
      "graph_sample",
      [](nb::handle graph, In<double> uniforms, Out<int32_t> labels) {
        const GraphView g = view(graph);
        nb::gil_scoped_release release;
        kernels().graph_sample(g, uniforms.data(), int64_t(uniforms.shape(0)), int64_t(uniforms.shape(1)),
                               labels.data());
      },
      "graph"_a, "uniforms"_a.noconvert(), "labels"_a.noconvert(),
      "Draw labellings from p(y|x) for the examples with an elimination order.");
  m.def(
      "graph_relaxed",
      [](nb::handle graph, bool soft, double tol, int max_sweeps, Out<double> messages, Out<double> temperature,
         Out<double> upper, Out<double> attained, Out<double> node, nb::handle edge, Out<int32_t> labels,
         Out<double> labels_score, Out<int32_t> n_sweeps) {
        const GraphView g = view(graph);
        double* to_edge = writable<double>(edge, "edge");
        nb::gil_scoped_release release;
        kernels().graph_relaxed(g, {soft, tol, max_sweeps}, messages.data(), temperature.data(), upper.data(),
                                attained.data(), node.data(), to_edge, labels.data(), labels_score.data(),
                                n_sweeps.data());
      },
      "graph"_a, "soft"_a, "tol"_a, "max_sweeps"_a, "messages"_a.noconvert(), "temperature"_a.noconvert(),
      "upper"_a.noconvert(), "attained"_a.noconvert(), "node"_a.noconvert(), "edge"_a.none(), "labels"_a.noconvert(),
      "labels_score"_a.noconvert(), "n_sweeps"_a.noconvert(),
      "Bounds over the local polytope for the examples without an elimination order, and tables that attain them.");
  m.def("message_lanes", &message_lanes, "n_labels"_a,
        "Length of a message: the number of labels, rounded up to whole registers.");
}

}  // namespace maxendnet

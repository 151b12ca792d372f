// Graphs with cycles: exact sums and maxima by variable elimination, and bounds over the local polytope by messages.
#pragma once
#include "common/common.hpp"

namespace maxendnet {

// Scores of some graphs. Nodes of edges are numbered within their example.
struct GraphView {
  const int64_t* offsets;       // (n_examples + 1) nodes of an example
  const int64_t* edge_offsets;  // (n_examples + 1)
  const int32_t* edges;         // (n_edges, 2)
  const int32_t* matrix;        // (n_edges) which of the matrices has the scores of an edge
  const double* node_scores;    // (n_nodes, n_labels), -inf where a label is not allowed
  const double* matrices;       // (n_matrices, n_labels, n_labels), row: the label of the first node
  const int32_t* order;         // (n_nodes) in which nodes are eliminated, numbered within their example
  const uint8_t* exact;         // (n_examples) whether the example has such an order
  int64_t n_examples;
  int n_labels;
};

// graph.cpp -- exact, for the examples that have an order; the others are left out.

// An order in which no table has more than `max_table` entries, by least fill; `largest` gets the entries of the largest
// table, infinity where there is no such order.
void graph_orders(const int64_t* offsets, const int64_t* edge_offsets, const int32_t* edges, const int32_t* sizes,
                  double max_table, int64_t n_examples, int32_t* order, double* largest);
void graph_maximum(const GraphView& g, double* values, int32_t* labels);
void graph_logsum(const GraphView& g, double* values, double* node, double* edge);
void graph_max_marginals(const GraphView& g, double* out);
void graph_sample(const GraphView& g, const double* uniforms, int64_t n_draws, int64_t n_nodes, int32_t* labels);

// local_polytope.cpp -- bounds, for the examples that have no order; the others are left out.

// What is maximised over tables of nodes and edges that agree: their score plus, if `soft`, their entropies in shares that make
// the sum an upper bound of the log-partition.
struct Relaxation {
  bool soft;
  double tol;  // of the difference between `upper` and `attained`, for every example times its number of nodes
  int max_sweeps;
};
void graph_relaxed(const GraphView& g, const Relaxation& r, double* messages, double* temperature, double* upper,
                   double* attained, double* node, double* edge, int32_t* labels, double* labels_score,
                   int32_t* n_sweeps);  // of the labelling that was found on the way, unless soft
inline int message_lanes(int n_labels) { return (n_labels + 3) / 4 * 4; }

}  // namespace maxendnet

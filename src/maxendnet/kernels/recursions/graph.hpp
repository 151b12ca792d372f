// Graphs with cycles: exact sums and maxima by variable elimination, bounds over the local polytope by message passing.
#pragma once
#include "common/common.hpp"

namespace maxendnet {

// Scores of graphs. The nodes of edges are numbered within their example.
struct GraphView {
  const int64_t* offsets;       // (n_examples + 1) nodes of an example
  const int64_t* edge_offsets;  // (n_examples + 1)
  const int32_t* edges;         // (n_edges, 2)
  const int32_t* matrix;        // (n_edges) number of the matrix with the scores of an edge
  const double* node_scores;    // (n_nodes, n_labels), -inf if a label is not allowed
  const double* matrices;       // (n_matrices, n_labels, n_labels), row: the label of the first node
  const int32_t* order;         // (n_nodes) elimination order, with nodes numbered within their example
  const uint8_t* exact;         // (n_examples) whether the example has such an order
  int64_t n_examples;
  int n_labels;
};

// graph.cpp -- exact results, for examples with an elimination order; others are skipped

// Elimination order by minimum fill in which no table has more than `max_table` entries. `largest` is the size of the
// largest table, or infinity if there is no such order.
void graph_orders(const int64_t* offsets, const int64_t* edge_offsets, const int32_t* edges, const int32_t* sizes,
                  double max_table, int64_t n_examples, int32_t* order, double* largest);
void graph_maximum(const GraphView& g, double* values, int32_t* labels);
void graph_logsum(const GraphView& g, double* values, double* node, double* edge);
void graph_max_marginals(const GraphView& g, double* out);
void graph_sample(const GraphView& g, const double* uniforms, int64_t n_draws, int64_t n_nodes, int32_t* labels);

// local_polytope.cpp -- bounds, for examples without an elimination order; others are skipped

// Maximises over consistent tables of nodes and edges: their score plus, if `soft`, weighted entropies for which the
// maximum is an upper bound of the log-partition.
struct Relaxation {
  bool soft;
  double tol;  // tolerance of `upper` minus `attained`, per node
  int max_sweeps;
};
void graph_relaxed(const GraphView& g, const Relaxation& r, double* messages, double* temperature, double* upper,
                   double* attained, double* node, double* edge, int32_t* labels, double* labels_score,
                   int32_t* n_sweeps);  // unless soft, `labels` is the best integral labelling found, with its score
inline int message_lanes(int n_labels) { return (n_labels + 3) / 4 * 4; }

}  // namespace maxendnet

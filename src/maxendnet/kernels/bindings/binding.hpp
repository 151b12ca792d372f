// Shared by the bindings: conversion of Python arrays, which are checked and never copied.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/level.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace maxendnet {

template <class T>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

// Returns the data of an array. A converted copy is rejected, because it would be freed before the kernel reads it.
template <class T>
const T* data_of(nb::handle value, const std::string& name) {
  In<T> array;
  if (!nb::try_cast(value, array, false))
    throw std::invalid_argument(name + " has the wrong dtype or is not C-contiguous");
  return array.size() ? array.data() : nullptr;
}
template <class T>
const T* optional(nb::handle value, const std::string& name) {
  return value.is_none() ? nullptr : data_of<T>(value, name);
}
template <class T>
T* writable(nb::handle value, const std::string& name) {
  if (value.is_none()) return nullptr;
  Out<T> array;
  if (!nb::try_cast(value, array, false))
    throw std::invalid_argument(name + " has the wrong dtype, is not C-contiguous or is read-only");
  return array.data();
}

template <class T>
const T* sized(nb::handle value, int64_t size, const std::string& name) {
  In<T> array;
  if (value.is_none() || !nb::try_cast(value, array, false) || int64_t(array.size()) != size)
    throw std::invalid_argument(name + " has the wrong dtype or size, or is not C-contiguous");
  return array.data();
}

template <class T>
const T* field(nb::handle batch, const char* name) {
  return data_of<T>(batch.attr(name), std::string("batch.") + name);
}

inline size_t extent(nb::handle batch, const char* name, size_t axis) {
  return nb::cast<size_t>(batch.attr(name).attr("shape")[nb::int_(axis)]);
}

// Sizes of a model. Holds references to the Python arrays of the pairs of features and labels with weights; None if all pairs
// have weights.
struct Shape : Sizes {
  nb::object offsets_owner, labels_owner;

  Shape(int64_t features, int labels, int types, int edge_features, int label_features, int rest_label, nb::object rows,
        nb::object columns)
      : Sizes{features, labels, padded(labels), types, edge_features, label_features, rest_label, nullptr, nullptr},
        offsets_owner(rows), labels_owner(columns) {
    if (rows.is_none()) return;
    row_offsets = sized<int64_t>(rows, features + 1, "row_offsets");
    row_labels = sized<int32_t>(columns, row_offsets[features], "row_labels");
  }
  int64_t n_pairs() const { return row_offsets ? row_offsets[n_features] : n_features * n_labels; }
};

inline BatchView view(nb::handle batch, const Shape& shape) {
  BatchView b{};
  static_cast<Sizes&>(b) = shape;
  b.indptr = field<int64_t>(batch, "indptr");
  b.indices = field<int32_t>(batch, "indices");
  b.data = field<double>(batch, "data");
  b.y = field<int32_t>(batch, "y");
  b.row = field<int32_t>(batch, "row");
  b.offsets = field<int64_t>(batch, "offsets");
  b.order = field<int32_t>(batch, "order");
  b.parent = field<int32_t>(batch, "parent");
  b.edge_type = field<int32_t>(batch, "edge_type");
  b.flipped = field<uint8_t>(batch, "flipped");
  b.edge_features = field<double>(batch, "edge_features");
  b.allowed = field<uint8_t>(batch, "allowed");
  b.label_features = field<double>(batch, "label_features");
  b.sample_weight = field<double>(batch, "sample_weight");
  b.n_examples = int64_t(extent(batch, "offsets", 0)) - 1;
  b.n_nodes = int64_t(extent(batch, "parent", 0));
  b.ones = nb::cast<bool>(batch.attr("ones"));
  return b;
}

inline BatchView labelled(nb::handle batch, const Shape& shape) {
  const BatchView b = view(batch, shape);
  if (b.n_nodes && !b.y) throw nb::value_error("batch.y is empty; this operation needs the labels of all nodes");
  return b;
}

// Python object of a recursion. Its arrays are not copied: the weights may change between calls.
template <class View>
struct Recursion {
  Shape shape;
  nb::object weights;  // None for operations that do not read weights
  nb::object owners;   // of the other arrays of the view
  View view;

  const View& with_weights() const {
    if (weights.is_none())
      throw nb::value_error("this operation needs weights, but the recursion was created without (None)");
    return view;
  }
};

template <class R>
const R* weights_of(nb::handle weights, int64_t size) {
  return weights.is_none() ? nullptr : sized<R>(weights, size, "weights");
}

// Returns make(R()), where R is the type of the elements of an array.
template <class Make>
nb::object in_precision(nb::handle array, Make make) {
  In<float> single;
  return nb::try_cast(array, single, false) ? nb::cast(make(float())) : nb::cast(make(double()));
}

template <class T>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T>&& values) {
  auto* moved = new std::vector<T>(std::move(values));
  nb::capsule owner(moved, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(moved->data(), {moved->size()}, owner);
}

inline KernelPrior prior_of(const std::string& kind, double a, double b, nb::handle variance, nb::handle mean) {
  return find_prior(kind, {a, b, optional<double>(variance, "variance"), optional<double>(mean, "mean")});
}

void bind_hierarchy(nb::module_& m);   // hierarchy_module.cpp
void bind_choice(nb::module_& m);      // choice_module.cpp
void bind_automaton(nb::module_& m);   // automaton_module.cpp
void bind_operations(nb::module_& m);  // operations_module.cpp
void bind_graph(nb::module_& m);       // graph_module.cpp
void bind_text(nb::module_& m);        // text_module.cpp

}  // namespace maxendnet

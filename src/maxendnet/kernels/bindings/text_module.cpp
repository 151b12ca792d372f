// Bindings of text.
#include <algorithm>

#include "bindings/binding.hpp"
#include "text/text.hpp"

namespace maxendnet {
namespace {

// Checks the offsets, and returns the texts.
Texts texts_of(const nb::bytes& bytes, const In<int64_t>& offsets) {
  const int64_t* o = offsets.data();
  if (offsets.size() < 1 || o[0] != 0 || o[offsets.size() - 1] != int64_t(bytes.size()) ||
      !std::is_sorted(o, o + offsets.size()))
    throw std::invalid_argument("offsets must increase from 0 to the number of bytes");
  return {bytes.c_str(), o, int64_t(offsets.size()) - 1};
}

int64_t checked_slots(int64_t n_slots, int64_t n_names) {
  if (n_slots <= n_names || (n_slots & (n_slots - 1)))
    throw std::invalid_argument("the number of slots must be a power of two above the number of names");
  return n_slots;
}

}  // namespace

void bind_text(nb::module_& m) {
  m.def(
      "read_cells",
      [](const nb::bytes& text, char separator, bool docstart) -> nb::object {
        CellTable table;
        bool valid;
        {
          nb::gil_scoped_release release;
          valid = read_cells(text.c_str(), int64_t(text.size()), separator, docstart, table);
        }
        if (!valid) return nb::none();
        nb::list columns;
        for (CellColumn& column : table.columns)
          columns.append(nb::make_tuple(to_numpy(std::move(column.codes)), to_numpy(std::move(column.starts)),
                                        to_numpy(std::move(column.sizes))));
        return nb::make_tuple(columns, to_numpy(std::move(table.breaks)), to_numpy(std::move(table.lines)));
      },
      "text"_a, "separator"_a, "docstart"_a,
      "Read a column file: columns as (codes, starts, sizes), sentence breaks and lines; None if it is malformed.");
  m.def(
      "name_slots",
      [](const nb::bytes& names, In<int64_t> offsets, Out<uint64_t> slots) {
        const Texts texts = texts_of(names, offsets);
        const int64_t n_slots = checked_slots(int64_t(slots.size()), texts.n);
        nb::gil_scoped_release release;
        return name_slots(texts, slots.data(), n_slots);
      },
      "names"_a, "offsets"_a.noconvert(), "slots"_a.noconvert(),
      "Fill the slots of a hash table of names; False if a name occurs twice.");
  m.def(
      "find_features",
      [](const nb::bytes& names, In<int64_t> offsets, In<uint64_t> slots, In<int64_t> macro_offsets, In<int64_t> rows,
         In<int64_t> columns, const nb::bytes& texts, In<int64_t> text_offsets, nb::list cells, In<int64_t> at,
         Out<int32_t> out) {
        const NameTable table{texts_of(names, offsets), slots.data(),
                              checked_slots(int64_t(slots.size()), int64_t(offsets.size()) - 1)};
        const Patterns patterns{macro_offsets.data(), rows.data(), columns.data(), texts_of(texts, text_offsets),
                                int64_t(macro_offsets.size()) - 1};
        std::vector<CodedCells> coded;
        std::vector<nb::bytes> owners;
        for (nb::handle cell : cells) {
          const nb::tuple parts = nb::cast<nb::tuple>(cell);
          owners.push_back(nb::cast<nb::bytes>(parts[1]));
          In<int64_t> value_offsets;
          if (!nb::try_cast(parts[2], value_offsets, false))
            throw std::invalid_argument("offsets of values must be int64");
          coded.push_back({data_of<int32_t>(parts[0], "codes"), texts_of(owners.back(), value_offsets)});
        }
        nb::gil_scoped_release release;
        find_features(table, patterns, coded, at.data(), int64_t(at.size()), out.data());
      },
      "names"_a, "offsets"_a.noconvert(), "slots"_a.noconvert(), "macro_offsets"_a.noconvert(), "rows"_a.noconvert(),
      "columns"_a.noconvert(), "texts"_a, "text_offsets"_a.noconvert(), "cells"_a, "at"_a.noconvert(),
      "out"_a.noconvert(),
      "Index of the feature of every token and line of a template in a table of names; -1 if there is none.");
}

}  // namespace maxendnet

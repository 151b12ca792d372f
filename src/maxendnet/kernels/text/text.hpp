// Text: cells of a column file as numbers, and the columns of features by the texts that their names are made of.
#pragma once
#include <cstdint>
#include <vector>

namespace maxendnet {

// Many texts in one: text i has the bytes offsets[i]:offsets[i + 1].
struct Texts {
  const char* bytes;
  const int64_t* offsets;
  int64_t n;
  const char* begin(int64_t i) const { return bytes + offsets[i]; }
  int64_t size(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// The hash of a text is a polynomial of its bytes, so that the hash of two texts in a row follows from those of both.
struct Hash {
  uint64_t value = 0, power = 1;
  void add(unsigned char byte) {
    value = value * base + byte + 1;
    power *= base;
  }
  void add(const Hash& next) {
    value = value * next.power + next.value;
    power *= next.power;
  }
  // Bits that choose a slot: the low ones of a polynomial depend on the low ones of the bytes alone.
  uint64_t mixed() const {
    const uint64_t folded = (value ^ (value >> 32)) * 0x9e3779b97f4a7c15u;
    return folded ^ (folded >> 29);
  }
  static constexpr uint64_t base = 0xd6e8feb86659fd93u;
};

struct CellColumn {
  std::vector<int32_t> codes;          // of every token
  std::vector<int64_t> starts, sizes;  // of the distinct cells, in the order of their first tokens
};
struct CellTable {
  std::vector<CellColumn> columns;
  std::vector<int64_t> breaks, lines;  // tokens at which sentences begin or end; the line of every token, from 1 on
};
// False if the text is not one of tokens with the same number of columns, none of them empty; why, the caller finds out. A
// separator that is a space stands for any number of spaces and tabs. A line with one NUL alone is passed over.
bool read_cells(const char* text, int64_t size, char separator, bool docstart, CellTable& out);

// A hash table of names. The number of slots is a power of two and more than that of names; a slot holds the upper half of a hash
// and one more than the place of its name, or is 0.
struct NameTable {
  Texts names;
  const uint64_t* slots;
  int64_t n_slots;
};
// False if a name is there twice.
bool name_slots(const Texts& names, uint64_t* slots, int64_t n_slots);

struct CodedCells {
  const int32_t* codes;  // with cells beyond the ends of sentences
  Texts values;
};
// Line p of a template has the macros macro_offsets[p]:macro_offsets[p + 1], a text before each of them and one behind.
struct Patterns {
  const int64_t* macro_offsets;
  const int64_t* rows;
  const int64_t* columns;
  Texts texts;
  int64_t n;
};
// The place of every token's feature for every line, (n_tokens, n_patterns); -1 if the name is unknown, or a cell of it empty.
void find_features(const NameTable& table, const Patterns& patterns, const std::vector<CodedCells>& columns,
                   const int64_t* at, int64_t n_tokens, int32_t* out);

}  // namespace maxendnet

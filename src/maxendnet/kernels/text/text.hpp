// Text: cells of column files as codes, and columns of features by name.
#pragma once
#include <cstdint>
#include <vector>

namespace maxendnet {

// Concatenated texts: text i has the bytes offsets[i]:offsets[i + 1].
struct Texts {
  const char* bytes;
  const int64_t* offsets;
  int64_t n;
  const char* begin(int64_t i) const { return bytes + offsets[i]; }
  int64_t size(int64_t i) const { return offsets[i + 1] - offsets[i]; }
};

// The hash of a text is a polynomial of its bytes, so that the hash of a concatenation follows from those of its parts.
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
  // Mixed bits for slots: the low bits of the polynomial depend only on the low bits of the bytes.
  uint64_t mixed() const {
    const uint64_t folded = (value ^ (value >> 32)) * 0x9e3779b97f4a7c15u;
    return folded ^ (folded >> 29);
  }
  static constexpr uint64_t base = 0xd6e8feb86659fd93u;
};

struct CellColumn {
  std::vector<int32_t> codes;          // code of every token
  std::vector<int64_t> starts, sizes;  // of the distinct cells, in order of first appearance
};
struct CellTable {
  std::vector<CellColumn> columns;
  std::vector<int64_t> breaks, lines;  // tokens at which sentences begin or end; line of every token, from 1
};
// Returns false if tokens have different numbers of columns or empty cells; the caller determines which. The separator ' '
// matches any run of spaces and tabs. Lines that consist of one NUL (comments) are skipped.
bool read_cells(const char* text, int64_t size, char separator, bool docstart, CellTable& out);

// Hash table of names. The number of slots is a power of two and larger than the number of names. A slot has the upper half of
// a hash and the index of its name plus one, or is 0.
struct NameTable {
  Texts names;
  const uint64_t* slots;
  int64_t n_slots;
};
// Returns false if a name occurs twice.
bool name_slots(const Texts& names, uint64_t* slots, int64_t n_slots);

struct CodedCells {
  const int32_t* codes;  // including padding cells around sentences
  Texts values;
};
// Line p of a template has the macros macro_offsets[p]:macro_offsets[p + 1], a text before each of them and one after the last.
struct Patterns {
  const int64_t* macro_offsets;
  const int64_t* rows;
  const int64_t* columns;
  Texts texts;
  int64_t n;
};
// Index of the feature of every token and line (n_tokens, n_patterns); -1 if the name is unknown or a cell is empty.
void find_features(const NameTable& table, const Patterns& patterns, const std::vector<CodedCells>& columns,
                   const int64_t* at, int64_t n_tokens, int32_t* out);

}  // namespace maxendnet

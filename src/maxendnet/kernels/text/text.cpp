// Text is read in place, without copies: texts are found by their hashes and compared byte by byte.
#include "text/text.hpp"

#include <algorithm>
#include <cstring>

#include "common/vector.hpp"

namespace maxendnet {
namespace {

constexpr char docstart_mark[] = "-DOCSTART-", left_out = '\0';
constexpr int32_t unknown = -1;

Hash hash_of(const char* text, int64_t size) {
  Hash hash;
  for (int64_t k = 0; k < size; k++) hash.add(static_cast<unsigned char>(text[k]));
  return hash;
}

// Codes of the distinct cells of one column; 1.4 times as fast as std::unordered_map.
class CellNumbers {
 public:
  CellNumbers() : slots_(1024, -1) {}

  int32_t number(const char* text, int64_t start, int64_t size, CellColumn& column) {
    const Hash hash = hash_of(text + start, size);
    const size_t mask = slots_.size() - 1;
    size_t slot = hash.mixed() & mask;
    for (; slots_[slot] >= 0; slot = (slot + 1) & mask) {
      const int32_t k = slots_[slot];
      if (hashes_[k] == hash.value && column.sizes[k] == size &&
          std::memcmp(text + column.starts[k], text + start, size) == 0)
        return k;
    }
    const int32_t k = int32_t(hashes_.size());
    slots_[slot] = k;
    hashes_.push_back(hash.value);
    column.starts.push_back(start);
    column.sizes.push_back(size);
    if (2 * hashes_.size() > slots_.size()) grow();
    return k;
  }

 private:
  void grow() {
    slots_.assign(4 * slots_.size(), -1);
    const size_t mask = slots_.size() - 1;
    for (size_t k = 0; k < hashes_.size(); k++) {
      Hash hash;
      hash.value = hashes_[k];
      size_t slot = hash.mixed() & mask;
      while (slots_[slot] >= 0) slot = (slot + 1) & mask;
      slots_[slot] = int32_t(k);
    }
  }

  std::vector<int32_t> slots_;
  std::vector<uint64_t> hashes_;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }

uint64_t half(uint64_t hash) { return hash >> 32 << 32; }
int64_t place_in(uint64_t slot) { return int64_t(slot & 0xffffffffu) - 1; }

// The next slot, from `slot` on, with the same upper half of a hash, or a free one.
int64_t next_slot(const NameTable& table, int64_t slot, uint64_t hash) {
  slot &= table.n_slots - 1;
  while (table.slots[slot] && half(table.slots[slot]) != half(hash)) slot = (slot + 1) & (table.n_slots - 1);
  return slot;
}

// A line of a template, and the cells of its macros.
class Line {
 public:
  Line(const Patterns& patterns, int64_t p, const std::vector<CodedCells>& columns,
       const std::vector<std::vector<Hash>>& hashes)
      : texts_(patterns.texts), first_text_(patterns.macro_offsets[p] + p) {
    for (int64_t j = patterns.macro_offsets[p]; j < patterns.macro_offsets[p + 1]; j++) {
      const CodedCells& column = columns[patterns.columns[j]];
      macros_.push_back({column.codes + patterns.rows[j], &column.values, hashes[patterns.columns[j]].data()});
    }
    for (size_t j = 0; j <= macros_.size(); j++)
      text_hashes_.push_back(hash_of(texts_.begin(first_text_ + j), texts_.size(first_text_ + j)));
  }

  // Number of combinations of cells, or a number above `most` if there are more.
  int64_t n_combinations(int64_t most) const {
    int64_t n = 1;
    for (const Macro& macro : macros_) n = n <= most ? n * macro.values->n : n;
    return n;
  }
  int64_t combination(int64_t at) const {
    int64_t k = 0;
    for (const Macro& macro : macros_) k = k * macro.values->n + macro.codes[at];
    return k;
  }
  bool has_empty_cell(int64_t at) const {
    for (const Macro& macro : macros_)
      if (macro.values->size(macro.codes[at]) == 0) return true;
    return false;
  }
  uint64_t hash(int64_t at) const {
    Hash hash = text_hashes_[0];
    for (size_t j = 0; j < macros_.size(); j++) {
      hash.add(macros_[j].hashes[macros_[j].codes[at]]);
      hash.add(text_hashes_[j + 1]);
    }
    return hash.mixed();
  }
  bool makes(const char* name, int64_t size, int64_t at) const {
    const char* end = name + size;
    const auto begins_with = [&](const Texts& texts, int64_t k) {
      const bool same = texts.size(k) <= end - name && std::memcmp(name, texts.begin(k), texts.size(k)) == 0;
      name += same ? texts.size(k) : 0;
      return same;
    };
    if (!begins_with(texts_, first_text_)) return false;
    for (size_t j = 0; j < macros_.size(); j++)
      if (!begins_with(*macros_[j].values, macros_[j].codes[at]) || !begins_with(texts_, first_text_ + j + 1))
        return false;
    return name == end;
  }

 private:
  struct Macro {
    const int32_t* codes;  // code of the macro's cell, by token
    const Texts* values;
    const Hash* hashes;
  };
  const Texts& texts_;
  int64_t first_text_;
  std::vector<Macro> macros_;
  std::vector<Hash> text_hashes_;
};

// Indices of the names of a line at several tokens. Names are far apart in memory, so a few of them are prefetched together.
void look_up(const NameTable& table, const Line& line, const std::vector<int64_t>& at, std::vector<int32_t>& places) {
  constexpr size_t together = 32;
  uint64_t hashes[together];
  int64_t slots[together];
  places.resize(at.size());
  for (size_t begin = 0; begin < at.size(); begin += together) {
    const size_t n = std::min(together, at.size() - begin);
    for (size_t k = 0; k < n; k++) {
      hashes[k] = line.hash(at[begin + k]);
      prefetch(table.slots + (int64_t(hashes[k]) & (table.n_slots - 1)));
    }
    for (size_t k = 0; k < n; k++) {
      slots[k] = next_slot(table, int64_t(hashes[k]), hashes[k]);
      if (table.slots[slots[k]]) prefetch(table.names.offsets + place_in(table.slots[slots[k]]));
    }
    for (size_t k = 0; k < n; k++)
      if (table.slots[slots[k]]) prefetch(table.names.begin(place_in(table.slots[slots[k]])));
    for (size_t k = 0; k < n; k++) {
      int64_t place = unknown;
      for (int64_t slot = slots[k]; table.slots[slot] && place == unknown;
           slot = next_slot(table, slot + 1, hashes[k])) {
        const int64_t name = place_in(table.slots[slot]);
        if (line.makes(table.names.begin(name), table.names.size(name), at[begin + k])) place = name;
      }
      places[begin + k] = line.has_empty_cell(at[begin + k]) ? unknown : int32_t(place);
    }
  }
}

}  // namespace

bool read_cells(const char* text, int64_t size, char separator, bool docstart, CellTable& out) {
  const bool spaces = separator == ' ';
  const int64_t mark = sizeof(docstart_mark) - 1;
  std::vector<CellNumbers> numbers;
  out.breaks.push_back(0);
  int64_t line = 0, n_tokens = 0;
  const auto ends_sentence = [&] {
    if (n_tokens != out.breaks.back()) out.breaks.push_back(n_tokens);
  };
  for (int64_t begin = 0, next; begin <= size; begin = next) {
    line++;
    const void* newline = begin < size ? std::memchr(text + begin, '\n', size - begin) : nullptr;
    int64_t end = newline ? static_cast<const char*>(newline) - text : size;
    next = end + 1;
    if (end - begin == 1 && text[begin] == left_out) continue;
    while (end > begin && is_blank(text[end - 1])) end--;
    while (spaces && begin < end && is_blank(text[begin])) begin++;
    const bool marked =
        docstart && end - begin >= mark && std::memcmp(text + begin, docstart_mark, mark) == 0 &&
        (end - begin == mark || text[begin + mark] == separator || (spaces && is_blank(text[begin + mark])));
    if (begin == end || marked) {
      ends_sentence();
      continue;
    }
    size_t k = 0;
    for (int64_t at = begin; at <= end; k++) {
      int64_t last = at;
      while (last < end && text[last] != separator && !(spaces && text[last] == '\t')) last++;
      if (last == at) return false;
      if (n_tokens == 0) {
        out.columns.emplace_back();
        numbers.emplace_back();
      } else if (k >= out.columns.size()) {
        return false;
      }
      out.columns[k].codes.push_back(numbers[k].number(text, at, last - at, out.columns[k]));
      at = last + 1;
      while (spaces && at < end && is_blank(text[at])) at++;
    }
    if (k != out.columns.size()) return false;
    out.lines.push_back(line);
    n_tokens++;
  }
  ends_sentence();
  return n_tokens > 0;
}

bool name_slots(const Texts& names, uint64_t* slots, int64_t n_slots) {
  std::fill(slots, slots + n_slots, 0);
  for (int64_t k = 0; k < names.n; k++) {
    const uint64_t hash = hash_of(names.begin(k), names.size(k)).mixed();
    int64_t slot = int64_t(hash) & (n_slots - 1);
    for (; slots[slot]; slot = (slot + 1) & (n_slots - 1)) {
      const int64_t present = place_in(slots[slot]);
      if (half(slots[slot]) == half(hash) && names.size(present) == names.size(k) &&
          std::memcmp(names.begin(present), names.begin(k), names.size(k)) == 0)
        return false;
    }
    slots[slot] = half(hash) | uint64_t(k + 1);
  }
  return true;
}

void find_features(const NameTable& table, const Patterns& patterns, const std::vector<CodedCells>& columns,
                   const int64_t* at, int64_t n_tokens, int32_t* out) {
  std::vector<std::vector<Hash>> hashes;
  for (const CodedCells& column : columns) {
    hashes.emplace_back(column.values.n);
    for (int64_t v = 0; v < column.values.n; v++)
      hashes.back()[v] = hash_of(column.values.begin(v), column.values.size(v));
  }
  std::vector<int64_t> queries;  // first token of every combination of cells
  std::vector<int32_t> place;    // index of the feature of every query
  std::vector<int32_t> number;   // query of every combination
  std::vector<int32_t> numbers;  // query of every token
  for (int64_t p = 0; p < patterns.n; p++) {
    const Line line(patterns, p, columns, hashes);
    // unless there are many more combinations of cells than tokens, look up each combination once
    const int64_t most = 4 * n_tokens + 1000, n_combinations = line.n_combinations(most);
    if (n_combinations > most) {
      queries.assign(at, at + n_tokens);
      look_up(table, line, queries, place);
      for (int64_t t = 0; t < n_tokens; t++) out[t * patterns.n + p] = place[t];
      continue;
    }
    queries.clear();
    number.assign(n_combinations, unknown);
    numbers.resize(n_tokens);
    for (int64_t t = 0; t < n_tokens; t++) {
      int32_t& query = number[line.combination(at[t])];
      if (query == unknown) {
        query = int32_t(queries.size());
        queries.push_back(at[t]);
      }
      numbers[t] = query;
    }
    look_up(table, line, queries, place);
    for (int64_t t = 0; t < n_tokens; t++) out[t * patterns.n + p] = place[numbers[t]];
  }
}

}  // namespace maxendnet

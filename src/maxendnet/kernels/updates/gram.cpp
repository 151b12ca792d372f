// Sum of outer products of sparse rows.
#include <algorithm>

#include "common/kernels.hpp"

namespace maxendnet {

void add_gram(const SparseRows& rows, int64_t n_columns, int64_t low, int64_t high, float* out) {
  for (int64_t r = 0; r < rows.n_rows; r++) {
    const int32_t* const begin = rows.indices + rows.indptr[r];
    const int32_t* const end = rows.indices + rows.indptr[r + 1];
    const float* const values = rows.data + rows.indptr[r];
    for (const int32_t* i = std::lower_bound(begin, end, low); i < end && *i < high; i++) {
      float* const row = out + *i * n_columns;
      const float value = values[i - begin];
      for (const int32_t* j = begin; j <= i; j++) row[*j] += value * values[j - begin];
    }
  }
}

}  // namespace maxendnet

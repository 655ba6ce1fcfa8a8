#include "ops/cpu/transpose16.h"

#include <vector>

#include "ops/cpu/gemm_avx512.h"
#include "tests/catch.h"

namespace leat {
namespace {

template <typename T>
std::vector<T> counted_values(int64_t n) {
  std::vector<T> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i * 7 + 1);
  return values;
}

TEMPLATE_TEST_CASE("matrices of any size are transposed in registers", "", uint16_t, uint32_t) {
  if (!has_packed_gemm()) return;  // no AVX-512
  for (int64_t rows : {1, 15, 16, 17, 33, 64}) {
    for (int64_t columns : {1, 16, 18, 31, 48}) {
      const std::vector<TestType> from = counted_values<TestType>(rows * columns);
      std::vector<TestType> to(from.size());
      REQUIRE(transpose_avx512(from.data(), rows, to.data(), columns, rows, columns));
      int64_t wrong = 0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j)
          wrong +=
              to[static_cast<size_t>(i * columns + j)] != from[static_cast<size_t>(j * rows + i)];
      }
      INFO(rows << " by " << columns);
      CHECK(wrong == 0);
    }
  }
}

TEMPLATE_TEST_CASE("a change of layout in registers has an inverse", "", uint16_t, uint32_t) {
  if (!has_packed_gemm()) return;  // no AVX-512
  for (int64_t n : {1, 15, 16, 17, 50}) {
    const std::vector<TestType> from = counted_values<TestType>(16 * n);
    std::vector<TestType> tall(from.size()), back(from.size());
    REQUIRE(transpose_16xn_avx512(from.data(), tall.data(), n));
    REQUIRE(transpose_nx16_avx512(tall.data(), back.data(), n));
    CHECK(tall[static_cast<size_t>((n - 1) * 16 + 3)] == from[static_cast<size_t>(4 * n - 1)]);
    CHECK(back == from);
  }
}

}  // namespace
}  // namespace leat

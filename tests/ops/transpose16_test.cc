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
  // A part of a larger matrix becomes a part of another one: what is around it stays.
  const int64_t around = 3;
  for (int64_t rows : {1, 15, 16, 17, 33, 64, 65, 80, 130}) {
    for (int64_t columns : {1, 16, 18, 31, 32, 33, 47, 48, 64, 97, 128}) {
      const int64_t from_row = rows + around, to_row = columns + around;
      const std::vector<TestType> from = counted_values<TestType>(from_row * columns);
      std::vector<TestType> to(static_cast<size_t>(rows * to_row), TestType{9});
      REQUIRE(transpose_avx512(from.data(), from_row, to.data(), to_row, rows, columns));
      int64_t wrong = 0;
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < to_row; ++j) {
          const TestType expected =
              j < columns ? from[static_cast<size_t>(j * from_row + i)] : TestType{9};
          wrong += to[static_cast<size_t>(i * to_row + j)] != expected;
        }
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

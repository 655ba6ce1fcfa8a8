#include "ops/cpu/gemm_avx512.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using namespace testing;

// op(A) * op(B) of [m, k] and [k, n] by packed_gemm(), as one call or in boxes.
Tensor packed_product(const onednn::Gemm& g, const Tensor& a, const Tensor& b, int64_t box) {
  Tensor c(DType::f32, {g.m, g.n});
  const Tensor memory(DType::u8, {static_cast<int64_t>(packed_gemm_scratch_bytes(g.m))});
  const auto size = static_cast<int64_t>(dtype_size(a.dtype()));
  for (int64_t row = 0; row < g.m; row += box) {
    for (int64_t column = 0; column < g.n; column += box) {
      onednn::Gemm part = g;
      part.m = std::min(box, g.m - row);
      part.n = std::min(box, g.n - column);
      packed_gemm(
          part, a.dtype(),
          static_cast<const std::byte*>(a.raw()) + (g.trans_a ? row : row * g.lda) * size,
          static_cast<const std::byte*>(b.raw()) + (g.trans_b ? column * g.ldb : column) * size,
          c.data<float>() + row * g.n + column, static_cast<std::byte*>(memory.raw()));
    }
  }
  return c;
}

TEST_CASE("packed products are right, and their bits do not depend on the call") {
  if (!has_packed_gemm()) return;
  const auto dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const bool trans_a = GENERATE(false, true), trans_b = GENERATE(false, true);
  struct Sizes {
    int64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Sizes{1, 1, 1}, {37, 45, 300}, {12, 32, 256}, {25, 17, 600}}) {
    INFO(m << " by " << n << " by " << k << " of " << dtype << ", " << trans_a << trans_b);
    const Tensor a = random_tensor(dtype, trans_a ? Shape{k, m} : Shape{m, k}, 1),
                 b = random_tensor(dtype, trans_b ? Shape{n, k} : Shape{k, n}, 2);
    const onednn::Gemm g{trans_a, trans_b, m, n, k, trans_a ? m : k, trans_b ? k : n, n};
    const Tensor whole = packed_product(g, a, b, 1000);
    double worst = 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q)
          sum += a.at(trans_a ? q * m + i : i * k + q) * b.at(trans_b ? j * k + q : q * n + j);
        worst = std::max(worst, std::abs(whole.at(i * n + j) - sum));
      }
    }
    CHECK(worst <= 1e-7 * static_cast<double>(k) + 1e-6);
    check_identical(packed_product(g, a, b, 7), whole);
    check_identical(packed_product(g, a, b, 16), whole);
  }
}

}  // namespace
}  // namespace leat

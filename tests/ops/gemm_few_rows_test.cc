#include "ops/cpu/gemm_few_rows.h"

#include <cmath>

#include "ops/cpu/onednn.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using namespace testing;

// a [m, k] times b [n, k] transposed by few_rows_gemm(), in boxes of so many rows and columns.
Tensor product(const Tensor& a, const Tensor& b, int64_t rows, int64_t columns) {
  const int64_t m = a.shape()[0], n = b.shape()[0], k = a.shape()[1];
  Tensor c = random_tensor(DType::f32, {m, n}, 9);  // old contents, which must not matter
  for (int64_t row = 0; row < m; row += rows) {
    for (int64_t column = 0; column < n; column += columns) {
      few_rows_gemm({.trans_b = true,
                     .m = std::min(rows, m - row),
                     .n = std::min(columns, n - column),
                     .k = k,
                     .lda = k,
                     .ldb = k,
                     .ldc = n},
                    a.data<float>() + row * k, b.data<float>() + column * k,
                    c.data<float>() + row * n + column);
    }
  }
  return c;
}

TEST_CASE("products of few rows are right, and their bits do not depend on the call") {
  if (!onednn::has_avx512()) return;
  struct Sizes {
    int64_t m, n, k;
  };
  for (const auto& [m, n, k] : {Sizes{1, 1, 1}, {8, 3, 1024}, {13, 8, 1025}, {37, 10, 2500}}) {
    INFO(m << " by " << n << " by " << k);
    const Tensor a = random_tensor(DType::f32, {m, k}, 1), b = random_tensor(DType::f32, {n, k}, 2);
    const Tensor whole = product(a, b, m, n);
    double worst = 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t q = 0; q < k; ++q) sum += a.at(i * k + q) * b.at(j * k + q);
        worst = std::max(worst, std::abs(whole.at(i * n + j) - sum));
      }
    }
    CHECK(worst <= 1e-7 * static_cast<double>(k) + 1e-6);
    check_identical(product(a, b, 5, 7), whole);
    check_identical(product(a, b, 1, 1), whole);
    check_identical(product(a, b, m, 4), whole);
  }
}

TEST_CASE("layers with large weights and few rows scale, add a bias and rectify") {
  constexpr int64_t kInputs = 1500, kOutputs = 701;
  const onednn::Gemm whole{.trans_b = true, .m = 13, .n = kOutputs, .k = kInputs};
  if (onednn::has_avx512()) CHECK(few_rows_gemm_fits(whole));
  const Tensor x = random_tensor(DType::f32, {13, kInputs}, 1),
               w = random_tensor(DType::f32, {kOutputs, kInputs}, 2),
               bias = random_tensor(DType::f32, {kOutputs}, 3);
  const Attrs attrs{
      {"transB", int64_t{1}}, {"alpha", 0.5}, {"leat_activation", std::string("relu")}};
  const Tensor y = run1("leat.MatMul", {x, w, bias}, attrs);
  double worst = 0;
  for (int64_t i = 0; i < 13; ++i) {
    for (int64_t j = 0; j < kOutputs; ++j) {
      double sum = 0;
      for (int64_t q = 0; q < kInputs; ++q) sum += x.at(i * kInputs + q) * w.at(j * kInputs + q);
      worst =
          std::max(worst, std::abs(y.at(i * kOutputs + j) - std::max(0.0, 0.5 * sum + bias.at(j))));
    }
  }
  CHECK(worst <= 2e-4);
  check_tiles("leat.MatMul", {x, w, bias}, attrs);
}

}  // namespace
}  // namespace leat

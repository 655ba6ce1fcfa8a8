// The cases of products of one column or one row, whose C may have any of several shapes.
#include "tests/ops/conformance_more_cases.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

uint64_t factor_seed = 0;  // from 9000 in each table

Tensor factor(const Shape& shape) { return random_tensor(DType::f32, shape, ++factor_seed, -2, 2); }

// A of `rows` rows times B of one column. B by its row in memory with `transposed`.
void add_gemms_of_one_column(std::vector<ConformanceCase>& cases, int64_t rows, bool transposed) {
  const auto add = [&](const Shape& c, double beta) {
    const Attrs attrs = {{"transB", int64_t{transposed}}, {"alpha", 0.5}, {"beta", beta}};
    const Tensor b = transposed ? factor({1, 6}) : factor({6, 1});
    cases.push_back(
        ConformanceCase{"Gemm", {factor({rows, 6}), b, factor(c)}, attrs}.grad({0, 1, 2}));
  };
  for (const double beta : {1.0, 0.25}) {
    add({1}, beta);
    add({1, 1}, beta);
    add({}, beta);
    add({rows, 1}, beta);
  }
}

}  // namespace

void add_product_cases(std::vector<ConformanceCase>& cases) {
  factor_seed = 9000;
  for (const int64_t rows : {1, 5}) {
    add_gemms_of_one_column(cases, rows, false);
    add_gemms_of_one_column(cases, rows, true);
  }
  const Attrs relu = {{"leat_activation", std::string("relu")}};
  const Attrs transposed = {{"transB", int64_t{1}}};
  Attrs both = relu;
  both["transB"] = int64_t{1};
  for (const int64_t rows : {int64_t{1}, kBatch}) {
    cases.push_back({"Gemm", {factor({rows, 40}), factor({40, 1}), factor({1})}, relu});
    cases.push_back({"leat.MatMul", {factor({rows, 40}), factor({40, 1}), factor({1})}});
    cases.push_back(
        {"leat.MatMul", {factor({rows, 40}), factor({1, 40}), factor({1})}, transposed});
    cases.push_back({"leat.MatMul", {factor({rows, 40}), factor({40, 1}), factor({1})}, relu});
    cases.push_back({"leat.MatMul", {factor({rows, 40}), factor({1, 40}), factor({1})}, both});
  }
  cases.push_back({"leat.MatMul", {factor({3, 7, 40}), factor({40, 1}), factor({1})}, relu});
}

}  // namespace leat::testing

#include "ops/cpu/matmul_bf16.h"

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/onednn.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
using namespace testing;

namespace {

// A product of bf16: the node and the kernel that multiplies in bf16, whatever the processor.
struct ProductCase {
  std::string op;
  Shape a, b, c;  // c: rank 0 if the product has none
  Shape y;
  Attrs attrs;
};

// Runs the kernel, in tiles of `tile_rows` rows if that is not 0.
Tensor run_bf16(const ProductCase& c, const std::vector<Tensor>& inputs, int64_t tile_rows) {
  const OpDef& op = *test_catalogue().find(c.op);
  const Attrs attrs = with_defaults(op, c.attrs);
  Node node;
  node.op = &op;
  node.attrs = c.attrs;
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.node = &node;
  setup.tile_rows = tile_rows;
  setup.subject = c.op;
  std::vector<void*> in;
  for (const Tensor& input : inputs) {
    setup.types.inputs.push_back(
        {DType::bf16, input.shape(), Layout::plain, ValueKind::tensor, true});
    in.push_back(input.raw());
  }
  setup.types.outputs.push_back({DType::bf16, c.y, Layout::plain, ValueKind::tensor, true});
  auto product = c.op == "Gemm" ? describe_gemm(setup.types) : describe_matmul(setup.types);
  REQUIRE(product.ok());
  auto kernel = make_bf16_product_kernel(setup, *product);
  REQUIRE(kernel.status().message() == "");
  Tensor y(DType::bf16, c.y);
  run_kernel(**kernel, in, {y.raw()});
  return y;
}

std::vector<ProductCase> product_cases() {
  const auto trans = [](int64_t a, int64_t b) {
    return Attrs{{"transA", a}, {"transB", b}, {"alpha", 0.5}, {"beta", -2.0}};
  };
  return {{"MatMul", {150, 90}, {90, 700}, {}, {150, 700}, {}},
          {"MatMul", {5, 33, 12}, {12, 9}, {}, {5, 33, 9}, {}},
          {"MatMul", {5, 33, 12}, {5, 12, 70}, {}, {5, 33, 70}, {}},
          {"Gemm", {37, 19}, {21, 19}, {21}, {37, 21}, trans(0, 1)},
          {"Gemm", {190, 37}, {190, 130}, {37, 130}, {37, 130}, trans(1, 0)},
          {"Gemm", {19, 1}, {1, 19}, {1, 1}, {1, 1}, trans(1, 1)},
          {"Gemm", {51, 150}, {51, 70}, {70}, {150, 70}, trans(1, 0)},
          {"Gemm", {51, 150}, {70, 51}, {70}, {150, 70}, trans(1, 1)},
          {"leat.MatMul", {3, 51, 70}, {3, 51, 40}, {}, {3, 70, 40}, {{"transA", int64_t{1}}}},
          {"leat.MatMul",
           {3, 51, 70},
           {3, 40, 51},
           {},
           {3, 70, 40},
           {{"transA", int64_t{1}}, {"transB", int64_t{1}}}}};
}

std::vector<Tensor> inputs_of(const ProductCase& c) {
  std::vector<Tensor> inputs{random_tensor(DType::bf16, c.a, 1),
                             random_tensor(DType::bf16, c.b, 2)};
  if (c.c.rank() > 0) inputs.push_back(random_tensor(DType::bf16, c.c, 3));
  return inputs;
}

bool library_multiplies() {
  return onednn::make_bf16_product({false, false, 64, 64, 64, 64, 64, 64}, false).ok();
}

TEST_CASE("the library's products of bf16 are those of f32, rounded once") {
  if (!library_multiplies()) return;  // no AVX-512
  for (const ProductCase& c : product_cases()) {
    INFO(c.op << " of " << c.a << " and " << c.b);
    const std::vector<Tensor> inputs = inputs_of(c);
    std::vector<Tensor> wide;
    for (const Tensor& input : inputs) wide.push_back(input.cast(DType::f32));
    check_close(run_bf16(c, inputs, 0), run1(c.op, wide, c.attrs).cast(DType::bf16), 1e-2, 1e-2);
  }
}

TEST_CASE("the library's products of bf16 do not depend on how they are cut into rows") {
  if (!library_multiplies()) return;  // no AVX-512
  for (const ProductCase& c : product_cases()) {
    if (c.op != "MatMul") continue;
    INFO(c.op << " of " << c.a << " and " << c.b);
    const std::vector<Tensor> inputs = inputs_of(c);
    const Tensor whole = run_bf16(c, inputs, 0);
    for (int64_t rows : {1, 2, 70}) check_identical(run_bf16(c, inputs, rows), whole);
  }
}

}  // namespace
}  // namespace leat

#include "ops/graph/cost.h"

#include "ops/catalogue.h"
#include "tests/catch.h"

namespace leat {
namespace {

OperandType floats(std::initializer_list<int64_t> sizes) {
  OperandType type;
  type.dtype = DType::f32;
  type.shape = Shape(sizes);
  type.present = true;
  return type;
}

double flops(const char* op, std::vector<OperandType> inputs, OperandType output,
             Attrs attrs = {}) {
  static const Catalogue catalogue = standard_catalogue();
  OpTypes types{std::move(inputs), {output}, &attrs};
  const OpDef* def = catalogue.find(op);
  REQUIRE(def);
  return product_flops(*def, types);
}

}  // namespace

TEST_CASE("a matrix product costs two operations for each multiply-add") {
  CHECK(flops("MatMul", {floats({7, 3, 5}), floats({5, 11})}, floats({7, 3, 11})) ==
        2 * 7 * 3 * 5 * 11);
  CHECK(flops("MatMul", {floats({5}), floats({5, 11})}, floats({11})) == 2 * 5 * 11);
  CHECK(flops("Gemm", {floats({5, 3}), floats({5, 11})}, floats({3, 11}),
              {{"transA", int64_t{1}}}) == 2 * 3 * 5 * 11);
}

TEST_CASE("a convolution and its gradients cost the same") {
  // 4 images of 6 channels, two groups, to 8 channels; a window of 3x3; 10x10 outputs.
  const auto x = floats({4, 6, 12, 12}), w = floats({8, 3, 3, 3}), y = floats({4, 8, 10, 10});
  const double expected = 2.0 * 4 * 8 * 10 * 10 * 3 * 3 * 3;
  CHECK(flops("Conv", {x, w}, y) == expected);
  CHECK(flops("leat.ConvGradInput", {y, w}, x) == expected);
  CHECK(flops("leat.ConvGradWeights", {x, y}, w) == expected);
  CHECK(flops("ConvTranspose", {y, w}, x) == expected);
}

TEST_CASE("cells and attention cost what their products cost") {
  // 7 steps of 3 rows with a state of 5, four gates.
  const auto x = floats({7, 3, 20}), r = floats({5, 20}), y = floats({7, 3, 5});
  const double of_state = 2.0 * 7 * 3 * 5 * 20;
  CHECK(flops("leat.Recurrent", {x, r}, y) == of_state);
  CHECK(flops("leat.RecurrentGrad", {r, y}, x) == of_state);
  // 2 rows with 3 heads of 8, 6 queries and 11 keys.
  const auto q = floats({2, 3, 6, 8}), k = floats({2, 3, 11, 8});
  CHECK(flops("Attention", {q, k, k}, q) == 2.0 * 2 * (2 * 3 * 6 * 8) * 11);
  // 2 rows of 6 steps, 3 heads of 8 and values of 4.
  const auto lq = floats({2, 6, 24}), lv = floats({2, 6, 12});
  const Attrs attrs{{"kv_num_heads", int64_t{3}},
                    {"q_num_heads", int64_t{3}},
                    {"update_rule", std::string("linear")}};
  CHECK(flops("LinearAttention", {lq, lq, lv}, lv, attrs) == 2.0 * 2 * (2 * 6 * 24) * 4);
}

TEST_CASE("an op in a branch costs what it costs outside") {
  const auto a = floats({7, 5}), b = floats({5, 11}), y = floats({7, 11});
  OperandType condition = floats({});
  condition.dtype = DType::boolean;
  CHECK(flops("when.MatMul", {condition, a, b}, y) == 2 * 7 * 5 * 11);
}

TEST_CASE("an op bound by memory costs no flops, and absent operands have no bytes") {
  CHECK(flops("Relu", {floats({4, 4})}, floats({4, 4})) == 0);
  OpTypes types{{floats({4, 4}), OperandType()}, {floats({2})}, nullptr};
  CHECK(operand_bytes(types) == 4 * 18);
}

}  // namespace leat

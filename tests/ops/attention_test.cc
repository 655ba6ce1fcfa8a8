// Attention and its gradient: against the formula in doubles, in tiles of several blocks, and what
// is refused.
#include <cmath>
#include <limits>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor random_doubles(const Shape& shape, uint64_t seed) {
  return random_tensor(DType::f64, shape, seed, -2, 2);
}

// softmax(q k^T / sqrt(D)) v for the heads of [N,H,T,D]; query i sees keys up to `ahead` + i.
Tensor attended(const Tensor& q, const Tensor& k, const Tensor& v, int64_t ahead) {
  const Shape &qs = q.shape(), &ks = k.shape(), &vs = v.shape();
  const int64_t group = qs[1] / ks[1], keys = ks[2];
  Tensor y(DType::f64, {qs[0], qs[1], qs[2], vs[3]});
  for (int64_t at = 0; at < qs[0] * qs[1] * qs[2]; ++at) {
    const int64_t row = at % qs[2], n = at / qs[2] / qs[1], head = at / qs[2] % qs[1] / group;
    const int64_t base = (n * ks[1] + head) * keys;
    std::vector<double> weights(static_cast<size_t>(keys));
    double sum = 0;
    for (int64_t j = 0; j < keys && j <= row + ahead; ++j) {
      double score = 0;
      for (int64_t d = 0; d < qs[3]; ++d)
        score += q.at(at * qs[3] + d) * k.at((base + j) * qs[3] + d);
      sum += weights[static_cast<size_t>(j)] =
          std::exp(score / std::sqrt(static_cast<double>(qs[3])));
    }
    for (int64_t d = 0; d < vs[3]; ++d) {
      double value = 0;
      for (int64_t j = 0; j < keys; ++j)
        value += weights[static_cast<size_t>(j)] * v.at((base + j) * vs[3] + d);
      y.set(at * vs[3] + d, value / sum);
    }
  }
  return y;
}

const Attrs kCausal{{"is_causal", int64_t{1}}};

TEST_CASE("Attention of several blocks is the softmax of all keys") {
  const Tensor q = random_doubles({2, 4, 70, 5}, 1), k = random_doubles({2, 2, 600, 5}, 2),
               v = random_doubles({2, 2, 600, 3}, 3);
  check_close(run1("Attention", {q, k, v}), attended(q, k, v, 600), 1e-12, 1e-13);
  check_close(run1("Attention", {q, k, v}, kCausal), attended(q, k, v, 0), 1e-12, 1e-13);
  const auto f32 = [](const Tensor& x) { return x.cast(DType::f32); };
  check_close(run1("Attention", {f32(q), f32(k), f32(v)}), f32(attended(q, k, v, 600)), 1e-5, 2e-6);
}

TEST_CASE("Attention takes heads that lie side by side") {
  const Tensor q = random_doubles({1, 2, 3, 4}, 1), k = random_doubles({1, 2, 5, 4}, 2),
               v = random_doubles({1, 2, 5, 4}, 3);
  const auto flat = [](const Tensor& x) {
    const Tensor turned = run1("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return run1("Reshape", {turned, ints({1, x.shape()[2], 8})});
  };
  const Attrs heads{{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}};
  check_close(run1("Attention", {flat(q), flat(k), flat(v)}, heads), flat(attended(q, k, v, 5)),
              1e-12, 1e-13);
}

TEST_CASE("the present keys are the past ones and then the new ones") {
  const Tensor q = random_doubles({1, 1, 2, 3}, 1), k = random_doubles({1, 1, 2, 3}, 2),
               v = random_doubles({1, 1, 2, 3}, 3);
  const Tensor past_k = random_doubles({1, 1, 4, 3}, 4), past_v = random_doubles({1, 1, 4, 3}, 5);
  const auto out = run("Attention", {q, k, v, Tensor(), past_k, past_v}, kCausal, 3);
  const Attrs axis{{"axis", int64_t{2}}};
  const Tensor all_k = run1("Concat", {past_k, k}, axis), all_v = run1("Concat", {past_v, v}, axis);
  check_identical(out[1], all_k);
  check_identical(out[2], all_v);
  check_close(out[0], attended(q, all_k, all_v, 4), 1e-12, 1e-13);
}

TEST_CASE("a query that sees no key has a result of zeros, and passes no gradient") {
  const Tensor x = random_doubles({1, 1, 2, 3}, 1);
  const Tensor mask = Tensor::of<bool>({2, 2}, {false, false, true, true});
  const Tensor y = run1("Attention", {x, x, x, mask});
  for (int64_t i = 0; i < 3; ++i) CHECK(y.at(i) == 0);
  CHECK(std::isfinite(y.at(3)));
  const double hidden = -std::numeric_limits<double>::infinity();
  const Tensor floats = Tensor::of<double>({2, 2}, {hidden, hidden, 0, 0});
  check_identical(run1("Attention", {x, x, x, floats}), y);
  check_gradients("Attention", {x, x, x, mask}, {}, {0, 1, 2});
}

TEST_CASE("gradients of Attention agree with finite differences for many shapes") {
  const std::vector<std::vector<int64_t>> shapes = {
      // N, heads of Q, heads of K, queries, keys, columns of Q, columns of V
      {1, 1, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 3, 2, 1}, {1, 2, 1, 3, 1, 2, 3}, {0, 2, 2, 3, 3, 2, 2},
      {2, 2, 2, 0, 3, 2, 2}, {1, 2, 2, 3, 0, 2, 2}, {1, 6, 2, 4, 4, 1, 2}, {1, 1, 1, 66, 258, 1, 1},
  };
  for (const auto& s : shapes) {
    const Tensor q = random_doubles({s[0], s[1], s[3], s[5]}, 1),
                 k = random_doubles({s[0], s[2], s[4], s[5]}, 2),
                 v = random_doubles({s[0], s[2], s[4], s[6]}, 3);
    for (const Attrs& attrs : {Attrs{}, kCausal, Attrs{{"softcap", 1.0}, {"scale", 2.0}}}) {
      check_gradients("Attention", {q, k, v}, attrs, {0, 1, 2}, 1, 2e-6);
      if (s[4] < 2 || s[3] < 1 || s[3] > 10) continue;
      for (const Shape& mask : {Shape{s[4]}, Shape{s[3], 1}, Shape{s[1], 1, s[4] - 1},
                                Shape{s[0], 1, s[3], s[4]}, Shape{1, s[1], 1, s[4]}})
        check_gradients("Attention", {q, k, v, random_doubles(mask, 4)}, attrs, {0, 1, 2, 3}, 1,
                        2e-6);
    }
  }
}

// The memory of a step must not grow with queries times keys.
TEST_CASE("Attention of many steps has no matrix of all queries by all keys") {
  const Shape shape{1, 1, 4096, 8};
  const OperandType operand{DType::f32, shape, Layout::plain, ValueKind::tensor, true};
  const Attrs attrs{{"is_causal", int64_t{1}}};
  OperandType sums = operand;
  sums.shape = {1, 1, 4096};
  for (const char* name : {"Attention", "leat.AttentionGrad"}) {
    KernelSetup setup;
    setup.types.inputs = {operand, operand, operand};
    setup.types.outputs = {operand};
    if (name != std::string("Attention")) {
      setup.types.inputs = {operand, operand, operand, operand, sums, operand};
      setup.types.outputs = {operand, operand, operand};
    }
    setup.types.attrs = &attrs;
    const auto kernel = test_catalogue().find(name)->kernels.at("cpu")(setup);
    REQUIRE(kernel.ok());
    CHECK((*kernel)->workspace_bytes() == 0);
    CHECK((*kernel)->scratch_bytes() < 512 * 1024);  // 64 MiB would be the matrix
  }
}

TEST_CASE("Attention keeps symbolic sizes") {
  const Dim batch = Dim::of_symbol(1), steps = Dim::of_symbol(2);
  const ValueType x = tensor_type(DType::f16, {batch, steps, Dim::of(12)});
  const auto outcome =
      infer("Attention", {x, x, x}, {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}}, 5);
  REQUIRE(outcome.ok());
  CHECK(outcome->outputs[0].shape == x.shape);
  CHECK(outcome->outputs[1].shape == SymbolicShape{batch, Dim::of(3), steps, Dim::of(4)});
  CHECK(outcome->outputs[4].dtype == DType::f32);
}

TEST_CASE("Attention refuses operands that do not fit, by name") {
  const Tensor x = random_doubles({1, 2, 3, 4}, 1), flat = random_doubles({1, 3, 8}, 1);
  const auto error = [](const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
    return run_error("Attention", inputs, attrs).message();
  };
  const auto says = [](const std::string& message, const char* text) {
    INFO(message);
    CHECK(message.find(text) != std::string::npos);
  };
  says(error({flat, flat, flat}), "expected the attribute q_num_heads");
  says(error({x, random_doubles({1, 3, 3, 4}, 1), random_doubles({1, 3, 3, 4}, 1)}),
       "that K's heads divide");
  says(error({x, random_doubles({1, 2, 3, 5}, 1), x}), "expected one batch");
  says(error({x, x, x, random_doubles({2, 2}, 1)}), "attn_mask: expected a shape that broadcasts");
  says(error({x, x, x, ints({1, 1, 1})}), "attn_mask");
  says(error({x, x, x, Tensor(), x}), "expected past_key and past_value, or neither");
  says(error({x, x, x, Tensor(), x, x, ints({1})}), "received both");
  says(error({x, x, x}, {{"softmax_precision", int64_t{7}}}), "softmax_precision");
  says(error({x, x, x}, {{"qk_matmul_output_mode", int64_t{4}}}), "qk_matmul_output_mode");
  says(error({x, x, x}, {{"left_window_size", int64_t{-2}}}), "left_window_size");
}

TEST_CASE("Attention refuses more heads than a kernel can count") {
  const Tensor x(DType::f32, {1, 1, 0});
  for (const int64_t heads : {int64_t{1} << 31, int64_t{1} << 62}) {
    const Attrs attrs{{"q_num_heads", heads}, {"kv_num_heads", int64_t{1}}};
    CHECK(!run_error("Attention", {x, x, x}, attrs).ok());
  }
}

// The kernel reads as many elements of y and dy as the shapes of Q and V tell.
TEST_CASE("the gradient of Attention refuses a result of another shape") {
  const Tensor x = random_doubles({1, 2, 3, 4}, 1), sums = random_doubles({1, 2, 3}, 1);
  CHECK(run("leat.AttentionGrad", {x, x, x, x, sums, x}, {}, 3).size() == 3);
  const Tensor small = random_doubles({1, 1, 1, 1}, 1);
  CHECK(run_error("leat.AttentionGrad", {x, x, x, small, sums, small}, {}, 3)
            .message()
            .find("expected y and dy of Attention's shape") != std::string::npos);
}

}  // namespace
}  // namespace leat::testing

// LinearAttention: the recurrence by hand, and refusals.
#include <cmath>

#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Attrs of_rule(const char* rule, int64_t query_heads = 1, int64_t heads = 1) {
  return {{"update_rule", std::string(rule)},
          {"q_num_heads", query_heads},
          {"kv_num_heads", heads},
          {"scale", 1.0}};
}

TEST_CASE("LinearAttention reads what keys have written") {
  // Keys of two elements, values of one.
  const Tensor query = Tensor::of<float>({1, 2, 2}, {1, 0, 1, 1}),
               key = Tensor::of<float>({1, 2, 2}, {1, 0, 1, 1}),
               value = Tensor::of<float>({1, 2, 1}, {2, 3});
  const auto linear = run("LinearAttention", {query, key, value}, of_rule("linear"), 2);
  check_identical(linear[0], Tensor::of<float>({1, 2, 1}, {2, 8}));
  check_identical(linear[1], Tensor::of<float>({1, 1, 2, 1}, {5, 3}));
  // The delta rule writes what the state lacks: 3 - 2 in step 1.
  const Tensor one = Tensor::of<float>({1, 2, 1}, {1, 1});
  const auto delta = run("LinearAttention", {query, key, value, {}, {}, one}, of_rule("delta"), 2);
  check_identical(delta[0], Tensor::of<float>({1, 2, 1}, {2, 4}));
  // The state halves in front of each step.
  const Tensor half = Tensor::of<float>({1, 2, 1}, {std::log(0.5f), std::log(0.5f)}),
               past = Tensor::of<float>({1, 1, 2, 1}, {4, 8});
  const auto gated = run("LinearAttention", {query, key, value, past, half}, of_rule("gated"), 2);
  check_close(gated[0], Tensor::of<float>({1, 2, 1}, {4, 10}));
  check_close(gated[1], Tensor::of<float>({1, 1, 2, 1}, {5, 5}));
}

TEST_CASE("the state of LinearAttention goes on in a later call") {
  const auto gate = [](uint64_t seed) {
    return random_tensor(DType::f32, {2, 7, 2}, seed, 0.1, 1);
  };
  const std::vector<Tensor> inputs{random_tensor(DType::f32, {2, 7, 12}, 1),
                                   random_tensor(DType::f32, {2, 7, 6}, 2),
                                   random_tensor(DType::f32, {2, 7, 4}, 3),
                                   Tensor(),
                                   gate(4),
                                   gate(5)};
  const Attrs attrs = of_rule("gated_delta", 4, 2);
  const auto whole = run("LinearAttention", inputs, attrs, 2);
  const auto part = [&](int64_t from, int64_t to, const Tensor& past) {
    std::vector<Tensor> some = inputs;
    for (Tensor& x : some) {
      if (x.valid()) x = run1("Slice", {x, ints({from}), ints({to}), ints({1})});
    }
    some[3] = past;
    return run("LinearAttention", some, attrs, 2);
  };
  const auto first = part(0, 3, {}), second = part(3, 7, first[1]);
  check_identical(run1("Concat", {first[0], second[0]}, {{"axis", int64_t{1}}}), whole[0]);
  check_identical(second[1], whole[1]);
}

TEST_CASE("LinearAttention refuses operands that do not fit") {
  const Tensor query(DType::f32, {1, 2, 6}), gate(DType::f32, {1, 2, 2});
  const auto message = [&](std::vector<Tensor> inputs, const Attrs& attrs) {
    return run_error("LinearAttention", inputs, attrs, 2).message();
  };
  const Attrs linear = of_rule("linear", 2, 2);
  CHECK_THAT(message({query, query, query}, of_rule("square", 2, 2)),
             Catch::Contains("update_rule: expected linear, gated, delta or gated_delta"));
  CHECK_THAT(message({query, query, query}, of_rule("gated", 2, 2)),
             Catch::Contains("decay: expected one for the update rule gated"));
  CHECK_THAT(message({query, query, query, {}, {}, gate}, linear),
             Catch::Contains("beta: expected none for the update rule linear"));
  CHECK_THAT(message({query, query, query}, of_rule("linear", 3, 2)),
             Catch::Contains("q_num_heads and kv_num_heads: expected a multiple"));
  CHECK_THAT(message({query, Tensor(DType::f32, {1, 3, 6}), query}, linear),
             Catch::Contains("expected the same rows and steps"));
  CHECK_THAT(message({query, Tensor(DType::f32, {1, 2, 4}), query}, linear),
             Catch::Contains("query and key: expected heads of one size"));
  CHECK_THAT(message({query, query, Tensor(DType::f32, {1, 2, 5})}, linear),
             Catch::Contains("expected a last size that the heads divide"));
  CHECK_THAT(message({query, query, query, Tensor(DType::f32, {1, 2, 3, 2})}, linear),
             Catch::Contains("past_state: expected [rows,heads,size of a key,size of a value]"));
  CHECK_THAT(
      message({query, query, query, {}, Tensor(DType::f32, {1, 2, 3})}, of_rule("gated", 2, 2)),
      Catch::Contains("decay: expected a number for each head, or one for each element"));
}

}  // namespace
}  // namespace leat::testing

// TensorScatter, which writes into caches of sequences.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

TEST_CASE("TensorScatter writes the new elements of each sequence behind its index") {
  const Tensor cache = Tensor::of<int32_t>({2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8}),
               update = Tensor::of<int32_t>({2, 2, 1}, {-1, -2, -3, -4});
  check_identical(run1("TensorScatter", {cache, update}),
                  Tensor::of<int32_t>({2, 4, 1}, {-1, -2, 3, 4, -3, -4, 7, 8}));
  check_identical(run1("TensorScatter", {cache, update, ints({1, 2})}),
                  Tensor::of<int32_t>({2, 4, 1}, {1, -1, -2, 4, 5, 6, -3, -4}));
  check_identical(
      run1("TensorScatter", {cache, update, ints({3, 6})}, {{"mode", std::string("circular")}}),
      Tensor::of<int32_t>({2, 4, 1}, {-2, 2, 3, -1, 5, 6, -3, -4}));
}

TEST_CASE("TensorScatter writes along any axis but the batch's") {
  const Tensor cache(DType::f32, {1, 2, 3}), update = Tensor::of<float>({1, 2, 1}, {1, 2});
  check_identical(run1("TensorScatter", {cache, update, ints({1})}, {{"axis", int64_t{-1}}}),
                  Tensor::of<float>({1, 2, 3}, {0, 1, 0, 0, 2, 0}));
}

TEST_CASE("the gradients of TensorScatter go to where the elements come from") {
  check_gradients("TensorScatter",
                  {random_tensor(DType::f64, {2, 3, 5, 2}, 1),
                   random_tensor(DType::f64, {2, 3, 2, 2}, 2), ints({3, 0})},
                  {}, {0, 1});
}

TEST_CASE("TensorScatter refuses operands that do not fit") {
  const Tensor cache(DType::f32, {2, 4, 3}), update(DType::f32, {2, 2, 3});
  const auto message = [&](const Tensor& news, const Tensor& at, const Attrs& attrs = {}) {
    return run_error("TensorScatter", {cache, news, at}, attrs).message();
  };
  CHECK_THAT(message(Tensor(DType::f32, {2, 5, 3}), {}),
             Catch::Contains("expected an update with the sizes of the cache"));
  CHECK_THAT(message(Tensor(DType::f32, {2, 2, 4}), {}), Catch::Contains("the update is [2,2,4]"));
  CHECK_THAT(message(update, ints({0})), Catch::Contains("write_indices: expected one for each"));
  CHECK_THAT(message(update, ints({0, 3})),
             Catch::Contains("write_indices: expected 0 to 2, received 3"));
  CHECK_THAT(message(update, ints({-1, 0})), Catch::Contains("expected 0 to 2, received -1"));
  CHECK_THAT(message(update, {}, {{"mode", std::string("ring")}}),
             Catch::Contains("mode: expected linear or circular, received 'ring'"));
  CHECK_THAT(message(update, {}, {{"axis", int64_t{0}}}),
             Catch::Contains("axis: expected another one than 0"));
}

}  // namespace
}  // namespace leat::testing

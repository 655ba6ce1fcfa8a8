#include <cstring>

#include "devices/base/philox.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

using testing::check_close;
using testing::check_gradients;
using testing::check_identical;
using testing::check_tiles;
using testing::random_tensor;
using testing::run;
using testing::run1;
using testing::run_error;

const Tensor kTraining = Tensor::scalar<bool>(true);

// Rows [first, first + rows) of a global tensor, on a node that is the `source`th of its graph.
std::vector<Tensor> shard(const Tensor& x, int64_t first_row, uint32_t source, uint64_t seed,
                          uint64_t step, const Attrs& attrs = {}) {
  const OpDef& op = *testing::test_catalogue().find("Dropout");
  Node node;
  node.op = &op;
  node.attrs = attrs;
  node.source = source;
  node.first_row = first_row;
  InterpretOptions options;
  options.seed = seed;
  options.step = step;
  auto result =
      run_op(op, attrs, {x, Tensor::scalar<float>(0.3f), kTraining}, 2, "Dropout", options, &node);
  REQUIRE(result.ok());
  return *result;
}

Tensor rows_of(const Tensor& x, int64_t first, int64_t rows) {
  Shape shape = x.shape();
  shape.set(0, rows);
  Tensor out(x.dtype(), shape);
  const size_t row = x.bytes() / static_cast<size_t>(x.shape()[0]);
  std::memcpy(out.raw(), x.data<char>() + row * static_cast<size_t>(first), out.bytes());
  return out;
}

TEST_CASE("Dropout passes everything unless it trains, and with ratio 0") {
  const Tensor x = random_tensor(DType::f32, {3, 7}, 1);
  Tensor kept(DType::boolean, {3, 7});
  for (int64_t i = 0; i < 21; ++i) kept.set(i, 1);
  for (const auto& inputs :
       std::vector<std::vector<Tensor>>{{x},
                                        {x, Tensor::scalar<float>(0.9f)},
                                        {x, Tensor(), Tensor::scalar<bool>(false)},
                                        {x, Tensor::scalar<double>(0), kTraining}}) {
    const auto out = run("Dropout", inputs, {}, 2);
    check_identical(out[0], x);
    check_identical(out[1], kept);
  }
}

TEST_CASE("Dropout keeps what its stream says and scales it") {
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Tensor x(dtype, {5, 1001});
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, 1);
    const auto out = shard(x, 0, 4, 99, 7);
    const RandomStream stream(99, 4, 7);
    const Tensor scaled = Tensor::scalar_of(dtype, 1 / (1 - static_cast<double>(0.3f)));
    int64_t kept = 0;
    for (int64_t i = 0; i < x.elements(); ++i) {
      const bool keep = stream.uniform_f32(static_cast<uint64_t>(i)) >= 0.3f;
      kept += keep;
      REQUIRE(out[1].at(i) == (keep ? 1.0 : 0.0));
      REQUIRE(out[0].at(i) == (keep ? scaled.at(0) : 0.0));
    }
    CHECK(kept > 0.65 * 5005);
    CHECK(kept < 0.75 * 5005);
  }
}

TEST_CASE("shards of a batch drop what the whole batch drops") {
  const Tensor x =
      random_tensor(DType::f32, {10, 7}, 1);  // rows are no multiple of a block's four numbers
  const auto whole = shard(x, 0, 12, 5, 3);
  for (const auto& [first, rows] : {std::pair{0, 3}, {3, 1}, {4, 6}}) {
    const auto part = shard(rows_of(x, first, rows), first, 12, 5, 3);
    check_identical(part[0], rows_of(whole[0], first, rows));
    check_identical(part[1], rows_of(whole[1], first, rows));
  }
}

TEST_CASE("seed, node and step each change what is dropped; a seed of its own hides the job's") {
  const Tensor x = random_tensor(DType::f32, {50, 7}, 1);
  const Tensor mask = shard(x, 0, 12, 5, 3)[1];
  CHECK_FALSE(shard(x, 0, 13, 5, 3)[1].identical(mask));
  CHECK_FALSE(shard(x, 0, 12, 6, 3)[1].identical(mask));
  CHECK_FALSE(shard(x, 0, 12, 5, 4)[1].identical(mask));
  const Attrs seeded = {{"seed", int64_t{5}}};
  check_identical(shard(x, 0, 12, 77, 3, seeded)[1], mask);
}

TEST_CASE("the gradient of Dropout passes what was kept") {
  const Tensor dy = Tensor::of<float>({2, 2}, {1, 2, 3, 4}),
               mask = Tensor::of<bool>({2, 2}, {true, false, false, true});
  const Tensor half = Tensor::scalar<float>(0.5f);
  check_identical(run1("leat.DropoutGrad", {dy, mask, half, kTraining}),
                  Tensor::of<float>({2, 2}, {2, 0, 0, 8}));
  check_identical(run1("leat.DropoutGrad", {dy, mask, half}),
                  Tensor::of<float>({2, 2}, {1, 0, 0, 4}));
  check_identical(run1("leat.DropoutGrad", {dy.cast(DType::f16), mask, half, kTraining}),
                  Tensor::of<float>({2, 2}, {2, 0, 0, 8}).cast(DType::f16));
}

TEST_CASE("Dropout of 16-bit floats is that of f32, rounded") {
  const Tensor ratio = Tensor::scalar<float>(0.3f);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // More than the elements that are drawn together, and a part of them.
    const Tensor x = random_tensor(dtype, {3, 1237}, 1), dy = random_tensor(dtype, {3, 1237}, 2);
    const auto wide = run("Dropout", {x.cast(DType::f32), ratio, kTraining}, {}, 2);
    const auto narrow = run("Dropout", {x, ratio, kTraining}, {}, 2);
    check_identical(narrow[0], wide[0].cast(dtype));
    check_identical(narrow[1], wide[1]);
    check_identical(
        run1("leat.DropoutGrad", {dy, wide[1], ratio, kTraining}),
        run1("leat.DropoutGrad", {dy.cast(DType::f32), wide[1], ratio, kTraining}).cast(dtype));
  }
}

TEST_CASE("a ratio of one drops all, and one beyond it is refused") {
  const Tensor x = Tensor::of<float>({2}, {1, 2});
  check_identical(run1("Dropout", {x, Tensor::scalar<float>(1), kTraining}),
                  Tensor(DType::f32, {2}));
  CHECK_THAT(run_error("Dropout", {x, Tensor::scalar<float>(1.5f), kTraining}).message(),
             Catch::Contains("ratio: expected in [0, 1], received 1.5"));
  CHECK_THAT(run_error("Dropout", {x, Tensor(DType::f32, {2}), kTraining}).message(),
             Catch::Contains("expected a scalar"));
}

TEST_CASE("Dropout is cut into rows") {
  const Tensor x = random_tensor(DType::f32, {7, 5, 3}, 1), ratio = Tensor::scalar<float>(0.4f);
  check_tiles("Dropout", {x, ratio, kTraining}, {}, 2);
  check_tiles("Dropout", {x, ratio, kTraining}, {}, 1);
  check_tiles("leat.DropoutGrad",
              {x, random_tensor(DType::boolean, {7, 5, 3}, 2), ratio, kTraining});
}

TEST_CASE("gradients of Dropout agree with finite differences") {
  check_gradients("Dropout",
                  {random_tensor(DType::f64, {4, 5}, 1), Tensor::scalar<float>(0.4f), kTraining},
                  {}, {0});
  check_gradients("Dropout", {random_tensor(DType::f64, {4, 5}, 1), Tensor::scalar<float>(0.4f)},
                  {}, {0});
}

}  // namespace
}  // namespace leat

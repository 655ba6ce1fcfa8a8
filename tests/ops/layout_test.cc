#include <cstring>

#include "ops/graph/kernel.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

// Runs leat.Reorder with operands in these layouts, in tiles of `tile_rows` images, the last tile
// first.
Tensor reorder(const Tensor& x, Layout from, Layout to, int64_t tile_rows = 0) {
  const OpDef& op = *test_catalogue().find("leat.Reorder");
  const Attrs attrs;
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.types.inputs = {{x.dtype(), x.shape(), from, ValueKind::tensor, true}};
  setup.types.outputs = {{x.dtype(), x.shape(), to, ValueKind::tensor, true}};
  setup.tile_rows = tile_rows;
  setup.subject = "leat.Reorder";
  auto kernel = op.kernels.at("cpu")(setup);
  INFO(kernel.status());
  REQUIRE(kernel.ok());
  Tensor y(x.dtype(), x.shape());
  void *in[] = {x.raw()}, *out[] = {y.raw()};
  KernelContext context;
  context.inputs = in;
  context.outputs = out;
  if (tile_rows > 0) REQUIRE((*kernel)->tiles(0) == tile_count(x.shape()[0], tile_rows));
  for (int tile = (*kernel)->tiles(0); tile-- > 0;)
    REQUIRE((*kernel)->run(context, 0, tile) == Progress::done);
  return y;
}

}  // namespace

TEST_CASE("Reorder moves every element type between plain and blocked") {
  for (DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{3, 32, 5, 7}, Shape{1, 16, 1, 1}, Shape{2, 48, 4, 4},
                               Shape{2, 16, 7, 7}, Shape{0, 16, 2, 2}}) {
      INFO(dtype << shape);
      const Tensor x = random_tensor(dtype, shape, 1, 0, 100);
      for (int64_t tile_rows : {0, 1, 2}) {
        const Tensor blocked = reorder(x, Layout::plain, Layout::channels16, tile_rows);
        check_identical(blocked, to_channels16(x));
        check_identical(reorder(blocked, Layout::channels16, Layout::plain, tile_rows), x);
      }
    }
  }
}

TEST_CASE("Reorder between equal layouts copies") {
  const Tensor x = random_tensor(DType::f32, {3, 5}, 1);
  check_identical(reorder(x, Layout::plain, Layout::plain), x);
  check_identical(run1("leat.Reorder", {Tensor::scalar<float>(4)}), Tensor::scalar<float>(4));
  check_tiles("leat.Reorder", {x});
}

TEST_CASE("only channels in sixteens can be blocked") {
  const OpDef& op = *test_catalogue().find("leat.Reorder");
  const Attrs attrs;
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.types.inputs = {{DType::f32, Shape{1, 8, 2, 2}, Layout::plain, ValueKind::tensor, true}};
  setup.types.outputs = {
      {DType::f32, Shape{1, 8, 2, 2}, Layout::channels16, ValueKind::tensor, true}};
  setup.subject = "leat.Reorder 'r'";
  const auto kernel = op.kernels.at("cpu")(setup);
  REQUIRE(!kernel.ok());
  CHECK(kernel.status().message() ==
        "leat.Reorder 'r': expected [N,C,H,W] with C a multiple of 16 for a blocked layout, "
        "received [1,8,2,2]");
}

}  // namespace leat::testing

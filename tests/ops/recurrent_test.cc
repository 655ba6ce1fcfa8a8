// Tests that the ops of recurrent layers refuse operands that do not belong together. The
// conformance suite has their values and gradients.
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

TEST_CASE("the gradient of a gated recurrent op needs the gates of the forward pass") {
  const Tensor r = random_tensor(DType::f32, {2, 8}, 1),
               y = random_tensor(DType::f32, {3, 5, 2}, 2);
  const Tensor gates = random_tensor(DType::f32, {3, 5, 8}, 3);
  const Attrs lstm{{"cell", std::string("lstm")}}, rnn{{"cell", std::string("rnn")}};
  const std::string missing =
      "leat.RecurrentGrad: expected the gates and states of the forward pass, they are missing";
  CHECK(run_error("leat.RecurrentGrad", {r, y}, lstm).message() == missing);
  CHECK(run_error("leat.RecurrentGrad", {r, y, gates}, lstm).message() == missing);
  CHECK(run1("leat.RecurrentGrad", {r, y, gates, y, {}, {}, {}, {}, y}, lstm).shape() ==
        Shape{3, 5, 8});
  // A plain cell computes its derivative from y alone.
  const Tensor square = random_tensor(DType::f32, {2, 2}, 4);
  CHECK(run1("leat.RecurrentGrad", {square, y, {}, {}, {}, {}, {}, {}, y}, rnn).shape() ==
        Shape{3, 5, 2});
}

}  // namespace
}  // namespace leat::testing

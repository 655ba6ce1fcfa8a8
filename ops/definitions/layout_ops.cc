// leat.Reorder: the same value in another layout. The layout pass inserts it between a blocked
// operand and a plain one; its operands' types hold the two layouts.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

// Both layouts have the images outermost, so that rows of one are rows of the other.
Tiling reorder_tiling(const OpTypes& types) {
  const Shape& shape = types.inputs[0].shape;
  return shape.rank() == 0 ? Tiling{} : Tiling{shape[0], 1, 1};
}

}  // namespace

void register_layout_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Reorder")
                    .input("x", "T")
                    .output("y", "T")
                    .type("T", kAllTypes)
                    .infer(infer_same_as_first)
                    .gradient([](GradientContext& ctx) {
                      ctx.set_grad(0, ctx.grad(0));
                      return Status();
                    })
                    .tiling(reorder_tiling));
}

}  // namespace leat

// Ops on the bits of integers: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot and BitShift.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

Op bitwise_op(std::string_view name, int since, DTypeSet types) {
  return Op(name, since)
      .infer(infer_broadcast)
      .tiling(elementwise_tiling)
      .input("A", "T")
      .input("B", "T")
      .output("C", "T")
      .type("T", types)
      .in_place(0, 0)
      .in_place(0, 1)
      .sharding(shard_elementwise);
}

Status infer_bit_shift(InferContext& ctx) {
  const std::string direction = attr_string(ctx.attrs(), "direction");
  if (direction == "LEFT" || direction == "RIGHT") return infer_broadcast(ctx);
  return ctx.error(cat("direction: expected LEFT or RIGHT, received '", direction, "'"));
}

}  // namespace

void register_bitwise_ops(Catalogue& catalogue) {
  for (const char* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    catalogue.add(bitwise_op(name, 18, kInts));
  catalogue.add(Op("BitwiseNot", 18)
                    .input("X", "T")
                    .output("Y", "T")
                    .type("T", kInts)
                    .infer(infer_same_as_first)
                    .in_place(0, 0)
                    .tiling(elementwise_tiling)
                    .sharding(shard_elementwise));
  catalogue.add(bitwise_op("BitShift", 28, kInts)
                    .attr_required("direction", "string")
                    .infer(infer_bit_shift));
}

}  // namespace leat

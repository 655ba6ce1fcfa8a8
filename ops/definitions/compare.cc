// Comparisons, logic and selection: bool outputs, and Where.
#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/elementwise.h"

namespace leat {
namespace {

// The shape is the broadcast of all three inputs, the dtype that of the two choices.
Status infer_where(InferContext& ctx) {
  SymbolicShape shape = ctx.shape(0);
  for (int i : {1, 2}) {
    const auto both = broadcast(ctx, shape, ctx.shape(i));
    if (!both) {
      return ctx.error(
          cat("shapes do not broadcast: ", ctx.text(shape), " and ", ctx.text(ctx.shape(i))));
    }
    shape = *both;
  }
  ctx.set_tensor(0, ctx.dtype(1), shape);
  return {};
}

Status where_gradient(GradientContext& ctx) {
  // The gradient goes to the operand that was chosen, and zero to the other one.
  const ValueId zero = ctx.scalar(0, ctx.type(ctx.input(1)).dtype);
  if (ctx.needs(1)) {
    const ValueId taken = ctx.emit("Where", {ctx.input(0), ctx.grad(0), zero});
    ctx.set_grad(1, ctx.unbroadcast(taken, ctx.input(1)));
  }
  if (ctx.needs(2)) {
    const ValueId taken = ctx.emit("Where", {ctx.input(0), zero, ctx.grad(0)});
    ctx.set_grad(2, ctx.unbroadcast(taken, ctx.input(2)));
  }
  return {};
}

// --- registration ----------------------------------------------------------------------------

// The output is bool, so only ops whose input is bool as well can run in place.
Op predicate(std::string_view name, int since) {
  return Op(name, since)
      .infer(infer_broadcast_bool)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise);
}

Op comparison(std::string_view name, int since, DTypeSet types) {
  return predicate(name, since)
      .input("A", "T")
      .input("B", "T")
      .output("C", "bool")
      .type("T", types);
}

Op logic(std::string_view name) {
  return predicate(name, 7)
      .input("A", "bool")
      .input("B", "bool")
      .output("C", "bool")
      .commutative()
      .in_place(0, 0)
      .in_place(0, 1);
}

}  // namespace

void register_compare_ops(Catalogue& catalogue) {
  catalogue.add(comparison("Equal", 19, kAllTypes).commutative());
  catalogue.add(comparison("Greater", 13, kNumbers));
  catalogue.add(comparison("Less", 13, kNumbers));
  catalogue.add(comparison("GreaterOrEqual", 16, kNumbers));
  catalogue.add(comparison("LessOrEqual", 16, kNumbers));
  catalogue.add(logic("And"));
  catalogue.add(logic("Or"));
  catalogue.add(logic("Xor"));
  catalogue.add(predicate("Not", 1).input("X", "bool").output("Y", "bool").in_place(0, 0));
  catalogue.add(predicate("IsNaN", 13).input("X", "T").output("Y", "bool").type("T", kFloats));
  catalogue.add(predicate("IsInf", 10)
                    .input("X", "T")
                    .output("Y", "bool")
                    .type("T", kFloats)
                    .attr("detect_negative", int64_t{1})
                    .attr("detect_positive", int64_t{1}));
  catalogue.add(Op("Where", 16)
                    .input("condition", "bool")
                    .input("X", "T")
                    .input("Y", "T")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .in_place(0, 1)
                    .in_place(0, 2)
                    .moves()
                    .infer(infer_where)
                    .gradient(where_gradient)
                    .tiling(elementwise_tiling)
                    .layouts(elementwise_layouts)
                    .sharding(shard_elementwise));
}

}  // namespace leat

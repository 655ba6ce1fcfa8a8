// Constant and ConstantOfShape.
#include "ops/definitions/constant.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

Status infer_constant(InferContext& ctx) {
  const auto value = constant_value(ctx.attrs());
  if (!value || !value->valid()) {
    return ctx.error(
        cat("expected exactly one of value, value_float, value_floats, value_int, value_ints; "
            "received ",
            ctx.attrs().size(), " attributes"));
  }
  ctx.set_tensor(0, value->dtype(), value->shape());
  // Large constants are not kept as known values: nothing infers a shape from them.
  if (value->elements() <= limits::kValueInference) ctx.set_constant(0, *value);
  return {};
}

// The dtype is that of the attribute `value`, which defaults to a float zero.
Status infer_constant_of_shape(InferContext& ctx) {
  const Tensor value = fill_value(ctx.attrs());
  if (value.elements() != 1) {
    return ctx.error(cat("value: expected one element, received ", value.shape()));
  }
  LEAT_ASSIGN_OR_RETURN(const int rank, vector_length(ctx, 0));
  const auto sizes = known_sizes(ctx, 0);
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape,
                        sizes ? shape_of(ctx, *sizes, "input") : fresh_shape(ctx, rank));
  ctx.set_tensor(0, value.dtype(), shape);
  return {};
}

}  // namespace

void register_constant_ops(Catalogue& catalogue) {
  catalogue.add(Op("Constant", 19)
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .attr_optional("value", "tensor")
                    .attr_optional("value_float", "float")
                    .attr_optional("value_floats", "floats")
                    .attr_optional("value_int", "int")
                    .attr_optional("value_ints", "ints")
                    .infer(infer_constant));
  catalogue.add(Op("ConstantOfShape", 20)
                    .input("input", "int64")
                    .output("output", "T")
                    .type("T", kStoredTypes)
                    .attr_optional("value", "tensor")
                    .infer(infer_constant_of_shape));
}

}  // namespace leat

// leat.CropImages and leat.AugmentImages. Neither has a gradient: they change data, before the
// first variable.
#include "ops/definitions/image.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

constexpr int64_t kMostSide = int64_t{1} << 24;

// Each image has a row of numbers; `width` of them, if it is known.
Status check_numbers(const InferContext& ctx, int input, std::string_view name, Dim images,
                     std::optional<int64_t> width) {
  const SymbolicShape& shape = ctx.shape(input);
  if (shape.rank() == 2 && !known_to_differ(shape[0], images) &&
      (!width || !known_to_differ(shape[1], Dim::of(*width))))
    return {};
  return ctx.error(cat(name, ": expected a row", width ? cat(" of ", *width) : std::string(),
                       " for each image, received ", ctx.text(shape)));
}

Status infer_crop_images(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  const int rank = x.rank();
  if (rank < 3) {
    return ctx.error(cat("expected images of [N,...,height,width], received ", ctx.text(x)));
  }
  LEAT_RETURN_IF_ERROR(check_numbers(ctx, 1, "places", x[0], 4));
  SymbolicShape y = x;
  const char* const names[] = {"height", "width"};
  for (int side = 0; side < 2; ++side) {
    const int64_t size = attr_int(ctx.attrs(), names[side]);
    if (size < 1 || size > kMostSide)
      return ctx.error(cat(names[side], ": expected 1 to ", kMostSide, ", received ", size));
    y.set(rank - 2 + side, Dim::of(size));
  }
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

Status infer_augment_images(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  if (x.rank() != 4)
    return ctx.error(cat("expected images of [N,channels,height,width], received ", ctx.text(x)));
  if (x[1].is_constant() && x[1] != Dim::of(1) && x[1] != Dim::of(3))
    return ctx.error(cat("expected images of 1 or 3 channels, received ", ctx.text(x)));
  LEAT_RETURN_IF_ERROR(check_numbers(ctx, 1, "kinds", x[0], {}));
  LEAT_RETURN_IF_ERROR(check_numbers(ctx, 2, "values", x[0], constant_of(ctx.shape(1)[1])));
  ctx.set_output(0, ctx.input(0));
  return {};
}

// All operands are of rows, one for each image.
Tiling image_rows(const OpTypes& types) {
  return {types.inputs[0].shape[0], (1u << types.inputs.size()) - 1, 1};
}

std::vector<ShardingRule> shard_images(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&) {
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)),
           std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

}  // namespace

void register_image_ops(Catalogue& catalogue) {
  // A part of each image, [N,...,height,width] of [N,...,H,W]. A row of `places` has the first line
  // and the first column, which may lie outside of the image, and then two numbers that are not 0
  // if the part is turned upside down and if it is mirrored. Elements from outside are `fill`.
  catalogue.add(Op("leat.CropImages")
                    .input("X", "T")
                    .input("places", "int64")
                    .output("Y", "T")
                    .attr_required("height", "int")
                    .attr_required("width", "int")
                    .attr("fill", 0.0)
                    .type("T", kAllTypes)
                    .infer(infer_crop_images)
                    .sharding(shard_images)
                    .tiling(image_rows));
  // Step s of image n is kinds[n,s], an ImageStep, with the number values[n,s]. Unknown kinds do
  // nothing.
  catalogue.add(Op("leat.AugmentImages")
                    .input("X", "T")
                    .input("kinds", "int64")
                    .input("values", "float")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .infer(infer_augment_images)
                    .sharding(shard_images)
                    .tiling(image_rows));
}

}  // namespace leat

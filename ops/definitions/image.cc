// Ops of images. None has a gradient: they change data, before the first variable.
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

// Checks the attributes of a size and a part, and the numbers of a random part.
Status check_geometry(InferContext& ctx, Dim images) {
  const auto geometry = geometry_of_images(ctx.attrs());
  if (!geometry.ok()) return ctx.error(geometry.status().message());
  const bool draws = geometry->crop == ImageCrop::random_resized;
  if (draws != ctx.has_input(1))
    return ctx.error(cat("draws: expected ", draws ? "numbers" : "none", " with this crop"));
  if (!draws) return {};
  return check_numbers(ctx, 1, "draws", images, kPartDrawCount);
}

Status infer_resize_images(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  const int rank = x.rank();
  if (rank < 3)
    return ctx.error(cat("expected images of [N,...,height,width], received ", ctx.text(x)));
  LEAT_RETURN_IF_ERROR(check_geometry(ctx, x[0]));
  SymbolicShape y = x;
  y.set(rank - 2, Dim::of(attr_int(ctx.attrs(), "height")));
  y.set(rank - 1, Dim::of(attr_int(ctx.attrs(), "width")));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

Status infer_decode_images(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  if (x.rank() != 2)
    return ctx.error(cat("expected files of images as bytes, [N,size], received ", ctx.text(x)));
  LEAT_RETURN_IF_ERROR(check_geometry(ctx, x[0]));
  const int64_t channels = attr_int(ctx.attrs(), "channels");
  if (channels != 1 && channels != 3)
    return ctx.error(cat("channels: expected 1 or 3, received ", channels));
  ctx.set_tensor(0, DType::u8,
                 {x[0], Dim::of(channels), Dim::of(attr_int(ctx.attrs(), "height")),
                  Dim::of(attr_int(ctx.attrs(), "width"))});
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
  uint32_t inputs = 0;
  for (int i = 0; i < static_cast<int>(types.inputs.size()); ++i) {
    if (types.has_input(i)) inputs |= 1u << i;
  }
  return {types.inputs[0].shape[0], inputs, 1};
}

std::vector<ShardingRule> shard_images(const std::vector<OperandType>& inputs,
                                       const std::vector<OperandType>& outputs, const Attrs&) {
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)),
           std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

Status read_range(const Attrs& attrs, std::string_view name, double& least, double& most) {
  const auto found = attrs.find(name);
  if (found == attrs.end()) return {};
  const auto* const range = std::get_if<std::vector<double>>(&found->second);
  if (!range || range->size() != 2)
    return invalid_argument(cat(name, ": expected two numbers, the least and the most"));
  least = (*range)[0], most = (*range)[1];
  return {};
}

Op with_geometry(Op op) {
  return op.attr_required("height", "int")
      .attr_required("width", "int")
      .attr("mode", std::string("bilinear"))
      .attr("crop", std::string("none"))
      .attr("scale", std::vector<double>{0.08, 1})
      .attr("ratio", std::vector<double>{3.0 / 4, 4.0 / 3})
      .sharding(shard_images)
      .tiling(image_rows);
}

}  // namespace

Result<ImageGeometry> geometry_of_images(const Attrs& attrs) {
  ImageGeometry geometry;
  geometry.height = attr_int(attrs, "height");
  geometry.width = attr_int(attrs, "width");
  geometry.channels = attr_int(attrs, "channels", 3);
  const std::string mode = attr_string(attrs, "mode", "bilinear");
  const auto filter = resize_filter_from_name(mode);
  if (!filter)
    return invalid_argument(cat("mode: expected ", kResizeFilters, ", received '", mode, "'"));
  geometry.filter = *filter;
  const std::string crop = attr_string(attrs, "crop", "none");
  if (crop == "center") geometry.crop = ImageCrop::center;
  if (crop == "random") geometry.crop = ImageCrop::random_resized;
  if (crop != "center" && crop != "random" && crop != "none")
    return invalid_argument(
        cat("crop: expected 'none', 'center' or 'random', received '", crop, "'"));
  LEAT_RETURN_IF_ERROR(read_range(attrs, "scale", geometry.scale_min, geometry.scale_max));
  LEAT_RETURN_IF_ERROR(read_range(attrs, "ratio", geometry.ratio_min, geometry.ratio_max));
  LEAT_RETURN_IF_ERROR(check_image_geometry(geometry));
  return geometry;
}

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
  // Each image, or a part of it, in another size. Bytes become those that Pillow computes, floats
  // the same sums without rounding.
  catalogue.add(with_geometry(Op("leat.ResizeImages")
                                  .input("X", "T")
                                  .optional_input("draws", "float")
                                  .output("Y", "T")
                                  .type("T", kFloats | DTypeSet::of(DType::u8))
                                  .infer(infer_resize_images)));
  // Files of JPEG, PNG or WebP, whose bytes are padded to rows of one length, as
  // [N,channels,height,width].
  catalogue.add(with_geometry(Op("leat.DecodeImages")
                                  .input("X", "uint8")
                                  .optional_input("draws", "float")
                                  .output("Y", "uint8")
                                  .attr("channels", int64_t{3})
                                  .infer(infer_decode_images)));
}

}  // namespace leat

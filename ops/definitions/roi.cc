// RoiAlign and MaxRoiPool, which pool the parts of images that regions of interest name, and their
// gradients: leat.RoiAlignGrad and leat.MaxRoiPoolGrad with respect to X, leat.RoiAlignRoisGrad
// with respect to the regions.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The number of regions; an error unless rois are [regions, columns].
Result<Dim> count_regions(const InferContext& ctx, int i, int64_t columns) {
  const SymbolicShape& rois = ctx.shape(i);
  if (rois.rank() == 2 && rois[1] == Dim::of(columns)) return rois[0];
  return ctx.error(cat("rois: expected [regions,", columns, "], received ", ctx.text(rois)));
}

Status check_images(const InferContext& ctx, const SymbolicShape& x) {
  if (x.rank() == 4) return {};
  return ctx.error(cat("X: expected images of [N,C,H,W], received ", ctx.text(x)));
}

Status check_pooled(const InferContext& ctx, int i, const SymbolicShape& y) {
  const SymbolicShape& dy = ctx.shape(i);
  if (dy.rank() == y.rank() && !known_to_differ(dy, y)) return {};
  return ctx.error(cat("dY: expected ", ctx.text(y), ", received ", ctx.text(dy)));
}

// --- RoiAlign ----------------------------------------------------------------------------------

Status check_roi_align(const InferContext& ctx) {
  const std::string mode = attr_string(ctx.attrs(), "mode", "avg"),
                    coordinates =
                        attr_string(ctx.attrs(), "coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max")
    return ctx.error(cat("mode: expected avg or max, received '", mode, "'"));
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") {
    return ctx.error(cat("coordinate_transformation_mode: expected half_pixel or ",
                         "output_half_pixel, received '", coordinates, "'"));
  }
  for (const char* size : {"output_height", "output_width"}) {
    const int64_t given = attr_int(ctx.attrs(), size, 1);
    if (given < 1) return ctx.error(cat(size, ": expected at least 1, received ", given));
  }
  const int64_t samples = attr_int(ctx.attrs(), "sampling_ratio", 0);
  if (samples >= 0) return {};
  return ctx.error(cat("sampling_ratio: expected at least 0, received ", samples));
}

// The shape of the output for X, whose regions are input `rois` and the images of the regions the
// one behind it.
Result<SymbolicShape> roi_align_shape(const InferContext& ctx, const SymbolicShape& x, int rois) {
  LEAT_RETURN_IF_ERROR(check_roi_align(ctx));
  LEAT_RETURN_IF_ERROR(check_images(ctx, x));
  LEAT_ASSIGN_OR_RETURN(const Dim regions, count_regions(ctx, rois, 4));
  const SymbolicShape &images = ctx.shape(rois + 1), expected{regions};
  if (images.rank() != 1 || known_to_differ(images, expected)) {
    return ctx.error(cat("batch_indices: expected one for each region, ", ctx.text(expected),
                         ", received ", ctx.text(images)));
  }
  return SymbolicShape{regions, x[1], Dim::of(attr_int(ctx.attrs(), "output_height", 1)),
                       Dim::of(attr_int(ctx.attrs(), "output_width", 1))};
}

Status infer_roi_align(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, roi_align_shape(ctx, ctx.shape(0), 1));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Inputs: dy, X, rois, batch_indices. The output is that of input `kOf`.
template <int kOf>
Status infer_roi_align_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, roi_align_shape(ctx, ctx.shape(1), 2));
  LEAT_RETURN_IF_ERROR(check_pooled(ctx, 0, y));
  ctx.set_output(0, ctx.input(kOf));
  return {};
}

Status roi_align_gradient(GradientContext& ctx) {
  const std::vector<ValueId> inputs{ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2)};
  if (ctx.needs(0)) ctx.set_grad(0, ctx.emit("leat.RoiAlignGrad", inputs, ctx.node().attrs));
  if (ctx.needs(1)) ctx.set_grad(1, ctx.emit("leat.RoiAlignRoisGrad", inputs, ctx.node().attrs));
  return {};
}

// Regions may be split, and so may the channels. Operand i of the node is: 'x' images, 'y' pooled
// regions, 'r' a list of regions.
struct RoiOperands {
  std::string_view inputs;
  char output;
};
std::vector<ShardingRule> shard_regions(RoiOperands of) {
  ShardingRule regions, channels;
  for (const char operand : of.inputs) {
    regions.inputs.push_back(operand == 'x' ? Spread{} : Spread::on(0));
    channels.inputs.push_back(operand == 'r' ? Spread{} : Spread::on(1));
  }
  regions.outputs = {of.output == 'x' ? Spread::sum() : Spread::on(0)};
  channels.outputs = {of.output == 'r' ? Spread::sum() : Spread::on(1)};
  return {regions, channels};
}
auto sharding_of_regions(RoiOperands of) {
  return [of](const std::vector<OperandType>&, const std::vector<OperandType>&, const Attrs&) {
    return shard_regions(of);
  };
}

Op with_roi_align_attributes(Op op) {
  return op.type("T1", kFloats)
      .attr("coordinate_transformation_mode", std::string("half_pixel"))
      .attr("mode", std::string("avg"))
      .attr("output_height", int64_t{1})
      .attr("output_width", int64_t{1})
      .attr("sampling_ratio", int64_t{0})
      .attr("spatial_scale", 1.0);
}

Op roi_align_grad(const char* name, const char* output) {
  return with_roi_align_attributes(Op(name)
                                       .input("dY", "T1")
                                       .input("X", "T1")
                                       .input("rois", "T1")
                                       .input("batch_indices", "int64")
                                       .output(output, "T1"));
}

// --- MaxRoiPool --------------------------------------------------------------------------------

Result<SymbolicShape> max_roi_shape(const InferContext& ctx, const SymbolicShape& x, int rois) {
  const std::vector<int64_t> sizes = attr_ints(ctx.attrs(), "pooled_shape");
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
    return ctx.error(cat("pooled_shape: expected a height and a width of at least 1, received [",
                         join(sizes, ","), "]"));
  }
  LEAT_RETURN_IF_ERROR(check_images(ctx, x));
  LEAT_ASSIGN_OR_RETURN(const Dim regions, count_regions(ctx, rois, 5));
  return SymbolicShape{regions, x[1], Dim::of(sizes[0]), Dim::of(sizes[1])};
}

Status infer_max_roi_pool(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, max_roi_shape(ctx, ctx.shape(0), 1));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Inputs: dy, X, rois.
Status infer_max_roi_pool_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, max_roi_shape(ctx, ctx.shape(1), 2));
  LEAT_RETURN_IF_ERROR(check_pooled(ctx, 0, y));
  ctx.set_output(0, ctx.input(1));
  return {};
}

// The borders of the bins are rounded to whole elements, so the regions have no gradient.
Status max_roi_pool_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("leat.MaxRoiPoolGrad", {ctx.grad(0), ctx.input(0), ctx.input(1)},
                           ctx.node().attrs));
  return {};
}

void add_max_roi_pool_ops(Catalogue& catalogue) {
  catalogue.add(Op("MaxRoiPool", 22)
                    .input("X", "T")
                    .input("rois", "T")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .attr_required("pooled_shape", "ints")
                    .attr("spatial_scale", 1.0)
                    .infer(infer_max_roi_pool)
                    .gradient(max_roi_pool_gradient)
                    .sharding(sharding_of_regions({"xr", 'y'})));
  catalogue.add(Op("leat.MaxRoiPoolGrad")
                    .input("dY", "T")
                    .input("X", "T")
                    .input("rois", "T")
                    .output("dX", "T")
                    .type("T", kFloats)
                    .attr_required("pooled_shape", "ints")
                    .attr("spatial_scale", 1.0)
                    .infer(infer_max_roi_pool_grad)
                    .sharding(sharding_of_regions({"yxr", 'x'})));
}

}  // namespace

void register_roi_ops(Catalogue& catalogue) {
  catalogue.add(with_roi_align_attributes(Op("RoiAlign", 22)
                                              .input("X", "T1")
                                              .input("rois", "T1")
                                              .input("batch_indices", "int64")
                                              .output("Y", "T1"))
                    .infer(infer_roi_align)
                    .gradient(roi_align_gradient)
                    .sharding(sharding_of_regions({"xrr", 'y'})));
  catalogue.add(roi_align_grad("leat.RoiAlignGrad", "dX")
                    .infer(infer_roi_align_grad<1>)
                    .sharding(sharding_of_regions({"yxrr", 'x'})));
  catalogue.add(roi_align_grad("leat.RoiAlignRoisGrad", "drois")
                    .infer(infer_roi_align_grad<2>)
                    .sharding(sharding_of_regions({"yxrr", 'r'})));
  add_max_roi_pool_ops(catalogue);
}

}  // namespace leat

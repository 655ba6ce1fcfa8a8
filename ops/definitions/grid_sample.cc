#include "ops/definitions/grid_sample.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

Status infer_grid_sample(InferContext& ctx) {
  if (auto spec = grid_sample_spec(ctx.attrs()); !spec.ok())
    return ctx.error(spec.status().message());
  const SymbolicShape &x = ctx.shape(0), &grid = ctx.shape(1);
  const int axes = x.rank() - 2;
  if (axes < 1 || axes > 3 || grid.rank() != x.rank() || known_to_differ(x[0], grid[0]) ||
      !(grid[grid.rank() - 1] == Dim::of(axes))) {
    return ctx.error(cat("expected X of [N,C,sizes...] with 1 to 3 sizes and a grid of ",
                         "[N,places...,number of sizes], received ", ctx.text(x), " and ",
                         ctx.text(grid)));
  }
  SymbolicShape y{x[0], x[1]};
  for (int d = 1; d + 1 < grid.rank(); ++d) y.push_back(grid[d]);
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Inputs: dy, X, the grid. dy has the shape that GridSample gives for them.
Status infer_grid_sample_grad(InferContext& ctx) {
  const SymbolicShape &dy = ctx.shape(0), &x = ctx.shape(1), &grid = ctx.shape(2);
  bool fits = dy.rank() == x.rank() && grid.rank() == x.rank() && x.rank() >= 3 && x.rank() <= 5;
  fits = fits && !known_to_differ(x[0], grid[0]) && !known_to_differ(dy[0], x[0]) &&
         !known_to_differ(dy[1], x[1]) && grid[grid.rank() - 1] == Dim::of(x.rank() - 2);
  for (int d = 2; fits && d < dy.rank(); ++d) fits = !known_to_differ(dy[d], grid[d - 1]);
  if (!fits) {
    return ctx.error(cat("expected X of [N,C,sizes...], a grid of [N,places...,number of sizes] ",
                         "and dy of [N,C,places...], received ", ctx.text(x), ", ", ctx.text(grid),
                         " and ", ctx.text(dy)));
  }
  ctx.set_output(0, ctx.input(1));
  ctx.set_output(1, ctx.input(2));
  return {};
}

Status grid_sample_gradient(GradientContext& ctx) {
  const auto grads = ctx.emit_n("leat.GridSampleGrad", {ctx.grad(0), ctx.input(0), ctx.input(1)},
                                ctx.node().attrs, 2);
  ctx.set_grad(0, grads[0]);
  ctx.set_grad(1, grads[1]);
  return {};
}

std::vector<ShardingRule> shard_samples(const std::vector<OperandType>& inputs,
                                        const std::vector<OperandType>& outputs, const Attrs&) {
  return {{std::vector<Spread>(inputs.size(), Spread::on(0)),
           std::vector<Spread>(outputs.size(), Spread::on(0))}};
}

Op with_sample_attributes(Op op) {
  return op.attr("mode", std::string("linear"))
      .attr("padding_mode", std::string("zeros"))
      .attr("align_corners", int64_t{0})
      .type("T", kFloats);
}

}  // namespace

Result<GridSampleSpec> grid_sample_spec(const Attrs& attrs) {
  GridSampleSpec spec;
  const std::string mode = attr_string(attrs, "mode", "linear"),
                    padding = attr_string(attrs, "padding_mode", "zeros");
  // Opset 16 called two of them bilinear and bicubic.
  if (mode == "nearest")
    spec.mode = SampleMode::nearest;
  else if (mode == "cubic" || mode == "bicubic")
    spec.mode = SampleMode::cubic;
  else if (mode != "linear" && mode != "bilinear")
    return invalid_argument(cat("mode: expected nearest, linear or cubic, received '", mode, "'"));
  if (padding == "border")
    spec.padding = SamplePadding::border;
  else if (padding == "reflection")
    spec.padding = SamplePadding::reflection;
  else if (padding != "zeros")
    return invalid_argument(
        cat("padding_mode: expected zeros, border or reflection, received '", padding, "'"));
  spec.align_corners = attr_int(attrs, "align_corners") != 0;
  return spec;
}

Result<GridSampleSpec> grid_sample_spec_of(const KernelSetup& setup, int of_x) {
  const auto spec = grid_sample_spec(setup.attrs());
  if (!spec.ok()) return invalid_argument(cat(setup.subject, ": ", spec.status().message()));
  const Shape &x = setup.input(of_x).shape, &grid = setup.input(of_x + 1).shape;
  const Shape& y = of_x == 0 ? setup.output(0).shape : setup.input(0).shape;
  bool fits =
      x[0] == grid[0] && y[0] == x[0] && y[1] == x[1] && grid[grid.rank() - 1] == x.rank() - 2;
  for (int d = 2; fits && d < y.rank(); ++d) fits = y[d] == grid[d - 1];
  if (fits) return spec;
  return invalid_argument(cat(setup.subject, ": the samples ", y.to_string(), " do not fit X of ",
                              x.to_string(), " and the grid of ", grid.to_string()));
}

void register_grid_sample_ops(Catalogue& catalogue) {
  catalogue.add(with_sample_attributes(
                    Op("GridSample", 22).input("X", "T").input("grid", "T").output("Y", "T"))
                    .infer(infer_grid_sample)
                    .gradient(grid_sample_gradient)
                    .sharding(shard_samples));
  catalogue.add(with_sample_attributes(Op("leat.GridSampleGrad")
                                           .input("dY", "T")
                                           .input("X", "T")
                                           .input("grid", "T")
                                           .output("dX", "T")
                                           .output("dgrid", "T"))
                    .infer(infer_grid_sample_grad)
                    .sharding(shard_samples));
}

}  // namespace leat

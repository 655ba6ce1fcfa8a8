#include "ops/definitions/grid_sample.h"

#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// --- Coordinates -------------------------------------------------------------------------------

// A place along an axis, and its derivative by the coordinate that it comes from.
struct Place {
  double at, slope;
};

// Reflects a place at the borders until it lies between them.
Place reflected(Place place, double low, double high) {
  const double range = high - low;
  if (range <= 0) return {low, 0};
  const bool below = place.at < low;
  if (!below && place.at <= high) return place;
  const double distance = below ? low - place.at : place.at - high;
  const double times = std::floor(distance / range), rest = distance - times * range;
  const bool odd = std::fmod(times, 2) != 0;
  // An even number of whole lengths ends at the border that the place crossed.
  const bool from_low = below != odd;
  return {from_low ? low + rest : high - rest,
          (below ? -1 : 1) * (from_low ? 1 : -1) * place.slope};
}

struct Borders {
  double low, high;
};
Borders borders_of(const GridSampleSpec& spec, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  return spec.align_corners ? Borders{0, last} : Borders{-0.5, last + 0.5};
}

Place place_of(const GridSampleSpec& spec, double coordinate, int64_t size) {
  const auto length = static_cast<double>(size);
  Place place = spec.align_corners ? Place{(coordinate + 1) / 2 * (length - 1), (length - 1) / 2}
                                   : Place{((coordinate + 1) * length - 1) / 2, length / 2};
  // Places that no index can name lie outside, as a NaN does.
  constexpr double kFar = 1e9;
  if (!(std::abs(place.at) < kFar)) place = {place.at > 0 ? kFar : -kFar, 0};
  if (spec.mode == SampleMode::nearest) place = {std::nearbyint(place.at), 0};
  const Borders borders = borders_of(spec, size);
  if (place.at >= borders.low && place.at <= borders.high) return place;
  if (spec.padding == SamplePadding::border) return {std::clamp(place.at, 0.0, length - 1), 0};
  if (spec.padding == SamplePadding::reflection) return reflected(place, borders.low, borders.high);
  return place;
}

int64_t index_of(const GridSampleSpec& spec, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (spec.padding == SamplePadding::zeros) return -1;
  if (spec.padding == SamplePadding::border) return std::clamp<int64_t>(i, 0, size - 1);
  const Borders borders = borders_of(spec, size);
  const Place place = reflected({static_cast<double>(i), 0}, borders.low, borders.high);
  return std::clamp<int64_t>(static_cast<int64_t>(place.at), 0, size - 1);
}

// The cubic convolution of Keys with a = -0.75, and its derivative by the distance, at d in [0,2].
struct CubicTap {
  double weight, slope;
};
CubicTap cubic_tap(double d) {
  constexpr double a = -0.75;
  if (d <= 1) return {((a + 2) * d - (a + 3)) * d * d + 1, (3 * (a + 2) * d - 2 * (a + 3)) * d};
  return {((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a};
}

// --- The ops -----------------------------------------------------------------------------------

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

AxisTaps axis_taps(const GridSampleSpec& spec, double coordinate, int64_t size) {
  const Place place = place_of(spec, coordinate, size);
  const double below = std::floor(place.at), rest = place.at - below;
  const auto first = static_cast<int64_t>(below);
  AxisTaps taps;
  const auto add = [&](int64_t i, double weight, double slope) {
    taps.index[taps.count] = index_of(spec, i, size);
    taps.weight[taps.count] = weight;
    taps.slope[taps.count++] = slope * place.slope;
  };
  if (spec.mode == SampleMode::nearest) {
    add(first, 1, 0);
  } else if (spec.mode == SampleMode::linear) {
    add(first, 1 - rest, -1);
    add(first + 1, rest, 1);
  } else {
    for (int k = -1; k <= 2; ++k) {
      const double distance = rest - k;
      const CubicTap c = cubic_tap(std::abs(distance));
      add(first + k, c.weight, distance < 0 ? -c.slope : c.slope);
    }
  }
  return taps;
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

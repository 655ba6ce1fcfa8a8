#include "ops/definitions/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// --- Weights -----------------------------------------------------------------------------------

// The place of element j of the output on the axis of the input.
double coordinate(const ResizeSpec& spec, const ResizedAxis& axis, int64_t j) {
  const double at = static_cast<double>(j), in = static_cast<double>(axis.in);
  const double out = axis.scale * in;  // before it was rounded to the size
  if (spec.coordinates == "asymmetric") return at / axis.scale;
  if (spec.coordinates == "tf_half_pixel_for_nn") return (at + 0.5) / axis.scale;
  if (spec.coordinates == "align_corners") return out == 1 ? 0 : at * (in - 1) / (out - 1);
  if (spec.coordinates == "pytorch_half_pixel" && out == 1) return 0;
  if (spec.crops()) {
    if (out == 1) return (axis.start + axis.end) * (in - 1) / 2;
    return axis.start * (in - 1) + at * (axis.end - axis.start) * (in - 1) / (out - 1);
  }
  const double half = (at + 0.5) / axis.scale - 0.5;
  if (spec.coordinates != "half_pixel_symmetric") return half;
  // The output may be shorter than in * scale: the rest is cut off on both sides.
  return half + in / 2 * (1 - static_cast<double>(axis.out) / out);
}

int64_t nearest(const std::string& rounding, double x) {
  const double down = std::floor(x), rest = x - down;
  if (rounding == "floor") return static_cast<int64_t>(down);
  if (rounding == "ceil") return static_cast<int64_t>(std::ceil(x));
  const bool up = rounding == "round_prefer_ceil" ? rest >= 0.5 : rest > 0.5;
  return static_cast<int64_t>(down) + (up ? 1 : 0);
}

// Keys' kernel; 0 beyond 2.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

// The weights of the elements from floor(x) + `first` on. A kernel that shrinks the axis is as much
// wider, so that it covers all elements.
std::vector<double> kernel_weights(const ResizeSpec& spec, double scale, double rest,
                                   int64_t& first) {
  const bool wide = spec.antialias && scale < 1;
  const double narrow = wide ? scale : 1;
  const double reach = spec.mode == ResizeMode::cubic ? 2 : 1;
  first = static_cast<int64_t>(std::floor(-reach / narrow)) + 1;
  const int64_t last = 1 - first;
  std::vector<double> weights;
  for (int64_t k = first; k <= last; ++k) {
    const double distance = (static_cast<double>(k) - rest) * narrow;
    weights.push_back(spec.mode == ResizeMode::cubic ? cubic(distance, spec.cubic_coefficient)
                                                     : std::max(0.0, 1 - std::abs(distance)));
  }
  if (!wide) return weights;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Adds the weights of one element. Elements beyond the ends are those at the ends, or count
// nothing.
void add_kernel(const ResizeSpec& spec, const ResizedAxis& axis, double x, AxisWeights& out) {
  // ONNX counts an element that x meets exactly as the right one of two.
  double down = std::floor(x);
  if (down == x) down -= 1;
  int64_t first = 0;
  std::vector<double> weights = kernel_weights(spec, axis.scale, x - down, first);
  const int64_t begin = static_cast<int64_t>(down) + first;
  const auto inside = [&](size_t k) {
    const int64_t i = begin + static_cast<int64_t>(k);
    return i >= 0 && i < axis.in;
  };
  if (spec.exclude_outside) {
    double sum = 0;
    for (size_t k = 0; k < weights.size(); ++k) sum += inside(k) ? weights[k] : 0;
    for (size_t k = 0; k < weights.size(); ++k) weights[k] = inside(k) ? weights[k] / sum : 0;
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    if (weights[k] == 0) continue;
    const int64_t i = std::clamp<int64_t>(begin + static_cast<int64_t>(k), 0, axis.in - 1);
    // Elements at an end that stand for several are one sum.
    if (!out.index.empty() && static_cast<int64_t>(out.index.size()) > out.first.back() &&
        out.index.back() == i) {
      out.weight.back() += weights[k];
      continue;
    }
    out.index.push_back(i);
    out.weight.push_back(weights[k]);
  }
}

// --- Operands ----------------------------------------------------------------------------------

template <typename T, size_t N>
Status expect_one_of(std::string_view name, const std::string& value,
                     const std::array<T, N>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  std::vector<std::string> names(known.begin(), known.end());
  return invalid_argument(
      cat(name, ": expected one of ", join(names, ", "), "; received '", value, "'"));
}

Result<ResizeSpec> read_attributes(const Attrs& attrs) {
  static constexpr std::array<std::string_view, 3> kModes = {"nearest", "linear", "cubic"};
  static constexpr std::array<std::string_view, 7> kCoordinates = {
      "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
      "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
  static constexpr std::array<std::string_view, 4> kRounding = {
      "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  ResizeSpec spec;
  const std::string mode = attr_string(attrs, "mode", "nearest");
  LEAT_RETURN_IF_ERROR(expect_one_of("mode", mode, kModes));
  spec.mode =
      static_cast<ResizeMode>(std::find(kModes.begin(), kModes.end(), mode) - kModes.begin());
  spec.coordinates = attr_string(attrs, "coordinate_transformation_mode", "half_pixel");
  LEAT_RETURN_IF_ERROR(
      expect_one_of("coordinate_transformation_mode", spec.coordinates, kCoordinates));
  spec.rounding = attr_string(attrs, "nearest_mode", "round_prefer_floor");
  LEAT_RETURN_IF_ERROR(expect_one_of("nearest_mode", spec.rounding, kRounding));
  spec.antialias = attr_int(attrs, "antialias") != 0 && spec.mode != ResizeMode::nearest;
  spec.exclude_outside = attr_int(attrs, "exclude_outside") != 0;
  spec.cubic_coefficient = attr_float(attrs, "cubic_coeff_a", -0.75);
  spec.extrapolation = attr_float(attrs, "extrapolation_value", 0);
  return spec;
}

// The axes that the operands are about, in their order.
Result<std::vector<int>> named_axes(const Attrs& attrs, int rank) {
  std::vector<int> axes;
  if (!has_attr(attrs, "axes")) {
    for (int d = 0; d < rank; ++d) axes.push_back(d);
    return axes;
  }
  for (const int64_t axis : attr_ints(attrs, "axes")) {
    const int64_t normal = axis < 0 ? axis + rank : axis;
    if (normal < 0 || normal >= rank || std::count(axes.begin(), axes.end(), normal) > 0) {
      return invalid_argument(
          cat("axes: expected different axes of rank ", rank, ", received ", axis));
    }
    axes.push_back(static_cast<int>(normal));
  }
  return axes;
}

// With a policy other than stretch, all axes have one scale, which keeps the sizes within those
// that are given, or above them.
Status apply_policy(const Attrs& attrs, std::vector<ResizedAxis>& axes) {
  static constexpr std::array<std::string_view, 3> kPolicies = {"stretch", "not_larger",
                                                                "not_smaller"};
  const std::string policy = attr_string(attrs, "keep_aspect_ratio_policy", "stretch");
  LEAT_RETURN_IF_ERROR(expect_one_of("keep_aspect_ratio_policy", policy, kPolicies));
  if (policy == "stretch" || axes.empty()) return {};
  // An axis without elements has no scale of its own.
  const auto first =
      std::ranges::find_if(axes, [](const ResizedAxis& axis) { return axis.in > 0; });
  double scale = first == axes.end() ? axes[0].scale : first->scale;
  for (const ResizedAxis& axis : axes) {
    if (axis.in == 0) continue;
    scale = policy == "not_larger" ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
  }
  for (ResizedAxis& axis : axes) {
    axis.scale = scale;
    axis.out = static_cast<int64_t>(std::floor(scale * static_cast<double>(axis.in) + 0.5));
  }
  return {};
}

}  // namespace

AxisWeights axis_weights(const ResizeSpec& spec, const ResizedAxis& axis) {
  AxisWeights out;
  for (int64_t j = 0; j < axis.out; ++j) {
    out.first.push_back(static_cast<int64_t>(out.index.size()));
    const double x = coordinate(spec, axis, j);
    if (spec.crops()) out.outside.push_back(x < 0 || x > static_cast<double>(axis.in - 1));
    if (axis.in == 0) continue;
    if (spec.mode != ResizeMode::nearest) {
      add_kernel(spec, axis, x, out);
      continue;
    }
    out.index.push_back(std::clamp<int64_t>(nearest(spec.rounding, x), 0, axis.in - 1));
    out.weight.push_back(1);
  }
  out.first.push_back(static_cast<int64_t>(out.index.size()));
  if (std::count(out.outside.begin(), out.outside.end(), true) == 0) out.outside.clear();
  return out;
}

// Elements outside have no gradient.
AxisWeights transposed(const AxisWeights& weights, int64_t in) {
  const auto each = [&](auto&& visit) {
    for (size_t j = 0; j + 1 < weights.first.size(); ++j) {
      if (!weights.outside.empty() && weights.outside[j]) continue;
      for (int64_t k = weights.first[j]; k < weights.first[j + 1]; ++k)
        visit(static_cast<int64_t>(j), weights.index[static_cast<size_t>(k)],
              weights.weight[static_cast<size_t>(k)]);
    }
  };
  AxisWeights out;
  out.first.assign(static_cast<size_t>(in) + 1, 0);
  each([&](int64_t, int64_t i, double) { ++out.first[static_cast<size_t>(i) + 1]; });
  std::partial_sum(out.first.begin(), out.first.end(), out.first.begin());
  out.index.resize(static_cast<size_t>(out.first.back()));
  out.weight.resize(out.index.size());
  std::vector<int64_t> next = out.first;
  each([&](int64_t j, int64_t i, double weight) {
    const auto k = static_cast<size_t>(next[static_cast<size_t>(i)]++);
    out.index[k] = j;
    out.weight[k] = weight;
  });
  return out;
}

Result<ResizeSpec> resize_spec(const Attrs& attrs, const Shape& input,
                               const ResizeOperands& operands, Shape& output) {
  LEAT_ASSIGN_OR_RETURN(ResizeSpec spec, read_attributes(attrs));
  LEAT_ASSIGN_OR_RETURN(const std::vector<int> named, named_axes(attrs, input.rank()));
  const bool by_scales = !operands.scales.empty();
  const size_t received = by_scales ? operands.scales.size() : operands.sizes.size();
  if (by_scales == !operands.sizes.empty() || received != named.size()) {
    return invalid_argument(cat("expected scales or sizes, one for each of ", named.size(),
                                " axes; received ", operands.scales.size(), " scales and ",
                                operands.sizes.size(), " sizes"));
  }
  if (spec.crops() && operands.roi.size() != 2 * named.size()) {
    return invalid_argument(cat("roi: expected ", 2 * named.size(),
                                " numbers, a start and an end for each axis; received ",
                                operands.roi.size()));
  }
  std::vector<ResizedAxis> axes;
  for (size_t i = 0; i < named.size(); ++i) {
    ResizedAxis axis{named[i], input[named[i]]};
    const auto in = static_cast<double>(axis.in);
    if (by_scales) {
      axis.scale = operands.scales[i];
    } else {  // an axis without elements stays so
      const bool empty = axis.in == 0 && operands.sizes[i] == 0;
      axis.scale = empty ? 1 : static_cast<double>(operands.sizes[i]) / in;
    }
    // In float, as ONNX's own shapes and onnxruntime have it: 10 * 0.7f is 7.
    const float scaled = static_cast<float>(axis.in) * static_cast<float>(axis.scale);
    const bool too_large = !(in * axis.scale < 1e12) || !(scaled < 1e12f);
    const int64_t floor = too_large ? 0 : static_cast<int64_t>(std::floor(scaled));
    axis.out = by_scales ? floor : operands.sizes[i];
    if (spec.crops()) {
      axis.start = operands.roi[i];
      axis.end = operands.roi[i + named.size()];
    }
    const bool wrong =
        by_scales ? !(axis.scale > 0) : axis.out < 0 || (axis.in == 0 && axis.out > 0);
    if (wrong || too_large) {
      return invalid_argument(cat("axis ", axis.axis, " of size ", axis.in, ": expected a ",
                                  by_scales     ? "scale above 0"
                                  : axis.in > 0 ? "size >= 0"
                                                : "size of 0",
                                  ", received ", by_scales ? cat(axis.scale) : cat(axis.out)));
    }
    axes.push_back(axis);
  }
  if (!by_scales) LEAT_RETURN_IF_ERROR(apply_policy(attrs, axes));
  std::vector<int64_t> sizes(input.begin(), input.end());
  for (const ResizedAxis& axis : axes) sizes[static_cast<size_t>(axis.axis)] = axis.out;
  const auto shape = Shape::checked(sizes);
  if (!shape) return invalid_argument(cat("the output [", join(sizes, ","), "] is too large"));
  output = *shape;
  std::sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
  for (const ResizedAxis& axis : axes) {
    const bool whole = !spec.crops() || (axis.start == 0 && axis.end == 1);
    if (axis.scale != 1 || axis.out != axis.in || !whole) spec.axes.push_back(axis);
  }
  return spec;
}

// --- The ops -----------------------------------------------------------------------------------

namespace {

// The numbers of a small float operand; nothing if it is there and its value is not known.
std::optional<std::vector<double>> known_floats(const InferContext& ctx, int i) {
  if (!ctx.has_input(i) || ctx.shape(i) == SymbolicShape(Shape({0}))) return std::vector<double>();
  const Tensor* value = ctx.constant(i);
  if (!value) return std::nullopt;
  std::vector<double> out;
  for (int64_t k = 0; k < value->elements(); ++k) out.push_back(value->at(k));
  return out;
}

// Symbolic sizes of axes that are not resized stay; a resized one needs a constant.
Status infer_resized(InferContext& ctx, const SymbolicShape& in) {
  const auto roi = known_floats(ctx, 1), scales = known_floats(ctx, 2);
  const bool has_sizes = ctx.has_input(3) && !(ctx.shape(3) == SymbolicShape(Shape({0})));
  const auto sizes = has_sizes ? known_sizes(ctx, 3) : SizeValues();
  if (!roi || !scales || !sizes) {
    LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, in.rank()));
    ctx.set_tensor(0, ctx.dtype(0), shape);
    return {};
  }
  // A symbol is tried as 1: its axis must have the scale 1, or the size of the input.
  std::vector<int64_t> tried;
  for (const Dim dim : in.dims()) tried.push_back(dim.is_constant() ? dim.factor : 1);
  ResizeOperands operands{*roi, *scales, {}};
  const auto axes = named_axes(ctx.attrs(), in.rank());
  if (!axes.ok()) return ctx.error(axes.status().message());
  std::vector<bool> kept(static_cast<size_t>(in.rank()), false);
  for (size_t i = 0; i < sizes->size(); ++i) {
    const std::optional<Dim> size = (*sizes)[i];
    const bool is_constant = size && size->is_constant();
    operands.sizes.push_back(is_constant ? size->factor : 1);
    if (!is_constant && i < axes->size())
      kept[static_cast<size_t>((*axes)[i])] = size == in[(*axes)[i]];
  }
  Shape out;
  const auto shape = Shape::checked(tried);
  if (!shape) return ctx.error("the input is too large");
  const auto spec = resize_spec(ctx.attrs(), *shape, operands, out);
  if (!spec.ok()) return ctx.error(spec.status().message());
  SymbolicShape result = out;
  for (int d = 0; d < in.rank(); ++d) {
    if (in[d].is_constant()) continue;
    const bool same = std::none_of(spec->axes.begin(), spec->axes.end(),
                                   [&](const ResizedAxis& axis) { return axis.axis == d; });
    result.set(d,
               same || kept[static_cast<size_t>(d)] ? in[d] : Dim::of_symbol(ctx.fresh_symbol()));
  }
  ctx.set_tensor(0, ctx.dtype(0), result);
  return {};
}

Status infer_resize(InferContext& ctx) {
  if (attr_string(ctx.attrs(), "mode", "nearest") != "nearest" && !is_float(ctx.dtype(0)))
    return ctx.error(cat("mode: expected nearest for ", ctx.dtype(0), ", received '",
                         attr_string(ctx.attrs(), "mode"), "'"));
  return infer_resized(ctx, ctx.shape(0));
}

// Inputs: dy, and then as Resize's from roi on; input 4 has the shape of x.
Status infer_resize_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, infer_shape_or_like(ctx, 4));
  if (shape.rank() != ctx.shape(0).rank()) {
    return ctx.error(cat("expected a gradient of the rank of ", ctx.text(shape), ", received ",
                         ctx.text(ctx.shape(0))));
  }
  ctx.set_tensor(0, ctx.dtype(0), shape);
  return {};
}

Status resize_gradient(GradientContext& ctx) {
  const ValueId shape = shape_or_like(ctx, ctx.input(0));
  ctx.set_grad(
      0, ctx.emit("leat.ResizeGrad", {ctx.grad(0), ctx.input(1), ctx.input(2), ctx.input(3), shape},
                  ctx.node().attrs));
  return {};
}

Op with_resize_attributes(Op op) {
  return op.attr("mode", std::string("nearest"))
      .attr("coordinate_transformation_mode", std::string("half_pixel"))
      .attr("nearest_mode", std::string("round_prefer_floor"))
      .attr("keep_aspect_ratio_policy", std::string("stretch"))
      .attr("antialias", int64_t{0})
      .attr("exclude_outside", int64_t{0})
      .attr("cubic_coeff_a", -0.75)
      .attr("extrapolation_value", 0.0)
      .attr_optional("axes", "ints");
}

}  // namespace

void register_resize_ops(Catalogue& catalogue) {
  catalogue.add(with_resize_attributes(Op("Resize", 19)
                                           .input("X", "T1")
                                           .optional_input("roi", "T2")
                                           .optional_input("scales", "T3")
                                           .optional_input("sizes", "int64")
                                           .output("Y", "T1")
                                           .type("T1", kAllTypes)
                                           .type("T2", kFloats)
                                           .type("T3", kFloats))
                    .infer(infer_resize)
                    .gradient(resize_gradient));
  catalogue.add(with_resize_attributes(Op("leat.ResizeGrad")
                                           .input("dY", "T1")
                                           .optional_input("roi", "T2")
                                           .optional_input("scales", "T3")
                                           .optional_input("sizes", "int64")
                                           .optional_input("shape", "S")
                                           .output("dX", "T1")
                                           .type("T1", kFloats)
                                           .type("T2", kFloats)
                                           .type("T3", kFloats)
                                           .type("S", kShapeOrLike))
                    .infer(infer_resize_grad));
}

}  // namespace leat

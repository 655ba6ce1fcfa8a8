// leat.DeformColumns, the elements that the windows of a DeformConv read, and its gradient
// leat.DeformColumnsGrad.
#include "ops/definitions/deform.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// An attribute with `count` values of at least `least`, or as many of `fallback`.
Result<std::vector<int64_t>> window_list(const Attrs& attrs, std::string_view name, size_t count,
                                         int64_t fallback, int64_t least) {
  std::vector<int64_t> values = attr_ints(attrs, name);
  if (values.empty()) values.assign(count, fallback);
  bool fits = values.size() == count;
  for (const int64_t value : values) fits = fits && value >= least;
  if (fits) return values;
  return invalid_argument(cat(name, ": expected ", count, " values of at least ", least,
                              ", received [", join(values, ","), "]"));
}

// The expectation that the operands fail, or "". The mask may be absent.
std::string misfit(const DeformWindow& window, const SymbolicShape& x, const SymbolicShape& offset,
                   const SymbolicShape* mask) {
  const int axes = window.axes();
  if (x.rank() != axes + 2 || offset.rank() != axes + 2)
    return "X and the offsets to have an axis for each size of the kernel, and two in front";
  if (x[1].is_constant() && x[1].factor % window.offset_groups != 0)
    return "channels that the groups of offsets divide";
  const int64_t places = window.offset_groups * window.elements();
  bool fits =
      !known_to_differ(x[0], offset[0]) && !known_to_differ(offset[1], Dim::of(places * axes));
  for (int d = 0; d < axes; ++d) {
    if (!x[d + 2].is_constant()) continue;
    const int64_t outputs = window.outputs(d, x[d + 2].factor);
    fits = fits && outputs >= 1 && !known_to_differ(offset[d + 2], Dim::of(outputs));
  }
  if (!fits) return "an offset for each axis, element and window";
  if (!mask) return "";
  SymbolicShape expected = offset;
  expected.set(1, Dim::of(places));
  const bool factors = mask->rank() == offset.rank() && !known_to_differ(*mask, expected);
  return factors ? "" : "a factor of the mask for each element and window";
}

// The shape of the columns: [N, C, elements of a window, windows].
Result<SymbolicShape> columns_shape(InferContext& ctx, int of_x, int of_kernel) {
  const auto kernel = known_ints(ctx, of_kernel);
  if (!kernel) return ctx.error("kernel: expected sizes that are known before the graph runs");
  const Result<DeformWindow> window = deform_window(ctx.attrs(), *kernel);
  if (!window.ok()) return ctx.error(window.status().message());
  const SymbolicShape &x = ctx.shape(of_x), &offset = ctx.shape(of_x + 1);
  const SymbolicShape* mask = ctx.has_input(of_kernel + 1) ? &ctx.shape(of_kernel + 1) : nullptr;
  if (const std::string expected = misfit(*window, x, offset, mask); !expected.empty()) {
    return ctx.error(cat("expected ", expected, ": X is ", ctx.text(x), ", the kernel is [",
                         join(*kernel, ","), "], the offsets are ", ctx.text(offset),
                         mask ? cat(", the mask is ", ctx.text(*mask)) : ""));
  }
  return SymbolicShape{x[0], x[1], Dim::of(window->elements()),
                       product(ctx, offset, 2, offset.rank())};
}

Status infer_deform_columns(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, columns_shape(ctx, 0, 2));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Inputs: dy, X, the offsets, the kernel, the mask.
Status infer_deform_columns_grad(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, columns_shape(ctx, 1, 3));
  const SymbolicShape& dy = ctx.shape(0);
  if (dy.rank() != y.rank() || known_to_differ(dy, y))
    return ctx.error(cat("dY: expected ", ctx.text(y), ", received ", ctx.text(dy)));
  ctx.set_output(0, ctx.input(1));
  ctx.set_output(1, ctx.input(2));
  if (!ctx.wants_output(2)) return {};
  if (!ctx.has_input(4)) return ctx.error("dmask: expected a mask, there is none");
  ctx.set_output(2, ctx.input(4));
  return {};
}

Status deform_columns_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs{ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2)};
  const bool masked = ctx.input(3) != kNone;
  if (masked) inputs.push_back(ctx.input(3));
  const auto grads = ctx.emit_n("leat.DeformColumnsGrad", inputs, ctx.node().attrs, masked ? 3 : 2);
  ctx.set_grad(0, grads[0]);
  ctx.set_grad(1, grads[1]);
  if (masked) ctx.set_grad(3, grads[2]);
  return {};
}

// Images may be split; the sizes of the kernel are whole.
auto sharding_of_columns(size_t of_kernel) {
  return [of_kernel](const std::vector<OperandType>& inputs,
                     const std::vector<OperandType>& outputs, const Attrs&) {
    ShardingRule rule{std::vector<Spread>(inputs.size(), Spread::on(0)),
                      std::vector<Spread>(outputs.size(), Spread::on(0))};
    rule.inputs[of_kernel] = {};
    return std::vector<ShardingRule>{rule};
  };
}

Op with_window_attributes(Op op) {
  return op.optional_input("mask", "T")
      .type("T", kFloats)
      .attr_optional("kernel_shape", "ints")
      .attr_optional("strides", "ints")
      .attr_optional("dilations", "ints")
      .attr_optional("pads", "ints")
      .attr("offset_group", int64_t{1});
}

}  // namespace

int64_t DeformWindow::elements() const {
  int64_t product = 1;
  for (const int64_t size : kernel) product *= size;
  return product;
}

int64_t DeformWindow::outputs(int axis, int64_t size) const {
  const auto d = static_cast<size_t>(axis);
  const int64_t reach = (kernel[d] - 1) * dilations[d] + 1,
                room = size + pads[d] + pads[kernel.size() + d] - reach;
  return room < 0 ? 0 : room / strides[d] + 1;
}

Result<DeformWindow> deform_window(const Attrs& attrs, const std::vector<int64_t>& kernel) {
  const size_t axes = kernel.size();
  bool fits = axes >= 1 && axes <= kMostDeformAxes;
  for (const int64_t size : kernel) fits = fits && size >= 1;
  if (!fits) {
    return invalid_argument(cat("kernel: expected 1 to ", kMostDeformAxes,
                                " sizes of at least 1, received [", join(kernel, ","), "]"));
  }
  if (const auto given = attr_ints(attrs, "kernel_shape"); !given.empty() && given != kernel) {
    return invalid_argument(cat("kernel_shape: expected the weights' [", join(kernel, ","),
                                "], received [", join(given, ","), "]"));
  }
  DeformWindow window;
  window.kernel = kernel;
  LEAT_ASSIGN_OR_RETURN(window.strides, window_list(attrs, "strides", axes, 1, 1));
  LEAT_ASSIGN_OR_RETURN(window.dilations, window_list(attrs, "dilations", axes, 1, 1));
  LEAT_ASSIGN_OR_RETURN(window.pads, window_list(attrs, "pads", 2 * axes, 0, 0));
  window.offset_groups = attr_int(attrs, "offset_group", 1);
  if (window.offset_groups >= 1) return window;
  return invalid_argument(
      cat("offset_group: expected at least 1, received ", window.offset_groups));
}

Result<DeformWindow> deform_window_of(const KernelSetup& setup, int of_x, int of_kernel) {
  const auto kernel = known_ints(setup, of_kernel);
  if (!kernel)
    return invalid_argument(
        cat(setup.subject, ": kernel: expected sizes that are known before the graph runs"));
  const Result<DeformWindow> window = deform_window(setup.attrs(), *kernel);
  if (!window.ok()) return invalid_argument(cat(setup.subject, ": ", window.status().message()));
  const SymbolicShape x(setup.input(of_x).shape), offset(setup.input(of_x + 1).shape);
  SymbolicShape mask;
  const bool masked = setup.types.has_input(of_kernel + 1);
  if (masked) mask = setup.input(of_kernel + 1).shape;
  const std::string expected = misfit(*window, x, offset, masked ? &mask : nullptr);
  if (expected.empty()) return window;
  return invalid_argument(cat(setup.subject, ": expected ", expected, ", received X ",
                              setup.input(of_x).shape.to_string(), " and offsets ",
                              setup.input(of_x + 1).shape.to_string()));
}

void register_deform_ops(Catalogue& catalogue) {
  catalogue.add(with_window_attributes(Op("leat.DeformColumns")
                                           .input("X", "T")
                                           .input("offset", "T")
                                           .input("kernel", "int64")
                                           .output("columns", "T"))
                    .infer(infer_deform_columns)
                    .gradient(deform_columns_gradient)
                    .sharding(sharding_of_columns(2)));
  catalogue.add(with_window_attributes(Op("leat.DeformColumnsGrad")
                                           .input("dY", "T")
                                           .input("X", "T")
                                           .input("offset", "T")
                                           .input("kernel", "int64")
                                           .output("dX", "T")
                                           .output("doffset", "T")
                                           .optional_output("dmask", "T"))
                    .infer(infer_deform_columns_grad)
                    .sharding(sharding_of_columns(3)));
}

}  // namespace leat

// Conv and ConvTranspose as in ONNX, and their gradients leat.ConvGradInput(dy, w) and
// leat.ConvGradWeights(x, dy). Both are linear in each operand, and each is a gradient of the
// other.
#include "ops/definitions/conv.h"

#include "devices/base/text.h"
#include "ops/definitions/activation.h"
#include "ops/definitions/conv_spec.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/cost.h"

namespace leat {
namespace {

// Checks ranks, channels and groups of data [N, channels, ...] and weights [outputs, inputs/groups,
// ...]. The channels of `data` must agree with `axis` of the weights (1: inputs/groups, 0:
// outputs).
Status check_channels(const InferContext& ctx, int data, int weights, int axis) {
  const SymbolicShape &x = ctx.shape(data), &w = ctx.shape(weights);
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank()) {
    return ctx.error(cat("expected data and weights of the same rank 3, 4 or 5, received ",
                         ctx.text(x), " and ", ctx.text(w)));
  }
  const int64_t groups = attr_int(ctx.attrs(), "group", 1);
  const auto outputs = constant_of(w[0]), inputs = constant_of(w[1]);
  if (!outputs || !inputs || *outputs < 1 || *inputs < 1) {
    return ctx.error(
        cat("expected weights of a known number of channels, at least 1, received ", ctx.text(w)));
  }
  if (groups < 1 || *outputs % groups != 0) {
    return ctx.error(cat("group: expected a divisor of ", *outputs, ", received ", groups));
  }
  const auto expected =
      multiply(Dim::of(axis == 1 ? *inputs : *outputs), Dim::of(axis == 1 ? groups : 1));
  if (!expected || known_to_differ(*expected, x[1])) {
    return ctx.error(cat("channels differ, data is ", ctx.text(x), ", weights are ", ctx.text(w),
                         ", group is ", groups));
  }
  return {};
}

// The bias is optional; it has one value for each channel of the output.
Status check_bias(const InferContext& ctx, int input, Dim channels) {
  if (!ctx.has_input(input)) return {};
  const SymbolicShape& bias = ctx.shape(input);
  if (bias.rank() == 1 && !known_to_differ(bias[0], channels)) return {};
  return ctx.error(cat("bias: expected one value for each of ", channels.factor,
                       " channels, received ", ctx.text(bias)));
}

// Adds the node as the subject to an error of the geometry.
Status with_subject(const InferContext& ctx, const Status& status) {
  return ctx.error(status.message());
}

Status infer_conv(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_fused_activation(ctx));
  LEAT_RETURN_IF_ERROR(check_channels(ctx, 0, 1, 1));
  const SymbolicShape x = ctx.shape(0), w = ctx.shape(1);
  LEAT_RETURN_IF_ERROR(check_bias(ctx, 2, w[0]));
  const auto window = conv_window(ctx.attrs(), w);
  if (!window.ok()) return with_subject(ctx, window.status());
  SymbolicShape y{x[0], w[0]};
  // A symbolic size stays the same symbol only if the window keeps it (output_dim).
  for (int axis = 0; axis < window->rank(); ++axis) {
    const auto size = output_dim(ctx, *window, axis, x[axis + 2]);
    if (!size.ok()) return with_subject(ctx, size.status());
    y.push_back(*size);
  }
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// Checks that a convolution of inputs `x` makes outputs with y's spatial sizes.
Status check_sizes(const InferContext& ctx, const WindowAttrs& window,
                   const std::vector<int64_t>& x, const SymbolicShape& y) {
  for (int axis = 0; axis < window.rank(); ++axis) {
    const auto size = output_size(window, axis, x[static_cast<size_t>(axis)]);
    if (!size.ok()) return with_subject(ctx, size.status());
    if (!known_to_differ(Dim::of(*size), y[axis + 2])) continue;
    return ctx.error(cat("axis ", axis, ": expected dy of size ", *size, ", it is ", ctx.text(y)));
  }
  return {};
}

Status infer_conv_grad_input(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_channels(ctx, 0, 1, 0));
  const SymbolicShape dy = ctx.shape(0), w = ctx.shape(1);
  const auto window = conv_window(ctx.attrs(), w);
  if (!window.ok()) return with_subject(ctx, window.status());
  const auto spatial = attr_ints(ctx.attrs(), "spatial");
  if (static_cast<int>(spatial.size()) != window->rank()) {
    return ctx.error(
        cat("spatial: expected ", window->rank(), " sizes, received ", spatial.size()));
  }
  for (int64_t size : spatial) {
    if (size < 0 || size > kMostWindow)
      return ctx.error(cat("spatial: expected sizes in [0, ", kMostWindow, "], received ", size));
  }
  // Several input sizes lead to one output size if the stride is above 1, so the attribute
  // `spatial` decides, and dy must agree with it.
  LEAT_RETURN_IF_ERROR(check_sizes(ctx, *window, spatial, dy));
  const auto channels = multiply(w[1], Dim::of(attr_int(ctx.attrs(), "group", 1)));
  SymbolicShape dx{dy[0], channels.value_or(w[1])};
  for (int64_t size : spatial) dx.push_back(Dim::of(size));
  ctx.set_tensor(0, ctx.dtype(0), dx);
  return {};
}

Status infer_conv_grad_weights(InferContext& ctx) {
  const SymbolicShape x = ctx.shape(0), dy = ctx.shape(1);
  const auto kernel = attr_ints(ctx.attrs(), "kernel_shape");
  if (x.rank() < 3 || x.rank() > 5 || dy.rank() != x.rank() ||
      static_cast<int>(kernel.size()) != x.rank() - 2) {
    return ctx.error(
        cat("expected x and dy of the same rank 3, 4 or 5 and its kernel_shape, received ",
            ctx.text(x), ", ", ctx.text(dy), " and ", kernel.size(), " sizes"));
  }
  const auto inputs = constant_of(x[1]), outputs = constant_of(dy[1]);
  const int64_t groups = attr_int(ctx.attrs(), "group", 1);
  if (!inputs || !outputs || *inputs < 1 || *outputs < 1 || known_to_differ(x[0], dy[0])) {
    return ctx.error(cat("expected equal batches and known channels, received ", ctx.text(x),
                         " and ", ctx.text(dy)));
  }
  if (groups < 1 || *inputs % groups != 0 || *outputs % groups != 0) {
    return ctx.error(
        cat("group: expected a divisor of ", *inputs, " and ", *outputs, ", received ", groups));
  }
  const auto window = read_window(ctx.attrs(), kernel);
  if (!window.ok()) return with_subject(ctx, window.status());
  if (const auto spatial = spatial_sizes(x))
    LEAT_RETURN_IF_ERROR(check_sizes(ctx, *window, *spatial, dy));
  SymbolicShape dw{Dim::of(*outputs), Dim::of(*inputs / groups)};
  for (int64_t size : kernel) dw.push_back(Dim::of(size));
  ctx.set_tensor(0, ctx.dtype(0), dw);
  if (ctx.wants_output(1)) ctx.set_tensor(1, ctx.dtype(0), {Dim::of(*outputs)});
  return {};
}

Status infer_conv_transpose(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_channels(ctx, 0, 1, 0));
  const SymbolicShape x = ctx.shape(0), w = ctx.shape(1);
  const auto channels = multiply(w[1], Dim::of(attr_int(ctx.attrs(), "group", 1)));
  if (!channels) return ctx.error("the number of output channels overflows");
  LEAT_RETURN_IF_ERROR(check_bias(ctx, 2, *channels));
  // The sizes of the output follow from the explicit geometry, so the input's must be known.
  const auto transposed = transposed_window(ctx.attrs(), w, x);
  if (!transposed.ok()) return with_subject(ctx, transposed.status());
  SymbolicShape y{x[0], *channels};
  for (int64_t size : transposed->output) y.push_back(Dim::of(size));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

// --- gradients -----------------------------------------------------------------------------------

Attrs with(Attrs attrs, std::string name, Attr value) {
  attrs.insert_or_assign(std::move(name), std::move(value));
  return attrs;
}

std::vector<int64_t> kernel_sizes(const SymbolicShape& w) {
  return spatial_sizes(w).value_or(std::vector<int64_t>());
}

// The attributes of a convolution of `x` by `w`: the window with explicit pads, and the group.
Result<Attrs> plain_attrs(GradientContext& ctx, const WindowAttrs& window, ValueId x) {
  auto attrs = explicit_window(window, ctx.type(x).shape);
  if (!attrs)
    return ctx.error("expected known spatial sizes: its gradient resolves auto_pad from them");
  return with(*attrs, "group", attr_int(ctx.node().attrs, "group", 1));
}

// The gradient of x from the gradient of y.
Result<ValueId> input_gradient(GradientContext& ctx, ValueId dy, ValueId w, const Attrs& attrs,
                               ValueId x) {
  const auto spatial = spatial_sizes(ctx.type(x).shape);
  if (!spatial)
    return ctx.error("expected known spatial sizes: the gradient of its input needs them");
  return ctx.emit("leat.ConvGradInput", {dy, w}, with(attrs, "spatial", *spatial));
}

Status conv_gradient(GradientContext& ctx) {
  if (!attr_string(ctx.node().attrs, "leat_activation").empty()) {
    return ctx.error("expected gradients to be taken before activations are fused");
  }
  const ValueId x = ctx.input(0), w = ctx.input(1), dy = ctx.grad(0);
  LEAT_ASSIGN_OR_RETURN(const auto window, conv_window(ctx.node().attrs, ctx.type(w).shape));
  LEAT_ASSIGN_OR_RETURN(const Attrs attrs, plain_attrs(ctx, window, x));
  if (ctx.needs(0)) {
    LEAT_ASSIGN_OR_RETURN(const ValueId dx, input_gradient(ctx, dy, w, attrs, x));
    ctx.set_grad(0, dx);
  }
  // One op computes the gradients of weights and bias, because both read all of dy.
  const bool bias = ctx.input(2) != kNone && ctx.needs(2);
  if (ctx.needs(1) || bias) {
    const auto made =
        ctx.emit_n("leat.ConvGradWeights", {x, dy},
                   with(attrs, "kernel_shape", kernel_sizes(ctx.type(w).shape)), bias ? 2 : 1);
    ctx.set_grad(1, made[0]);
    if (bias) ctx.set_grad(2, made[1]);
  }
  return {};
}

// dx = ConvGradInput(dy, w). With the gradient g of dx, the gradient of dy is Conv(g, w) and that
// of w is ConvGradWeights(g, dy).
Status conv_grad_input_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.input(0), w = ctx.input(1), g = ctx.grad(0);
  Attrs attrs = ctx.node().attrs;
  attrs.erase("spatial");
  if (ctx.needs(0)) ctx.set_grad(0, ctx.emit("Conv", {g, w}, attrs));
  if (ctx.needs(1)) {
    const auto kernel = kernel_sizes(ctx.type(w).shape);
    ctx.set_grad(1, ctx.emit("leat.ConvGradWeights", {g, dy}, with(attrs, "kernel_shape", kernel)));
  }
  return {};
}

// dw = ConvGradWeights(x, dy). With the gradient g of dw, the gradient of x is ConvGradInput(dy, g)
// and that of dy is Conv(x, g).
Status conv_grad_weights_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0), dy = ctx.input(1), g = ctx.grad(0);
  if (ctx.output(1) != kNone && ctx.grad(1) != kNone) {
    return ctx.error("expected no gradient through the gradient of a bias");
  }
  Attrs attrs = ctx.node().attrs;
  attrs.erase("kernel_shape");
  if (ctx.needs(0)) {
    LEAT_ASSIGN_OR_RETURN(const ValueId dx, input_gradient(ctx, dy, g, attrs, x));
    ctx.set_grad(0, dx);
  }
  if (ctx.needs(1)) ctx.set_grad(1, ctx.emit("Conv", {x, g}, attrs));
  return {};
}

// The convolution that a ConvTranspose transposes: its attributes, and the number of elements at
// y's end of each axis to cut before it, because no element of x contributes to them.
struct TransposedConv {
  Attrs attrs;
  std::vector<int64_t> unreached;
};

// The pads at the end shrink by the output padding, so that the sizes agree. If the output padding
// is larger than the pads, y loses the elements at its end that would make another element of x.
Result<TransposedConv> transposed_conv(GradientContext& ctx) {
  const SymbolicShape x = ctx.type(ctx.input(0)).shape, w = ctx.type(ctx.input(1)).shape;
  LEAT_ASSIGN_OR_RETURN(TransposedWindow t, transposed_window(ctx.node().attrs, w, x));
  TransposedConv conv;
  for (int axis = 0; axis < t.window.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t end = (x[axis + 2].factor - 1) * t.window.strides[i] + t.window.extent(axis) -
                        t.output[i] - t.window.begin[i];
    t.window.end[i] = std::max<int64_t>(0, end);
    conv.unreached.push_back(-end < t.window.strides[i] ? 0 : -end);
  }
  LEAT_ASSIGN_OR_RETURN(conv.attrs, plain_attrs(ctx, t.window, ctx.output(0)));
  return conv;
}

// `value` without the given number of elements at the end of each spatial axis.
ValueId without_end(GradientContext& ctx, ValueId value, const std::vector<int64_t>& cut) {
  std::vector<int64_t> starts, ends, axes;
  for (size_t i = 0; i < cut.size(); ++i) {
    if (cut[i] == 0) continue;
    axes.push_back(static_cast<int64_t>(i) + 2);
    starts.push_back(0);
    ends.push_back(-cut[i]);
  }
  if (axes.empty()) return value;
  const auto constant = [&](const std::vector<int64_t>& values) {
    return ctx.constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
  };
  return ctx.emit("Slice", {value, constant(starts), constant(ends), constant(axes)});
}

Status conv_transpose_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0), w = ctx.input(1);
  LEAT_ASSIGN_OR_RETURN(const TransposedConv conv, transposed_conv(ctx));
  const Attrs& attrs = conv.attrs;
  const ValueId dy = without_end(ctx, ctx.grad(0), conv.unreached);
  if (ctx.needs(0)) ctx.set_grad(0, ctx.emit("Conv", {dy, w}, attrs));
  if (ctx.needs(1)) {
    const auto kernel = kernel_sizes(ctx.type(w).shape);
    ctx.set_grad(1, ctx.emit("leat.ConvGradWeights", {dy, x}, with(attrs, "kernel_shape", kernel)));
  }
  // The bias reaches every element of y, also those that no element of x reaches: its gradient sums
  // the whole dy, over all axes but the channels.
  if (ctx.input(2) != kNone && ctx.needs(2)) {
    std::vector<int64_t> axes{0};
    for (int axis = 2; axis < ctx.type(x).shape.rank(); ++axis) axes.push_back(axis);
    const auto count = static_cast<int64_t>(axes.size());
    const ValueId over = ctx.constant(Tensor::of<int64_t>({count}, axes));
    ctx.set_grad(2, ctx.emit("ReduceSum", {ctx.grad(0), over}, {{"keepdims", int64_t{0}}}));
  }
  return {};
}

// --- sharding ------------------------------------------------------------------------------------

using Operands = std::vector<OperandType>;
// A rule for all operands: those without a given spread are whole.
ShardingRule rule(const Operands& in, const Operands& out, std::vector<Spread> inputs,
                  std::vector<Spread> outputs) {
  inputs.resize(in.size());
  outputs.resize(out.size());
  return {std::move(inputs), std::move(outputs)};
}

// Images split x and y. Without groups, output channels split w, bias and y, and input channels
// give partial sums. Those exclude bias and activation, which must apply to the whole sum.
std::vector<ShardingRule> conv_sharding(const Operands& in, const Operands& out,
                                        const Attrs& attrs) {
  const bool bias = in.size() > 2 && in[2].present;
  std::vector<ShardingRule> rules{rule(in, out, {Spread::on(0)}, {Spread::on(0)})};
  if (attr_int(attrs, "group", 1) != 1) return rules;
  rules.push_back(
      rule(in, out, {{}, Spread::on(0), bias ? Spread::on(0) : Spread{}}, {Spread::on(1)}));
  if (!bias && attr_string(attrs, "leat_activation").empty()) {
    rules.push_back(rule(in, out, {Spread::on(1), Spread::on(1)}, {Spread::sum()}));
  }
  return rules;
}

// The rules of leat.ConvGradInput and ConvTranspose.
std::vector<ShardingRule> transposed_sharding(const Operands& in, const Operands& out,
                                              const Attrs& attrs) {
  const bool bias = in.size() > 2 && in[2].present;
  std::vector<ShardingRule> rules{rule(in, out, {Spread::on(0)}, {Spread::on(0)})};
  if (attr_int(attrs, "group", 1) != 1) return rules;
  rules.push_back(
      rule(in, out, {{}, Spread::on(1), bias ? Spread::on(0) : Spread{}}, {Spread::on(1)}));
  if (!bias) rules.push_back(rule(in, out, {Spread::on(1), Spread::on(0)}, {Spread::sum()}));
  return rules;
}

std::vector<ShardingRule> conv_grad_weights_sharding(const Operands& in, const Operands& out,
                                                     const Attrs& attrs) {
  std::vector<ShardingRule> rules{
      rule(in, out, {Spread::on(0), Spread::on(0)}, {Spread::sum(), Spread::sum()})};
  // An absent gradient of the bias has the default spread.
  if (out.size() < 2 || !out[1].present)
    rules[0].outputs.resize(1), rules[0].outputs.resize(out.size());
  if (attr_int(attrs, "group", 1) != 1) return rules;
  std::vector<Spread> split(out.size(), Spread::on(0));
  rules.push_back(rule(in, out, {{}, Spread::on(1)}, split));
  return rules;
}

// Rows are images of the data operand and of the output. A tile of one small image would read large
// weights for few pixels.
template <MakeConvSpec make>
Tiling image_tiling(const OpTypes& types) {
  constexpr int64_t kLargeWeights = 64 * 1024, kEnoughPixels = 16, kMostImages = 4;
  Tiling tiling{types.inputs[0].shape[0], 1, 1};
  const auto spec = make(types);
  if (!spec.ok() || spec->weights() < kLargeWeights || spec->groups > 1) return tiling;
  const int64_t pixels = std::max<int64_t>(1, spec->window.output_area());
  tiling.min_rows = std::clamp<int64_t>((kEnoughPixels + pixels - 1) / pixels, 1, kMostImages);
  return tiling;
}

// The gradient is no output of rows: tiles of images add to partial sums, whose number is fixed by
// the shapes, since it determines the bits.
Tiling weights_tiling(const OpTypes& types) {
  const auto spec = conv_grad_weights_spec(types);
  if (!spec.ok() || weights_by_channels(*spec)) return {};
  return {types.inputs[0].shape[0], 3, 0, 1, conv_weights_tile_images(*spec)};
}

// The data operands that may be blocked: those whose number of channels is a multiple of 16.
template <MakeConvSpec make>
LayoutSupport conv_layouts(const OpTypes& types) {
  const auto spec = make(types);
  if (!spec.ok() || spec->dtype != DType::f32 || spec->window.rank != 2) return {};
  const int64_t inputs = spec->inputs / spec->groups, outputs = spec->outputs / spec->groups;
  const bool depthwise = inputs == 1 && outputs == 1;
  if (spec->groups > 1 && !depthwise && (inputs % 16 != 0 || outputs % 16 != 0)) return {};
  const bool x = spec->inputs % 16 == 0, y = spec->outputs % 16 == 0;
  switch (spec->kind) {
    case ConvKind::forward:
      return {x, y, x || y};
    case ConvKind::backward_data:
      return {y, x, x || y};
    default:
      return {uint32_t{x} | uint32_t{y} << 1, 0, x || y};
  }
}

LayoutSupport transpose_layouts(const OpTypes& types) {
  return types.has_input(2) ? LayoutSupport{} : conv_layouts<conv_transpose_spec>(types);
}

// The attributes that all convolutions share.
Op window_op(std::string_view name, int since = 1) {
  return Op(name, since)
      .type("T", kFloats)
      .attr("group", int64_t{1})
      .attr_optional("strides", "ints")
      .attr_optional("dilations", "ints")
      .attr_optional("pads", "ints");
}

// Each element of `side` takes the elements of the kernel that share one index of its first axis;
// `side` is the operand that this axis belongs to: the outputs of a convolution, the inputs of a
// transposed one.
double window_flops(const OperandType& side, const OperandType& kernel) {
  if (kernel.shape[0] == 0) return 0;
  return 2 * elements_of(side) * elements_of(kernel) / static_cast<double>(kernel.shape[0]);
}
double conv_flops(const OpTypes& types) { return window_flops(types.outputs[0], types.inputs[1]); }
// Each element of the input takes part in one product with all weights of its channel.
double transposed_flops(const OpTypes& types) {
  return window_flops(types.inputs[0], types.inputs[1]);
}
double conv_weights_flops(const OpTypes& types) {
  return window_flops(types.inputs[1], types.outputs[0]);
}

}  // namespace

void register_conv_ops(Catalogue& catalogue) {
  catalogue.add(window_op("Conv", 11)
                    .input("X", "T")
                    .input("W", "T")
                    .optional_input("B", "T")
                    .output("Y", "T")
                    .attr("auto_pad", std::string("NOTSET"))
                    .attr_optional("kernel_shape", "ints")
                    .attr_optional("leat_activation", "string")
                    .infer(infer_conv)
                    .gradient(conv_gradient)
                    .sharding(conv_sharding)
                    .flops(conv_flops)
                    .tiling(image_tiling<conv_spec>)
                    .layouts(conv_layouts<conv_spec>));
  catalogue.add(window_op("ConvTranspose", 11)
                    .input("X", "T")
                    .input("W", "T")
                    .optional_input("B", "T")
                    .output("Y", "T")
                    .attr("auto_pad", std::string("NOTSET"))
                    .attr_optional("kernel_shape", "ints")
                    .attr_optional("output_padding", "ints")
                    .attr_optional("output_shape", "ints")
                    .infer(infer_conv_transpose)
                    .gradient(conv_transpose_gradient)
                    .sharding(transposed_sharding)
                    .flops(transposed_flops)
                    .tiling(image_tiling<conv_transpose_spec>)
                    .layouts(transpose_layouts));
  // The gradient of a convolution's input. `spatial`: the sizes of that input without batch and
  // channels.
  catalogue.add(window_op("leat.ConvGradInput")
                    .input("dy", "T")
                    .input("w", "T")
                    .output("dx", "T")
                    .attr_required("spatial", "ints")
                    .infer(infer_conv_grad_input)
                    .gradient(conv_grad_input_gradient)
                    .sharding(transposed_sharding)
                    .flops(transposed_flops)
                    .tiling(image_tiling<conv_grad_input_spec>)
                    .layouts(conv_layouts<conv_grad_input_spec>));
  // The gradients of a convolution's weights and, as second output, of its bias.
  catalogue.add(window_op("leat.ConvGradWeights")
                    .input("x", "T")
                    .input("dy", "T")
                    .output("dw", "T")
                    .optional_output("db", "T")
                    .attr_required("kernel_shape", "ints")
                    .infer(infer_conv_grad_weights)
                    .gradient(conv_grad_weights_gradient)
                    .sharding(conv_grad_weights_sharding)
                    .flops(conv_weights_flops)
                    .tiling(weights_tiling)
                    .layouts(conv_layouts<conv_grad_weights_spec>));
}

}  // namespace leat

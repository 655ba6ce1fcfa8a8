// The pools as in ONNX. For their gradients, MaxPool and GlobalMaxPool have one output more than in
// ONNX, "argmax": the index in its window of each maximum, u8 if that is large enough.
#include "ops/definitions/pool.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/window.h"

namespace leat {
namespace {

// The number of elements of a window. The product cannot overflow: pool_window() bounds it, and the
// window of a global pool has at most the elements of one tensor.
int64_t area_of(const std::vector<int64_t>& sizes) {
  int64_t area = 1;
  for (int64_t size : sizes) area *= size;
  return area;
}

// [N, C, sizes...], with the sizes that the window makes of x's. Errors have the node as subject.
Result<SymbolicShape> pooled_shape(InferContext& ctx) {
  const SymbolicShape x = ctx.shape(0);
  const auto window = pool_window(ctx.attrs(), x.rank());
  if (!window.ok()) return ctx.error(window.status().message());
  SymbolicShape y{x[0], x[1]};
  for (int axis = 0; axis < window->rank(); ++axis) {
    const auto size = output_dim(ctx, *window, axis, x[axis + 2]);
    if (!size.ok()) return ctx.error(size.status().message());
    y.push_back(*size);
  }
  return y;
}

Status infer_max_pool(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, pooled_shape(ctx));
  const int64_t order = attr_int(ctx.attrs(), "storage_order");
  if (order != 0 && order != 1)
    return ctx.error(cat("storage_order: expected 0 or 1, received ", order));
  ctx.set_tensor(0, ctx.dtype(0), y);
  // Output 1 is ONNX's Indices, output 2 the index within the window that the gradient reads.
  ctx.set_tensor(1, DType::i64, y);
  ctx.set_tensor(2, argmax_type(area_of(attr_ints(ctx.attrs(), "kernel_shape"))), y);
  return {};
}

Status infer_average_pool(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape y, pooled_shape(ctx));
  ctx.set_tensor(0, ctx.dtype(0), y);
  return {};
}

Status infer_global_pool(InferContext& ctx) {
  const SymbolicShape& x = ctx.shape(0);
  if (x.rank() < 3 || x.rank() > 5)
    return ctx.error(cat("expected data of rank 3, 4 or 5, received ", ctx.text(x)));
  SymbolicShape y{x[0], x[1]};
  for (int axis = 2; axis < x.rank(); ++axis) {
    if (x[axis] == Dim::of(0))
      return ctx.error(cat("expected something to pool, received ", ctx.text(x)));
    y.push_back(Dim::of(1));
  }
  ctx.set_tensor(0, ctx.dtype(0), y);
  // The type of argmax depends on the size of the window, which is the whole input here.
  if (!ctx.wants_output(1)) return {};
  const auto spatial = spatial_sizes(x);
  if (!spatial)
    return ctx.error(cat("argmax: expected known spatial sizes, received ", ctx.text(x)));
  if (area_of(*spatial) > INT32_MAX)
    return ctx.error(cat("argmax: expected at most ", INT32_MAX,
                         " values in each channel, received ", ctx.text(x)));
  ctx.set_tensor(1, argmax_type(area_of(*spatial)), y);
  return {};
}

// Infers leat.MaxPoolGrad and leat.AveragePoolGrad: dx has the batch and channels of dy and the
// sizes `spatial`.
Status infer_pool_grad(InferContext& ctx) {
  const SymbolicShape dy = ctx.shape(0);
  const auto window = pool_window(ctx.attrs(), dy.rank());
  if (!window.ok()) return ctx.error(window.status().message());
  const auto spatial = attr_ints(ctx.attrs(), "spatial");
  if (static_cast<int>(spatial.size()) != window->rank()) {
    return ctx.error(
        cat("spatial: expected ", window->rank(), " sizes, received ", spatial.size()));
  }
  SymbolicShape dx{dy[0], dy[1]};
  for (int axis = 0; axis < window->rank(); ++axis) {
    const int64_t input = spatial[static_cast<size_t>(axis)];
    if (input < 0 || input > kMostWindow)
      return ctx.error(cat("spatial: expected sizes in [0, ", kMostWindow, "], received ", input));
    const auto size = output_size(*window, axis, input);
    if (!size.ok()) return ctx.error(size.status().message());
    if (known_to_differ(Dim::of(*size), dy[axis + 2])) {
      return ctx.error(
          cat("axis ", axis, ": expected dy of size ", *size, ", it is ", ctx.text(dy)));
    }
    dx.push_back(Dim::of(input));
  }
  // The second input is there for max pools alone.
  if (ctx.inputs() > 1 && known_to_differ(ctx.shape(1), dy)) {
    return ctx.error(cat("argmax: expected the shape of dy, ", ctx.text(dy), ", received ",
                         ctx.text(ctx.shape(1))));
  }
  const DType expected = argmax_type(area_of(window->kernel));
  if (ctx.inputs() > 1 && ctx.dtype(1) != expected) {
    return ctx.error(
        cat("argmax: expected ", expected, " for this window, received ", ctx.dtype(1)));
  }
  ctx.set_tensor(0, ctx.dtype(0), dx);
  return {};
}

// --- gradients -----------------------------------------------------------------------------------

// The attributes of a gradient op: the window with explicit pads, and the spatial sizes of the
// input x. The result is empty if those are not known.
std::optional<Attrs> grad_attrs_for(const WindowAttrs& window, const SymbolicShape& x) {
  const auto spatial = spatial_sizes(x);
  if (!spatial) return std::nullopt;
  Attrs attrs = explicit_window(window, x).value_or(Attrs());
  attrs["kernel_shape"] = window.kernel;
  attrs["ceil_mode"] = int64_t{window.ceil_mode};
  attrs["spatial"] = *spatial;
  return attrs;
}

Status unknown_sizes(GradientContext& ctx) {
  return ctx.error("expected known spatial sizes: the gradient of its input needs them");
}

Result<Attrs> grad_attrs(GradientContext& ctx, const WindowAttrs& window) {
  auto attrs = grad_attrs_for(window, ctx.type(ctx.input(0)).shape);
  if (!attrs) return unknown_sizes(ctx);
  return std::move(*attrs);
}

// The gradient of MaxPool and GlobalMaxPool.
Status max_pool_gradient(GradientContext& ctx) {
  const auto attrs = max_pool_grad_attrs(ctx.node(), ctx.type(ctx.input(0)).shape);
  if (!attrs) return unknown_sizes(ctx);
  const ValueId argmax = ctx.optional_output(argmax_output(ctx.node()));
  ctx.set_grad(0, ctx.emit("leat.MaxPoolGrad", {ctx.grad(0), argmax}, *attrs));
  return {};
}

Status average_pool_gradient(GradientContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const auto window,
                        pool_window(ctx.node().attrs, ctx.type(ctx.input(0)).shape.rank()));
  LEAT_ASSIGN_OR_RETURN(Attrs attrs, grad_attrs(ctx, window));
  attrs["count_include_pad"] = attr_int(ctx.node().attrs, "count_include_pad");
  ctx.set_grad(0, ctx.emit("leat.AveragePoolGrad", {ctx.grad(0)}, attrs));
  return {};
}

Status global_average_pool_gradient(GradientContext& ctx) {
  const auto spatial = spatial_sizes(ctx.type(ctx.input(0)).shape);
  if (!spatial) return unknown_sizes(ctx);
  LEAT_ASSIGN_OR_RETURN(const Attrs attrs, grad_attrs(ctx, global_window(*spatial)));
  ctx.set_grad(0, ctx.emit("leat.AveragePoolGrad", {ctx.grad(0)}, attrs));
  return {};
}

// The gradient of leat.AveragePoolGrad, which is linear, is an AveragePool.
Status average_pool_grad_gradient(GradientContext& ctx) {
  Attrs attrs = ctx.node().attrs;
  attrs.erase("spatial");
  ctx.set_grad(0, ctx.emit("AveragePool", {ctx.grad(0)}, attrs));
  return {};
}

// --- sharding, tiles, layouts --------------------------------------------------------------------

using PoolOperands = std::vector<OperandType>;
// Images and channels are independent. ONNX's indices are not: they count over the whole tensor.
std::vector<ShardingRule> pool_sharding(const PoolOperands& in, const PoolOperands& out,
                                        const Attrs&) {
  if (out.size() > 1 && out[1].present && out[1].dtype == DType::i64) return {};
  std::vector<ShardingRule> rules;
  for (int axis : {0, 1}) {
    rules.push_back({std::vector<Spread>(in.size(), Spread::on(axis)),
                     std::vector<Spread>(out.size(), Spread::on(axis))});
  }
  return rules;
}

Tiling pool_tiling(const OpTypes& types) {
  return {types.inputs[0].shape[0], all_present(types.inputs), all_present(types.outputs)};
}

// Blocks need 16 channels of float, or of 16-bit floats. Indices count over the plain layout, so
// they exclude it.
LayoutSupport pool_layouts(const OpTypes& types) {
  const OperandType& data = types.inputs[0];
  const bool indices = types.has_output(1) && types.outputs[1].dtype == DType::i64;
  const bool fits = data.dtype == DType::f32 || is_16bit_float(data.dtype);
  if (!fits || data.shape.rank() != 4 || data.shape[1] % 16 != 0 || indices) return {};
  return {all_present(types.inputs), all_present(types.outputs), false};
}

Op pool_op(std::string_view name, int since = 1) {
  return Op(name, since).sharding(pool_sharding).tiling(pool_tiling).layouts(pool_layouts);
}

Op& with_window(Op& op) {
  return op.attr_required("kernel_shape", "ints")
      .attr_optional("strides", "ints")
      .attr_optional("dilations", "ints")
      .attr_optional("pads", "ints")
      .attr("ceil_mode", int64_t{0});
}

}  // namespace

std::optional<Attrs> max_pool_grad_attrs(const Node& pool, const SymbolicShape& x) {
  if (pool.op->full_name() == "GlobalMaxPool") {
    const auto spatial = spatial_sizes(x);
    return spatial ? grad_attrs_for(global_window(*spatial), x) : std::nullopt;
  }
  if (pool.op->full_name() != "MaxPool") return std::nullopt;
  const auto window = pool_window(pool.attrs, x.rank());
  return window.ok() ? grad_attrs_for(*window, x) : std::nullopt;
}

uint32_t all_present(const std::vector<OperandType>& operands) {
  uint32_t bits = 0;
  for (size_t i = 0; i < operands.size(); ++i) bits |= uint32_t{operands[i].present} << i;
  return bits;
}

int argmax_output(const Node& pool) { return pool.op->full_name() == "GlobalMaxPool" ? 1 : 2; }

void register_pool_ops(Catalogue& catalogue) {
  const DTypeSet pooled = kFloats | DTypeSet::of(DType::i8, DType::u8);
  const DTypeSet positions = DTypeSet::of(DType::u8, DType::i32);
  Op max = pool_op("MaxPool", 12)
               .input("X", "T")
               .output("Y", "T")
               .optional_output("Indices", "int64")
               .optional_output("argmax", "I")
               .type("T", pooled)
               .type("I", positions)
               .attr("auto_pad", std::string("NOTSET"))
               .attr("storage_order", int64_t{0})
               .infer(infer_max_pool)
               .gradient(max_pool_gradient);
  catalogue.add(with_window(max));
  catalogue.add(pool_op("GlobalMaxPool")
                    .input("X", "T")
                    .output("Y", "T")
                    .optional_output("argmax", "I")
                    .type("T", kFloats)
                    .type("I", positions)
                    .infer(infer_global_pool)
                    .gradient(max_pool_gradient));
  Op average = pool_op("AveragePool", 19)
                   .input("X", "T")
                   .output("Y", "T")
                   .type("T", kFloats)
                   .attr("auto_pad", std::string("NOTSET"))
                   .attr("count_include_pad", int64_t{0})
                   .infer(infer_average_pool)
                   .gradient(average_pool_gradient);
  catalogue.add(with_window(average));
  catalogue.add(pool_op("GlobalAveragePool")
                    .input("X", "T")
                    .output("Y", "T")
                    .type("T", kFloats)
                    .infer(infer_global_pool)
                    .gradient(global_average_pool_gradient));
  // Gradients. `spatial`: the sizes of the pool's input without batch and channels.
  Op max_grad = pool_op("leat.MaxPoolGrad")
                    .input("dy", "T")
                    .input("argmax", "I")
                    .output("dx", "T")
                    .type("T", kFloats)
                    .type("I", positions)
                    .attr_required("spatial", "ints")
                    .infer(infer_pool_grad);
  catalogue.add(with_window(max_grad));
  Op average_grad = pool_op("leat.AveragePoolGrad")
                        .input("dy", "T")
                        .output("dx", "T")
                        .type("T", kFloats)
                        .attr_required("spatial", "ints")
                        .attr("count_include_pad", int64_t{0})
                        .infer(infer_pool_grad)
                        .gradient(average_pool_grad_gradient);
  catalogue.add(with_window(average_grad));
}

}  // namespace leat

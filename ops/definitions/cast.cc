// Cast and CastLike.
#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;

// Integers wrap, floats to integers are cut toward zero and saturate (NaN is 0), anything but 0 is
// true.
template <typename To, typename From>
LEAT_INLINE To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds as floats: the upper one is the first value that does not fit.
    constexpr From low = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From high =
        static_cast<From>(2) * static_cast<From>(To{1} + (std::numeric_limits<To>::max() >> 1));
    if (v >= high) return std::numeric_limits<To>::max();
    if (v <= low) return std::numeric_limits<To>::min();
    return v == v ? static_cast<To>(v) : To{0};
  } else {
    return static_cast<To>(v);
  }
}

template <typename From, typename To>
void cast_loop(void* out, const void* const* x, const int64_t* steps, int64_t n, const double*) {
  const From* a = static_cast<const From*>(x[0]);
  To* y = static_cast<To*>(out);
  if (steps[0] == 1) {
    for (int64_t i = 0; i < n; ++i) y[i] = store<To>(convert<Compute<To>>(load(a[i])));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<To>(convert<Compute<To>>(load(a[i * steps[0]])));
  }
}

template <typename From>
Loop pick_to(DType to) {
  return dispatch_dtype(to, [](auto tag) -> Loop { return cast_loop<From, decltype(tag)>; });
}
Loop pick_cast(DType from, DType to) {
  return dispatch_dtype(from, [to](auto tag) { return pick_to<decltype(tag)>(to); });
}

OpTypes first_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

// CastLike's second input gives a dtype and is not read.
Result<std::unique_ptr<Kernel>> make_cast(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = first_input(setup.types);
  return make_elementwise(one, pick_cast(setup.input(0).dtype, setup.output(0).dtype));
}

Status infer_cast(InferContext& ctx) {
  const int64_t code = attr_int(ctx.attrs(), "to");
  const DType to = dtype_from_onnx_code(code);
  if (to == DType::invalid) {
    return ctx.error(cat("to: expected the code of a numeric type or bool, received ", code));
  }
  ctx.set_tensor(0, to, ctx.shape(0));
  return {};
}
Status infer_cast_like(InferContext& ctx) {
  ctx.set_tensor(0, ctx.dtype(1), ctx.shape(0));
  return {};
}

// Between floats alone: an integer passes nothing back.
Status cast_gradient(GradientContext& ctx) {
  const DType from = ctx.type(ctx.input(0)).dtype;
  ctx.set_grad(0, ctx.emit("Cast", {ctx.grad(0)}, {{"to", int64_t{dtype_onnx_code(from)}}}));
  return {};
}

std::vector<ShardingRule> shard_cast(const std::vector<OperandType>& inputs,
                                     const std::vector<OperandType>& outputs, const Attrs& attrs) {
  auto rules = shard_elementwise({inputs[0]}, outputs, attrs);
  for (ShardingRule& rule : rules) rule.inputs.resize(inputs.size());
  return rules;
}

Op cast_op(std::string_view name, int since) {
  return Op(name, since)
      .input("input", "T1")
      .type("T1", kAllTypes)
      .type("T2", kAllTypes)
      .attr("saturate", int64_t{1})
      .gradient(cast_gradient)
      .sharding(shard_cast)
      .kernel("cpu", make_cast)
      .tiling([](const OpTypes& types) { return elementwise_tiling(first_input(types)); })
      .layouts([](const OpTypes& types) { return elementwise_layouts(first_input(types)); });
}

}  // namespace

void register_cast_ops(Catalogue& catalogue) {
  catalogue.add(
      cast_op("Cast", 19).output("output", "T2").attr_required("to", "int").infer(infer_cast));
  catalogue.add(cast_op("CastLike", 19)
                    .input("target_type", "T2")
                    .output("output", "T2")
                    .infer(infer_cast_like));
}

}  // namespace leat

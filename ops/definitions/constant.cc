// Constant and ConstantOfShape.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

template <typename T, typename From>
Tensor vector_of(const std::vector<From>& values) {
  return Tensor::of<T>({static_cast<int64_t>(values.size())},
                       std::vector<T>(values.begin(), values.end()));
}

// The value that exactly one of the attributes gives; empty if none or several do.
std::optional<Tensor> constant_value(const Attrs& attrs) {
  if (attrs.size() != 1) return std::nullopt;
  const auto& [name, attr] = *attrs.begin();
  if (const auto* tensor = std::get_if<Tensor>(&attr)) return *tensor;
  if (name == "value_float")
    return Tensor::scalar<float>(static_cast<float>(attr_float(attrs, name)));
  if (const auto* number = std::get_if<int64_t>(&attr)) return Tensor::scalar<int64_t>(*number);
  if (const auto* floats = std::get_if<std::vector<double>>(&attr))
    return vector_of<float>(*floats);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr)) {
    return name == "value_floats" ? vector_of<float>(*ints) : vector_of<int64_t>(*ints);
  }
  return std::nullopt;
}

Status infer_constant(InferContext& ctx) {
  const auto value = constant_value(ctx.attrs());
  if (!value || !value->valid()) {
    return ctx.error(
        cat("expected exactly one of value, value_float, value_floats, value_int, value_ints; "
            "received ",
            ctx.attrs().size(), " attributes"));
  }
  ctx.set_tensor(0, value->dtype(), value->shape());
  if (value->elements() <= limits::kValueInference) ctx.set_constant(0, *value);
  return {};
}

Result<std::unique_ptr<Kernel>> make_constant(const KernelSetup& setup) {
  const Tensor value = constant_value(setup.attrs()).value();
  return make_kernel([value](KernelContext& context) {
    if (value.bytes() > 0) std::memcpy(context.outputs[0], value.raw(), value.bytes());
    return Progress::done;
  });
}

Tensor fill_value(const Attrs& attrs) {
  const auto it = attrs.find("value");
  return it == attrs.end() ? Tensor::scalar<float>(0) : std::get<Tensor>(it->second);
}

Status infer_constant_of_shape(InferContext& ctx) {
  const Tensor value = fill_value(ctx.attrs());
  if (value.elements() != 1) {
    return ctx.error(cat("value: expected one element, received ", value.shape()));
  }
  const auto sizes = known_ints(ctx, 0);
  LEAT_ASSIGN_OR_RETURN(const int rank, vector_length(ctx, 0));
  if (sizes) {
    const auto shape = Shape::checked(*sizes);
    if (!shape)
      return ctx.error(cat("input: expected a shape, received [", join(*sizes, ","), "]"));
    ctx.set_tensor(0, value.dtype(), *shape);
    return {};
  }
  LEAT_ASSIGN_OR_RETURN(const SymbolicShape shape, fresh_shape(ctx, rank));
  ctx.set_tensor(0, value.dtype(), shape);
  return {};
}

Result<std::unique_ptr<Kernel>> make_constant_of_shape(const KernelSetup& setup) {
  const Tensor value = fill_value(setup.attrs());
  const int64_t elements = setup.output(0).shape.elements();
  return make_kernel([value, elements](KernelContext& context) {
    dispatch_dtype(value.dtype(), [&](auto tag) {
      using T = decltype(tag);
      std::fill_n(static_cast<T*>(context.outputs[0]), elements, *value.data<T>());
    });
    return Progress::done;
  });
}

}  // namespace

void register_constant_ops(Catalogue& catalogue) {
  catalogue.add(Op("Constant", 19)
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .attr_optional("value", "tensor")
                    .attr_optional("value_float", "float")
                    .attr_optional("value_floats", "floats")
                    .attr_optional("value_int", "int")
                    .attr_optional("value_ints", "ints")
                    .infer(infer_constant)
                    .kernel("cpu", make_constant));
  catalogue.add(Op("ConstantOfShape", 20)
                    .input("input", "int64")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .attr_optional("value", "tensor")
                    .infer(infer_constant_of_shape)
                    .kernel("cpu", make_constant_of_shape));
}

}  // namespace leat

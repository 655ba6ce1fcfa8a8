// Activations and their gradients, each gradient one op: it is as hot as the activation itself.
#include <cmath>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/vector_math.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

using elementwise::binary_floats;
using elementwise::unary_floats;
using elementwise::unary_signed;

template <typename T>
LEAT_INLINE T param(const double* p, int i) {
  return static_cast<T>(p[i]);
}

// NaN stays NaN, and -0 becomes 0.
struct ReluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return !(x <= T{0}) ? x : T{0};
  }
};
struct ReluGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return y > T{0} ? dy : T{0};
  }
};
struct LeakyReluOf {  // p[0]: alpha
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    const T scaled = x * param<T>(p, 0);
    return x < T{0} ? scaled : x;
  }
};
struct LeakyReluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T scaled = dy * param<T>(p, 0);
    return x > T{0} ? dy : scaled;
  }
};
struct SigmoidOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::sigmoid(x);
  }
};
struct SigmoidGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return dy * (y * (T{1} - y));
  }
};
struct TanhOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::tanh(x);
  }
};
struct TanhGradOf {  // (dy, y)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T y, const double*) {
    return dy * (T{1} - y * y);
  }
};

// x Phi(x), with Phi the normal distribution's cumulative function.
struct GeluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return T{0.5} * x * (T{1} + vmath::erf(x * T{0.70710678118654752}));
  }
};
struct GeluGradOf {  // (dy, x): Phi(x) + x phi(x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double*) {
    const T cumulative = T{0.5} * (T{1} + vmath::erf(x * T{0.70710678118654752}));
    const T density = T{0.39894228040143268} * vmath::exp(T{-0.5} * x * x);
    return dy * (cumulative + x * density);
  }
};
// 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
struct TanhGeluOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    const T u = T{0.79788456080286536} * (x + T{0.044715} * x * x * x);
    return T{0.5} * x * (T{1} + vmath::tanh(u));
  }
};
struct TanhGeluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double*) {
    const T u = T{0.79788456080286536} * (x + T{0.044715} * x * x * x);
    const T t = vmath::tanh(u);
    const T du = T{0.79788456080286536} * (T{1} + T{0.134145} * x * x);
    return dy * (T{0.5} * (T{1} + t) + T{0.5} * x * (T{1} - t * t) * du);
  }
};

struct EluOf {  // p[0]: alpha
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    const T low = param<T>(p, 0) * std::expm1(x);
    return x < T{0} ? low : x;
  }
};
struct EluGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T low = dy * (param<T>(p, 0) * vmath::exp(x));
    return x > T{0} ? dy : low;
  }
};
// log(1 + e^x) without overflow.
struct SoftplusOf {
  template <typename T>
  static T apply(T x, const double*) {
    return std::log1p(std::exp(-std::abs(x))) + (x > T{0} ? x : (x <= T{0} ? T{0} : x));
  }
};
struct HardSigmoidOf {  // p: alpha, beta
  template <typename T>
  LEAT_INLINE static T apply(T x, const double* p) {
    const T line = param<T>(p, 0) * x + param<T>(p, 1);
    const T below = line > T{1} ? T{1} : line;
    return below < T{0} ? T{0} : below;
  }
};
struct HardSigmoidGradOf {  // (dy, x)
  template <typename T>
  LEAT_INLINE static T apply(T dy, T x, const double* p) {
    const T line = param<T>(p, 0) * x + param<T>(p, 1);
    const T scaled = dy * param<T>(p, 0);
    return line > T{0} && line < T{1} ? scaled : T{0};
  }
};

LEAT_FAST_UNARY(relu_f32, ReluOf)
LEAT_FAST_BINARY(relu_grad_f32, ReluGradOf)
LEAT_FAST_UNARY(leaky_relu_f32, LeakyReluOf)
LEAT_FAST_BINARY(leaky_relu_grad_f32, LeakyReluGradOf)
LEAT_FAST_UNARY(sigmoid_f32, SigmoidOf)
LEAT_FAST_BINARY(sigmoid_grad_f32, SigmoidGradOf)
LEAT_FAST_UNARY(tanh_f32, TanhOf)
LEAT_FAST_BINARY(tanh_grad_f32, TanhGradOf)
LEAT_FAST_UNARY(gelu_f32, GeluOf)
LEAT_FAST_BINARY(gelu_grad_f32, GeluGradOf)
LEAT_FAST_UNARY(tanh_gelu_f32, TanhGeluOf)
LEAT_FAST_BINARY(tanh_gelu_grad_f32, TanhGeluGradOf)
LEAT_FAST_BINARY(elu_grad_f32, EluGradOf)
LEAT_FAST_UNARY(hard_sigmoid_f32, HardSigmoidOf)
LEAT_FAST_BINARY(hard_sigmoid_grad_f32, HardSigmoidGradOf)

std::vector<double> float_params(const KernelSetup& setup, const std::vector<std::string>& names) {
  std::vector<double> params;
  for (const std::string& name : names) params.push_back(attr_float(setup.attrs(), name));
  return params;
}

// One input; `params` are the attributes that the functor reads, in its order.
Op activation(std::string_view name, int since, Loop (*pick)(DType, Loop), Loop fast,
              std::vector<std::string> params = {}) {
  return Op(name, since)
      .input("X", "T")
      .output("Y", "T")
      .type("T", kFloats)
      .infer(infer_same_as_first)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise)
      .kernel("cpu", [pick, fast, params](const KernelSetup& setup) {
        return make_elementwise(setup, pick(setup.output(0).dtype, fast),
                                float_params(setup, params));
      });
}

Status infer_gradient(InferContext& ctx) {
  if (!(ctx.shape(0) == ctx.shape(1))) {
    return ctx.error(cat("expected two operands of one shape, received ", ctx.text(ctx.shape(0)),
                         " and ", ctx.text(ctx.shape(1))));
  }
  return infer_same_as_first(ctx);
}

// (dy, x or y) -> dx.
Op activation_grad(std::string_view name, std::string second, Loop (*pick)(DType, Loop), Loop fast,
                   std::vector<std::string> params = {}) {
  return Op(name)
      .input("dY", "T")
      .input(std::move(second), "T")
      .output("dX", "T")
      .type("T", kFloats)
      .infer(infer_gradient)
      .in_place(0, 0)
      .in_place(0, 1)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_linear_in_first)
      .kernel("cpu", [pick, fast, params](const KernelSetup& setup) {
        return make_elementwise(setup, pick(setup.output(0).dtype, fast),
                                float_params(setup, params));
      });
}

// The gradient is the op `name` of (dy, x), with the node's own attributes.
std::function<Status(GradientContext&)> grad_of_input(std::string name) {
  return [name = std::move(name)](GradientContext& ctx) -> Status {
    ctx.set_grad(0, ctx.emit(name, {ctx.grad(0), ctx.input(0)}, ctx.node().attrs));
    return {};
  };
}
// The same of (dy, y): x may be gone by then.
std::function<Status(GradientContext&)> grad_of_output(std::string name) {
  return [name = std::move(name)](GradientContext& ctx) -> Status {
    ctx.set_grad(0, ctx.emit(name, {ctx.grad(0), ctx.output(0)}));
    return {};
  };
}

Status softplus_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Sigmoid", {ctx.input(0)})}));
  return {};
}

// Gelu and its gradient have two formulas.
template <typename Rule>
std::function<Status(InferContext&)> with_approximation(Rule rule) {
  return [rule](InferContext& ctx) -> Status {
    const std::string approximate = attr_string(ctx.attrs(), "approximate");
    if (approximate != "none" && approximate != "tanh") {
      return ctx.error(cat("approximate: expected 'none' or 'tanh', received '", approximate, "'"));
    }
    return rule(ctx);
  };
}
bool by_tanh(const KernelSetup& setup) {
  return attr_string(setup.attrs(), "approximate") == "tanh";
}

Result<std::unique_ptr<Kernel>> make_gelu(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  return make_elementwise(setup, by_tanh(setup) ? unary_floats<TanhGeluOf>(dtype, tanh_gelu_f32)
                                                : unary_floats<GeluOf>(dtype, gelu_f32));
}
Result<std::unique_ptr<Kernel>> make_gelu_grad(const KernelSetup& setup) {
  const DType dtype = setup.output(0).dtype;
  return make_elementwise(setup, by_tanh(setup)
                                     ? binary_floats<TanhGeluGradOf>(dtype, tanh_gelu_grad_f32)
                                     : binary_floats<GeluGradOf>(dtype, gelu_grad_f32));
}

void register_gelu(Catalogue& catalogue) {
  const Attr none = std::string("none");
  catalogue.add(activation("Gelu", 20, unary_floats<GeluOf>, gelu_f32)
                    .attr("approximate", none)
                    .infer(with_approximation(infer_same_as_first))
                    .gradient(grad_of_input("leat.GeluGrad"))
                    .kernel("cpu", make_gelu));
  catalogue.add(activation_grad("leat.GeluGrad", "X", binary_floats<GeluGradOf>, gelu_grad_f32)
                    .attr("approximate", none)
                    .infer(with_approximation(infer_gradient))
                    .kernel("cpu", make_gelu_grad));
}

}  // namespace

void register_activation_ops(Catalogue& catalogue) {
  catalogue.add(activation("Relu", 14, unary_signed<ReluOf>, relu_f32)
                    .type("T", kSigned)
                    .gradient(grad_of_output("leat.ReluGrad")));
  catalogue.add(activation_grad("leat.ReluGrad", "Y", binary_floats<ReluGradOf>, relu_grad_f32));
  catalogue.add(activation("LeakyRelu", 16, unary_floats<LeakyReluOf>, leaky_relu_f32, {"alpha"})
                    .attr("alpha", 0.01)
                    .gradient(grad_of_input("leat.LeakyReluGrad")));
  catalogue.add(activation_grad("leat.LeakyReluGrad", "X", binary_floats<LeakyReluGradOf>,
                                leaky_relu_grad_f32, {"alpha"})
                    .attr("alpha", 0.01));
  catalogue.add(activation("Sigmoid", 13, unary_floats<SigmoidOf>, sigmoid_f32)
                    .gradient(grad_of_output("leat.SigmoidGrad")));
  catalogue.add(
      activation_grad("leat.SigmoidGrad", "Y", binary_floats<SigmoidGradOf>, sigmoid_grad_f32));
  catalogue.add(activation("Tanh", 13, unary_floats<TanhOf>, tanh_f32)
                    .gradient(grad_of_output("leat.TanhGrad")));
  catalogue.add(activation_grad("leat.TanhGrad", "Y", binary_floats<TanhGradOf>, tanh_grad_f32));
  register_gelu(catalogue);
  catalogue.add(activation("Elu", 6, unary_floats<EluOf>, nullptr, {"alpha"})
                    .attr("alpha", 1.0)
                    .gradient(grad_of_input("leat.EluGrad")));
  catalogue.add(
      activation_grad("leat.EluGrad", "X", binary_floats<EluGradOf>, elu_grad_f32, {"alpha"})
          .attr("alpha", 1.0));
  catalogue.add(
      activation("Softplus", 1, unary_floats<SoftplusOf>, nullptr).gradient(softplus_gradient));
  catalogue.add(
      activation("HardSigmoid", 6, unary_floats<HardSigmoidOf>, hard_sigmoid_f32, {"alpha", "beta"})
          .attr("alpha", 0.2)
          .attr("beta", 0.5)
          .gradient(grad_of_input("leat.HardSigmoidGrad")));
  catalogue.add(activation_grad("leat.HardSigmoidGrad", "X", binary_floats<HardSigmoidGradOf>,
                                hard_sigmoid_grad_f32, {"alpha", "beta"})
                    .attr("alpha", 0.2)
                    .attr("beta", 0.5));
}

}  // namespace leat

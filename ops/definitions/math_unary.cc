// Arithmetic of one operand, and Clip.
#include <cmath>
#include <limits>

#include "ops/cpu/elementwise_loops.h"
#include "ops/cpu/vector_math.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;
using elementwise::unary_floats;
using elementwise::unary_numbers;
using elementwise::unary_signed;

struct NegOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return elementwise::wrap_sub(T{0}, x);
  }
};
struct AbsOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? elementwise::wrap_sub(T{0}, x) : x;
    else
      return x;
  }
};
// NaN stays NaN.
struct SignOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    if constexpr (std::is_unsigned_v<T>)
      return x > 0 ? T{1} : T{0};
    else
      return x > 0 ? T{1} : (x < 0 ? T{-1} : (x == 0 ? T{0} : x));
  }
};
struct ReciprocalOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return T{1} / x;
  }
};
struct SqrtOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::sqrt(x);
  }
};
struct ExpOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::exp(x);
  }
};
struct ErfOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return vmath::erf(x);
  }
};
struct LogOf {
  template <typename T>
  static T apply(T x, const double*) {
    return std::log(x);
  }
};
struct SinOf {
  template <typename T>
  static T apply(T x, const double*) {
    return std::sin(x);
  }
};
struct CosOf {
  template <typename T>
  static T apply(T x, const double*) {
    return std::cos(x);
  }
};
struct FloorOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::floor(x);
  }
};
struct CeilOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::ceil(x);
  }
};
// Halves to even, as the default rounding mode has it.
struct RoundOf {
  template <typename T>
  LEAT_INLINE static T apply(T x, const double*) {
    return std::nearbyint(x);
  }
};

LEAT_FAST_UNARY(neg_f32, NegOf)
LEAT_FAST_UNARY(abs_f32, AbsOf)
LEAT_FAST_UNARY(sign_f32, SignOf)
LEAT_FAST_UNARY(reciprocal_f32, ReciprocalOf)
LEAT_FAST_UNARY(sqrt_f32, SqrtOf)
LEAT_FAST_UNARY(exp_f32, ExpOf)
LEAT_FAST_UNARY(erf_f32, ErfOf)
LEAT_FAST_UNARY(floor_f32, FloorOf)
LEAT_FAST_UNARY(ceil_f32, CeilOf)

// --- Clip ------------------------------------------------------------------------------------

// The bounds are scalars that may be absent. With min > max everything becomes max, as in numpy.
template <typename T>
LEAT_INLINE void clip_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                           const double*) {
  using C = Compute<T>;
  const T* a = static_cast<const T*>(x[0]);
  T* y = static_cast<T*>(out);
  const bool has_low = x[1] != nullptr, has_high = x[2] != nullptr;
  const C low = has_low ? load(*static_cast<const T*>(x[1])) : C{};
  const C high = has_high ? load(*static_cast<const T*>(x[2])) : C{};
  const int64_t s = steps[0];
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    C v = load(a[i * s]);
    v = has_low && v < low ? low : v;
    v = has_high && v > high ? high : v;
    y[i] = store<T>(v);
  }
}
LEAT_VECTOR_CLONES void clip_f32(void* y, const void* const* x, const int64_t*, int64_t n,
                                 const double* p) {
  const int64_t one[] = {1};
  clip_loop<float>(y, x, one, n, p);
}

// dy where low <= x <= high, else 0.
template <typename T>
LEAT_INLINE void clip_grad_loop(void* out, const void* const* x, const int64_t* s, int64_t n,
                                const double*) {
  using C = Compute<T>;
  const T* dy = static_cast<const T*>(x[0]);
  const T* a = static_cast<const T*>(x[1]);
  T* dx = static_cast<T*>(out);
  const bool has_low = x[2] != nullptr, has_high = x[3] != nullptr;
  const C low = has_low ? load(*static_cast<const T*>(x[2])) : C{};
  const C high = has_high ? load(*static_cast<const T*>(x[3])) : C{};
  LEAT_NO_OVERLAP
  for (int64_t i = 0; i < n; ++i) {
    const C v = load(a[i * s[1]]), d = load(dy[i * s[0]]);
    const bool outside = (has_low && v < low) || (has_high && v > high);
    dx[i] = store<T>(outside ? C{0} : d);
  }
}
LEAT_VECTOR_CLONES void clip_grad_f32(void* y, const void* const* x, const int64_t*, int64_t n,
                                      const double* p) {
  const int64_t one[] = {1, 1};
  clip_grad_loop<float>(y, x, one, n, p);
}

Result<std::unique_ptr<Kernel>> make_clip(const KernelSetup& setup) {
  KernelSetup all = setup;
  all.types.inputs.resize(3);  // absent bounds are null operands
  const DType dtype = setup.output(0).dtype;
  const bool flat = dtype == DType::f32;
  const Loop loop = flat ? clip_f32 : dispatch_dtype(dtype, [](auto tag) -> Loop {
    if constexpr (std::is_same_v<decltype(tag), bool>)
      return nullptr;
    else
      return clip_loop<decltype(tag)>;
  });
  return make_elementwise(all, loop);
}

Result<std::unique_ptr<Kernel>> make_clip_grad(const KernelSetup& setup) {
  KernelSetup all = setup;
  all.types.inputs.resize(4);
  Loop loop = nullptr;
  switch (setup.output(0).dtype) {
    case DType::f32:
      loop = clip_grad_f32;
      break;
    case DType::f64:
      loop = clip_grad_loop<double>;
      break;
    case DType::f16:
      loop = clip_grad_loop<Half>;
      break;
    case DType::bf16:
      loop = clip_grad_loop<BFloat16>;
      break;
    default:
      break;
  }
  return make_elementwise(all, loop);
}

// Inputs from `first` on are scalars (or hold one element), if they are there.
Status infer_clip(InferContext& ctx, int first) {
  for (int i = first; i < ctx.inputs(); ++i) {
    if (!ctx.has_input(i)) continue;
    for (Dim dim : ctx.shape(i).dims()) {
      if (dim == Dim::of(1)) continue;
      return ctx.error("min and max: expected scalars, input is " + ctx.text(ctx.shape(i)));
    }
    if (ctx.shape(i).rank() > ctx.shape(0).rank()) {
      return ctx.error("min and max: expected scalars, input is " + ctx.text(ctx.shape(i)));
    }
  }
  return infer_same_as_first(ctx);
}

Status clip_gradient(GradientContext& ctx) {
  std::vector<ValueId> inputs = {ctx.grad(0), ctx.input(0), ctx.input(1), ctx.input(2)};
  ctx.set_grad(0, ctx.emit("leat.ClipGrad", inputs));
  return {};
}

// --- gradients -------------------------------------------------------------------------------

Status neg_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Neg", {ctx.grad(0)}));
  return {};
}
Status abs_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Sign", {ctx.input(0)})}));
  return {};
}
Status exp_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.output(0)}));
  return {};
}
Status log_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Div", {ctx.grad(0), ctx.input(0)}));
  return {};
}
// dy / (2 y)
Status sqrt_gradient(GradientContext& ctx) {
  const ValueId half = ctx.scalar(0.5, ctx.type(ctx.input(0)).dtype);
  ctx.set_grad(0, ctx.emit("Div", {ctx.emit("Mul", {ctx.grad(0), half}), ctx.output(0)}));
  return {};
}
Status sin_gradient(GradientContext& ctx) {
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Cos", {ctx.input(0)})}));
  return {};
}
Status cos_gradient(GradientContext& ctx) {
  const ValueId sin = ctx.emit("Sin", {ctx.input(0)});
  ctx.set_grad(0, ctx.emit("Neg", {ctx.emit("Mul", {ctx.grad(0), sin})}));
  return {};
}
// -dy y^2
Status reciprocal_gradient(GradientContext& ctx) {
  const ValueId square = ctx.emit("Mul", {ctx.output(0), ctx.output(0)});
  ctx.set_grad(0, ctx.emit("Neg", {ctx.emit("Mul", {ctx.grad(0), square})}));
  return {};
}
// dy 2/sqrt(pi) e^(-x^2)
Status erf_gradient(GradientContext& ctx) {
  const ValueId x = ctx.input(0);
  const ValueId scale = ctx.scalar(1.1283791670955126, ctx.type(x).dtype);
  const ValueId bell = ctx.emit("Exp", {ctx.emit("Neg", {ctx.emit("Mul", {x, x})})});
  ctx.set_grad(0, ctx.emit("Mul", {ctx.grad(0), ctx.emit("Mul", {bell, scale})}));
  return {};
}
// Flat wherever it is differentiable: nothing flows back.
Status no_gradient(GradientContext&) { return {}; }

// --- registration ----------------------------------------------------------------------------

Op unary_op(std::string_view name, int since, DTypeSet types, Loop (*pick)(DType, Loop),
            Loop fast = nullptr) {
  return Op(name, since)
      .input("X", "T")
      .output("Y", "T")
      .type("T", types)
      .infer(infer_same_as_first)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise)
      .kernel("cpu", [pick, fast](const KernelSetup& setup) {
        return make_elementwise(setup, pick(setup.output(0).dtype, fast));
      });
}

template <typename F>
Op float_op(std::string_view name, int since, Loop fast = nullptr) {
  return unary_op(name, since, kFloats, unary_floats<F>, fast);
}

Op clip_op(std::string_view name, int since, DTypeSet types) {
  return Op(name, since)
      .type("T", types)
      .in_place(0, 0)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts);
}

}  // namespace

void register_unary_math_ops(Catalogue& catalogue) {
  catalogue.add(unary_op("Neg", 13, kSigned, unary_signed<NegOf>, neg_f32)
                    .gradient(neg_gradient)
                    .sharding(shard_linear));
  catalogue.add(
      unary_op("Abs", 13, kNumbers, unary_numbers<AbsOf>, abs_f32).gradient(abs_gradient));
  catalogue.add(
      unary_op("Sign", 13, kNumbers, unary_numbers<SignOf>, sign_f32).gradient(no_gradient));
  catalogue.add(
      float_op<ReciprocalOf>("Reciprocal", 13, reciprocal_f32).gradient(reciprocal_gradient));
  catalogue.add(float_op<SqrtOf>("Sqrt", 13, sqrt_f32).gradient(sqrt_gradient));
  catalogue.add(float_op<ExpOf>("Exp", 13, exp_f32).gradient(exp_gradient));
  catalogue.add(float_op<LogOf>("Log", 13).gradient(log_gradient));
  catalogue.add(float_op<SinOf>("Sin", 7).gradient(sin_gradient));
  catalogue.add(float_op<CosOf>("Cos", 7).gradient(cos_gradient));
  catalogue.add(float_op<ErfOf>("Erf", 13, erf_f32).gradient(erf_gradient));
  catalogue.add(float_op<FloorOf>("Floor", 13, floor_f32).gradient(no_gradient));
  catalogue.add(float_op<CeilOf>("Ceil", 13, ceil_f32).gradient(no_gradient));
  catalogue.add(float_op<RoundOf>("Round", 11).gradient(no_gradient));
  catalogue.add(clip_op("Clip", 13, kNumbers)
                    .input("input", "T")
                    .optional_input("min", "T")
                    .optional_input("max", "T")
                    .output("output", "T")
                    .gradient(clip_gradient)
                    .kernel("cpu", make_clip)
                    .infer([](InferContext& ctx) { return infer_clip(ctx, 1); })
                    .sharding(shard_elementwise));
  catalogue.add(clip_op("leat.ClipGrad", 1, kFloats)
                    .input("dY", "T")
                    .input("X", "T")
                    .optional_input("min", "T")
                    .optional_input("max", "T")
                    .output("dX", "T")
                    .kernel("cpu", make_clip_grad)
                    .infer([](InferContext& ctx) { return infer_clip(ctx, 2); })
                    .sharding(shard_linear_in_first));
}

}  // namespace leat

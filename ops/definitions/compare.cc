// Comparisons, logic and selection: bool outputs, and Where.
#include <cmath>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/definitions.h"

namespace leat {
namespace {

using elementwise::binary_loop;
using elementwise::unary_loop;

struct EqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a == b;
  }
};
struct GreaterOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a > b;
  }
};
struct LessOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a < b;
  }
};
struct GreaterOrEqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a >= b;
  }
};
struct LessOrEqualOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, T b, const double*) {
    return a <= b;
  }
};
struct AndOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a && b; }
};
struct OrOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a || b; }
};
struct XorOf {
  LEAT_INLINE static bool apply(bool a, bool b, const double*) { return a != b; }
};
struct NotOf {
  LEAT_INLINE static bool apply(bool a, const double*) { return !a; }
};
struct IsNaNOf {
  template <typename T>
  LEAT_INLINE static bool apply(T a, const double*) {
    return std::isnan(a);
  }
};
struct IsInfOf {  // p: detect_negative, detect_positive
  template <typename T>
  LEAT_INLINE static bool apply(T a, const double* p) {
    return std::isinf(a) && (a < 0 ? p[0] != 0 : p[1] != 0);
  }
};

// Selection copies bits, so the size of an element is all that matters.
template <typename T>
void where_loop(void* out, const void* const* x, const int64_t* steps, int64_t n, const double*) {
  const bool* condition = static_cast<const bool*>(x[0]);
  const T* a = static_cast<const T*>(x[1]);
  const T* b = static_cast<const T*>(x[2]);
  T* y = static_cast<T*>(out);
  const int64_t sc = steps[0], sa = steps[1], sb = steps[2];
  if (sc == 1 && sa == 1 && sb == 1) {
    LEAT_NO_OVERLAP
    for (int64_t i = 0; i < n; ++i) {
      const T yes = a[i], no = b[i];
      y[i] = condition[i] ? yes : no;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = condition[i * sc] ? a[i * sa] : b[i * sb];
  }
}

Loop pick_where(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return where_loop<uint8_t>;
    case 2:
      return where_loop<uint16_t>;
    case 4:
      return where_loop<uint32_t>;
    default:
      return where_loop<uint64_t>;
  }
}

// Broadcast of all three, with the dtype of the choices.
Status infer_where(InferContext& ctx) {
  SymbolicShape shape = ctx.shape(0);
  for (int i : {1, 2}) {
    const auto both = broadcast(shape, ctx.shape(i));
    if (!both) {
      return ctx.error(
          cat("shapes do not broadcast: ", ctx.text(shape), " and ", ctx.text(ctx.shape(i))));
    }
    shape = *both;
  }
  ctx.set_tensor(0, ctx.dtype(1), shape);
  return {};
}

Status where_gradient(GradientContext& ctx) {
  const ValueId zero = ctx.scalar(0, ctx.type(ctx.input(1)).dtype);
  if (ctx.needs(1)) {
    const ValueId taken = ctx.emit("Where", {ctx.input(0), ctx.grad(0), zero});
    ctx.set_grad(1, ctx.unbroadcast(taken, ctx.input(1)));
  }
  if (ctx.needs(2)) {
    const ValueId taken = ctx.emit("Where", {ctx.input(0), zero, ctx.grad(0)});
    ctx.set_grad(2, ctx.unbroadcast(taken, ctx.input(2)));
  }
  return {};
}

// --- registration ----------------------------------------------------------------------------

Op predicate(std::string_view name, int since) {
  return Op(name, since)
      .infer(infer_broadcast_bool)
      .tiling(elementwise_tiling)
      .layouts(elementwise_layouts)
      .sharding(shard_elementwise);
}

template <typename F>
Op comparison(std::string_view name, int since, DTypeSet types) {
  return predicate(name, since)
      .input("A", "T")
      .input("B", "T")
      .output("C", "bool")
      .type("T", types)
      .kernel("cpu", [](const KernelSetup& setup) {
        return make_elementwise(setup, dispatch_dtype(setup.input(0).dtype, [](auto tag) -> Loop {
                                  return binary_loop<F, decltype(tag), bool>;
                                }));
      });
}

template <typename F>
Op logic(std::string_view name) {
  return predicate(name, 7)
      .input("A", "bool")
      .input("B", "bool")
      .output("C", "bool")
      .commutative()
      .in_place(0, 0)
      .in_place(0, 1)
      .kernel("cpu", [](const KernelSetup& setup) {
        return make_elementwise(setup, binary_loop<F, bool, bool>);
      });
}

template <typename F>
Loop float_predicate(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return unary_loop<F, float, bool>;
    case DType::f64:
      return unary_loop<F, double, bool>;
    case DType::f16:
      return unary_loop<F, Half, bool>;
    default:
      return unary_loop<F, BFloat16, bool>;
  }
}

}  // namespace

void register_compare_ops(Catalogue& catalogue) {
  catalogue.add(comparison<EqualOf>("Equal", 19, kAllTypes).commutative());
  catalogue.add(comparison<GreaterOf>("Greater", 13, kNumbers));
  catalogue.add(comparison<LessOf>("Less", 13, kNumbers));
  catalogue.add(comparison<GreaterOrEqualOf>("GreaterOrEqual", 16, kNumbers));
  catalogue.add(comparison<LessOrEqualOf>("LessOrEqual", 16, kNumbers));
  catalogue.add(logic<AndOf>("And"));
  catalogue.add(logic<OrOf>("Or"));
  catalogue.add(logic<XorOf>("Xor"));
  catalogue.add(predicate("Not", 1)
                    .input("X", "bool")
                    .output("Y", "bool")
                    .in_place(0, 0)
                    .kernel("cpu", [](const KernelSetup& setup) {
                      return make_elementwise(setup, unary_loop<NotOf, bool, bool>);
                    }));
  catalogue.add(predicate("IsNaN", 13)
                    .input("X", "T")
                    .output("Y", "bool")
                    .type("T", kFloats)
                    .kernel("cpu", [](const KernelSetup& setup) {
                      return make_elementwise(setup,
                                              float_predicate<IsNaNOf>(setup.input(0).dtype));
                    }));
  catalogue.add(predicate("IsInf", 10)
                    .input("X", "T")
                    .output("Y", "bool")
                    .type("T", kFloats)
                    .attr("detect_negative", int64_t{1})
                    .attr("detect_positive", int64_t{1})
                    .kernel("cpu", [](const KernelSetup& setup) {
                      const Attrs& attrs = setup.attrs();
                      return make_elementwise(
                          setup, float_predicate<IsInfOf>(setup.input(0).dtype),
                          {static_cast<double>(attr_int(attrs, "detect_negative")),
                           static_cast<double>(attr_int(attrs, "detect_positive"))});
                    }));
  catalogue.add(Op("Where", 16)
                    .input("condition", "bool")
                    .input("X", "T")
                    .input("Y", "T")
                    .output("output", "T")
                    .type("T", kAllTypes)
                    .in_place(0, 1)
                    .in_place(0, 2)
                    .infer(infer_where)
                    .gradient(where_gradient)
                    .tiling(elementwise_tiling)
                    .layouts(elementwise_layouts)
                    .sharding(shard_elementwise)
                    .kernel("cpu", [](const KernelSetup& setup) {
                      return make_elementwise(setup, pick_where(setup.output(0).dtype));
                    }));
}

}  // namespace leat

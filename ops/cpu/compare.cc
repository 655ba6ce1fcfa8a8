// CPU kernels of ops/definitions/compare.cc.
#include "ops/elements/compare.h"

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"

namespace leat {
namespace {

using elementwise::AndOf;
using elementwise::binary_loop;
using elementwise::EqualOf;
using elementwise::GreaterOf;
using elementwise::GreaterOrEqualOf;
using elementwise::IsInfOf;
using elementwise::IsNaNOf;
using elementwise::LessOf;
using elementwise::LessOrEqualOf;
using elementwise::NotOf;
using elementwise::OrOf;
using elementwise::unary_loop;
using elementwise::XorOf;
// A selection copies bits, so it depends only on the size of an element.
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
      // Both sides are read in every case, so that the compiler may select without a branch.
      const T yes = a[i], no = b[i];
      y[i] = condition[i] ? yes : no;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = condition[i * sc] ? a[i * sa] : b[i * sb];
  }
}

// The loop for elements of this dtype's size: 1, 2, 4 or 8 bytes.
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

// The operands share one dtype, that of input 0. The result is bool, so output 0 cannot choose the
// loop.
template <typename F>
Result<std::unique_ptr<Kernel>> compare_kernel(const KernelSetup& setup) {
  return make_elementwise(setup, dispatch_dtype(setup.input(0).dtype, [](auto tag) -> Loop {
                            return binary_loop<F, decltype(tag), bool>;
                          }));
}

// The loop of IsNaN or IsInf. Inference has refused dtypes that are not floats, so the default is
// bf16.
template <typename F>
Result<std::unique_ptr<Kernel>> logic_kernel(const KernelSetup& setup) {
  return make_elementwise(setup, binary_loop<F, bool, bool>);
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

void add_compare_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Equal", "cpu", compare_kernel<EqualOf>);
  catalogue.add_kernel("Greater", "cpu", compare_kernel<GreaterOf>);
  catalogue.add_kernel("Less", "cpu", compare_kernel<LessOf>);
  catalogue.add_kernel("GreaterOrEqual", "cpu", compare_kernel<GreaterOrEqualOf>);
  catalogue.add_kernel("LessOrEqual", "cpu", compare_kernel<LessOrEqualOf>);
  catalogue.add_kernel("And", "cpu", logic_kernel<AndOf>);
  catalogue.add_kernel("Or", "cpu", logic_kernel<OrOf>);
  catalogue.add_kernel("Xor", "cpu", logic_kernel<XorOf>);
  catalogue.add_kernel("Not", "cpu", [](const KernelSetup& setup) {
    return make_elementwise(setup, unary_loop<NotOf, bool, bool>);
  });
  catalogue.add_kernel("IsNaN", "cpu", [](const KernelSetup& setup) {
    return make_elementwise(setup, float_predicate<IsNaNOf>(setup.input(0).dtype));
  });
  catalogue.add_kernel("IsInf", "cpu", [](const KernelSetup& setup) {
    const Attrs& attrs = setup.attrs();
    return make_elementwise(setup, float_predicate<IsInfOf>(setup.input(0).dtype),
                            {static_cast<double>(attr_int(attrs, "detect_negative")),
                             static_cast<double>(attr_int(attrs, "detect_positive"))});
  });
  catalogue.add_kernel("Where", "cpu", [](const KernelSetup& setup) {
    return make_elementwise(setup, pick_where(setup.output(0).dtype));
  });
}

}  // namespace leat

// CPU kernels of ops/definitions/cast.cc.
#include "ops/definitions/cast.h"

#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"

namespace leat {
namespace {

using elementwise::Compute;
using elementwise::load;
using elementwise::store;
// Integers wrap around, floats become integers by truncation and saturate (NaN becomes 0), and any
// number but 0 becomes true.
template <typename To, typename From>
LEAT_INLINE To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds as floats: the upper one is the first value that is out of range.
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

template <typename T>
constexpr bool is_16_bits = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// f16 and bf16 are converted by way of float. The loop with step 1 is separate, so that the
// compiler can vectorize it.
template <typename From, typename To>
void cast_loop(void* out, const void* const* x, const int64_t* steps, int64_t n, const double*) {
  const From* a = static_cast<const From*>(x[0]);
  To* y = static_cast<To*>(out);
  if (steps[0] == 1) {
    constexpr bool from_float = std::is_same_v<From, float>, to_float = std::is_same_v<To, float>;
    if constexpr (from_float && is_16_bits<To>) return narrow(a, y, n);
    if constexpr (to_float && is_16_bits<From>) return widen(a, y, n);
    for (int64_t i = 0; i < n; ++i) y[i] = store<To>(convert<Compute<To>>(load(a[i])));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = store<To>(convert<Compute<To>>(load(a[i * steps[0]])));
  }
}

// Two nested choices make the loop of each pair of dtypes.
template <typename From>
Loop pick_to(DType to) {
  return dispatch_dtype(to, [](auto tag) -> Loop { return cast_loop<From, decltype(tag)>; });
}

Loop pick_cast(DType from, DType to) {
  return dispatch_dtype(from, [to](auto tag) { return pick_to<decltype(tag)>(to); });
}

// CastLike's second input determines a dtype; its elements are not read.
Result<std::unique_ptr<Kernel>> make_cast(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = cast_input(setup.types);
  return make_elementwise(one, pick_cast(setup.input(0).dtype, setup.output(0).dtype));
}

}  // namespace

void add_cast_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Cast", "cpu", make_cast);
  catalogue.add_kernel("CastLike", "cpu", make_cast);
}

}  // namespace leat

// CPU kernels of ops/definitions/cast.cc.
#include "ops/definitions/cast.h"

#include "devices/base/text.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/convert.h"

namespace leat {
namespace {

using elementwise::Compute;
using elementwise::convert;
using elementwise::load;
using elementwise::store;
using elementwise::unary_loop;
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

struct SameBitsOf {
  template <typename T>
  LEAT_INLINE static T apply(T bits, const double*) {
    return bits;
  }
};
// A bool is 0 or 1: any other byte becomes 1.
struct BoolOfBitsOf {
  LEAT_INLINE static bool apply(uint8_t bits, const double*) { return bits != 0; }
};

Result<std::unique_ptr<Kernel>> make_bit_cast(const KernelSetup& setup) {
  const DType to = setup.output(0).dtype;
  if (to == DType::boolean) return make_elementwise(setup, unary_loop<BoolOfBitsOf, uint8_t, bool>);
  switch (dtype_size(to)) {
    case 1:
      return make_elementwise(setup, unary_loop<SameBitsOf, uint8_t>);
    case 2:
      return make_elementwise(setup, unary_loop<SameBitsOf, uint16_t>);
    case 4:
      return make_elementwise(setup, unary_loop<SameBitsOf, uint32_t>);
    default:
      return make_elementwise(setup, unary_loop<SameBitsOf, uint64_t>);
  }
}

}  // namespace

void add_cast_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Cast", "cpu", make_cast);
  catalogue.add_kernel("CastLike", "cpu", make_cast);
  catalogue.add_kernel("leat.Widen", "cpu", make_cast);
  catalogue.add_kernel("BitCast", "cpu", make_bit_cast);
}

}  // namespace leat

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
using elementwise::from_code;
using elementwise::load;
using elementwise::store;
using elementwise::to_code;
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

// The parameters of the loops below: the narrow type that is read, and that which is written, as
// numbers of DType; then those of NarrowRules.
std::vector<double> narrow_params(const KernelSetup& setup) {
  const NarrowRules rules = narrow_rules(setup.attrs());
  return {double(setup.input(0).dtype), double(setup.output(0).dtype), double(rules.saturate),
          double(rules.power)};
}
NarrowFormat format_of(double dtype) { return narrow_format(static_cast<DType>(dtype)); }

template <typename To>
void widen_narrow(void* out, const void* const* x, const int64_t* steps, int64_t n,
                  const double* p) {
  const NarrowFormat from = format_of(p[0]);
  const auto* a = static_cast<const uint8_t*>(x[0]);
  To* y = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = store<To>(from_code<Compute<To>>(from, a[i * steps[0]]));
}

template <typename From>
void narrow_loop(void* out, const void* const* x, const int64_t* steps, int64_t n,
                 const double* p) {
  const NarrowFormat to = format_of(p[1]);
  const NarrowRules rules{p[2] != 0, static_cast<PowerRounding>(p[3])};
  const From* a = static_cast<const From*>(x[0]);
  auto* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) y[i] = to_code(to, load(a[i * steps[0]]), rules);
}

void narrow_to_narrow(void* out, const void* const* x, const int64_t* steps, int64_t n,
                      const double* p) {
  const NarrowFormat from = format_of(p[0]), to = format_of(p[1]);
  const NarrowRules rules{p[2] != 0, static_cast<PowerRounding>(p[3])};
  const auto* a = static_cast<const uint8_t*>(x[0]);
  auto* y = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i)
    y[i] = narrow_code(to, narrow_value(from, a[i * steps[0]]), rules);
}

Loop pick_narrow(DType from, DType to) {
  if (is_narrow(from) && is_narrow(to)) return narrow_to_narrow;
  if (is_narrow(from))
    return dispatch_dtype(to, [](auto tag) -> Loop { return widen_narrow<decltype(tag)>; });
  return dispatch_dtype(from, [](auto tag) -> Loop { return narrow_loop<decltype(tag)>; });
}

// CastLike's second input determines a dtype; its elements are not read.
Result<std::unique_ptr<Kernel>> make_cast(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = cast_input(setup.types);
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  // The same type twice keeps its bits, which pick_cast() does, too: narrow types are bytes to it.
  if (from != to && (is_narrow(from) || is_narrow(to)))
    return make_elementwise(one, pick_narrow(from, to), narrow_params(setup));
  return make_elementwise(one, pick_cast(from, to));
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

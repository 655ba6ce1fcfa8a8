// CPU kernels of ops/definitions/bitwise.cc.
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"

namespace leat {
namespace {

using elementwise::binary_numbers;
using elementwise::unary_numbers;

// The tables of loops have one for floats, too, which no node can have.
#define LEAT_BITWISE(name, expression)                    \
  struct name {                                           \
    template <typename T>                                 \
    LEAT_INLINE static T apply(T a, T b, const double*) { \
      if constexpr (std::is_integral_v<T>)                \
        return static_cast<T>(expression);                \
      else                                                \
        return a + b;                                     \
    }                                                     \
  };
LEAT_BITWISE(BitwiseAndOf, a& b)
LEAT_BITWISE(BitwiseOrOf, a | b)
LEAT_BITWISE(BitwiseXorOf, a ^ b)
#undef LEAT_BITWISE

struct BitwiseNotOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(~a);
    else
      return a;
  }
};

// A shift by a negative number, or by the width or more, leaves the sign's copies alone: all ones
// for a right shift of a negative number, else 0. Right shifts of signed numbers copy the sign.
template <bool left>
struct ShiftOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, T b, const double*) {
    if constexpr (std::is_integral_v<T>) {
      const bool beyond = b < 0 || static_cast<uint64_t>(b) >= 8 * sizeof(T);
      if (beyond) return static_cast<T>(!left && a < 0 ? -1 : 0);
      if (left) return static_cast<T>(static_cast<uint64_t>(a) << static_cast<uint64_t>(b));
      return static_cast<T>(a >> b);
    } else {
      return a + b;
    }
  }
};

template <typename F>
Result<std::unique_ptr<Kernel>> make_binary(const KernelSetup& setup) {
  return make_elementwise(setup, binary_numbers<F>(setup.output(0).dtype));
}

Result<std::unique_ptr<Kernel>> make_shift(const KernelSetup& setup) {
  const bool left = attr_string(setup.attrs(), "direction") == "LEFT";
  return left ? make_binary<ShiftOf<true>>(setup) : make_binary<ShiftOf<false>>(setup);
}

}  // namespace

void add_bitwise_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("BitwiseAnd", "cpu", make_binary<BitwiseAndOf>);
  catalogue.add_kernel("BitwiseOr", "cpu", make_binary<BitwiseOrOf>);
  catalogue.add_kernel("BitwiseXor", "cpu", make_binary<BitwiseXorOf>);
  catalogue.add_kernel("BitwiseNot", "cpu", loop_kernel(unary_numbers<BitwiseNotOf>, nullptr));
  catalogue.add_kernel("BitShift", "cpu", make_shift);
}

}  // namespace leat

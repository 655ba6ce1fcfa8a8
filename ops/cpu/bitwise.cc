// CPU kernels of ops/definitions/bitwise.cc.
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/bitwise.h"

namespace leat {
namespace {

using elementwise::binary_numbers;
using elementwise::BitwiseAndOf;
using elementwise::BitwiseNotOf;
using elementwise::BitwiseOrOf;
using elementwise::BitwiseXorOf;
using elementwise::ShiftOf;
using elementwise::unary_numbers;

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

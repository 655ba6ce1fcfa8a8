// CPU kernels of ops/definitions/pieces.cc.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

// leat.Range: copies a range of the input's elements. A plan uses the range in place where it can,
// and this kernel runs where it cannot.
Result<std::unique_ptr<Kernel>> make_range(const KernelSetup& setup) {
  const size_t element = dtype_size(setup.output(0).dtype);
  const size_t offset = static_cast<size_t>(attr_int(setup.attrs(), "first")) * element;
  return make_kernel([offset, bytes = setup.output(0).bytes()](KernelContext& context) {
    if (bytes > 0) std::memcpy(context.outputs[0], context.in<std::byte>(0) + offset, bytes);
    return Progress::done;
  });
}

// leat.Join: one tile copies one piece. begins[i] is the byte at which piece i starts in the
// output, and the last entry is the end.
Result<std::unique_ptr<Kernel>> make_join(const KernelSetup& setup) {
  std::vector<size_t> begins{0};
  for (const OperandType& piece : setup.types.inputs)
    begins.push_back(begins.back() + piece.bytes());
  const auto pieces = static_cast<int>(setup.types.inputs.size());
  return make_tiled_kernel(pieces, [begins](KernelContext& context, int piece) {
    const auto i = static_cast<size_t>(piece);
    const size_t bytes = begins[i + 1] - begins[i];
    if (bytes > 0) std::memcpy(context.out<std::byte>(0) + begins[i], context.inputs[i], bytes);
    return Progress::done;
  });
}

}  // namespace

void add_pieces_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Range", "cpu", make_range);
  catalogue.add_kernel("leat.Join", "cpu", make_join);
}

}  // namespace leat

// CPU kernels of ops/definitions/slice.cc.
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {

void add_slice_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Slice", "cpu", copy_kernel<slice_copies>);
  catalogue.add_kernel("leat.SliceGrad", "cpu", copy_kernel<slice_grad_copies>);
}

}  // namespace leat

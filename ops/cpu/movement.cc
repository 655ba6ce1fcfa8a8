// CPU kernels of ops/definitions/movement.cc.
#include "ops/definitions/movement.h"

#include <algorithm>
#include <numeric>

#include "devices/base/text.h"
#include "ops/cpu/copy.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/elementwise.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

// --- Expand and Tile -------------------------------------------------------------------------

// Expand is a broadcast: the elementwise kernel reads the input with steps of 0.
struct SameOf {
  template <typename T>
  LEAT_INLINE static T apply(T a, const double*) {
    return a;
  }
};

Result<std::unique_ptr<Kernel>> make_expand(const KernelSetup& setup) {
  KernelSetup one = setup;
  one.types = only_input(setup.types);
  return make_elementwise(one, dispatch_dtype(setup.output(0).dtype, [](auto tag) -> Loop {
                            return elementwise::unary_loop<SameOf, decltype(tag)>;
                          }));
}

}  // namespace

void add_movement_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Transpose", "cpu", copy_kernel<transpose_copies>);
  catalogue.add_kernel("Concat", "cpu", copy_kernel<concat_copies>);
  catalogue.add_kernel("Split", "cpu", copy_kernel<split_copies>);
  catalogue.add_kernel("Expand", "cpu", make_expand);
  catalogue.add_kernel("Tile", "cpu", copy_kernel<tile_copies>);
}

}  // namespace leat

// CPU kernels of ops/definitions/reduce.cc.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/reduce_kernels.h"
#include "ops/definitions/reduce_shape.h"

namespace leat {

void add_reduce_kernels(Catalogue& catalogue) {
  // A kernel is a function of its Reduction alone; the axes and the dtype come from the node.
  const auto add = [&](const char* op, Reduction reduction) {
    catalogue.add_kernel(op, "cpu", [reduction](const KernelSetup& setup) {
      return make_reduce_kernel(setup, reduction);
    });
  };
  add("ReduceSum", Reduction::sum);
  add("ReduceMean", Reduction::mean);
  add("ReduceMax", Reduction::max);
  add("ReduceMin", Reduction::min);
  add("ReduceProd", Reduction::prod);
  add("ReduceSumSquare", Reduction::sum_square);
  add("ReduceL1", Reduction::l1);
  add("ReduceL2", Reduction::l2);
  catalogue.add_kernel("leat.ReduceGrad", "cpu", make_reduce_grad_kernel);
  catalogue.add_kernel("ArgMax", "cpu",
                       [](const KernelSetup& setup) { return make_arg_kernel(setup, true); });
  catalogue.add_kernel("ArgMin", "cpu",
                       [](const KernelSetup& setup) { return make_arg_kernel(setup, false); });
}

}  // namespace leat

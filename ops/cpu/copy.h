// The CPU kernel of ops that only move elements: strided copies between operands, cut into tiles.
#pragma once

#include <memory>

#include "ops/definitions/strided_copy.h"
#include "ops/graph/kernel.h"

namespace leat {

// The kernel moves bits, so results are exact for every dtype. A copy to an output that is absent
// in the context is left out. Tiles follow from the shapes (or from setup.tile_rows if plan.rows >
// 0); they may run at the same time, because no two write the same element. REQUIRES: all operands
// that are copied have the dtype of input 0, and none overlaps an output.
std::unique_ptr<Kernel> make_copy_kernel(const KernelSetup& setup, CopyPlan plan);

// The factory of the kernel that runs the copies which `describe` makes of a node.
template <Result<CopyPlan> (*describe)(const KernelSetup&)>
Result<std::unique_ptr<Kernel>> copy_kernel(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(CopyPlan plan, describe(setup));
  return make_copy_kernel(setup, std::move(plan));
}

}  // namespace leat

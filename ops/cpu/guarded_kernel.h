// Writes that a step may skip. An op that writes variables has an optional last input, its guard:
// one f32, which is NaN in a step that must write nothing, and otherwise 0.
// scheduler/compile/guard.cc adds guards: a step in which a fetched value or an input of a write
// has a NaN or an infinity leaves all variables as they are.
//
// The factory of such an op wraps its kernel as the last thing that it does:
//
//   return guarded(setup, kWriteGuard, make_element_kernel(n, run));
#pragma once

#include <cmath>
#include <memory>
#include <utility>

#include "ops/cpu/element_kernel.h"
#include "ops/definitions/guard.h"
#include "ops/graph/kernel.h"

namespace leat {

// Runs another kernel, unless the guard is NaN. It owns that kernel, and has its phases, tiles and
// memory. Every tile of every phase tests the guard itself: the guard does not change within a
// step, so either all tiles run or none. A skipped tile returns Progress::done and touches no other
// operand; its workspace stays undefined.
//
// The kernel keeps the promise of ElementTiles of the kernel inside, because the guard has one
// element. Threads: those of Kernel.
class GuardedKernel final : public Kernel, public ElementTiles {
 public:
  // `guard` is the index of the guard among the op's inputs, which must be present.
  GuardedKernel(std::unique_ptr<Kernel> kernel, int guard)
      : kernel_(std::move(kernel)), guard_(guard) {}
  int phases() const override { return kernel_->phases(); }
  int tiles(int phase) const override { return kernel_->tiles(phase); }
  int row_phase() const override { return kernel_->row_phase(); }
  bool may_block() const override { return kernel_->may_block(); }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  int64_t tile_elements() const override { return leat::tile_elements(*kernel_); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (std::isnan(*context.in<float>(guard_))) return Progress::done;
    return kernel_->run(context, phase, tile);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const int guard_;
};

// `kernel`, wrapped if the node has the input `guard` (an index); else `kernel` itself. An error in
// place of a kernel is passed on, so the result of a factory can be given directly.
inline Result<std::unique_ptr<Kernel>> guarded(const KernelSetup& setup, int guard,
                                               Result<std::unique_ptr<Kernel>> kernel) {
  if (!kernel.ok() || !setup.types.has_input(guard)) return kernel;
  return std::unique_ptr<Kernel>(std::make_unique<GuardedKernel>(std::move(*kernel), guard));
}

}  // namespace leat

// Writes that a step may skip. An op that writes variables has an optional last input, its guard:
// one f32, which is NaN in a step that must write nothing, and otherwise 0.
// scheduler/compile/guard.cc adds guards.
#pragma once

#include <cmath>
#include <memory>
#include <utility>

#include "ops/cpu/element_kernel.h"
#include "ops/definitions/guard.h"
#include "ops/graph/kernel.h"

namespace leat {

// Runs another kernel, unless the guard is NaN.
class GuardedKernel final : public Kernel, public ElementTiles {
 public:
  GuardedKernel(std::unique_ptr<Kernel> kernel, int guard)
      : kernel_(std::move(kernel)), guard_(guard) {}
  int phases() const override { return kernel_->phases(); }
  int tiles(int phase) const override { return kernel_->tiles(phase); }
  int row_phase() const override { return kernel_->row_phase(); }
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

// `kernel`, wrapped if the node has the input `guard`.
inline Result<std::unique_ptr<Kernel>> guarded(const KernelSetup& setup, int guard,
                                               Result<std::unique_ptr<Kernel>> kernel) {
  if (!kernel.ok() || !setup.types.has_input(guard)) return kernel;
  return std::unique_ptr<Kernel>(std::make_unique<GuardedKernel>(std::move(*kernel), guard));
}

}  // namespace leat

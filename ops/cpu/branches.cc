// CPU kernels of ops/definitions/branches.cc. The condition is read as a byte: a branch that was
// not taken may have left any byte where it belongs.
#include "ops/cpu/branches.h"

#include <cstring>
#include <memory>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/element_kernel.h"
#include "ops/definitions/branches.h"
#include "ops/definitions/shapes.h"

namespace leat {
namespace {

bool holds(const KernelContext& context, int i) { return *context.in<uint8_t>(i) != 0; }

// Copies a range of elements, unless both are the same memory.
void copy_range(const void* from, void* to, ElementRange range, int64_t size) {
  if (from == to) return;
  std::memcpy(static_cast<std::byte*>(to) + range.begin * size,
              static_cast<const std::byte*>(from) + range.begin * size,
              static_cast<size_t>((range.end - range.begin) * size));
}

Result<std::unique_ptr<Kernel>> make_merge(const KernelSetup& setup) {
  const auto size = static_cast<int64_t>(dtype_size(setup.output(0).dtype));
  return make_element_kernel(
      setup.output(0).shape.elements(), [size](KernelContext& context, ElementRange range) {
        copy_range(context.inputs[holds(context, 0) ? 1 : 2], context.outputs[0], range, size);
        return Progress::done;
      });
}

Result<std::unique_ptr<Kernel>> make_mask(const KernelSetup& setup) {
  const auto size = static_cast<int64_t>(dtype_size(setup.output(0).dtype));
  const bool branch = attr_int(setup.attrs(), "branch") != 0;
  return make_element_kernel(setup.output(0).shape.elements(),
                             [size, branch](KernelContext& context, ElementRange range) {
                               if (holds(context, 1) == branch) {
                                 copy_range(context.inputs[0], context.outputs[0], range, size);
                               } else {
                                 std::memset(context.out<std::byte>(0) + range.begin * size, 0,
                                             static_cast<size_t>((range.end - range.begin) * size));
                               }
                               return Progress::done;
                             });
}

Result<std::unique_ptr<Kernel>> make_loop_end(const KernelSetup& setup) {
  const auto size = static_cast<int64_t>(dtype_size(setup.output(0).dtype));
  return make_element_kernel(
      setup.output(0).shape.elements(),
      [size, bound = attr_int(setup.attrs(), "bound"), subject = setup.subject](
          KernelContext& context, ElementRange range) {
        if (holds(context, 1)) {
          context.step->fail(
              context.instruction,
              invalid_argument(cat(subject, ": expected a Loop of at most ", bound,
                                   " iterations (its attribute bound), this step ", "needs more")));
          return Progress::failed;
        }
        copy_range(context.inputs[0], context.outputs[0], range, size);
        return Progress::done;
      });
}

// Runs another kernel if the condition holds. It owns that kernel, and has its phases, tiles and
// memory. Every tile tests the condition itself, which does not change within a step: either all
// tiles run or none. A tile that is left out touches no operand. Threads: those of Kernel.
class ConditionalKernel final : public Kernel {
 public:
  explicit ConditionalKernel(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
  int phases() const override { return kernel_->phases(); }
  int tiles(int phase) const override { return kernel_->tiles(phase); }
  int row_phase() const override { return kernel_->row_phase(); }
  bool may_block() const override { return kernel_->may_block(); }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (!holds(context, 0)) return Progress::done;
    // The context belongs to this tile, and the kernel may report in it what it waits for.
    void* const* const all = context.inputs;
    context.inputs = all + 1;
    const Progress progress = kernel_->run(context, phase, tile);
    context.inputs = all;
    return progress;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
};

// Makes the kernel of `op` for the operands behind the condition.
Result<std::unique_ptr<Kernel>> make_conditional(const KernelFactory& make,
                                                 const KernelSetup& setup) {
  KernelSetup behind = setup;
  behind.types.inputs.erase(behind.types.inputs.begin());
  if (!behind.constants.empty()) behind.constants.erase(behind.constants.begin());
  LEAT_ASSIGN_OR_RETURN(auto kernel, make(behind));
  return std::unique_ptr<Kernel>(std::make_unique<ConditionalKernel>(std::move(kernel)));
}

}  // namespace

void add_branch_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Merge", "cpu", make_merge);
  catalogue.add_kernel("leat.Mask", "cpu", make_mask);
  catalogue.add_kernel("leat.Enter", "cpu", make_copy);
  catalogue.add_kernel("leat.LoopEnd", "cpu", make_loop_end);
}

void add_conditional_kernels(Catalogue& catalogue) {
  for (const OpDef* op : catalogue.all()) {
    const OpDef* conditional = catalogue.find(kWhen, op->full_name());
    const auto kernel = op->kernels.find("cpu");
    if (conditional == nullptr || kernel == op->kernels.end()) continue;
    catalogue.add_kernel(conditional->full_name(), "cpu",
                         [make = kernel->second](const KernelSetup& setup) {
                           return make_conditional(make, setup);
                         });
  }
}

}  // namespace leat

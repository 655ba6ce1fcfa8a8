// CPU kernels of ops/definitions/step.cc.
#include "ops/definitions/step.h"

#include <mutex>
#include <optional>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// leat.Step: the number of the job's step, from 0.
Result<std::unique_ptr<Kernel>> make_step_kernel(const KernelSetup&) {
  return make_kernel([](KernelContext& context) {
    *context.out<int64_t>(0) = static_cast<int64_t>(context.step->step);
    return Progress::done;
  });
}

// leat.ReplicaId: one row of each shard, so the first row is the shard's number.
Result<std::unique_ptr<Kernel>> make_replica_id(const KernelSetup& setup) {
  return make_kernel([id = setup.node ? setup.node->first_row : 0](KernelContext& context) {
    *context.out<int64_t>(0) = id;
    return Progress::done;
  });
}

// leat.NextStep: draws the next number from a counter that runs share. The kernel counts as a user
// of the counter from its first step until it is destroyed.
class NextStepKernel final : public Kernel {
 public:
  explicit NextStepKernel(const KernelSetup& setup) : subject_(setup.subject) {}
  ~NextStepKernel() override {
    if (counter_) counter_->leave();
  }
  Progress run(KernelContext& context, int, int) override {
    // The counter is joined in the first step and not when the kernel is made, because only then is
    // the step known at which this run begins.
    if (!counter_) {
      auto* found = dynamic_cast<StepCounter*>(static_cast<Resource*>(context.inputs[0]));
      if (!found) {
        context.step->fail(context.instruction,
                           invalid_argument(cat(
                               subject_, ": expected a step counter, received another resource")));
        return Progress::failed;
      }
      counter_ = found;
      counter_->join(static_cast<int64_t>(context.step->step));
    }
    *context.out<int64_t>(0) = counter_->draw();
    return Progress::done;
  }

 private:
  const std::string subject_;
  StepCounter* counter_ = nullptr;
};

Result<std::unique_ptr<Kernel>> make_next_step(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<NextStepKernel>(setup));
}

}  // namespace

void add_step_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Step", "cpu", make_step_kernel);
  catalogue.add_kernel("leat.ReplicaId", "cpu", make_replica_id);
  catalogue.add_kernel("leat.NextStep", "cpu", make_next_step);
}

}  // namespace leat

// The number of a step as a value: what schedules, readers and optimizers count with.
#include <mutex>
#include <optional>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

Status infer_step(InferContext& ctx) {
  ctx.set_tensor(0, DType::i64, {});
  return {};
}

Result<std::unique_ptr<Kernel>> make_step_kernel(const KernelSetup&) {
  return make_kernel([](KernelContext& context) {
    *context.out<int64_t>(0) = static_cast<int64_t>(context.step->step);
    return Progress::done;
  });
}

// Numbers that several runs of a job draw their steps from. It begins with the number of the step
// that draws first, and anew when no kernel that drew is left: runs that are made again, from a
// checkpoint, say, go on from there. Threads: any.
class StepCounter final : public Resource {
 public:
  std::string_view kind() const override { return "step counter"; }

  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) next_ = first;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  int64_t draw() {
    std::lock_guard lock(mutex_);
    return next_++;
  }

 private:
  std::mutex mutex_;
  int users_ = 0;
  int64_t next_ = 0;
};

Status infer_counter(InferContext& ctx) {
  if (attr_string(ctx.attrs(), "name").empty()) return ctx.error("name: expected one");
  ctx.set_output(0, ValueType{ValueKind::resource, DType::invalid, {}});
  return {};
}

Result<Resource*> make_counter(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  return setup.resources->find_or_make(
      "step counter", attr_string(setup.attrs(), "name"),
      []() -> Result<std::unique_ptr<Resource>> {
        return std::unique_ptr<Resource>(std::make_unique<StepCounter>());
      });
}

Status infer_next_step(InferContext& ctx) {
  if (ctx.dtype(0) != DType::invalid)
    return ctx.error("input 0: expected a step counter, received a variable");
  return infer_step(ctx);
}

class NextStepKernel final : public Kernel {
 public:
  explicit NextStepKernel(const KernelSetup& setup) : subject_(setup.subject) {}
  ~NextStepKernel() override {
    if (counter_) counter_->leave();
  }
  Progress run(KernelContext& context, int, int) override {
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

void register_step_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Step")
                    .output("step", "int64")
                    .stateful()
                    .infer(infer_step)
                    .kernel("cpu", make_step_kernel));
  // Steps that runs which share a job's variables take turns in: each draws the next number.
  catalogue.add(Op("leat.StepCounter")
                    .output("counter", "resource")
                    .attr_required("name", "string")
                    .infer(infer_counter)
                    .resource(make_counter));
  catalogue.add(Op("leat.NextStep")
                    .input("counter", "resource")
                    .output("step", "int64")
                    .stateful()
                    .infer(infer_next_step)
                    .kernel("cpu", make_next_step));
}

}  // namespace leat

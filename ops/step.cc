// The job's step as a value: what schedules, readers and optimizers count with.
#include "ops/catalogue.h"

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

}  // namespace

void register_step_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Step")
                    .output("step", "int64")
                    .stateful()
                    .infer(infer_step)
                    .kernel("cpu", make_step_kernel));
}

}  // namespace leat

// The number of a step, and that of a shard, as values: for schedules, readers and optimizers.
#include "ops/definitions/step.h"

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

Status infer_counter(InferContext& ctx) {
  if (attr_string(ctx.attrs(), "name").empty()) return ctx.error("name: expected one");
  ctx.set_output(0, ValueType{ValueKind::resource, DType::invalid, {}});
  return {};
}

// Runs of one job that name the same counter share it, because the table of resources is the job's.
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

}  // namespace

void register_step_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Step").output("step", "int64").stateful().infer(infer_step));
  // The number of the shard, from 0; 0 in a graph that no strategy has made shards of.
  catalogue.add(
      Op("leat.ReplicaId").output("id", "int64").per_shard().infer([](InferContext& ctx) -> Status {
        ctx.set_tensor(0, DType::i64, Shape{1});
        return {};
      }));
  // A counter for runs that share the variables of a job and take turns: each draws the next
  // number.
  catalogue.add(Op("leat.StepCounter")
                    .output("counter", "resource")
                    .attr_required("name", "string")
                    .infer(infer_counter)
                    .resource(make_counter));
  catalogue.add(Op("leat.NextStep")
                    .input("counter", "resource")
                    .output("step", "int64")
                    .stateful()
                    .infer(infer_next_step));
}

}  // namespace leat

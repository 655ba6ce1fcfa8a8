#include "tests/onnx/run_plan.h"

#include "devices/cpu/cpu_device.h"
#include "ops/graph/validate.h"
#include "ops/state/resources.h"
#include "scheduler/compile/compile.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run.h"

namespace leat::testing {

Result<std::vector<Tensor>> run_plan(Graph graph, const std::map<ValueId, Tensor>& feeds) {
  for (const auto& [input, tensor] : feeds) {
    graph.value(input).type.shape = SymbolicShape(tensor.shape());
  }
  LEAT_RETURN_IF_ERROR(validate(graph));
  CompileRequest request;
  request.borders.feeds = graph.inputs();
  request.borders.fetches = graph.outputs();
  request.devices = {{"job:worker/task:0/cpu:0"}};
  LEAT_ASSIGN_OR_RETURN(const Plan plan, compile(graph, request));
  cpu::CpuDevice device(0, 3);
  JobResources resources(device);
  LEAT_ASSIGN_OR_RETURN(const auto program, Program::create(plan, 0, device, resources, {}));
  Run run(*program, device.pool(), {});
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    LEAT_RETURN_IF_ERROR(run.set_feed(i, feeds.at(graph.inputs()[i])));
  }
  run.extend(1);
  Awaited awaited;
  if (!run.advance(awaited)) return failed_precondition("expected a plan that waits for nothing");
  LEAT_RETURN_IF_ERROR(run.status());
  std::vector<Tensor> outputs;
  for (uint32_t i = 0; i < graph.outputs().size(); ++i) outputs.push_back(run.fetched(i, 0));
  return outputs;
}

}  // namespace leat::testing

#include "daemon/cli/plan_memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "daemon/base/json_line.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/train_graph.h"
#include "scheduler/runtime/kernel_notes.h"

namespace leat {
namespace {

// The bytes of variables by device and name: plans of one job share them.
using VariableBytes = std::map<std::pair<std::string, std::string>, uint64_t>;

// A kernel with the code that oneDNN makes for it: 20 to 30 KiB in four networks of convolutions.
constexpr uint64_t kKernelBytes = 24 << 10;

bool is_in_process(const Partition& partition) {
  return short_name(partition.device).starts_with("cpu");
}

void add_variables(const Plan& plan, VariableBytes& variables) {
  for (const Partition& partition : plan.partitions) {
    if (!is_in_process(partition)) continue;
    for (const PlanResource& resource : partition.resources)
      variables[{partition.device, resource.name}] = resource.bytes;
  }
}

// All but the variables.
uint64_t other_bytes(const Plan& plan, const std::vector<uint64_t>& workspaces) {
  uint64_t bytes = 0;
  for (size_t p = 0; p < plan.partitions.size(); ++p) {
    const Partition& partition = plan.partitions[p];
    if (is_in_process(partition))
      bytes += partition.memory_bytes() - partition.resource_bytes() + workspaces[p];
  }
  return bytes;
}

// `weights`: without the state of the optimizer.
uint64_t sum_of(const VariableBytes& variables, bool weights = false) {
  uint64_t bytes = 0;
  for (const auto& [key, size] : variables) {
    if (!weights || !key.second.starts_with(kOptimizerPrefix)) bytes += size;
  }
  return bytes;
}

// Of the partition that has the most: kernels of several workers share their code.
uint64_t kernels_of(const Plan& plan) {
  uint64_t most = 0;
  for (const Partition& partition : plan.partitions) {
    uint64_t kernels = 0;
    for (const PlanInstruction& each : partition.instructions)
      kernels += each.kind == PlanInstruction::Kind::kernel;
    most = std::max(most, kernels);
  }
  return most;
}

// The variables of all devices, each once: a checkpoint has one copy of those that are replicated.
uint64_t copies_of(const std::vector<std::shared_ptr<const Plan>>& plans) {
  std::map<std::string, uint64_t> bytes;
  for (const auto& plan : plans) {
    for (const Partition& partition : plan->partitions) {
      for (const PlanResource& resource : partition.resources)
        bytes[resource.name] = resource.bytes;
    }
  }
  uint64_t sum = 0;
  for (const auto& [name, size] : bytes) sum += size;
  return sum;
}

}  // namespace

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    uint64_t kib = 0;
    if (key == "RssAnon:" && status >> kib) memory.own = kib << 10;
    if (key == "RssFile:" && status >> kib) memory.files = kib << 10;
  }
  return memory;
}

uint64_t TrainingMemory::peak() const {
  return plans + std::max(start, steps + evaluation + (copies ? checkpoint : 0));
}

Result<TrainingMemory> training_memory(Trainer& trainer,
                                       const std::vector<std::shared_ptr<const Plan>>& plans,
                                       const std::vector<std::vector<uint64_t>>& workspaces,
                                       const ResidentMemory& before) {
  TrainingMemory memory;
  VariableBytes variables;
  for (size_t i = 0; i < plans.size(); ++i) {
    add_variables(*plans[i], variables);
    memory.steps += other_bytes(*plans[i], workspaces[i]);
    memory.plans += kernels_of(*plans[i]) * kKernelBytes;
  }
  // The tensors of the model, the same as constants of the plan that fills the variables, and
  // these.
  const uint64_t initial = trainer.initial_value_bytes();
  memory.start = 2 * initial + sum_of(variables, true);
  LEAT_ASSIGN_OR_RETURN(const auto evaluations, trainer.plan_evaluations());
  for (const auto& plan : evaluations) {
    LEAT_ASSIGN_OR_RETURN(const auto bytes, workspace_bytes(*plan));
    add_variables(*plan, variables);
    memory.evaluation = std::max(memory.evaluation, other_bytes(*plan, bytes));
  }
  memory.steps += sum_of(variables);
  memory.checkpoint = copies_of(plans);
  const int64_t every = trainer.job().checkpoint.every_steps;
  // This process has the graphs and plans of that one, and nothing else but the model's tensors.
  ::malloc_trim(0);
  const ResidentMemory now = resident_memory();
  memory.program = before.own + now.files;
  if (now.own > before.own + initial) memory.plans += now.own - before.own - initial;
  memory.copies = every > 0 && every < trainer.total_steps();
  return memory;
}

std::string memory_text(const TrainingMemory& memory) {
  const uint64_t peak = memory.peak();
  std::string text = cat("memory of leat train: ", human_bytes(peak + memory.program), ", ",
                         human_bytes(memory.program), " of the program itself and ",
                         human_bytes(peak), " of the job\n");
  text +=
      cat("  plans          ", human_bytes(memory.plans), " (graphs, plans and their kernels)\n");
  text += cat("  at the start   ", human_bytes(memory.start),
              " (tensors of the model, until the variables have their values)\n");
  text += cat("  steps          ", human_bytes(memory.steps), "\n");
  if (memory.evaluation > 0)
    text += cat("  evaluation     ", human_bytes(memory.evaluation), " more\n");
  text += cat("  checkpoints    ", human_bytes(memory.checkpoint),
              " more for one that is written while steps run",
              memory.copies ? "" : ", none of which is due at a step before the last", "\n");
  return text;
}

std::string memory_json(const TrainingMemory& memory) {
  JsonLine line;
  line.add("memory", "process")
      .add("peak_bytes", memory.peak())
      .add("program_bytes", memory.program);
  line.add("plan_bytes", memory.plans);
  line.add("start_bytes", memory.start).add("step_bytes", memory.steps);
  line.add("evaluation_bytes", memory.evaluation).add("checkpoint_bytes", memory.checkpoint);
  return line.text();
}

}  // namespace leat

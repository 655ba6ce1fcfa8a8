#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/plan_memory.h"
#include "daemon/hosts/described_device.h"
#include "daemon/jobs/records.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"
#include "ops/plugins.h"
#include "scheduler/runtime/kernel_notes.h"

namespace leat {
namespace {

// Prints one line for each partition, then one for the whole plan. All sizes are in bytes.
void print_json(const Plan& plan, const std::vector<uint64_t>& workspaces) {
  uint64_t bytes = 0;
  for (const PlanEdge& edge : plan.edges) bytes += edge.bytes;
  for (size_t p = 0; p < plan.partitions.size(); ++p) {
    const Partition& partition = plan.partitions[p];
    JsonLine line;
    line.add("partition", partition.device)
        .add("instructions", static_cast<uint64_t>(partition.instructions.size()));
    line.add("peak_memory_bytes", partition.memory_bytes() + workspaces[p])
        .add("activation_bytes", partition.arena_bytes);
    line.add("variable_bytes", partition.resource_bytes())
        .add("constant_bytes", partition.constant_bytes());
    line.add("slot_bytes", partition.slot_bytes()).add("workspace_bytes", workspaces[p]);
    std::cout << line.text();
  }
  JsonLine line;
  line.add("plan", plan.name).add("partitions", static_cast<uint64_t>(plan.partitions.size()));
  std::cout << line.add("transfers_per_step", static_cast<uint64_t>(plan.edges.size()))
                   .add("transfer_bytes_per_step", bytes)
                   .text();
}

void print_text(const Trainer& trainer, const std::vector<std::shared_ptr<const Plan>>& plans,
                const std::vector<std::vector<uint64_t>>& workspaces) {
  const Job& job = trainer.job();
  std::cout << "Plan of " << job.name << ": " << describe_strategy(job) << ", workers "
            << job.num_workers << ", shards " << job.shards
            << precision_clause(precision_of_weights(job)) << ", " << trainer.total_steps()
            << " steps\n";
  // An asynchronous job has a plan for each worker; one with a quorum has a plan that closes a
  // step, then one for each replica; all others have one plan.
  for (size_t w = 0; w < plans.size(); ++w) {
    const Plan& plan = *plans[w];
    uint64_t bytes = 0;
    for (const PlanEdge& edge : plan.edges) bytes += edge.bytes;
    if (job.asynchronous()) std::cout << "A step of worker " << w << ":\n";
    if (job.has_quorum() && w == 0) std::cout << "Closing a step:\n";
    if (job.has_quorum() && w > 0) std::cout << "A step of replica " << w - 1 << ":\n";
    std::cout << printable_lines(plan.summary(workspaces[w]))
              << "transfers a step: " << plan.edges.size() << ", " << human_bytes(bytes) << "\n";
  }
}

}  // namespace

int run_plan(const PlanCommand& command) {
  if (report_missing("job file", command.job.file, command.color)) return kExitNoSuch;
  auto job = load_job(command.job.file, command.job.overrides);
  if (!job.ok()) return report(job.status(), command.color);
  // The data must be here, too: its header gives the shapes of a batch and the number of steps.
  if (report_missing_files(*job, command.color)) return kExitNoSuch;
  const Catalogue catalogue = catalogue_with_gpus();
  const ResidentMemory before = resident_memory();
  TrainOptions options;
  if (job->gpus_per_worker > 0) {
    // The plan is for a GPU like those that the plugin has kernels for: this machine needs none.
    const auto plugin = load_device_plugin(kGpuPlugin);
    if (!plugin.ok()) return report(plugin.status(), command.color);
    options.accelerators = [kind = std::string((*plugin)->kind)] {
      std::vector<std::unique_ptr<Device>> gpu;
      gpu.push_back(std::make_unique<DescribedDevice>(kind, "gpu:0"));
      return gpu;
    };
  }
  auto trainer = Trainer::create(catalogue, real_files(), *job, options);
  if (!trainer.ok()) return report(trainer.status(), command.color);
  print_notes((*trainer)->notes());
  // Compiles all plans of the training, but starts nothing.
  auto plans = (*trainer)->plan_training();
  if (!plans.ok()) return report(plans.status(), command.color);
  std::vector<std::vector<uint64_t>> workspaces;  // by plan
  for (const auto& plan : *plans) {
    // Notes about slow kernels go to stderr, so that --json has only data on stdout.
    const auto notes = kernel_notes(*plan);
    if (!notes.ok()) return report(notes.status(), command.color);
    print_notes(*notes);
    auto bytes = workspace_bytes(*plan);
    if (!bytes.ok()) return report(bytes.status(), command.color);
    workspaces.push_back(std::move(*bytes));
  }
  auto memory = training_memory(**trainer, *plans, workspaces, before);
  if (!memory.ok()) return report(memory.status(), command.color);
  if (!command.json) {
    print_text(**trainer, *plans, workspaces);
    std::cout << memory_text(*memory);
    return kExitOk;
  }
  for (size_t w = 0; w < plans->size(); ++w) print_json(*(*plans)[w], workspaces[w]);
  std::cout << memory_json(*memory);
  return kExitOk;
}

}  // namespace leat

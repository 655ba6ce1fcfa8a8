#include "daemon/worker/runner_metrics.h"

#include "daemon/status/status_metrics.h"

namespace leat {

std::vector<Metric> runner_metrics(std::span<const RunnersOfWorker> workers) {
  Metric steps = {
      "leat_runner_steps_total", "Steps that the runner has done", MetricKind::counter, {}};
  Metric cpu = {"leat_runner_cpu_seconds_total", "CPU time of the runner", MetricKind::counter, {}};
  Metric resident = {
      "leat_runner_resident_memory_bytes", "Resident memory of the runner", MetricKind::gauge, {}};
  Metric reserved = {"leat_runner_reserved_memory_bytes",
                     "Memory that the runner has reserved, by kind",
                     MetricKind::gauge,
                     {}};
  std::vector<Metric> traffic = traffic_metrics("leat_runner");
  for (const RunnersOfWorker& worker : workers) {
    for (const RunnerWork& runner : worker.works) {
      const std::vector<std::pair<std::string, std::string>> labels = {{"node", worker.name},
                                                                       {"job", runner.job}};
      steps.samples.push_back({labels, static_cast<double>(runner.turns)});
      cpu.samples.push_back({labels, static_cast<double>(runner.usage.cpu_ms) / 1000});
      resident.samples.push_back({labels, static_cast<double>(runner.usage.resident_bytes)});
      add_reserved(runner.usage, labels, reserved);
      add_traffic(runner.traffic, labels, traffic);
    }
  }
  std::vector<Metric> all = {std::move(steps), std::move(cpu), std::move(resident),
                             std::move(reserved)};
  all.insert(all.end(), traffic.begin(), traffic.end());
  return all;
}

}  // namespace leat

// Helpers that tests of the scheduler share: a catalogue with a few ops of their own, and a runner
// that compiles a graph and runs it on local workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "devices/cpu/cpu_device.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"
#include "scheduler/compile/compile.h"
#include "scheduler/runtime/executor.h"
#include "scheduler/runtime/program.h"
#include "scheduler/runtime/run.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "transport/catalogue.h"
#include "transport/local/local_channel.h"

namespace leat {

// The standard ops and `test.Null` (no inputs, no outputs), `test.Fail` (fails at the step that its
// attribute names), `test.Slow` (copies its input in many slow tiles), `test.Rows` (rows of this
// shard, each holding its index in the global tensor).
const Catalogue& scheduler_catalogue();

constexpr int kShards = 4;  // of the jobs that tests compile

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// Chooses shared slots for a PlanRunner: a value for several partitions is written once, and all of
// them read it there.
struct InSharedPlaces {};

// A plan on workers of this process that share nothing but channels: one device, pool, executor and
// resource table for each partition.
class PlanRunner {
 public:
  PlanRunner(Plan plan, int threads, RunOptions options = {});
  // Runs partition p of parts[p]. The plans may differ in everything else.
  PlanRunner(std::vector<Plan> parts, int threads, RunOptions options = {});
  PlanRunner(Plan plan, int threads, InSharedPlaces, RunOptions options = {});
  // Runs over links, with all of their protocol.
  PlanRunner(Plan plan, int threads, const Transport& transport, RunOptions options = {});
  ~PlanRunner();
  void extend(uint64_t limit);
  // Extends to `steps` and waits for all partitions. Returns the first failure.
  Status step_to(uint64_t steps);
  Run& run(size_t partition = 0) { return *runs_[partition]; }
  Program& program(size_t partition = 0) { return *programs_[partition]; }
  JobResources& resources(size_t partition = 0) { return *resources_[partition]; }
  Executor& executor(size_t partition = 0) { return *executors_[partition]; }
  const Plan& plan(size_t partition = 0) const {
    return plans_[plans_.size() == 1 ? 0 : partition];
  }
  Tensor fetched(uint32_t i, uint64_t step) {
    return runs_[plan().fetches[i].partition]->fetched(i, step);
  }
  Status feed(uint32_t i, const Tensor& value);
  // Returns the end of partition p of its link with q.
  Link& link(size_t p, size_t q);
  // The sum over all partitions.
  uint64_t frames_sent() const;

 private:
  void make_devices(int threads);
  void open_channels();
  void share_places();
  void open_links(const Transport& transport);
  void make_runs(const RunOptions& options);

  std::vector<Plan> plans_;  // one for all partitions, or one for each
  std::vector<std::unique_ptr<cpu::CpuDevice>> devices_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<std::unique_ptr<JobResources>> resources_;
  std::vector<std::unique_ptr<Buffer>> shared_;  // slots that several tables use
  std::vector<std::unique_ptr<SlotTable>> slots_;
  std::vector<std::shared_ptr<void>> threads_;                   // of links
  std::vector<std::vector<std::unique_ptr<Channel>>> channels_;  // by partition, and by its peer
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<Run>> runs_;
};

// "job:worker/task:<i>/cpu:0" for i < n.
std::vector<PlanDevice> cpus(int n);

}  // namespace leat

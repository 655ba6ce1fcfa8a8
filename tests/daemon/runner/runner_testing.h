// A master as small as can be, and runners that register with it: in this process, or each in its
// own. What is asked of them goes over the wire.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/hosts/variables.h"
#include "daemon/remote/remote_host.h"
#include "daemon/runner/hosted_run.h"
#include "daemon/runner/runner_config.h"
#include "daemon/wire/runner_pulse.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/data/dataset.h"
#include "scheduler/plan/plan.h"
#include "tests/temporary_directory.h"
#include "transport/rpc/loop.h"

namespace leat::testing {

inline constexpr uint64_t kAssembly = 7;

// What a runner has told of one run so far.
struct Heard {
  uint64_t turns = 0;
  std::vector<Bytes> rows;  // of all turns, in order
  Status failure;
  bool derived = false;
  int reports = 0;
};

struct RunnerTestOptions {
  int runners = 2;
  int threads = 1;
  bool may_share_memory = true;
  uint64_t memory_limit = 0;
  std::map<std::string, std::string> datasets;
  std::chrono::milliseconds input_patience{10'000};  // not in processes
  bool processes = false;                            // `leatd runner`, each in its own process
};

// A cluster: the master, a data port for each runner, and the runners, registered.
class RunnerTestCluster {
 public:
  explicit RunnerTestCluster(const RunnerTestOptions& options);
  ~RunnerTestCluster();
  RunnerTestCluster(const RunnerTestCluster&) = delete;
  RunnerTestCluster& operator=(const RunnerTestCluster&) = delete;

  // --- What a master asks of the runner of a task.
  Status prepare(uint32_t task, uint64_t run, uint32_t partition, const Bytes& plan);
  Status connect(uint32_t task, uint64_t run, const RunSetup& setup);
  Status extend(uint32_t task, uint64_t run, uint64_t limit,
                const std::vector<std::pair<uint32_t, Bytes>>& feeds = {});
  Status feed(uint32_t task, uint64_t run, uint32_t index, const Bytes& value);
  Status renumber(uint32_t task, uint64_t run, uint64_t step);
  Status abort(uint32_t task, uint64_t run, const Status& cause);
  Status release(uint32_t task, uint64_t run);
  // Its data port lets peers of that assembly in from then on.
  Status advance(uint32_t task, RunnerAssembly to);
  Result<uint64_t> turns(uint32_t task, uint64_t run);
  Result<Bytes> read_variables(uint32_t task);
  Status write_variables(uint32_t task, const Bytes& file, Restore what);
  Result<DatasetReport> inspect(uint32_t task, const DatasetFiles& files, int64_t classes);

  // --- All at once. Partition p of the plan is task p's.
  Status prepare_all(uint64_t run, const Plan& plan);
  Status connect_all(uint64_t run, const RunSetup& setup);
  void extend_all(uint64_t run, uint64_t limit);
  void release_all(uint64_t run);
  // What a run of this plan is connected with, in the assembly in which all begin.
  RunSetup setup(const Plan& plan, const std::string& transport) const;

  // What is heard once so many turns are finished, or the run has failed.
  Heard await(uint32_t task, uint64_t run, uint64_t turns);
  Heard heard(uint32_t task, uint64_t run) const;
  // What runners have said of files that do not answer, each with its node: "node-1: why".
  std::vector<std::string> starved() const;
  // What the runner of a task would tell the master of its links. REQUIRES: not processes.
  std::vector<FailedLink> failed_links(uint32_t task) const;
  // While it is held, no report is answered.
  void hold_reports(bool held);

  // The runner as the daemon's master holds it. What it reports of its runs goes there from now on.
  // REQUIRES: the loop, which is the cluster's, outlives it.
  std::shared_ptr<RemoteHost> remote(uint32_t task);
  RpcLoop& loop();

  // --- The runners themselves.
  Endpoint endpoint(uint32_t task) const;
  const RunnerConfig& config(uint32_t task) const;
  // Gives the runner of a task a connection, as its worker does.
  void hand_over(uint32_t task, Connection connection);
  // REQUIRES: processes, as all that follows.
  void signal(uint32_t task, int number);
  // The kernel's limits of its process, as text.
  std::string limits_of(uint32_t task);
  // The worker's end of the socket is closed.
  void close_worker(uint32_t task);
  // Ends the master's connections.
  void close_master();
  // Of a process that ends within 10 s; with a signal, 128 + its number.
  int exit_code(uint32_t task);
  // The first pulse of so many turns: how many, and whether one is in flight.
  std::pair<uint64_t, bool> await_pulse(uint32_t task, uint64_t turns);
  // The first pulse that says that a step is in flight and waits for peers.
  void await_waiting(uint32_t task);

 private:
  friend struct WireRunner;
  struct Inside;
  RunnerPulse next_pulse(uint32_t task, Deadline deadline);
  std::unique_ptr<Inside> inside_;
};

// Of a runner that is told this when it starts.
int exit_code_of_runner(const Bytes& boot);

// What comes of training, as bytes padded to 8.
struct Trained {
  std::vector<std::vector<Bytes>> rows;  // by partition and step, as runners report them
  std::map<std::string, Bytes> weights;
};

// A job that is small: a network, its data in a directory, its plans for so many workers.
class MirroredJob {
 public:
  // The label of `bad_row` is none.
  explicit MirroredJob(int64_t bad_row = -1);
  const std::string& directory() const { return directory_.path(); }
  // In 4 shards, mirrored.
  Plan init_plan(int workers) const;
  Plan train_plan(int workers) const;
  // Feed 0: float[2,1,8,8], fetch 0: float[2,4]; on one worker. As in training: it drops values.
  Plan predict_plan() const;
  // So many steps on a cluster within one process.
  Trained train_locally(int workers, uint64_t steps) const;

 private:
  TemporaryDirectory directory_;
};

}  // namespace leat::testing

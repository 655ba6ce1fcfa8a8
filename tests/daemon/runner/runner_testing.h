// A minimal master, and runners that register with it: in this process, or each in its own. All
// calls go over the wire.
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

// The reports of one run by one runner so far.
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
  bool accelerators = false;                         // each has an AsyncDevice; not in processes
  std::vector<WireKind> gpu_wires;                   // that all allow
  Seal seal = Seal::beyond_loopback;
  bool processes = false;  // `leatd runner`, each in its own process
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
  // Moves the runner to an assembly, and opens its data port to peers of that assembly.
  Status advance(uint32_t task, RunnerAssembly to);
  Result<uint64_t> turns(uint32_t task, uint64_t run);
  Result<Bytes> read_variables(uint32_t task);
  Status write_variables(uint32_t task, const Bytes& file, Restore what);
  Result<DatasetReport> inspect(uint32_t task, const DatasetFiles& files,
                                int64_t classes);  // of "labels"

  // --- All at once. Partition p of the plan is task p's.
  Status prepare_all(uint64_t run, const Plan& plan);
  Status connect_all(uint64_t run, const RunSetup& setup);
  void extend_all(uint64_t run, uint64_t limit);
  void release_all(uint64_t run);
  // The setup that connects a run of this plan in the first assembly.
  RunSetup setup(const Plan& plan, const std::string& transport) const;

  // Waits until this number of turns is done or the run has failed, and returns the reports.
  Heard await(uint32_t task, uint64_t run, uint64_t turns);
  Heard heard(uint32_t task, uint64_t run) const;
  // The runners' reports of files that do not answer, each with its node: "node-1: why".
  std::vector<std::string> starved() const;
  // The failed links that the runner of a task would report. REQUIRES: not processes.
  std::vector<FailedLink> failed_links(uint32_t task) const;
  // While `held`, reports get no answer.
  void hold_reports(bool held);

  // Returns the runner in the form in which the daemon's master holds it, and sends the reports of
  // its runs there from now on. REQUIRES: the cluster's loop outlives it.
  std::shared_ptr<RemoteHost> remote(uint32_t task);
  RpcLoop& loop();

  // --- The runners themselves.
  Endpoint endpoint(uint32_t task) const;
  const RunnerConfig& config(uint32_t task) const;
  // Gives the runner of a task a connection, as its worker does.
  void hand_over(uint32_t task, Connection connection);
  // REQUIRES, for this and all functions below: processes.
  void signal(uint32_t task, int number);
  // The kernel's limits of its process, as text.
  std::string limits_of(uint32_t task);
  // Closes the worker's end of the socket.
  void close_worker(uint32_t task);
  // Ends the master's connections.
  void close_master();
  // Waits up to 10 s for the process's end and returns its exit code; after a signal, 128 + its
  // number.
  int exit_code(uint32_t task);
  // Waits for a pulse with this number of turns. Returns the number, and whether a step is in
  // flight.
  std::pair<uint64_t, bool> await_pulse(uint32_t task, uint64_t turns);
  // The next pulse that comes.
  RunnerPulse next_pulse(uint32_t task, Deadline deadline);
  // Waits for a pulse that reports a step in flight that waits for peers.
  void await_waiting(uint32_t task);

 private:
  friend struct WireRunner;
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Starts a runner with this boot message, and returns its exit code.
int exit_code_of_runner(const Bytes& boot);

// The result of a training, as bytes padded to 8.
struct Trained {
  std::vector<std::vector<Bytes>> rows;  // by partition and step, as runners report them
  std::map<std::string, Bytes> weights;
};

// A small job: a network, its data in a directory, and its plans for any number of workers.
class MirroredJob {
 public:
  // Row `bad_row` gets an invalid label.
  explicit MirroredJob(int64_t bad_row = -1);
  const std::string& directory() const { return directory_.path(); }
  // A plan in 4 shards, mirrored.
  Plan init_plan(int workers) const;
  Plan train_plan(int workers) const;
  // Feed 0 is float[2,1,8,8], and fetch 0 float[2,4], on one worker. It drops values as in
  // training.
  Plan predict_plan() const;
  // Runs this number of steps on a cluster within this process.
  Trained train_locally(int workers, uint64_t steps) const;

 private:
  TemporaryDirectory directory_;
};

}  // namespace leat::testing

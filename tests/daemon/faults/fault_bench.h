// A cluster of the real daemons that stays up while jobs on it meet faults, one after the other;
// and what is true after each, or should be.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "tests/daemon/faults/fault.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"

namespace leat {

// What came of one fault.
struct FaultReport {
  Fault fault;
  std::string transport;
  std::string victim;               // the node
  bool in_time = true;              // false: the job was done before
  int64_t detected_ms = 0;          // from the deed until the job's state said so
  int64_t ended_ms = 0;             // until the job had ended
  std::string reason;               // of the state that said so
  bool named = false;               // the victim's name is in the reason
  std::string end;                  // "SUCCEEDED"
  bool equal = false;               // its weights to those of an undisturbed job
  std::vector<std::string> misses;  // what should have been otherwise

  std::string line() const;
};

class FaultBench {
 public:
  // `transport`: "shm" or "tcp".
  explicit FaultBench(const std::string& transport, int workers = 4);

  // A job that meets the fault. All daemons live and have nothing of it when this returns.
  FaultReport run(const Fault& fault);
  // An undisturbed one: "" if all is well with it.
  std::string run_undisturbed();
  // Whether the runners of a job go on stepping while its master is stopped.
  bool steps_on_without_master();
  // Of a job that trains without a pause: its rate of steps across a stop of the master of 500 ms,
  // over its rate without; of so many pairs, in order.
  std::vector<double> rates_across_stops(int pairs);
  struct Rates {
    double across, without;  // steps/s
  };
  // Of such a job whose master is killed and started again so often, `between` after the last time,
  // and of as much time without. Its runners stay the same processes.
  Rates rates_across_kills(int kills, std::chrono::milliseconds between);
  // Whether `ss -K` works here, which needs root.
  static bool can_close_sockets();

  // By how much the daemons' memory, all together, has grown since the first job: bytes.
  int64_t growth() const;
  ProcessCluster& cluster() { return cluster_; }

 private:
  using Steady = std::chrono::steady_clock;

  std::string submit(uint64_t steps);
  const std::string& expected(uint64_t steps);
  std::string submit(Job job);
  std::string submit_endless(int64_t batch);
  uint64_t steps_of_runners();  // as the workers count them
  uint64_t steps_within(const std::string& id, std::chrono::milliseconds stopped);
  Result<JobView> look(const std::string& id, uint64_t seen, std::chrono::milliseconds wait);
  bool await_phase(const Fault& fault, JobView& job);
  bool strike(const Fault& fault, const JobView& job, FaultReport& report);
  void strike_runner(const Fault& fault, int worker);
  void close_sockets(int worker);
  void await_detection(const std::string& id, Steady::time_point struck, FaultReport& report);
  void await_end(const std::string& id, Steady::time_point struck, FaultReport& report);
  void cancel(const std::string& id, FaultReport& report);
  void repair(const FaultReport& report);
  void check_remains(FaultReport& report);
  std::vector<pid_t> daemons();
  void note_baseline();

  const std::string transport_;
  const SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
  std::map<uint64_t, std::string> expected_;  // hashes, by steps
  size_t descriptors_ = 0;                    // of all daemons while nothing runs
  size_t resident_ = 0;                       // bytes
};

}  // namespace leat

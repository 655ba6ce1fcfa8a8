// A cluster of the real daemons that stays up while jobs meet faults, one after the other. After
// each fault it checks the job's end and what is left over.
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

// The observed effects of one fault.
struct FaultReport {
  Fault fault;
  std::string transport;
  std::string victim;               // the node's name
  bool in_time = true;              // false: the job ended before the fault
  int64_t detected_ms = 0;          // from the deed until the job's state showed it
  int64_t ended_ms = 0;             // from the deed until the job had ended
  std::string reason;               // the reason in that state
  bool named = false;               // the victim's name is in the reason
  std::string end;                  // "SUCCEEDED"
  bool equal = false;               // its weights are those of an undisturbed job
  std::vector<std::string> misses;  // the expectations that failed

  std::string line() const;
};

// Owns the cluster, and runs one job at a time on it.
class FaultBench {
 public:
  // `transport`: "shm" or "tcp".
  explicit FaultBench(const std::string& transport, int workers = 4);

  // Runs a job that meets the fault. When this returns, all daemons live and have recovered.
  FaultReport run(const Fault& fault);
  // Runs an undisturbed job; "" if it is correct.
  std::string run_undisturbed();
  // Whether the runners of a job keep stepping while its master is stopped.
  bool steps_on_without_master();
  // Measures a job that trains without a pause: its rate of steps during a stop of the master of
  // 500 ms, divided by its usual rate. Returns `pairs` ratios in ascending order.
  std::vector<double> rates_across_stops(int pairs);
  struct Rates {
    double across, without;  // steps/s
  };
  // Kills and restarts the master of such a job `kills` times, `between` apart, and compares the
  // rate with that of an equal time without kills. The runners must stay the same processes.
  Rates rates_across_kills(int kills, std::chrono::milliseconds between);
  // Whether `ss -K` works here; it needs root.
  static bool can_close_sockets();

  // The growth of the memory of all daemons together since the first job, in bytes.
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
  std::map<uint64_t, std::string> expected_;  // hashes, by number of steps
  size_t descriptors_ = 0;                    // of all daemons while no job runs
  size_t resident_ = 0;                       // bytes
};

}  // namespace leat

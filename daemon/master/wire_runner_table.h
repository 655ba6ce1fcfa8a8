// The runners that the master expects or has, each at its place: a job, an assembly and a task.
// Includes Cap'n Proto: for .cc files.
//
// Threads: the control loop's.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/jobs/leases.h"
#include "daemon/remote/remote_host.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/runner_order.h"

namespace leat {

RunnerToken random_token();
// Compares in a time that does not depend on the position of a difference.
bool equal(const RunnerToken& a, const RunnerToken& b);

struct RunnerPlace {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  auto operator<=>(const RunnerPlace&) const = default;
};
// "task 1 of job 'abc', assembly 2"
std::string text_of(const RunnerPlace& place);

class RunnerTable {
 public:
  // A runner in one of four states: its worker was told to start it, it is connected, it is on its
  // way to the place's assembly, or it has hung up and its worker has not reported its end.
  struct Slot {
    WorkerRef worker;
    RunnerToken token;
    uint64_t from = 0;                     // the first assembly that its reports may name
    std::shared_ptr<RemoteHost> runner;    // null: expected, or on its way
    kj::Maybe<wire::Runner::Client> wire;  // null: expected
    RunnerFacts facts;
    bool hung_up = false;
    uint64_t connection = 0;  // the runner's
  };

  // The slot of the place, new if there is none.
  Slot& at(const RunnerPlace& place) { return slots_[place]; }
  // The slot of the place, or null.
  Slot* find(const RunnerPlace& place);
  // The slot of the job's runner on `worker` to which reports about `assembly` belong, or null.
  Slot* find(const WorkerRef& worker, const std::string& job, uint64_t assembly);
  // The slot of the runner with that connection, in whatever place it is now, or null.
  Slot* of_connection(uint64_t connection);
  // The place of that runner; null if it is not connected.
  const RunnerPlace* place_of(uint64_t connection) const;
  // The newest assembly of the job that has a slot; 0 if none has.
  uint64_t newest_assembly(const std::string& job) const;
  // Ok if the runner with that connection is in this assembly now, and its job in no later one;
  // else failed_precondition.
  Status is_in(uint64_t connection, uint64_t assembly);
  // The runner at the place. unavailable if it is gone.
  Result<std::shared_ptr<RemoteHost>> runner(const RunnerPlace& place);

  // The runner of that slot has connected.
  void seat(const RunnerPlace& place, uint64_t connection);
  // The runner's connection is gone; the slot stays.
  void unseat(uint64_t connection) { seats_.erase(connection); }
  // Moves the slot of the job's runner on `worker` to another place. REQUIRES: there is one.
  Slot& move(const WorkerRef& worker, const RunnerPlace& to);

  // The worker of that name is told to start a runner of the job. The last 256 jobs of a worker are
  // remembered, also when their runners are gone.
  void note(const std::string& worker, const std::string& job);
  bool had(const std::string& worker, const std::string& job) const;

  // Fails the calls to the runners of an assembly with `cause`.
  void fail(const std::string& job, uint64_t assembly, const Status& cause);
  // Removes the slot, and fails calls to its runner with `cause`.
  void remove(const WorkerRef& worker, const std::string& job, uint64_t assembly,
              const Status& cause);
  // The same for all runners of a worker. Returns the connections of those that were connected.
  std::vector<uint64_t> remove(const WorkerRef& worker, const Status& cause);
  // The same for all runners.
  void clear(const Status& cause);

 private:
  using Slots = std::map<RunnerPlace, Slot>;
  Slots::iterator locate(const WorkerRef& worker, const std::string& job, uint64_t assembly);

  Slots slots_;
  std::map<std::string, std::deque<std::string>> jobs_;  // by the worker's name, the newest last
  std::map<uint64_t, RunnerPlace> seats_;                // by the runner's connection
};

}  // namespace leat

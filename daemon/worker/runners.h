// The runners of a worker: the child processes that own jobs' device memory, sockets and executors.
// Started, listened to, and ended here; nothing of one is left when it is gone.
//
// A runner is `leatd runner` with three descriptors and no other: 1 and 2 are a pipe to here, whose
// lines are the job's log, and 3 is a unix socket (see RunnerBoot in daemon/wire/cluster.capnp). It
// is killed with this process: it asks the kernel for it, and its socket closes. One that has given
// no pulse for 2.5 s is killed: a stopped process is seen in no other way.
//
// One thread, "runners", does all of it: it forks (a child dies with the thread that made it), and
// polls pipes, sockets and pidfds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/runner_end.h"
#include "daemon/process/daemon_config.h"
#include "devices/base/log.h"
#include "devices/base/status.h"
#include "transport/io/handshake.h"
#include "transport/io/identity.h"

namespace leat {

// What RunnerSpec of daemon/wire/cluster.capnp says.
struct RunnerOrder {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  uint32_t threads = 0;
  std::array<uint8_t, 32> token{};
  RunKey key{};
};

// What all runners of this worker are told.
struct RunnerSurroundings {
  std::string program;    // the leatd that runs; an absolute path
  std::string directory;  // where each gets one of its own; exists, and is this worker's alone
  std::string node;
  std::string master;
  std::string cluster;
  std::string secret;
  std::array<uint8_t, 16> cluster_id{};
  uint32_t threads = 1;  // of an order that names none
  uint64_t memory_limit = 0;
  std::map<std::string, std::string> datasets;
  std::vector<std::string> transports;
  std::string log_level;
  RunnerLimits limits;
  std::chrono::milliseconds rejoin_within{0};  // how long they look for a master that is gone
};

// What a runner tells. Called on the thread "runners"; must not block.
struct RunnerNews {
  std::function<void(const std::string& job, uint64_t assembly, std::vector<std::string> lines)>
      said;
  // After all that it said.
  std::function<void(const std::string& job, uint64_t assembly, const RunnerEnd& end)> exited;
};

// How far the runners are, all together.
struct RunnersPulse {
  uint64_t progress = 0;  // rises with every step
  bool stepping = false;
  bool waits = false;  // all that step wait for peers
  bool quiet = false;  // one has given no pulse for half a second
  uint64_t work = 0;   // changes while they compute
};

// Threads: any. `done` is called once, on the thread "runners", and must not block.
class Runners {
 public:
  using Done = std::function<void(const Status&)>;

  static Result<std::unique_ptr<Runners>> create(RunnerNews news, Logger log);
  // Kills what there is, and returns when it is gone.
  ~Runners();
  Runners(const Runners&) = delete;
  Runners& operator=(const Runners&) = delete;

  // Ok when the process runs; also if that runner is there already. resource_exhausted beyond
  // RunnerLimits::max_runners.
  void start(RunnerOrder order, RunnerSurroundings surroundings, Done done);
  // The job's runner that is here, of an earlier assembly, goes on as that of the order's: peers
  // are let in, and it is stopped, by that assembly and key, and it has that task; the rest of the
  // order stays what it was. failed_precondition if there is none, or it is being ended.
  void advance(RunnerOrder order, Done done);
  // Asks the runner to end and kills it after `grace`; also one of an earlier assembly, never one
  // that has advanced beyond this. Ok when it is gone, or was never there.
  void stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace, Done done);
  // Returns when there is none, or at the deadline. True if there is none.
  bool wait_until_none(std::chrono::steady_clock::time_point deadline);
  // Every one; returns when all are gone.
  void stop_all(std::chrono::milliseconds grace);
  size_t size() const;
  // As they were ordered, with the assemblies that they have gone on to; also those that are to
  // end.
  std::vector<RunnerOrder> orders() const;

  // What a peer must prove to be given to the runner of that incarnation; nullopt if it is not
  // here.
  struct Door {
    std::array<uint8_t, 16> cluster_id{};
    uint64_t assembly = 0;
    RunKey key{};
  };
  std::optional<Door> door(uint64_t incarnation) const;
  // Hands an authenticated connection on. unavailable if the runner is gone or takes none.
  Status give(Connection connection);

  RunnersPulse pulse() const;

 private:
  class Core;
  explicit Runners(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace leat

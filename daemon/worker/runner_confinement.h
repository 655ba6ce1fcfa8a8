// Decides how the runners of a worker are confined, and hands out what each of them needs: a user
// and a directory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/confine/abilities.h"
#include "daemon/confine/confinement.h"
#include "daemon/confine/runner_users.h"
#include "daemon/process/daemon_config.h"
#include "daemon/wire/runner_order.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// The part of one runner.
struct ConfinedRunner {
  Confinement confinement;
  RunnerUser user;  // it must outlive the runner's processes
};

// Worker owns one, which outlives its runners. Threads: take(): one; the others: any.
class RunnerConfinement {
 public:
  // Finds what this process can give its runners, and logs it. `state_runners` is the folder for
  // the directories of runners below the worker's state. failed_precondition if the configuration
  // requires a mandatory layer that cannot be had; the error names the key.
  static Result<std::unique_ptr<RunnerConfinement>> open(const WorkerConfig& config,
                                                         const std::string& state_runners,
                                                         const Logger& log);
  ~RunnerConfinement();

  // The folder in which each runner gets its directory.
  const std::string& folder() const { return folder_; }
  // The part of the next runner, whose directory is `directory`. resource_exhausted if all users
  // are in use.
  Result<ConfinedRunner> take(const RunnerOrder& order, uint32_t threads,
                              const std::string& directory);

 private:
  RunnerConfinement() = default;
  // Finds the range of users, and makes a folder that they can pass through.
  Status take_users(UserRange range, const std::string& state_folder);

  Confinement base_;  // what all runners have in common
  std::string folder_;
  RunnerRooms rooms_;
  std::optional<RunnerUsers> users_;
};

// True for the variables of this process' environment that a confined runner gets: those of the
// C library, of compute libraries and drivers, and, if it reads stores, their credentials.
bool is_for_runner(std::string_view name, bool reads_stores);

}  // namespace leat

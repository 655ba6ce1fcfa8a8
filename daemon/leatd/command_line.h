// The command line of `leatd`: from arguments to a command. Nothing is read or run here.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/cli/arguments.h"
#include "daemon/config/config_reader.h"

namespace leat {

enum class Daemon : uint8_t { master, worker, dev };

// What the exit codes of `leatd` say.
enum LeatdExit : int {
  kLeatdStopped = 0,     // a stop was asked for, and everything ended in order
  kLeatdFailed = 1,      // something failed, or the stop took too long
  kLeatdUsage = 2,       // a wrong flag
  kLeatdBadConfig = 78,  // EX_CONFIG: to start again is no use; systemd is told not to
  kLeatdNameTaken = 79   // another worker has the name: no use, either
};

// Run a daemon.
struct RunDaemon {
  Daemon daemon = Daemon::master;
  std::string file;                        // --config
  std::vector<ConfigSources::Flag> flags;  // in the order given
  int ready_fd = -1;
};

// Print what its config comes to.
struct ShowConfig {
  Daemon daemon = Daemon::master;
  std::string file;
  std::vector<ConfigSources::Flag> flags;
  bool origin = false;  // and where each value was written
};

using LeatdCommand = std::variant<PrintText, RunDaemon, ShowConfig>;

// `arguments` without the program's name. What is wrong with them comes back as a PrintText.
LeatdCommand parse_leatd(const std::vector<std::string>& arguments);

}  // namespace leat

// The command line of `leatd`: from arguments to a command. Nothing is read or run here.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/process/arguments.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/leatd_exit.h"

namespace leat {

enum class Daemon : uint8_t { master, worker, dev };

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

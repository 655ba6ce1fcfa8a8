// The command line of `leatd`: it makes a command from the arguments, without reading any file.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/process/arguments.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/leatd_exit.h"

namespace leat {

enum class Daemon : uint8_t { master, worker, dev };

// The command to run a daemon.
struct RunDaemon {
  Daemon daemon = Daemon::master;
  std::string file;                        // --config
  std::vector<ConfigSources::Flag> flags;  // in the order of the command line
  int ready_fd = -1;
};

// The command to print the values of a daemon's config.
struct ShowConfig {
  Daemon daemon = Daemon::master;
  std::string file;
  std::vector<ConfigSources::Flag> flags;
  bool origin = false;  // also print where each value was written
};

using LeatdCommand = std::variant<PrintText, RunDaemon, ShowConfig>;

// Parses `arguments`, which do not contain the program's name. An error becomes a PrintText.
LeatdCommand parse_leatd(const std::vector<std::string>& arguments);

}  // namespace leat

// The command line of `leatd`: it makes a command from the arguments, without reading any file.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/process/arguments.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/leatd_exit.h"

namespace leat {

// A daemon that `leatd` can run, in the order of the help.
enum class Daemon : uint8_t { master, worker, dev };

// The command to run a daemon.
struct RunDaemon {
  Daemon daemon = Daemon::master;
  // The value of --config; empty: no file.
  std::string file;
  // The keys that the command line sets. For one key the last flag wins, and --set wins over the
  // other flags.
  std::vector<ConfigSources::Flag> flags;
  // The descriptor of --ready-fd: see Lifetime::Options. -1: none.
  int ready_fd = -1;
};

// The command to print the values of a daemon's config.
struct ShowConfig {
  Daemon daemon = Daemon::master;
  std::string file;
  std::vector<ConfigSources::Flag> flags;
  // Also print where each value was written.
  bool origin = false;
};

// PrintText: the help, the version, or an error of usage.
using LeatdCommand = std::variant<PrintText, RunDaemon, ShowConfig>;

// Parses `arguments`, which do not contain the program's name. An error becomes a PrintText. The
// values of keys are not checked here; a bad one is an error of the config, with exit code 78.
LeatdCommand parse_leatd(const std::vector<std::string>& arguments);

}  // namespace leat

// From a config file, the environment and the command line to one of the structs of
// daemon_config.h. Of the same key, a flag wins over the environment, that over the file, and that
// over the default.
//
// Strict: an unknown or duplicate key, a value of the wrong type or out of range, an address beyond
// loopback with nothing that authenticates, two ports that are one, a secret that others can read:
// each is refused with where it was written. Nothing is bound or made here.
//
// Threads: plain functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/process/daemon_config.h"
#include "devices/base/status.h"

namespace leat {

struct ConfigSources {
  // A key that the command line sets. A text, path, address, size or time is taken as it stands;
  // other values are YAML. Of two for one key the last one wins.
  struct Flag {
    std::string key;    // "log.level"
    std::string value;  // empty: the default again
    std::string shown;  // for messages: "--log-level debug"
  };

  std::string file;  // --config; empty: none. Paths in it are relative to its folder
  std::vector<Flag> flags;
  // Key log.level of the master is LEAT_MASTER_LOG_LEVEL, and so on; an empty one counts as absent.
  // One that begins like this and is nearly a key is refused; others are not ours: Kubernetes makes
  // LEAT_MASTER_PORT and its like for a service called leat-master.
  std::map<std::string, std::string> environment;
  bool is_root = false;  // decides about defaults of folders
};

// The sources of this process, but for what its command line says.
ConfigSources process_sources();

// One key with its value, as a config file would have it, and where that was written: "default",
// "LEAT_MASTER_LISTEN", "--set listen=...", "/etc/leat/master.yaml:4:9".
struct ConfigValue {
  std::string key;
  std::string value;
  std::string origin;
};

// invalid_argument for all that is wrong with the sources, failed_precondition for a config file
// that cannot be read. `values`, unless null, becomes every key in the order of the documentation.
Result<MasterConfig> load_master_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values = nullptr);
Result<WorkerConfig> load_worker_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values = nullptr);
Result<DevConfig> load_dev_config(const ConfigSources& sources,
                                  std::vector<ConfigValue>* values = nullptr);

}  // namespace leat

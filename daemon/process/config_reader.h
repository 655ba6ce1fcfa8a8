// Reads a config file, the environment and the command line into one of the structs of
// daemon_config.h. For one key, a flag wins over the environment, the environment over the file,
// and the file over the default.
//
// The reader is strict. It refuses an unknown or duplicate key, a value of the wrong type or out of
// range, an address beyond loopback without authentication, the same port twice, and a secret that
// other users can read; each error says where the value was written. The reader neither binds ports
// nor creates files.
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

// The places from which a config is read.
struct ConfigSources {
  // A key that the command line sets. The value of a text, path, address, size or time is taken
  // literally; other values are YAML. If two flags set one key, the last one wins.
  struct Flag {
    std::string key;    // "log.level"
    std::string value;  // empty: the default again
    std::string shown;  // for messages: "--log-level debug"
  };

  std::string file;  // --config; empty: no file. Its folder is the base of relative paths in it
  std::vector<Flag> flags;
  // The environment variable of the master's key log.level is LEAT_MASTER_LOG_LEVEL, and so on; an
  // empty variable counts as absent. The reader refuses a variable with this prefix whose name is
  // almost a key, and ignores others: Kubernetes sets LEAT_MASTER_PORT and similar variables for a
  // service called leat-master.
  std::map<std::string, std::string> environment;
  bool is_root = false;  // decides the default folders
};

// Returns the sources of this process, except the command line.
ConfigSources process_sources();

// One key with its value in the notation of a config file, and the place where the value was
// written: "default", "LEAT_MASTER_LISTEN", "--set listen=...", "/etc/leat/master.yaml:4:9".
struct ConfigValue {
  std::string key;
  std::string value;
  std::string origin;
};

// Each function returns invalid_argument with all errors of the sources, or failed_precondition if
// it cannot read the config file. Unless `values` is null, it receives every key in the order of
// the documentation.
Result<MasterConfig> load_master_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values = nullptr);
Result<WorkerConfig> load_worker_config(const ConfigSources& sources,
                                        std::vector<ConfigValue>* values = nullptr);
Result<DevConfig> load_dev_config(const ConfigSources& sources,
                                  std::vector<ConfigValue>* values = nullptr);

// Returns all keys of a configuration in the order of the documentation, one on each line:
// "log.level: info". Secrets are no keys; the paths of their files are.
std::string print_config(MasterConfig config);

}  // namespace leat

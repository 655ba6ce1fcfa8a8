// Rules between the keys of a config, and rules about the files that it names.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/daemon_config.h"

namespace leat {

// Checks the rules of one daemon, adds an error to the reader of `top` for each broken rule, and
// reads the files of secrets and certificates into `config`. REQUIRES: every key by itself has a
// valid value. The rules: addresses beyond loopback need authentication; listeners of one daemon
// have different ports; a worker whose data port is bound to all interfaces names the address that
// peers dial; local_paths is for loopback alone, and without the users that runner.confine may
// require. The files of secrets and certificates are the only files that are opened, and names are
// not resolved: a name other than localhost counts as the network.
void check_config(YamlMap& top, const ConfigSources& sources, MasterConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, WorkerConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, DevConfig& config);

// True if the worker's data port and its master are on loopback.
bool is_on_loopback(const WorkerConfig& config);

}  // namespace leat

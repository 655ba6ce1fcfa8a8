// Rules between the keys of a config, and rules about the files that it names.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/daemon_config.h"

namespace leat {

// Checks the rules of one daemon, adds an error to the reader of `top` for each broken rule, and
// reads the files of secrets into `config`. REQUIRES: every key by itself has a valid value.
void check_config(YamlMap& top, const ConfigSources& sources, MasterConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, WorkerConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, DevConfig& config);

}  // namespace leat

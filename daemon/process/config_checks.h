// Rules between the keys of a config, and about the files that it names.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/daemon_config.h"

namespace leat {

// Adds an error to `top`'s reader for each rule that is broken, and reads the secrets.
// REQUIRES: every key is right by itself.
void check_config(YamlMap& top, const ConfigSources& sources, MasterConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, WorkerConfig& config);
void check_config(YamlMap& top, const ConfigSources& sources, DevConfig& config);

}  // namespace leat

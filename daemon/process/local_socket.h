// The place of a master's Unix socket.
#pragma once

#include "daemon/base/yaml_reader.h"
#include "daemon/process/config_reader.h"
#include "daemon/process/daemon_config.h"

namespace leat {

// Sets the default of local_socket: master.sock in $RUNTIME_DIRECTORY, otherwise in the state
// folder, or "off" if that path is too long for a socket. Reports a path of the user that is.
void place_local_socket(YamlMap& top, const ConfigSources& sources, MasterConfig& config);

}  // namespace leat

#include "daemon/process/local_socket.h"

#include "devices/base/text.h"
#include "transport/rpc/socket_path.h"

namespace leat {

void place_local_socket(YamlMap& top, const ConfigSources& sources, MasterConfig& config) {
  std::string& path = config.local_socket;
  if (path == "off") return;
  config.local_socket_given = !path.empty();
  if (!path.empty()) {
    if (path.size() > SocketPath::kLongest) {
      top.fail("local_socket", cat("expected a path of at most ", SocketPath::kLongest,
                                   " bytes, received ", path.size()));
    }
    return;
  }
  const auto given = sources.environment.find("RUNTIME_DIRECTORY");  // of several, the first
  const std::string folder = given == sources.environment.end() || given->second.empty()
                                 ? config.state_dir
                                 : given->second.substr(0, given->second.find(':'));
  path = folder + "/master.sock";
  if (path.size() > SocketPath::kLongest) path = "off";
}

}  // namespace leat

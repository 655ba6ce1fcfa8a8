#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/table.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {

int run_config(const ConfigCommand& command) {
  const auto settings = explain_cluster(command.cluster, real_environment);
  if (!settings.ok()) return report(settings.status(), command.cluster.color);
  if (command.cluster.json) {
    for (const SettingOrigin& each : *settings) {
      JsonLine line;
      std::cout << line.add("apiVersion", kApiVersion)
                       .add("kind", "Setting")
                       .add("key", each.key)
                       .add("value", each.value)
                       .add("origin", each.origin)
                       .text();
    }
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const SettingOrigin& each : *settings)
    rows.push_back({each.key, or_dash(each.value), each.origin});
  std::cout << format_table({"KEY", "VALUE", "FROM"}, rows, true, {stdout_columns(), {}});
  return kExitOk;
}

int run_config_set(const ConfigSetCommand& command) {
  const auto path = write_setting(command.key, command.value, real_environment);
  if (!path.ok()) return report(path.status(), command.cluster.color);
  std::cout << printable(*path) << "\n";
  return kExitOk;
}

}  // namespace leat

#include "daemon/runner/runner_parts.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/data/dataset.h"

namespace leat {

Result<std::string> find_dataset(const RunnerConfig& config, const std::string& name) {
  const auto found = config.datasets.find(name);
  if (found != config.datasets.end()) return found->second;
  // A job file that `leat train` reads names the folder itself.
  for (const auto& [known, path] : config.datasets) {
    if (path == name) return path;
  }
  const auto root = config.datasets.find("/");
  // The path is looked up below the folder that "/" maps, so its leading slashes go.
  if (name.starts_with("/") && root != config.datasets.end()) {
    return resolve_below(root->second,
                         name.substr(std::min(name.find_first_not_of('/'), name.size())));
  }
  std::vector<std::string> names;
  for (const auto& [known, path] : config.datasets) names.push_back(known);
  return invalid_argument(cat("data set '", name, "': expected one that ", config.worker, " has (",
                              names.empty() ? "it has none" : join(names, ", "), ")",
                              did_you_mean(name, names)));
}

ReadingLimits RunnerParts::reading(Deadline deadline, uint64_t assembly) const {
  ReadingLimits limits{input_patience, deadline, {}};
  // The assembly goes with the report, because the runner may be in a later one when the read is
  // given up.
  limits.on_given_up = [assembly, told = on_starved](const std::string& how,
                                                     std::chrono::milliseconds waited) {
    if (told) told({assembly, how, waited});
  };
  return limits;
}

}  // namespace leat

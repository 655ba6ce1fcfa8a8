// leat version --all: the versions of Leat and of the code of others that it is made of.
#include <chrono>
#include <cstdio>
#include <span>

#include "daemon/base/dependencies.h"
#include "daemon/base/exit_code.h"
#include "daemon/base/json_line.h"
#include "daemon/base/version.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/table.h"
#include "daemon/doctor/gpu.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"
#include "ops/plugins.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kGpuLibraries = 20s;  // a driver may take seconds to begin

// The libraries of CUDA and their versions, if the plugin for GPUs is there: it loads them itself
// when a job needs them.
std::vector<Dependency> gpu_dependencies() {
  if (!has_device_plugin(kGpuPlugin)) return {};
  std::vector<Dependency> found;
  for (const Finding& each : examine_gpus(kGpuLibraries)) {
    if (each.verdict != FindingVerdict::fine || each.subject.starts_with("GPU")) continue;
    found.push_back({each.subject, "LicenseRef-NVIDIA", "", each.found});
  }
  return found;
}

void print_version_json(std::span<const Dependency> all) {
  JsonLine line;
  line.add("apiVersion", kApiVersion).add("kind", "Version");
  line.add("version", leat_version()).add("commit", leat_commit());
  std::fputs(line.add("compiler", compiler_version()).text().c_str(), stdout);
  for (const Dependency& each : all) {
    JsonLine of;
    of.add("apiVersion", kApiVersion).add("kind", "Dependency").add("name", each.name);
    of.add("license", each.license).add("built", each.built).add("runs", each.runs);
    std::fputs(of.add("libraries", each.libraries).add("files", each.files).text().c_str(), stdout);
  }
}

}  // namespace

int run_version(const VersionCommand& command) {
  std::vector<Dependency> all;
  if (command.all) {
    all = dependencies();
    for (Dependency& each : gpu_dependencies()) all.push_back(std::move(each));
  }
  if (command.json) {
    print_version_json(all);
    return kExitOk;
  }
  const std::string commit = leat_commit().empty() ? "" : cat(", commit ", leat_commit());
  std::printf("leat %s%s, %s\n", std::string(leat_version()).c_str(), commit.c_str(),
              std::string(compiler_version()).c_str());
  std::vector<std::vector<std::string>> rows;
  for (const Dependency& each : all) {
    rows.push_back({each.name, or_dash(each.built), or_dash(each.runs), or_dash(each.license),
                    or_dash(join(each.files, " "))});
  }
  if (!rows.empty())
    std::fputs(
        format_table({"NAME", "BUILT WITH", "RUNS WITH", "LICENSE", "FILES"}, rows, true).c_str(),
        stdout);
  return kExitOk;
}

}  // namespace leat

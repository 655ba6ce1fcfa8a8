#include "daemon/spec/read_queue.h"

#include <vector>

#include "daemon/base/units.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kTime = "a time such as 90s, 10m or 2h, at least 1s";
constexpr const char* kBytes = "a size such as 512MiB or 4GiB, at least 1MiB";
constexpr uint64_t kLeastMemory = uint64_t{1} << 20;

}  // namespace

void read_queue(YamlMap& top, QueueTerms& terms) {
  top.get_int("priority", Need::optional, {.min = kLeastPriority, .max = kMostPriority},
              terms.priority);
  if (std::string text; top.get_scalar("max_run_time", Need::optional, kTime, text)) {
    const auto time = parse_duration(text);
    if (time && *time >= std::chrono::seconds(1)) {
      terms.max_run_time = *time;
    } else {
      top.fail("max_run_time", cat("expected ", kTime, ", received '", text, "'"));
    }
  }
  top.get_bool("preemptible", Need::optional, terms.preemptible);
}

void read_share(YamlMap& map, QueueTerms& terms) {
  map.get_int("cpu", Need::optional, {.min = 1, .max = 4096}, terms.cpu);
  std::string text;
  if (!map.get_scalar("memory", Need::optional, kBytes, text)) return;
  const auto bytes = parse_bytes(text);
  if (!bytes || *bytes < kLeastMemory) {
    map.fail("memory", cat("expected ", kBytes, ", received '", text, "'"));
  } else if (!map.has("cpu")) {
    map.fail("memory", "expected it together with cpu: a job without cpu has the whole worker");
  } else {
    terms.memory = *bytes;
  }
}

std::string print_queue(const QueueTerms& terms) {
  std::string text;
  if (terms.priority != 0) text += cat("priority: ", terms.priority, "\n");
  if (terms.max_run_time.count() > 0)
    text += cat("max_run_time: ", print_duration(terms.max_run_time), "\n");
  if (terms.preemptible) text += "preemptible: true\n";
  return text;
}

std::string print_resources(int64_t gpus, const QueueTerms& terms) {
  std::vector<std::string> parts;
  if (gpus > 0) parts.push_back(cat("gpu: ", gpus));
  if (terms.cpu > 0) parts.push_back(cat("cpu: ", terms.cpu));
  if (terms.memory > 0) parts.push_back(cat("memory: ", print_bytes(terms.memory)));
  return parts.empty() ? "" : cat("resources_per_worker: {", join(parts, ", "), "}\n");
}

}  // namespace leat

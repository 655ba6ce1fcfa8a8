#include "daemon/status/node_scopes.h"

#include "daemon/status/page_parts.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"

namespace leat {
namespace {

constexpr int kDeepestScope = 12;

// The time of a step that all threads of the device spent on each node, in milliseconds.
std::vector<double> times_of(const RecordedPartition& part, uint64_t first, uint64_t end) {
  std::vector<double> ms(part.nodes.size(), 0);
  for (const RecordedEvent& event : part.events) {
    const bool works = event.kind != RecordedEvent::Kind::wait &&
                       event.kind != RecordedEvent::Kind::wake &&
                       event.kind != RecordedEvent::Kind::limit;
    if (!works || event.instruction >= ms.size() || event.turn < first || event.turn >= end)
      continue;
    ms[event.instruction] +=
        1e-6 * static_cast<double>(event.end - event.begin) / static_cast<double>(end - first);
  }
  return ms;
}

void insert(NodeScope& root, const std::string& name, uint32_t instruction, double ms) {
  NodeScope* scope = &root;
  size_t from = 0;
  for (int depth = 0; depth < kDeepestScope; ++depth) {
    ++scope->count;
    scope->ms += ms;
    const size_t slash = name.find('/', from);
    if (slash == std::string::npos) break;
    scope = &scope->scopes[name.substr(from, slash - from)];
    from = slash + 1;
    if (depth + 1 == kDeepestScope) {
      ++scope->count;
      scope->ms += ms;
    }
  }
  scope->nodes.push_back(instruction);
}

}  // namespace

std::string ScopedNodes::title() const { return cat(part->node, " ", short_name(part->device)); }

std::string ScopedNodes::time_of(uint32_t instruction) const {
  const bool of_chain = part->nodes[instruction].chain != kNotRecorded;
  return of_chain && ms[instruction] == 0 ? "in its chain" : milliseconds_text(ms[instruction]);
}

std::vector<ScopedNodes> scoped_nodes(const StepRecording& recording) {
  const uint64_t first = recording.first();
  const uint64_t end = recording.whole_end() > first ? recording.whole_end() : recording.end();
  if (first >= end) return {};
  std::vector<ScopedNodes> devices;
  for (const RecordedPartition& part : recording.partitions) {
    ScopedNodes& device = devices.emplace_back();
    device.part = &part;
    device.ms = times_of(part, first, end);
    for (uint32_t i = 0; i < part.nodes.size(); ++i)
      insert(device.root, part.nodes[i].name, i, device.ms[i]);
  }
  return devices;
}

}  // namespace leat

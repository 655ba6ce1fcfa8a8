#include "daemon/traces/event_names.h"

#include <set>

#include "devices/base/text.h"

namespace leat {

std::map<RecordedTransfer, uint64_t> matched_transfers(const StepRecording& recording) {
  using Kind = RecordedEvent::Kind;
  std::set<RecordedTransfer> sent;
  std::map<RecordedTransfer, uint64_t> both;
  for (const Kind kind : {Kind::send, Kind::receive}) {
    for (const RecordedPartition& part : recording.partitions) {
      for (const RecordedEvent& event : part.events) {
        if (event.kind != kind || event.instruction >= part.nodes.size()) continue;
        const RecordedTransfer flow{part.nodes[event.instruction].edge, event.turn};
        if (kind == Kind::send) {
          sent.insert(flow);
        } else if (sent.contains(flow)) {
          both.emplace(flow, both.size() + 1);
        }
      }
    }
  }
  return both;
}

std::string_view category_of(RecordedEvent::Kind kind) {
  using Kind = RecordedEvent::Kind;
  switch (kind) {
    case Kind::kernel:
      return "compute";
    case Kind::wait:
    case Kind::limit:
      return "wait";
    case Kind::wake:
      return "wake-up";
    default:
      return "transfer";
  }
}

std::string title_of(const RecordedPartition& part, const RecordedEvent& event) {
  const bool known = event.instruction < part.nodes.size();
  using Kind = RecordedEvent::Kind;
  const std::string name = known ? part.nodes[event.instruction].name : "";
  switch (event.kind) {
    case Kind::wait:
      return cat("waits for ", known ? name : "its device");
    case Kind::wake:
      return cat("wakes up for ", known ? name : "its device");
    case Kind::limit:
      return "waits for the master";
    case Kind::flush:
      return "flush";
    default:
      return name;
  }
}

}  // namespace leat

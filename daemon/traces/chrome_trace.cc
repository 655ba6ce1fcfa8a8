#include "daemon/traces/chrome_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/traces/event_names.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Kind = RecordedEvent::Kind;

// Microseconds with three decimals, as both viewers take them.
double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

// By chain: the names of its nodes.
using Chains = std::map<uint32_t, std::string>;

Chains chains_of(const RecordedPartition& part) {
  Chains chains;
  for (const RecordedNode& node : part.nodes) {
    if (node.chain == kNotRecorded) continue;
    std::string& names = chains[node.chain];
    names += names.empty() ? node.name : cat(", ", node.name);
  }
  return chains;
}

JsonLine arguments_of(const RecordedPartition& part, const RecordedEvent& event,
                      const Chains& chains) {
  JsonLine args;
  args.add("step", part.first_step + event.turn);
  if (event.instruction >= part.nodes.size()) return args;
  const RecordedNode& node = part.nodes[event.instruction];
  args.add("op", node.op).add("type", node.type);
  if (event.kind == Kind::kernel) args.add("tiles", uint64_t{event.pieces});
  if (node.bytes > 0) args.add("bytes", node.bytes);
  if (node.chain != kNotRecorded && event.kind == Kind::kernel)
    args.add("chain", chains.at(node.chain));
  return args;
}

// An event of the trace with the time at which it stands.
struct TraceLine {
  int64_t at = 0;
  std::string text;
};

// The name of a row.
void add_name(std::vector<TraceLine>& lines, const char* what, uint64_t pid, uint64_t tid,
              const std::string& name) {
  JsonLine args, line;
  args.add("name", name);
  line.add("ph", "M").add("name", what).add("pid", pid).add("tid", tid).add("ts", 0);
  lines.push_back({0, line.add("args", args).text()});
}

void add_names(const RecordedPartition& part, uint64_t pid, std::vector<TraceLine>& lines) {
  add_name(lines, "process_name", pid, 0, cat(part.node, " ", part.device));
  for (uint64_t t = 0; t < part.threads; ++t)
    add_name(lines, "thread_name", pid, t, cat("thread ", t));
}

void add_slice(const RecordedPartition& part, const RecordedEvent& event, uint64_t pid,
               int64_t origin, const Chains& chains, std::vector<TraceLine>& lines) {
  JsonLine slice;
  slice.add("ph", "X").add("name", title_of(part, event)).add("cat", category_of(event.kind));
  slice.add("pid", pid).add("tid", uint64_t{event.thread});
  slice.add("ts", microseconds(event.begin - origin));
  slice.add("dur", microseconds(event.end - event.begin));
  slice.add("args", arguments_of(part, event, chains));
  lines.push_back({event.begin - origin, slice.text()});
}

// Each end of an arrow stands at the begin of the slice that it belongs to.
void add_arrow(const RecordedPartition& part, const RecordedEvent& event, uint64_t pid,
               int64_t origin, const std::map<RecordedTransfer, uint64_t>& flows,
               std::vector<TraceLine>& lines) {
  const bool sends = event.kind == Kind::send;
  if ((!sends && event.kind != Kind::receive) || event.instruction >= part.nodes.size()) return;
  const auto flow = flows.find({part.nodes[event.instruction].edge, event.turn});
  if (flow == flows.end()) return;
  JsonLine arrow;
  arrow.add("ph", sends ? "s" : "f").add("name", "transfer").add("cat", "transfer");
  arrow.add("id", flow->second).add("pid", pid).add("tid", uint64_t{event.thread});
  arrow.add("ts", microseconds(event.begin - origin));
  if (!sends) arrow.add("bp", "e");
  lines.push_back({event.begin - origin, arrow.text()});
}

std::string header_of(const StepRecording& recording) {
  JsonLine clocks, other;
  for (const RecordedPartition& part : recording.partitions)
    clocks.add(part.device, cat("right to ", part.clock_error / 1000, " us"));
  other.add("job", recording.job).add("clocks", clocks);
  JsonLine header;
  header.add("displayTimeUnit", "ms").add("otherData", other);
  std::string text = header.text();
  text.resize(text.size() - 2);  // the closing brace and the newline
  return text;
}

}  // namespace

std::string chrome_trace(const StepRecording& recording) {
  const auto flows = matched_transfers(recording);
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const RecordedPartition& part : recording.partitions) {
    for (const RecordedEvent& event : part.events) origin = std::min(origin, event.begin);
  }
  std::vector<TraceLine> lines;
  for (size_t p = 0; p < recording.partitions.size(); ++p) {
    const RecordedPartition& part = recording.partitions[p];
    const Chains chains = chains_of(part);
    add_names(part, p + 1, lines);
    for (const RecordedEvent& event : part.events) {
      add_slice(part, event, p + 1, origin, chains, lines);
      add_arrow(part, event, p + 1, origin, flows, lines);
    }
  }
  // A slice comes before the arrow that begins or ends in it.
  std::stable_sort(lines.begin(), lines.end(),
                   [](const TraceLine& a, const TraceLine& b) { return a.at < b.at; });
  std::string text = header_of(recording) + ",\"traceEvents\":[\n";
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i].text.pop_back();  // the newline
    text += lines[i].text + (i + 1 < lines.size() ? ",\n" : "\n");
  }
  return text + "]}\n";
}

}  // namespace leat

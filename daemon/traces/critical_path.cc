#include "daemon/traces/critical_path.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "daemon/traces/path_advice.h"
#include "devices/base/text.h"
#include "ops/definitions/input.h"
#include "scheduler/graph/device_name.h"
#include "transport/slots.h"

namespace leat {
namespace {

using Kind = RecordedEvent::Kind;

constexpr size_t kLookBack = 96;  // events of one device that may overlap
constexpr size_t kMostNodes = 10;

bool reads_data(const RecordedNode& node) { return node.op == kReadBatch; }

// An accelerator does what its thread has given it, while the thread waits.
bool waits_for_device(const RecordedEvent& event) {
  return event.kind == Kind::wait && event.instruction == kNotRecorded;
}

// An end of a transfer: edge, turn and kind of the event.
using End = std::tuple<uint32_t, uint64_t, Kind>;

// A device's events in the order of their begins.
struct Line {
  const RecordedPartition* part = nullptr;
  std::vector<const RecordedEvent*> events;
  std::map<End, const RecordedEvent*> transfers;

  const RecordedNode* node(const RecordedEvent& event) const {
    return event.instruction < part->nodes.size() ? &part->nodes[event.instruction] : nullptr;
  }
  // The event that was under way just before `t`, or the last one before it.
  const RecordedEvent* before(int64_t t) const {
    auto at = std::lower_bound(events.begin(), events.end(), t,
                               [](const RecordedEvent* e, int64_t t) { return e->begin < t; });
    const RecordedEvent* best = nullptr;
    for (size_t i = 0; i < kLookBack && at != events.begin(); ++i) {
      const RecordedEvent* event = *--at;
      if (!best || std::min(event->end, t) > std::min(best->end, t)) best = event;
    }
    return best;
  }
};

Line line_of(const RecordedPartition& part) {
  Line line;
  line.part = &part;
  for (const RecordedEvent& event : part.events) {
    line.events.push_back(&event);
    const RecordedNode* node = line.node(event);
    if (node && node->edge != kNotRecorded && event.kind != Kind::wait && event.kind != Kind::wake)
      line.transfers[{node->edge, event.turn, event.kind}] = &event;
  }
  std::sort(line.events.begin(), line.events.end(),
            [](const RecordedEvent* a, const RecordedEvent* b) { return a->begin < b->begin; });
  return line;
}

// Walks the path from the end of the last step back to the beginning of the first one.
class PathWalk {
 public:
  explicit PathWalk(const StepRecording& recording) : recording_(recording) {
    for (const RecordedPartition& part : recording.partitions) lines_.push_back(line_of(part));
    for (size_t i = 0; i < lines_.size(); ++i) by_number_[lines_[i].part->partition] = i;
    find_window();
  }

  // The first turn of the path.
  uint64_t first() const { return first_; }
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  const std::vector<Line>& lines() const { return lines_; }

  void walk() {
    size_t limit = 0;  // a path visits an event few times
    for (const Line& line : lines_) limit += 4 * line.events.size() + 4;
    at_ = last_;
    t_ = end_;
    while (t_ > begin_ && limit-- > 0) {
      const RecordedEvent* event = lines_[at_].before(t_);
      if (!event) break;
      if (event->end < t_) add(PathPart::queueing, nullptr, event->end);
      if (t_ > begin_) step_over(*event);
    }
    add(PathPart::queueing, nullptr, begin_);
  }

  // Nanoseconds of each node and part, by device.
  struct Key {
    size_t device;
    std::string name, op;
    PathPart part;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, int64_t> sums;

 private:
  // The steps end with the device that ends last; they begin when all devices are in the first one.
  void find_window() {
    first_ = recording_.whole_first();
    if (first_ >= recording_.whole_end()) return;
    const uint64_t last = recording_.whole_end() - 1;
    for (size_t i = 0; i < lines_.size(); ++i) {
      int64_t begins = std::numeric_limits<int64_t>::max();
      for (const RecordedEvent* event : lines_[i].events) {
        if (event->turn == first_) begins = std::min(begins, event->begin);
        if (event->turn > last || event->kind == Kind::limit || event->end <= end_) continue;
        end_ = event->end;
        last_ = i;
      }
      if (begins != std::numeric_limits<int64_t>::max()) begin_ = std::max(begin_, begins);
    }
  }

  // Adds the time from `from` to t_, and goes there.
  void add(PathPart part, const RecordedNode* node, int64_t from) {
    from = std::max(from, begin_);
    if (from >= t_) return;
    sums[{at_, node ? node->name : "", node ? node->op : "", part}] += t_ - from;
    t_ = from;
  }

  void step_over(const RecordedEvent& event) {
    const RecordedNode* node = lines_[at_].node(event);
    switch (event.kind) {
      case Kind::kernel:
        return add(node && reads_data(*node) ? PathPart::input : PathPart::compute, node,
                   event.begin);
      case Kind::send:
        return add(PathPart::wire, node, event.begin);
      case Kind::flush:  // of all values that were sent together
        return add(PathPart::wire, nullptr, event.begin);
      case Kind::wake:
        return add(PathPart::wake_up, node, event.begin);
      case Kind::wait:
        return wait(event, node);
      default:
        return add(PathPart::queueing, node, event.begin);
    }
  }

  // A wait ends by what another device has done, so the path goes on there.
  void wait(const RecordedEvent& event, const RecordedNode* node) {
    if (waits_for_device(event)) return add(PathPart::compute, nullptr, event.begin);
    if (!node || node->kind == RecordedNode::Kind::kernel) {
      const bool data = node && reads_data(*node);
      return add(data ? PathPart::input : PathPart::queueing, node, event.begin);
    }
    const bool receives = node->kind == RecordedNode::Kind::receive;
    const auto peer = by_number_.find(node->peer);
    const RecordedEvent* cause = nullptr;
    if (peer != by_number_.end() && (receives || event.turn >= kSlotDepth)) {
      const auto& transfers = lines_[peer->second].transfers;
      const uint64_t turn = receives ? event.turn : event.turn - kSlotDepth;
      const auto found = transfers.find({node->edge, turn, receives ? Kind::send : Kind::retire});
      if (found != transfers.end()) cause = found->second;
    }
    if (!cause) return add(PathPart::wire, node, event.begin);
    // A value may be there before its sending has ended, or, by the clocks of two machines that
    // disagree a little, before it has begun. The peer's part was done before this point.
    add(PathPart::wire, node, cause->end > t_ ? cause->begin : cause->end);
    at_ = peer->second;
  }

  const StepRecording& recording_;
  std::vector<Line> lines_;
  std::map<uint32_t, size_t> by_number_;  // by the partition's number in the plan
  uint64_t first_ = 0;
  int64_t begin_ = 0, end_ = 0;
  size_t last_ = 0;  // the device that ends last
  size_t at_ = 0;    // the device where the walk is
  int64_t t_ = 0;    // and the time
};

// The time in which the device neither waited nor moved values, in nanoseconds. A device behind a
// slow link spends its time in sending, and is no slower at its work for that.
int64_t busy_time(const Line& line, int64_t begin, int64_t end) {
  int64_t other = 0;
  for (const RecordedEvent* event : line.events) {
    if (event->kind == Kind::kernel || waits_for_device(*event)) continue;
    other += std::max<int64_t>(0, std::min(event->end, end) - std::max(event->begin, begin));
  }
  return std::max<int64_t>(0, end - begin - other);
}

int64_t input_time(const Line& line) {
  int64_t sum = 0;
  for (const RecordedEvent* event : line.events) {
    const RecordedNode* node = line.node(*event);
    if (node && event->kind == Kind::kernel && reads_data(*node)) sum += event->end - event->begin;
  }
  return sum;
}

DeviceShare share_of(const Line& line, const PathWalk& path, double to_ms) {
  DeviceShare share;
  const RecordedPartition& part = *line.part;
  share.worker = part.node;
  share.device = short_name(part.device);
  share.threads = part.threads;
  share.cores = part.cores;
  share.busy_ms = to_ms * static_cast<double>(busy_time(line, path.begin(), path.end()));
  share.input_ms =
      to_ms * static_cast<double>(input_time(line)) / static_cast<double>(part.threads);
  return share;
}

// The ops for which a node stands: of a chain, its own and those of the nodes behind it, which run
// together with it: "Cast, Conv, Relu".
std::string ops_of(const RecordedPartition& part, const std::string& name, const std::string& op) {
  const auto first =
      std::find_if(part.nodes.begin(), part.nodes.end(),
                   [&](const RecordedNode& node) { return node.name == name && node.op == op; });
  std::vector<std::string> ops = {op};
  if (first == part.nodes.end() || first->chain == kNotRecorded || reads_data(*first)) return op;
  for (auto node = first + 1; node != part.nodes.end() && node->chain == first->chain; ++node)
    ops.push_back(node->op);
  return join(ops, ", ");
}

void fill(const PathWalk& path, double to_ms, Explanation& out) {
  for (const Line& line : path.lines()) out.devices.push_back(share_of(line, path, to_ms));
  for (const auto& [key, ns] : path.sums) {
    const double ms = to_ms * static_cast<double>(ns);
    out.parts[static_cast<size_t>(key.part)] += ms;
    DeviceShare& device = out.devices[key.device];
    device.path_ms += ms;
    if (key.part == PathPart::compute) device.compute_ms += ms;
    const std::string ops = key.part == PathPart::compute
                                ? ops_of(*path.lines()[key.device].part, key.name, key.op)
                                : key.op;
    out.nodes.push_back({device.worker, key.name, ops, key.part, ms});
  }
  std::stable_sort(out.nodes.begin(), out.nodes.end(),
                   [](const PathNode& a, const PathNode& b) { return a.ms > b.ms; });
  for (size_t i = 0; i < out.devices.size(); ++i) {
    if (out.devices[i].busy_ms > out.devices[out.slowest].busy_ms) out.slowest = i;
  }
}

}  // namespace

std::string_view name_of(PathPart part) {
  switch (part) {
    case PathPart::compute:
      return "compute";
    case PathPart::input:
      return "input";
    case PathPart::wire:
      return "wire";
    case PathPart::queueing:
      return "queueing";
    case PathPart::wake_up:
      break;
  }
  return "wake-up";
}

Result<Explanation> explain(const StepRecording& recording) {
  Explanation out;
  out.job = recording.job;
  for (const RecordedPartition& part : recording.partitions) out.dropped += part.dropped;
  if (recording.first() >= recording.whole_end()) {
    return failed_precondition(
        out.dropped > 0
            ? cat("explain: expected a step with room for its events, ", out.dropped,
                  " are missing")
            : "explain: expected a recording with a step that all devices have done, received "
              "none");
  }
  PathWalk path(recording);
  if (path.end() <= path.begin()) {
    return failed_precondition(
        "explain: expected a recording with the events of a whole step, received none");
  }
  out.steps = recording.whole_end() - path.first();
  out.first_step = recording.partitions.front().first_step + path.first();
  path.walk();
  const double to_ms = 1e-6 / static_cast<double>(out.steps);
  out.step_ms = to_ms * static_cast<double>(path.end() - path.begin());
  fill(path, to_ms, out);
  out.advice = path_advice(out);
  if (out.nodes.size() > kMostNodes) out.nodes.resize(kMostNodes);
  return out;
}

}  // namespace leat

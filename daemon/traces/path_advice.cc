#include "daemon/traces/path_advice.h"

#include <algorithm>
#include <cstdio>

#include "devices/base/text.h"

namespace leat {
namespace {

// More threads do not divide the time by their number: some of the work has no tiles to share.
constexpr double kThreadEfficiency = 0.7;
// A device whose work takes so much longer than that of the others is a straggler.
constexpr double kStraggles = 1.25;
constexpr double kLeast = 0.02;  // of a step: smaller savings are not worth a line
constexpr size_t kMost = 3;
// In milliseconds. A transfer that is quicker is one of the costs that a step has at any size.
constexpr double kQuickTransfer = 0.1;

std::string ms_text(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 10 ? "%.2f ms" : "%.1f ms", ms);
  return text;
}

// The median of the others' busy times.
double others_busy(const Explanation& e, size_t than) {
  std::vector<double> busy;
  for (size_t i = 0; i < e.devices.size(); ++i) {
    if (i != than) busy.push_back(e.devices[i].busy_ms);
  }
  if (busy.empty()) return 0;
  std::nth_element(busy.begin(), busy.begin() + static_cast<ptrdiff_t>(busy.size() / 2),
                   busy.end());
  return busy[busy.size() / 2];
}

// Devices whose little work differs by chance are none, in steps that are mostly transfers.
bool straggles(const Explanation& e) {
  if (e.devices.size() < 2) return false;
  const double busy = e.devices[e.slowest].busy_ms, others = others_busy(e, e.slowest);
  return busy > 0 && busy >= kStraggles * others && busy - others >= kLeast * e.step_ms;
}

// The part of the path that is a transfer to or from the straggler, and takes longer than a healthy
// network needs.
bool is_its_transfer(const Explanation& e, const PathNode& node) {
  return straggles(e) && node.part == PathPart::wire && node.ms >= kQuickTransfer &&
         node.worker == e.devices[e.slowest].worker;
}

// The time that the straggler itself adds to such a transfer. A process that gets a part of the
// time is slower in all that it does: its transfers by the same share as its work.
double slowed_by_straggler(const Explanation& e, const PathNode& transfer) {
  return transfer.ms * (1 - others_busy(e, e.slowest) / e.devices[e.slowest].busy_ms);
}

void add_straggler(const Explanation& e, std::vector<PathAdvice>& out) {
  if (!straggles(e)) return;
  const DeviceShare& slow = e.devices[e.slowest];
  const double others = others_busy(e, e.slowest);
  // A worker that is late because of its data is a matter of input.
  double saves = slow.busy_ms - others - slow.input_ms;
  for (const PathNode& node : e.nodes) {
    if (is_its_transfer(e, node)) saves += slowed_by_straggler(e, node);
  }
  out.push_back({"straggler",
                 cat(slow.worker, " works ", ms_text(slow.busy_ms), " a step and the others ",
                     ms_text(others), ": free its machine, or leave it out (leat nodes drain ",
                     slow.worker, ")"),
                 saves});
}

void add_threads(const Explanation& e, std::vector<PathAdvice>& out) {
  double saves = 0;
  const DeviceShare* most = nullptr;
  for (const DeviceShare& device : e.devices) {
    if (device.cores < 2 * device.threads) continue;
    saves += device.compute_ms * kThreadEfficiency *
             (1 - static_cast<double>(device.threads) / static_cast<double>(device.cores));
    if (!most || device.compute_ms > most->compute_ms) most = &device;
  }
  if (!most) return;
  out.push_back({"threads",
                 cat(most->worker, " computes with ", most->threads, " of ", most->cores,
                     " cores: let it have more (--threads of leatd worker)"),
                 saves});
}

// The time of transfers that take no longer than a healthy network needs for a message.
double fixed_wire_time(const Explanation& e) {
  double ms = 0;
  for (const PathNode& node : e.nodes) {
    if (node.part == PathPart::wire && node.ms < kQuickTransfer) ms += node.ms;
  }
  return ms;
}

// The time that a better link would save. No link would change how slow a straggler is in handing
// its values to the transport, which is a transfer without a name, nor its part of the others.
double wire_time(const Explanation& e) {
  double ms = e.ms(PathPart::wire) - fixed_wire_time(e);
  for (const PathNode& node : e.nodes) {
    if (is_its_transfer(e, node)) ms -= node.name.empty() ? node.ms : slowed_by_straggler(e, node);
  }
  return std::max(0.0, ms);
}

// The time that a step costs at any size. A straggler's part of it stays until the straggler goes.
double step_costs(const Explanation& e) {
  double ms = e.ms(PathPart::queueing) + e.ms(PathPart::wake_up);
  for (const PathNode& node : e.nodes) {
    const bool waits = node.part == PathPart::queueing || node.part == PathPart::wake_up;
    if (straggles(e) && waits && node.worker == e.devices[e.slowest].worker) ms -= node.ms;
  }
  return std::max(0.0, ms) + fixed_wire_time(e);
}

void add_parts(const Explanation& e, std::vector<PathAdvice>& out) {
  out.push_back({"input",
                 "read data faster: a local disk, files that are not compressed, fewer transforms",
                 e.ms(PathPart::input)});
  out.push_back(
      {"wire",
       "carry less or faster: a faster link, precision bfloat16, fewer workers, or larger "
       "batches",
       wire_time(e)});
  out.push_back(
      {"batch", "do more in a step: a larger global_batch_size pays the costs of a step less often",
       step_costs(e)});
}

void add_node(const Explanation& e, std::vector<PathAdvice>& out) {
  for (const PathNode& node : e.nodes) {
    if (node.part != PathPart::compute || node.name.empty()) continue;
    out.push_back({"node",
                   cat(node.op, " '", node.name, "' on ", node.worker,
                       " takes the most compute: make it smaller, or compute in bfloat16"),
                   node.ms / 2});
    return;
  }
}

}  // namespace

std::vector<PathAdvice> path_advice(const Explanation& explanation) {
  std::vector<PathAdvice> all;
  add_straggler(explanation, all);
  add_parts(explanation, all);
  add_threads(explanation, all);
  add_node(explanation, all);
  std::erase_if(all, [&](const PathAdvice& advice) {
    return advice.saves_ms < kLeast * explanation.step_ms;
  });
  std::stable_sort(all.begin(), all.end(), [](const PathAdvice& a, const PathAdvice& b) {
    return a.saves_ms > b.saves_ms;
  });
  if (all.size() > kMost) all.resize(kMost);
  return all;
}

}  // namespace leat

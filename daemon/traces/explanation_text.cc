// The two forms in which an explanation is printed.
#include <cmath>
#include <cstdio>

#include "daemon/base/json_line.h"
#include "daemon/traces/critical_path.h"
#include "devices/base/text.h"

namespace leat {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string share_text(double ms, double of) {
  char text[48];
  std::snprintf(text, sizeof text, "%9.3f ms %5.1f %%", ms, of > 0 ? 100 * ms / of : 0.0);
  return text;
}

std::string subject_of(const PathNode& node) {
  if (node.name.empty() && node.part == PathPart::wire)
    return cat("values that leave ", node.worker);
  if (node.name.empty() && node.part == PathPart::compute)
    return cat("the work that ", node.worker, "'s accelerator was given");
  if (node.name.empty()) return cat("between nodes on ", node.worker);
  return cat(node.op, " '", node.name, "' on ", node.worker);
}

double rounded(double ms) { return std::round(1e6 * ms) / 1e6; }

}  // namespace

std::string explanation_text(const Explanation& e) {
  char head[96];
  std::snprintf(head, sizeof head, ": %.3f ms a step, mean of %llu steps from step %llu on\n",
                e.step_ms, static_cast<unsigned long long>(e.steps),
                static_cast<unsigned long long>(e.first_step));
  std::string out = cat(e.job, head, "\nThe critical path of a step\n");
  for (const PathPart part : kPathParts) {
    out +=
        cat("  ", padded(std::string(name_of(part)), 10), share_text(e.ms(part), e.step_ms), "\n");
  }
  out += "\nMost expensive on the path\n";
  for (const PathNode& node : e.nodes) {
    out += cat("  ", padded(std::string(name_of(node.part)), 10), share_text(node.ms, e.step_ms),
               "  ", subject_of(node), "\n");
  }
  out += "\nDevices: not waiting, and the share of the path\n";
  for (size_t i = 0; i < e.devices.size(); ++i) {
    const DeviceShare& device = e.devices[i];
    out += cat("  ", padded(cat(device.worker, " ", device.device), 18),
               share_text(device.busy_ms, e.step_ms), share_text(device.path_ms, e.step_ms),
               i == e.slowest && e.devices.size() > 1 ? "  the slowest" : "", "\n");
  }
  out += "\nChanges that would help most\n";
  for (size_t i = 0; i < e.advice.size(); ++i) {
    out += cat("  ", i + 1, ".", share_text(e.advice[i].saves_ms, e.step_ms), "  ",
               e.advice[i].text, "\n");
  }
  if (e.advice.empty()) out += "  nothing stands out\n";
  if (e.dropped > 0) {
    out += cat("\nThe recording lacks ", e.dropped, " events: record fewer steps (--steps).\n");
  }
  return out;
}

std::string explanation_json(const Explanation& e) {
  JsonLine parts, nodes, devices, advice, all;
  for (const PathPart part : kPathParts) parts.add(name_of(part), rounded(e.ms(part)));
  // The objects have the numbers of the lines as keys, in their order.
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    JsonLine node;
    node.add("worker", e.nodes[i].worker).add("name", e.nodes[i].name).add("op", e.nodes[i].op);
    nodes.add(cat(i + 1),
              node.add("part", name_of(e.nodes[i].part)).add("ms", rounded(e.nodes[i].ms)));
  }
  for (const DeviceShare& device : e.devices) {
    JsonLine line;
    line.add("threads", uint64_t{device.threads}).add("cores", uint64_t{device.cores});
    line.add("busy_ms", rounded(device.busy_ms)).add("path_ms", rounded(device.path_ms));
    devices.add(cat(device.worker, " ", device.device), line);
  }
  for (size_t i = 0; i < e.advice.size(); ++i) {
    JsonLine line;
    line.add("kind", e.advice[i].kind).add("text", e.advice[i].text);
    advice.add(cat(i + 1), line.add("saves_ms", rounded(e.advice[i].saves_ms)));
  }
  all.add("job", e.job).add("first_step", e.first_step).add("steps", e.steps);
  all.add("step_ms", rounded(e.step_ms)).add("parts", parts).add("nodes", nodes);
  all.add("devices", devices);
  all.add("slowest", e.devices.empty() ? "" : e.devices[e.slowest].worker);
  all.add("advice", advice).add("dropped", e.dropped);
  return all.text();
}

}  // namespace leat

// The critical path of a step: the chain of work and waits that decides when steps end, over all
// devices, and the changes that follow from it. `leat explain` prints it; docs/why.md explains the
// numbers.
//
// Threads: values, and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/traces/recording.h"
#include "devices/base/status.h"

namespace leat {

// The parts of the critical path.
enum class PathPart : uint8_t {
  compute,   // a kernel runs, or an accelerator does what it was given
  input,     // a kernel that reads data runs, or waits for it
  wire,      // a value, or the news of room for one, is between two devices
  queueing,  // work could run, but no thread has taken it up; or the master has not allowed it
  wake_up,   // a thread is on its way to a value that is there
};
inline constexpr std::array<PathPart, 5> kPathParts = {
    PathPart::compute, PathPart::input, PathPart::wire, PathPart::queueing, PathPart::wake_up};
std::string_view name_of(PathPart part);  // "wake-up"

// A piece of the path. All times here are milliseconds of one step, a mean over the steps.
struct PathNode {
  std::string worker, name;
  std::string op;  // of nodes that run together: "Cast, Conv, Relu"
  PathPart part = PathPart::compute;
  double ms = 0;
};

struct DeviceShare {
  std::string worker, device;
  uint32_t threads = 1, cores = 0;
  double path_ms = 0;     // of the path, on this device
  double compute_ms = 0;  // of its kernels on the path
  double busy_ms = 0;     // it neither waited nor moved values
  double input_ms = 0;    // of its kernels that read data
};

// A change that would make steps faster.
struct PathAdvice {
  std::string kind;  // "straggler", "threads", "input", "wire", "batch", "node"
  std::string text;
  double saves_ms = 0;  // an estimate
};

struct Explanation {
  std::string job;
  uint64_t first_step = 0, steps = 0;
  double step_ms = 0;  // from the end of one step to that of the next
  std::array<double, kPathParts.size()> parts{};
  std::vector<PathNode> nodes;  // on the path, the most expensive first
  std::vector<DeviceShare> devices;
  size_t slowest = 0;              // of `devices`: the one that waits the least
  std::vector<PathAdvice> advice;  // at most three, the best first
  uint64_t dropped = 0;            // events that the recording lacks
  double ms(PathPart part) const { return parts[static_cast<size_t>(part)]; }
};

// failed_precondition if no step was recorded on all devices.
Result<Explanation> explain(const StepRecording& recording);

// The parts, the nodes, the devices and the advice as lines for people.
std::string explanation_text(const Explanation& explanation);
// The same as one JSON object, with a newline.
std::string explanation_json(const Explanation& explanation);

}  // namespace leat

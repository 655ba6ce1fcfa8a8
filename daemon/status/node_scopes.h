// The nodes of a recording by the scopes of their names, with the time of a step that each took.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/traces/recording.h"

namespace leat {

// "l1/conv" is the node "conv" of the scope "l1". Scopes are at most 12 deep; the rest of a name
// stays one.
struct NodeScope {
  std::map<std::string, NodeScope> scopes;
  std::vector<uint32_t> nodes;  // instructions
  size_t count = 0;             // nodes in it and below
  double ms = 0;                // of a step, in it and below
};

// The nodes of one device.
struct ScopedNodes {
  const RecordedPartition* part = nullptr;  // of the recording, which outlives this
  std::vector<double> ms;  // by instruction: of a step, of all threads of the device together
  NodeScope root;

  std::string title() const;  // "worker-1 cpu:0"
  // "1.234 ms". Of nodes that run together, tile by tile, the first has the time of all.
  std::string time_of(uint32_t instruction) const;
};

// Returns the nodes of each device; nothing if no step was recorded on all of them.
std::vector<ScopedNodes> scoped_nodes(const StepRecording& recording);

}  // namespace leat

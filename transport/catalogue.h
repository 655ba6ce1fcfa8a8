// The transports of this build.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/link.h"

namespace leat {

// Two links of one process that are each other's peer, and what they run on.
struct LinkPair {
  std::shared_ptr<void> threads;  // goes last
  std::unique_ptr<Link> a, b;
};

struct Transport {
  std::string_view name;   // "tcp"
  std::string_view reach;  // who may be a peer: "process", "host", "network"
  bool bundles = false;    // values that are held together travel as one frame
  bool remote = false;     // the peer may be another process, and die
  // Makes a pair as two workers would, with all of the handshake, over loopback: for calibration,
  // benchmarks and the conformance suite. Opens the incoming edges in the tables of the two setups.
  // `spin`: how long the transport's threads look for news before they sleep.
  std::function<Result<LinkPair>(LinkSetup a, LinkSetup b, std::chrono::microseconds spin)> pair;
};

// In the order of their reach.
std::vector<Transport> transports();

}  // namespace leat

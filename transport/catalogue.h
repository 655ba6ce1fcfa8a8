// The transports of this build: local, shm, tcp, and tls, which is tcp with TLS. The conformance suite runs over all of them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transport/link.h"

namespace leat {

// Two links of one process that are each other's peer, and the threads that serve them.
struct LinkPair {
  // Destroyed after the links, which use them.
  std::shared_ptr<void> threads;
  std::unique_ptr<Link> a, b;
};

// One way of carrying values between partitions.
struct Transport {
  // "tcp"
  std::string_view name;
  // The peers that it reaches: those in the same "process", on the same "host", or over the
  // "network".
  std::string_view reach;
  // True if values that are held together travel as one frame.
  bool bundles = false;
  // True if the peer may be another process, which can die.
  bool remote = false;
  // Makes a pair as two processes would, with the whole handshake, over loopback: for calibration,
  // benchmarks and the conformance suite. Opens the incoming edges in the slot tables of the two
  // setups. The transport's threads look for news for `spin` before they sleep.
  std::function<Result<LinkPair>(LinkSetup a, LinkSetup b, std::chrono::microseconds spin)> pair;
};

// All transports, by reach: the narrowest first.
std::vector<Transport> transports();

}  // namespace leat

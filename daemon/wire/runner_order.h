// The order of a master to a worker to start a runner: RunnerSpec of cluster.capnp.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "transport/io/handshake.h"

namespace leat {

// A secret of the master. It recognizes the runner that it told a worker to start by the token.
using RunnerToken = std::array<uint8_t, 32>;

// Threads: a value.
struct RunnerOrder {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  uint32_t threads = 0;  // of the runner; 0: as many as its worker is configured to give
  RunnerToken token{};
  RunKey key{};
  uint32_t gpus = 0;    // of its worker, which the runner opens
  uint64_t memory = 0;  // bytes that it may use; 0, or more than that: the limit of its worker
  bool chaos = false;   // its faults may be of its worker, too
  // A token of its job (transport/rpc/grant.h), with which it connects to the master; empty in a
  // cluster without a secret.
  std::string credential = {};
};

}  // namespace leat

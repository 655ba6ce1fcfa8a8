// The setup of one run on a runner: RunSetup of cluster.capnp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/sha256.h"
#include "scheduler/runtime/run.h"
#include "transport/endpoint.h"

namespace leat {

// Threads: a value.
struct RunSetup {
  RunOptions options;
  std::array<uint8_t, 16> cluster{};
  uint64_t assembly = 0;
  Sha256Digest plan{};
  std::string transport = "auto";
  std::vector<Endpoint> peers;
  std::string data_root;
};

}  // namespace leat

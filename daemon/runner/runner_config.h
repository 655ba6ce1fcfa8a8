// What a runner is told when it starts: RunnerBoot of transport/cluster.capnp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "transport/identity.h"
#include "transport/io/descriptor.h"

namespace leat {

struct RunnerConfig {
  std::string job;
  uint64_t epoch = 0;
  uint32_t task = 0;
  int threads = 1;
  std::vector<uint8_t> token;  // what it shows when it registers
  RunKey key{};                // what the runners of the epoch prove to each other
  uint64_t incarnation = 0;
  std::string worker;  // the node's name
  std::string master_address;
  std::string cluster;
  std::string secret;
  std::string directory;                        // its own, empty
  std::map<std::string, std::string> datasets;  // names to paths; "/" maps all absolute paths
  bool may_share_memory = true;
  bool may_use_tcp = true;
  uint64_t memory_limit = 0;  // bytes of the device; 0: what the machine has
  std::string log_level = "info";
};

// Reads the boot message from a non-blocking socket. invalid_argument if it is none.
Result<RunnerConfig> read_runner_config(int socket, Deadline deadline);

}  // namespace leat

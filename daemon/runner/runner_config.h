// What a runner is told when it starts: RunnerBoot of daemon/wire/cluster.capnp.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "transport/io/descriptor.h"
#include "transport/io/identity.h"

namespace leat {

// Of a job. A runner begins in one, and may go on in later ones.
struct RunnerAssembly {
  uint64_t number = 0;
  RunKey key{};       // what its runners prove to each other
  uint32_t task = 0;  // of this runner
};

struct RunnerConfig {
  std::string job;
  RunnerAssembly assembly;  // in which it begins
  int threads = 1;
  std::vector<uint8_t> token;  // what it shows when it registers
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
  std::chrono::milliseconds rejoin_within{0};  // a master that is gone; 0: it ends with it
};

// Reads the boot message from a non-blocking socket. invalid_argument if it is none.
Result<RunnerConfig> read_runner_config(int socket, Deadline deadline);

}  // namespace leat

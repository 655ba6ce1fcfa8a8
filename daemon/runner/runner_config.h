// The configuration that a runner gets from its worker when it starts: RunnerBoot of
// daemon/wire/cluster.capnp.
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

// An assembly of a job as one runner sees it. A runner begins in one assembly, and may continue in
// later ones.
struct RunnerAssembly {
  uint64_t number = 0;
  RunKey key{};       // its runners prove to each other that they know it
  uint32_t task = 0;  // of this runner
};

struct RunnerConfig {
  std::string job;
  RunnerAssembly assembly;  // the first one
  int threads = 1;
  std::vector<uint8_t> token;  // shown to the master at the registration
  uint64_t incarnation = 0;
  std::string worker;  // the node's name
  std::string master_address;
  std::string cluster;
  std::string secret;
  std::string directory;                        // of this runner alone; empty at the start
  std::map<std::string, std::string> datasets;  // names to paths; "/" maps all absolute paths
  bool may_share_memory = true;
  bool may_use_tcp = true;
  uint64_t memory_limit = 0;  // bytes of the device; 0: the machine's memory
  std::string log_level = "info";
  // The time to look for a lost master. 0: the runner ends when the master is lost.
  std::chrono::milliseconds rejoin_within{0};
};

// Reads the boot message from a non-blocking socket. invalid_argument if it is malformed.
Result<RunnerConfig> read_runner_config(int socket, Deadline deadline);

}  // namespace leat

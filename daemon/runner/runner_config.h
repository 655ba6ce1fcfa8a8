// The configuration that a runner gets from its worker when it starts: RunnerBoot of
// daemon/wire/cluster.capnp.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/confine/confinement.h"
#include "devices/base/status.h"
#include "devices/core/device_wire.h"
#include "transport/io/descriptor.h"
#include "transport/io/identity.h"
#include "transport/seal/seal.h"

namespace leat {

// An assembly of a job as one runner sees it. A runner begins in one assembly, and may continue in
// later ones. A failure or a change of workers ends an assembly. Runners of different assemblies
// refuse each other, because each assembly has its own key.
struct RunnerAssembly {
  // Rises with each assembly of the job.
  uint64_t number = 0;
  // The runners of the assembly prove to each other that they know it.
  RunKey key{};
  // The number of this runner in the assembly, from 0. Its device has the task in its name.
  uint32_t task = 0;
};

// JobRunner owns it for the life of the process.
struct RunnerConfig {
  // The job's id, as the master knows it.
  std::string job;
  // The first assembly. RunTable::assembly() tells the one that the runner is in now.
  RunnerAssembly assembly;
  // Compute threads; 0: all cores that the process may use.
  int threads = 1;
  // The runner shows it to the master at the registration.
  std::vector<uint8_t> token;
  // A random number that tells this process from all others; peers name it when they dial.
  uint64_t incarnation = 0;
  // The node's name.
  std::string worker;
  // "host:port".
  std::string master_address;
  // The cluster's name, and the token of the job with which the runner connects to the master; it
  // is empty in a cluster without a secret.
  std::string cluster;
  std::string secret;
  // Which of its connections have TLS.
  Seal seal = Seal::beyond_loopback;
  // How the process confines itself, before it does anything else.
  Confinement confinement;
  // A directory of this runner alone, empty at the start. Its unix socket is in it, and the worker
  // removes it. A confined process has it as its working directory.
  std::string directory;
  // The names of data sets with their paths on this machine. "/" maps all absolute paths.
  std::map<std::string, std::string> datasets;
  // The transports that the worker's configuration allows.
  bool may_share_memory = true;
  bool may_use_tcp = true;
  // The kinds of wires that its GPU may use.
  std::vector<WireKind> gpu_wires;
  // The bytes of the device that the job may use. 0: all of the machine's memory.
  uint64_t memory_limit = 0;
  // GPUs that the runner opens: 0 or 1.
  uint32_t gpus = 0;
  std::string log_level = "info";
  // How long the runner looks for a lost master. 0: the runner ends when the master is lost.
  std::chrono::milliseconds rejoin_within{0};
};

// Reads the boot message from a non-blocking socket. invalid_argument if it is malformed. Blocks
// until the whole message has arrived; deadline_exceeded after `deadline`, and the errors of the
// socket. A message is at most 1 MiB.
Result<RunnerConfig> read_runner_config(int socket, Deadline deadline);

}  // namespace leat

// The first message to a runner: RunnerBoot of daemon/wire/cluster.capnp.
#pragma once

#include <vector>

#include "daemon/confine/confinement.h"
#include "daemon/worker/runners.h"

namespace leat {

// The bytes that the runner may use: the lesser of those of the order and of the worker's limit; 0:
// any number.
uint64_t memory_limit_of(const RunnerOrder& order, const RunnerSurroundings& surroundings);

// Returns the bytes of the message, after their length (8 bytes, little-endian). The message holds
// the runner's credential, so the caller writes it to the runner's socket and nowhere else. The
// order's number of threads counts; 0 there means that of `surroundings`. read_runner_config()
// reads the message.
std::vector<std::byte> runner_boot(const RunnerOrder& order, const RunnerSurroundings& surroundings,
                                   const std::string& directory, uint64_t incarnation,
                                   const Confinement& confinement = {});

}  // namespace leat

// Limits of what a worker may claim to have when it registers. Jobs are placed by these claims, so
// a wrong one costs others their place in the queue.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/membership.h"
#include "devices/base/status.h"

namespace leat {

// 0 in a field: no limit.
struct WorkerLimit {
  uint64_t memory = 0;         // bytes of its processor
  int64_t cores = 0;           // threads of its processor
  int64_t devices = 0;         // its devices besides the processor
  uint64_t device_memory = 0;  // bytes of each of these
};

// By a glob of workers' names. The first that matches a name counts, the others do not; a worker
// whose name none matches has no limit.
using WorkerLimits = std::vector<std::pair<std::string, WorkerLimit>>;

// No machine has more, so a worker that claims more is refused on every master. A sum over the 64
// devices that a worker may have does not overflow.
inline constexpr uint64_t kMostDeviceBytes = uint64_t{1} << 50;  // 1 PiB
inline constexpr uint32_t kMostDeviceThreads = 1u << 16;

// Compares the claims of a worker with these bounds and with the first limit that matches its name
// or `name`, that of its token or certificate. invalid_argument beyond the first,
// resource_exhausted beyond the second; the message has the worker, the limit and the claim.
Status check_claims(const WorkerInfo& info, std::string_view name, const WorkerLimits& limits);

}  // namespace leat

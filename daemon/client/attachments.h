// The files that go along with a submit, looked at before anything is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"

namespace leat {

// A file of a submit, looked at.
struct Attached {
  std::string name;
  std::string path;
  uint64_t size = 0;
  Sha256Digest sha256{};
  std::optional<Bytes> bytes;  // nothing: it is uploaded before
};

// Reads what is small enough to go in the message, and hashes the rest in pieces. `stopped` is
// asked after each MiB: true ends it with `cancelled`. invalid_argument if the message has no room
// for what is not content; resource_exhausted for a file of more than 16 GiB.
Result<std::vector<Attached>> look_at(const JobRequest& request,
                                      const std::function<bool()>& stopped);

}  // namespace leat

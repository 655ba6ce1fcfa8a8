// The files of a submit, which are read and hashed before anything is sent.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/client/cluster_client.h"
#include "daemon/jobs/records.h"
#include "devices/base/status.h"

namespace leat {

// A file of a submit, with its size and hash. Without bytes, it is uploaded before the submit.
// look_at() makes one for each file of a request, in the order of the request.
struct Attached {
  AttachedFile file;
  // Its path on this machine, from which it is read again for the upload.
  std::string path;
  Files* files = nullptr;  // that read it
};

// Reads the files that are small enough for the message, and hashes the others in pieces. Calls
// `stopped` after each MiB: true ends it with `cancelled`. invalid_argument if the message has no
// room for the rest of the submit, and for a file that is encrypted; resource_exhausted for a file
// of more than 16 GiB; otherwise the errors of reading a file. Blocks.
Result<std::vector<Attached>> look_at(const JobRequest& request,
                                      const std::function<bool()>& stopped);

}  // namespace leat

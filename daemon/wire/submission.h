// Conversions of a submission to and from the message of Master.submit, for both sides of a
// connection. Includes Cap'n Proto: for .cc files.
#pragma once

#include <cstddef>
#include <string>

#include "daemon/jobs/records.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"

namespace leat {

// The limits of a message that a master takes.
struct SubmissionLimits {
  size_t files = 16;              // besides those of a checkpoint
  size_t inline_bytes = 1 << 20;  // of a file in the message itself
};

// `resume`: the job to continue from; "" for none. The name and the number of workers do not
// travel: the master reads them in the job file.
void write_submission(const Submission& submission, const std::string& resume,
                      wire::SubmitRequest::Builder out);
// Files have the hash that the client names, or none if they are in the message. invalid_argument
// beyond the limits, before anything is copied.
Result<Submission> read_submission(wire::SubmitRequest::Reader in, const SubmissionLimits& limits);

}  // namespace leat

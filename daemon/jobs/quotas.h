// How much one user may ask of a master, so that the others have theirs.
#pragma once

#include <cstdint>

namespace leat {

// 0 stands for any number. The user is the name of the token, or the name that a client with the
// secret gives; clients without a name count as one.
struct Quotas {
  int64_t jobs = 0;      // jobs and sessions of one user that wait or run
  int64_t workers = 0;   // workers that one user's jobs and sessions hold together
  int64_t sessions = 0;  // sessions of one user that wait or run
  // Bytes of all files together that clients upload and that jobs name.
  uint64_t uploads = 0;
  // Bytes of the files together that one user uploads and that the user's jobs name.
  uint64_t user_uploads = 0;
};

}  // namespace leat

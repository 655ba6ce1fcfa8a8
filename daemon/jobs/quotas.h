// How much one user may ask of a master, so that the others have theirs.
#pragma once

#include <cstdint>

namespace leat {

struct Quotas {
  // Jobs and sessions of one user that wait or run; 0: any number. The user is the name of the
  // token, or the name that a client with the secret gives; clients without a name count as one.
  int64_t jobs = 0;
  // Bytes of all files together that clients upload and that jobs have; 0: any number.
  uint64_t uploads = 0;
};

}  // namespace leat

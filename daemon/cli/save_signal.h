// Turns SIGUSR1 into a count that a training checks between two steps, so that it writes a
// checkpoint and goes on.
//
// Threads: one thread constructs and destroys it; any may read it. At most one exists at a time.
#pragma once

#include <signal.h>

#include <cstdint>

namespace leat {

// Handles the signal from its construction to its destruction, which restores the previous handler.
class SaveSignal {
 public:
  SaveSignal();
  ~SaveSignal();
  SaveSignal(const SaveSignal&) = delete;
  SaveSignal& operator=(const SaveSignal&) = delete;

  // The signals that have arrived so far.
  uint64_t count() const;

 private:
  struct sigaction old_ {};
};

}  // namespace leat

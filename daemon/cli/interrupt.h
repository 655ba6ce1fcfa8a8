// Turns Ctrl-C (SIGINT) and SIGTERM into a flag that a run checks between two steps, so that it can
// end with a checkpoint. A second signal ends the process at once.
//
// Threads: one thread constructs and destroys it; any may read it. At most one exists at a time,
// because a process has one handler for each signal.
#pragma once

#include <signal.h>

namespace leat {

// Handles the signals from its construction to its destruction.
class Interrupt {
 public:
  // Installs the handlers; the destructor restores the previous ones. A handler only stores the
  // number of the first signal, or ends the process: both are safe at any moment.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The first signal that arrived; 0 if none did.
  int signal() const;
  bool requested() const { return signal() != 0; }
  // Returns 130 after SIGINT, 143 after SIGTERM. REQUIRES: requested().
  int exit_code() const { return 128 + signal(); }

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace leat

// Turns Ctrl-C (SIGINT) and SIGTERM into a flag that a run looks at between two steps, so that it
// can end with a checkpoint. A second signal ends the process at once.
//
// Threads: one constructs and destroys it; any may ask. At most one exists at a time, for a process
// has one handler per signal.
#pragma once

#include <signal.h>

namespace leat {

class Interrupt {
 public:
  // Installs the handlers; the destructor puts back those that were there.
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The first signal that came, 0 if none did.
  int signal() const;
  bool requested() const { return signal() != 0; }
  // 130 after SIGINT, 143 after SIGTERM. REQUIRES: requested().
  int exit_code() const { return 128 + signal(); }

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

}  // namespace leat

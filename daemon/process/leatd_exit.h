// The exit codes of `leatd`.
#pragma once

namespace leat {

// Service managers act on these numbers: docs/daemons.md lists them, and the units in deploy/ do
// not restart a daemon after 78 and 79.
enum LeatdExit : int {
  kLeatdStopped = 0,     // the daemon was asked to stop, and everything ended in order
  kLeatdFailed = 1,      // something failed, or the stop took too long
  kLeatdUsage = 2,       // a wrong flag on the command line
  kLeatdBadConfig = 78,  // EX_CONFIG: a restart does not help; systemd is configured not to try
  kLeatdNameTaken = 79   // another worker has the name: a restart does not help, either
};

}  // namespace leat

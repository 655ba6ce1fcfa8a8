// The exit codes of `leatd`.
#pragma once

namespace leat {

enum LeatdExit : int {
  kLeatdStopped = 0,     // a stop was asked for, and everything ended in order
  kLeatdFailed = 1,      // something failed, or the stop took too long
  kLeatdUsage = 2,       // a wrong flag
  kLeatdBadConfig = 78,  // EX_CONFIG: to start again is no use; systemd is told not to
  kLeatdNameTaken = 79   // another worker has the name: no use, either
};

}  // namespace leat

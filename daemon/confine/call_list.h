// The system calls that a runner may make (seccomp). All others fail with EPERM.
#pragma once

#include "devices/base/status.h"

namespace leat {

struct CallListOptions {
  bool opens_gpus = false;  // the driver needs ioctl() with numbers of its own
};

// Ok if the kernel can filter calls.
Status can_filter_calls();

// Leaves this process and its threads to come the calls that runners make: no new process or
// program, no other user, no namespace, no mount, no look into processes, no key ring, no
// signal but to itself, no sockets but TCP, UDP, unix streams and the list of interfaces.
// REQUIRES: no_new_privs is set, and this process has one thread.
Status allow_calls_of_runner(const CallListOptions& options);

// Takes bind() and listen() from all threads of this process. REQUIRES: no_new_privs is set.
Status forbid_listening();

}  // namespace leat

// `leatd dev`: a master and its workers in one process, for use on one machine.
#pragma once

#include "daemon/process/daemon_config.h"
#include "daemon/process/lifetime.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// Starts the parts of the daemon, calls lifetime.ready() when they work, and returns when
// lifetime.stop_requested() and everything has ended, or with the error that made it end. No
// thread, child process or socket is left after that. Threads: the process's main thread, with the
// signals of lifetime.h blocked, so that all threads that it starts inherit that.
Status run_dev(const DevConfig& config, Lifetime& lifetime, Logger log);

}  // namespace leat

// `leatd dev`: a master and its workers in one process, for a machine of your own.
#pragma once

#include "daemon/process/daemon_config.h"
#include "daemon/process/lifetime.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// Makes the parts of one daemon, calls lifetime.ready() when they work, and returns when
// lifetime.stop_requested() and everything has ended, or with the error that kept it from going on.
// Leaves no thread, child or socket behind. Threads: the process's main one, with the signals of
// lifetime.h blocked; so they are on all threads that it starts.
Status run_dev(const DevConfig& config, Lifetime& lifetime, Logger log);

}  // namespace leat

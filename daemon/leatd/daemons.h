// What `leatd` can be. Each run_ function makes the parts of one daemon, says lifetime.ready() when
// they work, returns when lifetime.stop_requested() and everything has ended, or with what kept it
// from going on; and leaves no thread, child or socket behind.
//
// Threads: the process's main one, with the signals of lifetime.h blocked; so they are on all
// threads that it starts.
#pragma once

#include "daemon/config/daemon_config.h"
#include "daemon/leatd/lifetime.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

Status run_master(const MasterConfig& config, Lifetime& lifetime, Logger log);
Status run_worker(const WorkerConfig& config, Lifetime& lifetime, Logger log);
Status run_dev(const DevConfig& config, Lifetime& lifetime, Logger log);

// `leatd runner ...`, which workers start and nobody else: the process's own main, with its
// arguments as they came and no signal blocked. Returns the exit code.
int run_runner(int argc, char** argv);

}  // namespace leat

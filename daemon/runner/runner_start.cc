#include "daemon/runner/runner_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <utility>

namespace leat {

Result<StartedRunner> start_runner(Deadline deadline) {
  // The kernel kills this process when its worker ends, so that no runner stays behind.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The worker sees the end of this process by the end of the socket, so no other process may
  // inherit it.
  ::fcntl(kWorkerDescriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(kWorkerDescriptor, F_SETFL, ::fcntl(kWorkerDescriptor, F_GETFL) | O_NONBLOCK);
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  sigaddset(&asked, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);  // on all threads to come
  StartedRunner started;
  started.signals = Descriptor(::signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK));
  LEAT_ASSIGN_OR_RETURN(started.config, read_runner_config(kWorkerDescriptor, deadline));
  LEAT_ASSIGN_OR_RETURN(started.layers, confine_process(started.config.confinement));
  return started;
}

}  // namespace leat

// The main function of the `leatd` command: the daemons, and the processes that a worker starts:
// its runners, and the one that looks at its GPUs.
#include <signal.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "daemon/leatd/command_line.h"
#include "daemon/leatd/first_process.h"
#include "daemon/leatd/run_leatd.h"
#include "daemon/runner/run_runner.h"
#include "daemon/worker/gpus.h"
#include "devices/base/failpoint.h"

namespace {
constexpr mode_t kOwnFilesAlone = 0077;
}

int main(int argc, char** argv) {
  // Only this user may read journals, jobs, weights and logs that a daemon or a runner writes.
  (void)::umask(kOwnFilesAlone);
  // The process that started this one may have blocked signals.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  const leat::Status failpoints = leat::set_failpoints_of_environment();
  if (!failpoints.ok()) {
    leat::complain(failpoints.message());
    return leat::kLeatdUsage;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments.front() == "runner") return leat::run_runner(argc, argv);
  if (!arguments.empty() && arguments.front() == "probe") return leat::run_probe();
  return leat::run_as_first_process([&] { return leat::run_leatd(leat::parse_leatd(arguments)); });
}

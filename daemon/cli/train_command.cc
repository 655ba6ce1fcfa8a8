#include "daemon/cli/commands.h"

namespace leat {

int run_train(const TrainCommand& command) {
  if (command.resume.empty() && report_missing("job file", command.job.file, command.color)) {
    return kExitNoSuch;
  }
  if (!command.resume.empty() && report_missing("run", command.resume, command.color)) {
    return kExitNoSuch;
  }
  if (!command.job.file.empty()) {
    const auto job = load_job(command.job.file, command.job.overrides);
    if (!job.ok()) return report(job.status(), command.color);
  }
  return report(unimplemented("leat train: the runtime is not built yet"), command.color);
}

}  // namespace leat

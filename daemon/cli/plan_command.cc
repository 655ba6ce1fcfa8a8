#include "daemon/cli/commands.h"

namespace leat {

int run_plan(const PlanCommand& command) {
  if (report_missing("job file", command.job.file, command.color)) return kExitNoSuch;
  const auto job = load_job(command.job.file, command.job.overrides);
  if (!job.ok()) return report(job.status(), command.color);
  return report(unimplemented("leat plan: the compiler is not built yet"), command.color);
}

}  // namespace leat

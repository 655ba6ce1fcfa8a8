#include "daemon/cli/commands.h"

namespace leat {

int run_predict(const PredictCommand& command) {
  if (report_missing("run", command.run, command.color)) return kExitNoSuch;
  if (report_missing("input file", command.input, command.color)) return kExitNoSuch;
  return report(unimplemented("leat predict: the runtime is not built yet"), command.color);
}

}  // namespace leat

// The main function of the `leat` command.
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/cli/command_line.h"
#include "devices/base/failpoint.h"

int main(int argc, char** argv) {
  // Tests set failpoints by the environment. A wrong one is an error, so that no test passes by
  // mistake.
  const leat::Status failpoints = leat::set_failpoints_of_environment();
  if (!failpoints.ok()) {
    leat::report(failpoints, leat::ColorMode::automatic);
    return leat::kExitUsage;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return leat::run_command(leat::parse_command_line(arguments));
}

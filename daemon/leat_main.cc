// The `leat` command.
#include <cstdlib>
#include <string>
#include <vector>

#include "daemon/cli/command_line.h"
#include "daemon/cli/terminal.h"
#include "devices/base/failpoint.h"

namespace {

// Faults that a test asks for; see failpoint.h.
leat::Status set_failpoints_of_environment() {
  const char* text = std::getenv("LEAT_FAILPOINTS");
  return text == nullptr ? leat::Status() : leat::set_failpoints(text);
}

}  // namespace

int main(int argc, char** argv) {
  const leat::Status failpoints = set_failpoints_of_environment();
  if (!failpoints.ok()) {
    leat::report(failpoints.while_doing("reading LEAT_FAILPOINTS"), leat::ColorMode::automatic);
    return leat::kExitUsage;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return leat::run_command(leat::parse_command_line(arguments));
}

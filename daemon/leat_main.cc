// The `leat` command.
#include <string>
#include <vector>

#include "daemon/cli/command_line.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return leat::run_command(leat::parse_command_line(arguments));
}

// Runs the commands of `leatd`.
#pragma once

#include "daemon/leatd/command_line.h"

namespace leat {

// Runs a command and returns the process's exit code. Data goes to stdout; errors go to stderr, and
// so does the log without a log file. REQUIRES: the process has one thread.
int run_leatd(const LeatdCommand& command);

// Prints "leatd: error: message" to stderr.
void complain(std::string_view message);

}  // namespace leat

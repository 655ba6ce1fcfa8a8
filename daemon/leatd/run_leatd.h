// Does what the command line of `leatd` asks for.
#pragma once

#include "daemon/leatd/command_line.h"

namespace leat {

// The process's exit code. Data goes to stdout, errors and, without a log file, the log to stderr.
// REQUIRES: the process has one thread.
int run_leatd(const LeatdCommand& command);

// "leatd: error: message" on stderr.
void complain(std::string_view message);

}  // namespace leat

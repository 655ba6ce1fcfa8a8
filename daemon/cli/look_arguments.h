// The commands of look_commands.h, as a part of the command line.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/command_line.h"

namespace leat {

// The variables that the options are bound to, as in ClusterArguments.
struct LookArguments {
  ClusterOptions cluster;
  WhyCommand why;
  TraceCommand trace;
  ExplainCommand explain;
};

// Adds the commands to `app`; parsing writes to `arguments` and `color`, which must outlive it.
void add_look_commands(CLI::App& app, LookArguments& arguments, std::string& color);

// Returns the command with this full name ("leat why"), with `color` in it; nothing if it is
// another one. REQUIRES: parsing succeeded.
std::optional<Command> look_command(const std::string& name, LookArguments arguments,
                                    ColorMode color);

}  // namespace leat

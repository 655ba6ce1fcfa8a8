// The commands of `leat` for the numbers of a training, as a part of the command line.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/command_line.h"

namespace leat {

// The variables that the options are bound to. curve_command() copies those of the command that was
// given.
struct CurveArguments {
  ClusterOptions cluster;
  MetricsCommand metrics;
  PlotCommand plot;
  CompareCommand compare;
};

// Adds the commands to `app`; parsing writes to `arguments` and `color`, which must outlive it.
void add_curve_commands(CLI::App& app, CurveArguments& arguments, std::string& color);

// Returns the command with this full name ("leat plot"), with `color` in it; nothing if it is
// another one. REQUIRES: parsing succeeded.
std::optional<Command> curve_command(const std::string& name, CurveArguments arguments,
                                     ColorMode color);

}  // namespace leat

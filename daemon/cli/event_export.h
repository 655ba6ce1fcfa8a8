// Writes a run as a file for TensorBoard: leat metrics --tensorboard.
#pragma once

#include "daemon/cli/curve_commands.h"
#include "daemon/cli/run_source.h"
#include "daemon/curves/metrics_table.h"

namespace leat {

// Writes the numbers of the table, and what else the command asks for, into the folder of the run
// below `command.tensorboard`, and prints the path. Reports an error, and returns the exit code.
int export_events(const MetricsCommand& command, RunSource& run, const MetricsTable& table);

}  // namespace leat

// The command line of `leat`: it makes a command from the arguments, without reading any file.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/commands.h"
#include "daemon/process/arguments.h"

namespace leat {

// A command with its arguments, or a text to print instead.
using Command =
    std::variant<PrintText, TrainCommand, PlanCommand, PredictCommand, GraphShowCommand,
                 GraphCheckCommand, GraphConvertCommand, CheckpointLsCommand,
                 CheckpointVerifyCommand, CheckpointDiffCommand, CheckpointExportCommand,
                 SubmitCommand, PsCommand, ShowCommand, LogsCommand, CancelCommand, RmCommand,
                 NodesCommand, DrainCommand, FetchCommand, ClusterCommand>;

// Parses `arguments`, which do not contain the program's name. An error becomes a PrintText.
Command parse_command_line(const std::vector<std::string>& arguments);

// Runs the command and returns the exit code.
int run_command(const Command& command);

}  // namespace leat

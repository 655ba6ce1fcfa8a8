// The command line of `leat`: from arguments to a command. Nothing is read or run here.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/commands.h"
#include "daemon/process/arguments.h"

namespace leat {

using Command =
    std::variant<PrintText, TrainCommand, PlanCommand, PredictCommand, GraphShowCommand,
                 GraphCheckCommand, GraphConvertCommand, CheckpointLsCommand,
                 CheckpointVerifyCommand, CheckpointDiffCommand, CheckpointExportCommand,
                 SubmitCommand, PsCommand, ShowCommand, LogsCommand, CancelCommand, RmCommand,
                 NodesCommand, DrainCommand, FetchCommand, ClusterCommand>;

// `arguments` without the program's name. What is wrong with them comes back as a PrintText.
Command parse_command_line(const std::vector<std::string>& arguments);

// Does it; the exit code.
int run_command(const Command& command);

}  // namespace leat

// The command line of `leat`: it makes a command from the arguments, without reading any file.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "daemon/cli/ca_commands.h"
#include "daemon/cli/checkpoint_commands.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/commands.h"
#include "daemon/cli/curve_commands.h"
#include "daemon/cli/data_convert.h"
#include "daemon/cli/data_inspect.h"
#include "daemon/cli/data_ledger.h"
#include "daemon/cli/data_tokenize.h"
#include "daemon/cli/evaluate_command.h"
#include "daemon/cli/look_commands.h"
#include "daemon/cli/predict_command.h"
#include "daemon/process/arguments.h"

namespace leat {

// A command with its arguments, or a text to print instead. run_command() needs an overload for
// each alternative, so the compiler finds a command without one.
using Command =
    std::variant<PrintText, TrainCommand, PlanCommand, AuditCommand, PredictCommand,
                 GraphShowCommand, GraphCheckCommand, GraphConvertCommand, GraphOpsCommand,
                 CheckpointLsCommand, CheckpointVerifyCommand, CheckpointDiffCommand,
                 CheckpointExportCommand, CheckpointCopyCommand, CheckpointSaveCommand,
                 EvaluateCommand, SubmitCommand, PsCommand, ShowCommand, LogsCommand, CancelCommand,
                 PauseCommand, SupportBundleCommand, RmCommand, NodesCommand, TopCommand,
                 ConfigCommand, ConfigSetCommand, DrainCommand, TokenCommand, FetchCommand,
                 ClusterCommand, DoctorCommand, MetricsCommand, PlotCommand, CompareCommand,
                 DataTokenizeCommand, WhyCommand, TraceCommand, ExplainCommand, DataInspectCommand,
                 DataConvertCommand, DataLedgerCommand, VersionCommand, CaCommand>;

// Parses `arguments`, which do not contain the program's name. An error becomes a PrintText with
// kExitUsage. The files that the command names are not looked at.
//
//   const Command command = parse_command_line({"train", "job.yaml", "--seed", "7"});
//   return run_command(command);
Command parse_command_line(const std::vector<std::string>& arguments);

// Runs the command and returns the exit code. The exit codes are those of exit_code.h. Blocks until
// the command is done.
int run_command(const Command& command);

}  // namespace leat

// The commands of `leat` that concern a cluster, as a part of the command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/command_line.h"

namespace CLI {
class App;
}

namespace leat {

// The variables that the options are bound to. cluster_command() copies those of the command that
// was given. All commands share these variables, because a command line has only one command.
struct ClusterArguments {
  // --master, --cluster, --secret-file and --json, which every command has.
  ClusterOptions options;
  SubmitCommand submit;
  LogsCommand logs;
  FetchCommand fetch;
  DoctorCommand doctor;
  CheckpointExportCommand exported;
  CheckpointVerifyCommand verified;
  EvaluateCommand evaluate;
  // The job, or the first name of a checkpoint command.
  std::string id;
  std::string on_event;  // of submit and show
  // The jobs of `leat rm`.
  std::vector<std::string> ids;
  // The second name of `leat checkpoint diff`.
  std::string second;
  std::string worker;
  TokenCreateCommand token;  // its texts; its time is in `timeout`
  bool undo = false;
  uint64_t count = 0;    // of the looks of `leat top`
  std::string interval;  // between them, as `timeout`
  // "90s", "10m" or "2h"; empty: no limit. Checked by the parser.
  std::string timeout;
  bool all = false;
  bool quiet = false;
  bool no_headers = false;
  bool wait = false;
  bool follow = false;
};

// Adds the options that say which cluster, and returns --json, which is added if `json`; else null.
CLI::Option* add_cluster_options(CLI::App& app, ClusterOptions& options, bool json = true);

// The option of commands that read checkpoints or weights: see use_checkpoint_keys().
CLI::Option* add_checkpoint_key(CLI::App& sub, std::vector<std::string>& keys);

// The options of commands that use a trained model, for other data and other keys than the run's
// own: see data_overrides().
void add_data_options(CLI::App& sub, std::vector<std::string>& data, std::vector<std::string>& set);

// Adds the commands to `app`; parsing writes to `arguments` and `color`, which must outlive it.
// Adds the commands for checkpoints, too, whose names may be jobs of a cluster.
void add_cluster_commands(CLI::App& app, ClusterArguments& arguments, std::string& color);

// Returns the command with this full name ("leat ps"), with `color` in it; nothing if it is another
// one. PrintText for a `submit` without a job, or with two. REQUIRES: parsing succeeded.
std::optional<Command> cluster_command(const std::string& name, ClusterArguments arguments,
                                       ColorMode color);

}  // namespace leat

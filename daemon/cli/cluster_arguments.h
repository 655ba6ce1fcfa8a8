// The commands of `leat` that concern a cluster, as a part of the command line.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/command_line.h"

namespace leat {

// The variables that the options are bound to. cluster_command() copies those of the command that
// was given.
struct ClusterArguments {
  ClusterOptions options;
  SubmitCommand submit;
  LogsCommand logs;
  FetchCommand fetch;
  CheckpointExportCommand exported;
  std::string id;
  std::vector<std::string> ids;
  std::string second;
  std::string worker;
  bool undo = false;
  std::string timeout;
  bool all = false;
  bool quiet = false;
  bool no_headers = false;
  bool wait = false;
  bool follow = false;
};

// Adds the commands to `app`; parsing writes to `arguments` and `color`, which must outlive it.
void add_cluster_commands(CLI::App& app, ClusterArguments& arguments, std::string& color);

// Returns the command with this full name ("leat ps"), with `color` in it; nothing if it is another
// one.
std::optional<Command> cluster_command(const std::string& name, ClusterArguments arguments,
                                       ColorMode color);

}  // namespace leat

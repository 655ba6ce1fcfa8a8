// The part of the command line of `leat` that is about a cluster.
#pragma once

#include <optional>
#include <string>

#include "daemon/cli/command_line.h"

namespace leat {

// What the options write into, until it is known which command was given.
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

void add_cluster_commands(CLI::App& app, ClusterArguments& arguments, std::string& color);

// The command of that full name ("leat ps"), with `color` in it; nothing if it is none of these.
std::optional<Command> cluster_command(const std::string& name, ClusterArguments arguments,
                                       ColorMode color);

}  // namespace leat

// The commands of `leat` that call a cluster's master: a struct with the arguments of each, and the
// function that runs it, as in commands.h. docs/cli.md describes them for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/cli/commands.h"

namespace leat {

// The cluster of a command, and the form of its output. Empty texts mean the values of environment
// and config file.
struct ClusterOptions {
  std::string master;       // "host:port"
  std::string cluster;      // its name
  std::string secret_file;  // the file with the secret of its members
  bool json = false;        // one JSON object on each line of stdout
  ColorMode color = ColorMode::automatic;
};

// The action of a command after the master has the job.
enum class Attend : uint8_t {
  no,
  wait,    // until it has ended; its outcome is then the exit code
  follow,  // like wait, and show its progress
};

// Submits a job.
struct SubmitCommand {
  ClusterOptions cluster;
  JobOptions job;
  std::string resume;  // a run's folder, or a job of the cluster, to continue; empty: start anew
  Attend attend = Attend::no;
  std::optional<std::chrono::milliseconds> timeout;  // of the wait
  std::vector<std::string> chaos = {};               // daemon/spec/chaos_fault.h
};
int run_submit(const SubmitCommand& command);

// Lists the jobs of the cluster.
struct PsCommand {
  ClusterOptions cluster;
  bool all = false;     // also jobs that have ended
  bool quiet = false;   // only ids
  bool headers = true;  // of the table
};
int run_ps(const PsCommand& command);

// Describes a job.
struct ShowCommand {
  ClusterOptions cluster;
  std::string id;
  Attend attend = Attend::no;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_show(const ShowCommand& command);

// Prints the log of a job.
struct LogsCommand {
  ClusterOptions cluster;
  std::string id;
  bool follow = false;
  std::optional<int64_t> tail;  // the number of last lines; unset: all
};
int run_logs(const LogsCommand& command);

// Cancels a job.
struct CancelCommand {
  ClusterOptions cluster;
  std::string id;
  bool wait = false;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_cancel(const CancelCommand& command);

// Deletes jobs that have ended.
struct RmCommand {
  ClusterOptions cluster;
  std::vector<std::string> ids;
};
int run_rm(const RmCommand& command);

// Drains a worker, or undoes that.
struct DrainCommand {
  ClusterOptions cluster;
  std::string worker;
  bool undo = false;
};
int run_drain(const DrainCommand& command);

// Lists the workers.
struct NodesCommand {
  ClusterOptions cluster;
  bool quiet = false;  // only names
  bool headers = true;
};
int run_nodes(const NodesCommand& command);

// Copies files that a job has left.
struct FetchCommand {
  ClusterOptions cluster;
  std::string id;
  std::vector<std::string> names;  // empty: all files that the job has left
  std::string output;              // the folder; empty: one with the job's id as its name
};
int run_fetch(const FetchCommand& command);

// Describes the cluster.
struct ClusterCommand {
  ClusterOptions cluster;
};
int run_cluster(const ClusterCommand& command);

}  // namespace leat

// The commands of `leat` that ask a cluster's master: what each was asked for, and the function
// that does it, as in commands.h. docs/cli.md is for people.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/cli/commands.h"

namespace leat {

// Which cluster, and how its answers look. An empty text: as environment and config file say.
struct ClusterOptions {
  std::string master;       // "host:port"
  std::string cluster;      // its name
  std::string secret_file;  // what its members know
  bool json = false;        // one JSON object a line on stdout
  ColorMode color = ColorMode::automatic;
};

// What to do once a job is with the master.
enum class Attend : uint8_t {
  no,
  wait,    // until it has ended; then its outcome is the exit code
  follow,  // the same, and show how it goes
};

struct SubmitCommand {
  ClusterOptions cluster;
  JobOptions job;
  std::string resume;  // a run's folder, or a job of the cluster, to go on from; empty: start anew
  Attend attend = Attend::no;
  std::optional<std::chrono::milliseconds> timeout;  // of the wait
  std::vector<std::string> chaos = {};               // daemon/spec/chaos_fault.h
};
int run_submit(const SubmitCommand& command);

struct PsCommand {
  ClusterOptions cluster;
  bool all = false;     // those that have ended, too
  bool quiet = false;   // ids alone
  bool headers = true;  // of the table
};
int run_ps(const PsCommand& command);

struct ShowCommand {
  ClusterOptions cluster;
  std::string id;
  Attend attend = Attend::no;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_show(const ShowCommand& command);

struct LogsCommand {
  ClusterOptions cluster;
  std::string id;
  bool follow = false;
  std::optional<int64_t> tail;  // the last so many lines; unset: all
};
int run_logs(const LogsCommand& command);

struct CancelCommand {
  ClusterOptions cluster;
  std::string id;
  bool wait = false;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_cancel(const CancelCommand& command);

struct RmCommand {
  ClusterOptions cluster;
  std::vector<std::string> ids;
};
int run_rm(const RmCommand& command);

struct DrainCommand {
  ClusterOptions cluster;
  std::string worker;
  bool undo = false;
};
int run_drain(const DrainCommand& command);

struct NodesCommand {
  ClusterOptions cluster;
  bool quiet = false;  // names alone
  bool headers = true;
};
int run_nodes(const NodesCommand& command);

struct FetchCommand {
  ClusterOptions cluster;
  std::string id;
  std::vector<std::string> names;  // empty: all that the job has left
  std::string output;              // the folder; empty: one named as the job's id
};
int run_fetch(const FetchCommand& command);

struct ClusterCommand {
  ClusterOptions cluster;
};
int run_cluster(const ClusterCommand& command);

}  // namespace leat

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
// and config file. find_cluster() of cluster_connection.h fills in what is empty.
struct ClusterOptions {
  // The master's address, "host:port" or "unix:/path".
  std::string master;
  // The cluster's name, which the master must have, too.
  std::string cluster;
  // The file with the secret that the daemons of the cluster share, or with a token.
  std::string secret_file;
  // The file with a certificate, its key and the authorities that it trusts.
  std::string certificate_file = {};
  // Of commands that read checkpoints or weights: see use_checkpoint_keys().
  std::vector<std::string> checkpoint_keys = {};
  bool json = false;  // one JSON object on each line of stdout
  ColorMode color = ColorMode::automatic;
};

// The action of a command after the master has the job.
enum class Attend : uint8_t {
  no,
  wait,    // until it has ended; its outcome is then the exit code
  follow,  // like wait, and show its progress
};

// Shows the settings by which commands find the cluster, and the origin of each.
struct ConfigCommand {
  ClusterOptions cluster;
};
int run_config(const ConfigCommand& command);

// Writes one of them into the user's file; an empty value removes it.
struct ConfigSetCommand {
  ClusterOptions cluster;
  std::string key;
  std::string value;
};
int run_config_set(const ConfigSetCommand& command);

// Examines this machine, the cluster and a job.
// Prints one line for each thing that jobs depend on. Exit code 1 if one of them would stop a job.
// The cluster counts if it is named, or if its master answers.
struct DoctorCommand {
  ClusterOptions cluster;
  JobOptions job;  // without a file: no job
};
int run_doctor(const DoctorCommand& command);

// Gathers what somebody else needs to look into a problem: support_bundle.cc lists it.
// Prints the path of the archive on stdout, or with --json an object with its files. Parts that
// cannot be had are named in it, and on stderr. Exit code 5 if one of the jobs does not exist; 0
// without a master, unless jobs are named.
struct SupportBundleCommand {
  ClusterOptions cluster;
  std::vector<std::string> ids;  // none: the jobs that go on, and the last that failed
  std::string output;            // the archive; empty: leat-support-DATE.tar.gz
};
int run_support_bundle(const SupportBundleCommand& command);

// Submits a job.
// Prints the job's id on stdout, or with --json the job. Files that the job names are checked and
// sent before the master has the job. Exit codes: 5 for a missing file, 7 for an invalid job, 3
// without a master; with `attend` those of attend_job().
struct SubmitCommand {
  ClusterOptions cluster;
  JobOptions job;
  // A run's folder, or a job of the cluster, to continue; empty: start anew. A folder that exists
  // counts before a job of the same name.
  std::string resume;
  Attend attend = Attend::no;
  // Counts from the connection to the master. After this time the command ends with exit code 124.
  std::optional<std::chrono::milliseconds> timeout;
  // Faults that the job causes in itself, in the notation of daemon/spec/chaos_fault.h.
  std::vector<std::string> chaos = {};
  // With `attend`: a program that gets the events, as TrainCommand::on_event.
  std::string on_event = {};
  bool paused = false;  // the job begins as PAUSED
  // A job of the cluster whose checkpoints the job evaluates; empty: it trains. With a job file
  // that is the one to evaluate, else that job's own.
  std::string evaluate = {};
};
int run_submit(const SubmitCommand& command);

// Lists the jobs of the cluster.
// A table in the order of the status page, or JSON in the order of the master. On a narrow terminal
// some columns become narrower or disappear.
struct PsCommand {
  ClusterOptions cluster;
  bool all = false;     // also jobs that have ended
  bool quiet = false;   // only ids
  bool headers = true;  // of the table
};
int run_ps(const PsCommand& command);

// Describes a job.
// Prints all that is known of it: the condition, the progress, the results of its epochs, and the
// assemblies that it has lost. With `attend` it stays until the job has ended.
struct ShowCommand {
  ClusterOptions cluster;
  // An id, or a prefix of only one id; the other commands take the same.
  std::string id;
  Attend attend = Attend::no;
  std::optional<std::chrono::milliseconds> timeout;
  std::string on_event = {};  // as in SubmitCommand
};
int run_show(const ShowCommand& command);

// Prints the log of a job.
// Each line is "worker | text", or a JSON object. Control characters are escaped. Exit code 0 also
// if the master has dropped the oldest lines.
struct LogsCommand {
  ClusterOptions cluster;
  std::string id;
  // Also the lines to come, until the job has ended; Ctrl-C detaches and leaves the job running.
  bool follow = false;
  std::optional<int64_t> tail;  // the number of last lines; unset: all
};
int run_logs(const LogsCommand& command);

// Cancels a job.
// Exit code 6 if the job has ended before.
struct CancelCommand {
  ClusterOptions cluster;
  std::string id;
  // Until the job has ended. The exit code is then 6 if the job ended in another state than
  // CANCELLED, and 124 after the timeout.
  bool wait = false;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_cancel(const CancelCommand& command);

// Pauses a job, or resumes it.
// A paused job has saved a checkpoint and left its workers. Exit code 6 if the job has ended.
struct PauseCommand {
  ClusterOptions cluster;
  std::string id;
  bool undo = false;  // resume it
  // Until the job is PAUSED. The exit code is then 6 if the job ended instead, and 124 after the
  // timeout. Not with `undo`.
  bool wait = false;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_pause(const PauseCommand& command);

// Deletes jobs that have ended.
// Deletes their files, logs and records at the master. A job that cannot be deleted does not stop
// the command; the exit code is that of the first failure.
struct RmCommand {
  ClusterOptions cluster;
  std::vector<std::string> ids;
};
int run_rm(const RmCommand& command);

// Drains a worker, or undoes that.
// A drained worker gets no new job, and its job leaves it between two steps. Returns before the job
// has left.
struct DrainCommand {
  ClusterOptions cluster;
  std::string worker;
  bool undo = false;
};
int run_drain(const DrainCommand& command);

// Makes a token for a person or a worker, and prints its text or writes it to a file.
struct TokenCreateCommand {
  ClusterOptions cluster;
  std::string role;
  std::string name;
  std::optional<std::chrono::milliseconds> lasts;  // nothing: without end
  std::string output;                              // a file that does not exist; empty: stdout
};

// Lists the tokens of the cluster, without their keys.
struct TokenListCommand {
  ClusterOptions cluster;
  bool headers = true;
};

// Revokes the token of that number, or all tokens of that name.
struct TokenRevokeCommand {
  ClusterOptions cluster;
  std::string which;
};
using TokenCommand = std::variant<TokenCreateCommand, TokenListCommand, TokenRevokeCommand>;
int run_token(const TokenCommand& command);

// Lists the workers.
// Warns on stderr if no worker has a data set, since no job can train then.
struct NodesCommand {
  ClusterOptions cluster;
  bool quiet = false;  // only names
  bool headers = true;
};
int run_nodes(const NodesCommand& command);

// Shows jobs and workers, and what they use, again and again.
// Redraws the screen until Ctrl-C; if stdout is no terminal, prints the tables once. With --json an
// object on each line.
struct TopCommand {
  ClusterOptions cluster;
  std::chrono::milliseconds interval{2000};
  uint64_t count = 0;  // how often; 0: until Ctrl-C, or once
};
int run_top(const TopCommand& command);

// Copies files that a job has left.
// Works for jobs that run, too: a checkpoint is copied as a whole or not at all, although the job
// removes old ones meanwhile. Prints the path of each copied file. Files that exist here are
// replaced.
struct FetchCommand {
  ClusterOptions cluster;
  std::string id;
  std::vector<std::string> names;  // empty: all files that the job has left
  std::string output;              // the folder; empty: one with the job's id as its name
};
int run_fetch(const FetchCommand& command);

// Describes the cluster.
// Prints name, id, version and addresses of the master, and the state of its journal.
struct ClusterCommand {
  ClusterOptions cluster;
};
int run_cluster(const ClusterCommand& command);

}  // namespace leat

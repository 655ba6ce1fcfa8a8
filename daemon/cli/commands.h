// The commands of `leat`: a struct with the arguments of each, and the function that runs it.
// command_line.h makes these structs from the command line. Each run_ function prints its data to
// stdout and everything else to stderr, and returns the process's exit code (exit_code.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/terminal.h"
#include "daemon/spec/job.h"

namespace leat {

// The job of a command, and the changes that the command line makes in it. load_job() applies them.
// A key of --set wins over the file.
struct JobOptions {
  std::string file;                // the job file; empty if --resume names the job
  JobOverrides overrides;          // --workers, --seed, --set
  std::optional<int64_t> threads;  // of each worker; unset: the workers divide the cores equally
};

// Trains a job on this machine. Prints progress on stderr; stdout stays empty without --json, whose
// events are in events.h. Ctrl-C ends the training with a checkpoint and exit code 130; a second
// Ctrl-C ends the process at once.
struct TrainCommand {
  JobOptions job;
  std::string output;    // the run's folder; empty: a new one under leat-runs/
  std::string resume;    // a run's folder to continue; empty: start anew
  bool json = false;     // one JSON object on each line of stdout
  bool profile = false;  // print a profile of the steps' time
  bool gpu = false;      // train on the machine's GPU
  std::string on_event;  // a program that gets the events: see event_program.h; empty: none
  // A file for a recording of `trace_steps` steps, as of `leat trace`; empty: none.
  std::string trace;
  int64_t trace_steps = 10;
  // The file of the key that signs the checkpoints, which is made if it is not there; empty: they
  // are not signed.
  std::string sign_key;
  // The files of keys that encrypt the weights of the run: see use_checkpoint_keys().
  std::vector<std::string> checkpoint_keys = {};
  ColorMode color = ColorMode::automatic;
};
int run_train(const TrainCommand& command);

// Prints the plan of a job: its partitions with their memory, and the transfers of a step. Compiles
// as `leat train` does, but computes nothing. The data must exist, since its header gives the
// shapes.
struct PlanCommand {
  JobOptions job;
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_plan(const PlanCommand& command);

// Prints the entries of a master's audit log as they are, one JSON object a line, and checks that
// their chain is whole.
struct AuditCommand {
  std::string path;     // the state folder of the master, or the folder of the log
  bool verify = false;  // print no entries, but how many there are and the hash of the last one
  std::string head;     // a hash that one of the entries has to have; empty: any
  bool json = false;    // print number and hash as a JSON object, the last one
  ColorMode color = ColorMode::automatic;
};
// Returns kExitFailed if the chain is broken.
int run_audit(const AuditCommand& command);

// Prints the version of Leat, its commit and the compiler; with `all` also the code of others that
// it is made of, and on a machine with GPUs the libraries that they need. Blocks for at most 20 s,
// and only if a GPU's driver hangs.
struct VersionCommand {
  bool all = false;
  bool json = false;  // one object a line: a Version, and then a Dependency for each
  ColorMode color = ColorMode::automatic;
};
int run_version(const VersionCommand& command);

// Prints a graph as text. A table of layers with output shapes and numbers of parameters, or with
// `expand` the text of the graph.
struct GraphShowCommand {
  std::string file;
  bool expand = false;  // show ONNX nodes instead of layers
  ColorMode color = ColorMode::automatic;
  std::vector<std::string> fixed = {};  // inputs as read_fixed_inputs() takes them
};
int run_graph_show(const GraphShowCommand& command);

// Checks whether a graph is valid. Exit code 0 and "valid" on stdout, or 7 and the first error.
struct GraphCheckCommand {
  std::string file;
  ColorMode color = ColorMode::automatic;
  std::vector<std::string> fixed = {};  // as above
};
int run_graph_check(const GraphCheckCommand& command);

// Writes a graph in another format. The graph that is written is checked first, and contains the
// types of its outputs.
struct GraphConvertCommand {
  std::string input;
  std::string output;  // its extension decides the format
  ColorMode color = ColorMode::automatic;
  std::vector<std::string> fixed = {};  // as above
};
int run_graph_convert(const GraphConvertCommand& command);

// Prints the table of all ops: the opset of each, its gradient, types and devices; and ONNX's ops
// that are refused, with the reasons.
struct GraphOpsCommand {
  bool json = false;      // one object a line
  bool markdown = false;  // the page docs/ops.md
  ColorMode color = ColorMode::automatic;
};
int run_graph_ops(const GraphOpsCommand& command);

}  // namespace leat

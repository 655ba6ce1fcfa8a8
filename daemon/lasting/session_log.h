// The record of a lasting session on the master's disk: its graph, its callables, the state of its
// variables after some step, and every step after that. From these, hosts that hold nothing compute
// the same bits again.
//
// The file is a database of SQLite in the folder of the session's job. A function that writes
// returns when the change is on the disk; after a crash the change is there whole, or not at all.
// Each value has a checksum, so a damaged file gives an error and no wrong bits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/spec/step_signature.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat {

class SqliteDatabase;

// The graph of a session as its client sent it.
struct LoggedGraph {
  uint64_t version = 0;                  // 0: the session has no graph yet
  std::vector<uint32_t> input_ids = {};  // of its inputs among its values
  std::vector<std::byte> file = {};      // of ops/capnp/graph.capnp
};

struct LoggedCallable {
  CallableId id = 0;
  Signature signature = {};
  bool released = false;
};

struct LoggedStep {
  uint64_t number = 0;  // counts from 1
  std::variant<Signature, CallableId> what = {};
  std::chrono::milliseconds timeout{0};  // 0: the session's
  std::vector<Tensor> feeds = {};        // in the order of the signature
  uint64_t answered = 0;                 // its client has the outcomes up to this step
  // As SessionLog has it: the checksum of all the above, and whether write_applied() was called.
  uint32_t request = 0;
  bool applied = false;
};

// The fetches of a step, or the error with which it ended.
using StepOutcome = Result<std::vector<Tensor>>;
struct KeptOutcome {
  StepOutcome outcome;
  uint32_t request = 0;  // LoggedStep::request
};
using StepOutcomes = std::map<uint64_t, KeptOutcome>;  // by the step's number

// The variables of a session after a step.
struct SavedState {
  uint64_t step = 0;  // 0: no state was saved, and all variables are zeros
  // By the task of the host ("job:worker/task:0"), then by the name of the variable.
  std::map<std::string, std::map<std::string, Tensor>> variables = {};
  // The device of each resource, as SessionJob::homes has them.
  std::map<std::string, std::string> homes = {};
};

// Errors name the file: resource_exhausted if the disk is full or the feeds of a step are
// more than SQLite takes (1 GB), failed_precondition if the file is damaged or foreign, unavailable
// if the disk fails. Threads: one at a time.
class SessionLog {
 public:
  // Opens the file, or makes it.
  static Result<std::unique_ptr<SessionLog>> open(const std::string& path);
  ~SessionLog();
  // Deletes the files of a record, also one that is open. One that is not there is no error.
  static void remove(const std::string& path);

  Result<LoggedGraph> graph();
  Status write_graph(const LoggedGraph& graph);

  // Ascending by id.
  Result<std::vector<LoggedCallable>> callables();
  Status write_callable(CallableId id, const Signature& signature);
  Status write_release(CallableId id);

  // The number of the last step that was written; 0 if there was none.
  Result<uint64_t> last_step();
  // Returns the checksum of the request.
  Result<uint32_t> write_step(const LoggedStep& step);
  static uint32_t checksum_of(const LoggedStep& step);
  // The step was applied. The only change that a crash of the machine may lose: the step is there.
  Status write_applied(uint64_t number);
  // The first step behind number `after` that has not failed.
  Result<std::optional<LoggedStep>> next_step(uint64_t after);
  // The step has failed, and nothing of it is in the variables.
  Status write_failure(uint64_t number, const Status& error);
  // The outcomes that write_failure() and save() have written, of steps that are still here.
  Result<StepOutcomes> outcomes();

  // Replaces the saved state, and forgets the steps up to it but for the outcomes that are given.
  // An outcome of more than 256 MiB becomes the error that it was too large to be kept.
  Status save(const SavedState& state, const StepOutcomes& outcomes);
  Result<SavedState> saved();

 private:
  SessionLog(std::string path, std::unique_ptr<SqliteDatabase> database);
  Status damaged(std::string_view subject) const;
  Status write_variable(const std::string& task, const std::string& name, const Tensor& value);
  // Runs `write` in a transaction, which ends with all of it or nothing.
  Status transact(const std::function<Status()>& write);
  Status write_rows(const SavedState& state, const StepOutcomes& outcomes);
  Result<uint64_t> saved_step();

  const std::string path_;
  const std::unique_ptr<SqliteDatabase> database_;
};

}  // namespace leat

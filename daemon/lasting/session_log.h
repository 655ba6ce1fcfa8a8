// The record of a lasting session on the master's disk: its graph, its callables, the state of its
// variables after some step, and every step after that. From these, hosts that hold nothing compute
// the same bits again. It also has the clients of the session, so that a master that starts again
// knows which of them has it.
//
// The file is a database of SQLite in the folder of the session's job. A function that writes
// returns when the change is on the disk; after a crash the change is there whole, or not at all.
// Each value has a checksum, so a damaged file gives an error and no wrong bits.
//
// With a key all values are encrypted (record_values.h): the graph, the callables, the feeds and
// fetches of steps, and the variables. In the clear are the numbers of steps and whether they were
// applied, the names, types and shapes of variables, the devices of resources, which callables were
// released, and the clients. A row that was changed, exchanged, added or taken away is an error as
// damage is, also if an older version of the row takes its place (record_head.h). An older copy of
// the whole file is no error: the record is that of an earlier moment.
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

#include "daemon/checkpoint/checkpoint_key.h"
#include "daemon/lasting/record_head.h"
#include "daemon/lasting/record_values.h"
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

// The file of a session's record, and its keys.
struct SessionRecord {
  std::string path;
  // The id of the session's job: an encrypted record is read as that of this job alone.
  std::string job = {};
  // The first one encrypts, all of them decrypt. Null or none: the record is in the clear.
  std::shared_ptr<const CheckpointKeys> keys = {};
};

// Errors name the file: resource_exhausted if the disk is full, invalid_argument if a graph or the
// feeds of a step are more than SQLite takes (1 GB), failed_precondition if the file is damaged or
// foreign, unavailable if the disk fails. Threads: one at a time.
class SessionLog {
 public:
  // Opens the file, or makes it. A file that is in the clear, has an older key or, encrypted, is of
  // an older Leat, is first replaced by one that is encrypted with the newest key. Beside the file
  // this needs free room for twice its size, for the new one and its write-ahead log; unavailable
  // if the disk lacks it. failed_precondition if none of the keys is that of the file.
  static Result<std::unique_ptr<SessionLog>> open(const SessionRecord& record);
  ~SessionLog();
  // Deletes the files of a record, also one that is open. One that is not there is no error.
  static void remove(const std::string& path);
  // Reads clients() of the file alone, which are in the clear in all records: without a key.
  static Result<std::vector<std::string>> clients_of(const std::string& path);

  // The clients that have held the session, the last one at the end. Records of before there were
  // such entries have none.
  Result<std::vector<std::string>> clients();
  // Adds clients behind the others, and forgets all but the last `most`.
  Status add_clients(const std::vector<std::string>& clients, size_t most);

  Result<LoggedGraph> graph();
  Status write_graph(const LoggedGraph& graph);

  // Ascending by id.
  Result<std::vector<LoggedCallable>> callables();
  Status write_callable(CallableId id, const Signature& signature);
  Status write_release(CallableId id);

  // The number of the last step that was written; 0 if there was none.
  Result<uint64_t> last_step();
  // Returns the checksum of the request. `step.request` has no meaning here.
  Result<uint32_t> write_step(const LoggedStep& step);
  static uint32_t checksum_of(const LoggedStep& step);
  // The step was applied. The only change that a crash of the machine may lose: the step is there.
  Status write_applied(uint64_t number);
  // The first step behind number `after` that has not failed.
  Result<std::optional<LoggedStep>> next_step(uint64_t after);
  // The step has failed, and nothing of it is in the variables. `request`: see LoggedStep.
  Status write_failure(uint64_t number, uint32_t request, const Status& error);
  // The outcomes that write_failure() and save() have written, of steps that are still here.
  Result<StepOutcomes> outcomes();

  // Replaces the saved state, and forgets the steps up to it but for the outcomes that are given.
  // An outcome of more than 256 MiB becomes the error that it was too large to be kept.
  Status save(const SavedState& state, const StepOutcomes& outcomes);
  Result<SavedState> saved();

 private:
  SessionLog(std::unique_ptr<SqliteDatabase> database, RecordValues values,
             std::optional<RecordHead> head = std::nullopt);
  // Opens the file, or makes it; one that is there stays as it is.
  static Result<std::unique_ptr<SessionLog>> open_unchanged(const SessionRecord& record);
  Status make_tables();
  // Replaces the file of `log` by one with the same content and the newest key.
  static Result<std::unique_ptr<SessionLog>> encrypt(std::unique_ptr<SessionLog> log,
                                                     const SessionRecord& record);
  Status copy_to(SessionLog& other);
  Status write_outcome(uint64_t number, const KeptOutcome& kept);
  // Runs `write` in a transaction, which ends with all of it or nothing and has the head that fits,
  // or in the one that is open.
  Status transact(const std::function<Status()>& write);
  Status insert_step(const LoggedStep& step, const RecordValue& request, int64_t checksum);
  Status write_rows(const SavedState& state, const StepOutcomes& outcomes);
  // Of an encrypted record: fails if a step between the saved state and the last step is missing.
  Status check_steps();

  const std::unique_ptr<SqliteDatabase> database_;
  const RecordValues values_;
  std::optional<RecordHead> head_;  // of an encrypted record
};

}  // namespace leat

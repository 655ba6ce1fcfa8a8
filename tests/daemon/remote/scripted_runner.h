// A runner that computes nothing and does what the test says. The code under test calls it on the
// loop through its capability, as it calls one on another machine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/remote/remote_host.h"
#include "daemon/traces/recording.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "transport/rpc/loop.h"

namespace leat::testing {

// A fake runner's report of a run.
struct ScriptedReport {
  uint64_t run = 1;
  uint64_t turns = 0;
  uint64_t first_row = 0;
  std::vector<Bytes> rows;
  Status failure;
  bool derived = false;
  uint64_t row_offset = 0;
};

// Threads: the test's.
class ScriptedRunner {
 public:
  // The result of a method: this status, or never an answer.
  using Ending = std::optional<Status>;
  // Called on the loop before the method ends.
  using Called = std::function<void()>;

  // Is task `task` on "node-<task>". Every method succeeds by default.
  ScriptedRunner(RpcLoop& loop, uint32_t task);
  // REQUIRES: the loop has not stopped.
  ~ScriptedRunner();

  const std::shared_ptr<RemoteHost>& remote() const { return remote_; }

  // Sets how a method ends from now on. Methods: prepare, upload (of a plan, a feed or variables),
  // connect, extend, feed, renumber, abort, release, describe, record, recorded,
  // readVariables, writeVariables, inspectDataset.
  void ends(const std::string& method, Ending ending);
  // Sets a function that is called before the method ends.
  void when(const std::string& method, Called called);
  // The calls in order, such as "extend 1 20", with the run and the other arguments.
  std::vector<std::string> calls() const;
  // Waits until `count` calls begin with `beginning`, and returns their number. Fails the test
  // after 10 s.
  size_t await_calls(const std::string& beginning, size_t count = 1) const;
  Status report(const ScriptedReport& report);

  // Sets the answers of describe() and inspectDataset().
  void waits_for(const std::string& text);
  void features_print(const std::string& text);
  // Sets the answers of recorded(): each of these once, and the last one from then on. By default
  // it is empty. REQUIRES: at least one.
  void records(std::vector<RecordedPartition> recordings);

 private:
  class Server;
  struct Script;

  RpcLoop& loop_;
  const std::shared_ptr<Script> script_;
  std::shared_ptr<RemoteHost> remote_;
};

}  // namespace leat::testing

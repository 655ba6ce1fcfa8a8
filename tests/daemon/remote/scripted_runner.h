// A runner that computes nothing and does what the test says. It is called on the loop, through
// its capability, as one on another machine is.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/remote/remote_host.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "transport/rpc/loop.h"

namespace leat::testing {

// What a fake runner reports of a run.
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
  // How a method ends: with this, or never.
  using Ending = std::optional<Status>;
  // Called on the loop when the method is called.
  using Called = std::function<void()>;

  // Task `task` on "node-<task>". Every method succeeds.
  ScriptedRunner(RpcLoop& loop, uint32_t task);
  // REQUIRES: the loop has not stopped.
  ~ScriptedRunner();

  const std::shared_ptr<RemoteHost>& remote() const { return remote_; }

  // From now on. Methods: prepare, upload (of a plan, a feed or variables), connect, extend, feed,
  // renumber, abort, release, describe, readVariables, writeVariables, inspectDataset.
  void ends(const std::string& method, Ending ending);
  // Before it ends.
  void when(const std::string& method, Called called);
  // "extend 1 20", with the run and what else there is; in the order of the calls.
  std::vector<std::string> calls() const;
  // Once there are so many calls that begin so: their number. Fails the test after 10 s.
  size_t await_calls(const std::string& beginning, size_t count = 1) const;
  Status report(const ScriptedReport& report);

  // What describe() and inspectDataset() answer with.
  void waits_for(const std::string& text);
  void features_print(const std::string& text);

 private:
  class Server;
  struct Script;

  RpcLoop& loop_;
  const std::shared_ptr<Script> script_;
  std::shared_ptr<RemoteHost> remote_;
};

}  // namespace leat::testing

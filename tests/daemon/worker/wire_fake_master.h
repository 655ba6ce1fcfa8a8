// A master that does what a test says. It registers workers, records their calls, and gives orders
// through a Worker capability.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/wire/cluster.capnp.h"
#include "transport/rpc/call.h"
#include "transport/rpc/server.h"

namespace leat {

// A master for any number of real workers.
class FakeMaster {
 public:
  FakeMaster();
  ~FakeMaster();

  std::string address() const { return server_->address(); }

  // Waits up to 20 s for a call that `is` accepts, and returns it; "" if none came. Calls are
  // recorded in order: "registered w0", "said job-1: text", "exited job-1: how".
  std::string await(const std::function<bool(const std::string&)>& is);
  std::string await(const std::string& beginning);
  std::vector<std::string> events();
  // Waits up to 20 s for this number of heartbeats since the last registration.
  bool await_beats(uint64_t beats);
  // Sets the answer to heartbeats from now on.
  void set_beat_answer(Status status);
  // Sets the answer to registrations from now on.
  void set_registration_answer(Status status);
  // Sets the answer to lines of runners from now on.
  void set_log_answer(Status status);
  // The most bytes of lines that came in one call.
  size_t most_log_bytes();

  // A worker that registers is told to start a runner of `job` before it gets the answer.
  void start_at_once(std::string job);

  Status start(const std::string& job, uint64_t assembly);
  // Moves the job's runner to an assembly, with that assembly's key.
  Status advance(const std::string& job, uint64_t assembly);
  Status stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace);
  // Closes the connections of all workers.
  void hang_up();

 private:
  friend class FakeRegistry;
  friend class FakeHeart;
  void note(std::string event);
  void listen();
  kj::Promise<Status> send_start(const std::string& job, uint64_t assembly);

  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<RpcServer> server_, heart_;
  std::string bound_ = "127.0.0.1:0";

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> events_;
  uint64_t beats_ = 0;
  Status beat_answer_, registration_answer_, log_answer_;
  size_t most_log_bytes_ = 0;

  std::string at_once_;

  // Used on the loop.
  kj::Maybe<wire::Worker::Client> worker_;
  kj::Promise<void> started_ = kj::READY_NOW;
};

}  // namespace leat

// A master that does what a test says: it registers workers, notes what they tell, and has a Worker
// capability to order them about with.
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

class FakeMaster {
 public:
  FakeMaster();
  ~FakeMaster();

  std::string address() const { return server_->address(); }

  // What workers have told, in order: "registered w0", "said job-1: text", "exited job-1: how".
  // Waits up to 20 s for an event that `is` accepts and returns it; "" if none came.
  std::string await(const std::function<bool(const std::string&)>& is);
  std::string await(const std::string& beginning);
  std::vector<std::string> events();
  // Waits up to 20 s for so many beats since the last registration.
  bool await_beats(uint64_t beats);
  // Beats are answered so from now on.
  void set_beat_answer(Status status);
  // Registrations are answered so from now on.
  void set_registration_answer(Status status);

  // Who registers has a runner of `job` to start before it hears that it is registered.
  void start_at_once(std::string job);

  Status start(const std::string& job, uint64_t assembly);
  // With a key that is the assembly's.
  Status advance(const std::string& job, uint64_t assembly);
  Status stop(const std::string& job, uint64_t assembly, std::chrono::milliseconds grace);
  // Hangs up on every worker.
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
  Status beat_answer_, registration_answer_;

  std::string at_once_;

  // The loop's.
  kj::Maybe<wire::Worker::Client> worker_;
  kj::Promise<void> started_ = kj::READY_NOW;
};

}  // namespace leat

// Fake workers and runners for tests of a master. Only their connections to it are real.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/master/master.h"
#include "tests/eventually.h"
#include "transport/rpc/loop.h"

namespace leat::testing {

using namespace std::chrono_literals;

// An order to a worker to start a runner.
struct Order {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  std::string token;
  std::string key;
};

// A runner that registers and moves to other assemblies. Its other methods never answer.
class FakeRunner {
 public:
  // Connects and registers. `token` replaces the order's.
  static std::unique_ptr<FakeRunner> connect(const std::string& master, const Order& order,
                                             const std::string& token = "");
  ~FakeRunner();
  // The master's answer to the registration.
  Status registered() const;
  // Registers once more on the same connection.
  Status registers(const Order& order, const std::string& token = "");
  // Whether a call to it is waiting for an answer.
  bool called() const;
  // The assemblies that it was asked to move to. It answers ok, or nothing if it refuses.
  std::vector<uint64_t> advanced() const;
  void refuse_to_advance();

 private:
  struct Inside;
  explicit FakeRunner(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

// The devices that a worker claims to have.
struct Claim {
  uint64_t memory = 0;  // of its processor
  uint32_t cores = 0;
  uint32_t gpus = 0;
  uint64_t gpu_memory = 0;  // of each
};

// A worker that does what a test says, with a real connection to the master.
class FakeWorker {
 public:
  // Connects and registers, and sends a heartbeat every 25 ms if `beats`.
  FakeWorker(const std::string& master, const std::string& name, uint64_t incarnation = 1,
             bool beats = true, const Claim& claim = {}, const std::string& secret = "");
  ~FakeWorker();

  Status registered() const;
  std::string cluster_id() const;
  // The orders to start and to stop runners so far, in order; to stop as "job/assembly".
  std::vector<Order> started() const;
  std::vector<std::string> stopped() const;
  // The orders to move to another assembly, in the form of stopped().
  std::vector<std::string> advanced() const;
  // Waits for the order with this number, and returns it.
  Order order(size_t number = 0) const;
  // Whether the master has ended its connection.
  bool lost() const;
  // The answer to the last heartbeat.
  Status heart() const;
  void stop_beating();
  // From now on start() is answered with `status`.
  void refuse_to_start(const Status& status);
  // From now on stop() gets no answer.
  void ignore_stops();

  Status exited(const Order& order, const std::string& how);
  Status log(const std::string& job, const std::vector<std::string>& lines);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace leat::testing

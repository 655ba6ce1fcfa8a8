// Workers and runners of which nothing is real but their connections to a master.
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

// What a worker was told to start.
struct Order {
  std::string job;
  uint64_t assembly = 0;
  uint32_t task = 0;
  std::string token;
  std::string key;
};

// A runner that registers, goes on in other assemblies, and whose other methods never answer.
class FakeRunner {
 public:
  // `token`: instead of the order's.
  static std::unique_ptr<FakeRunner> connect(const std::string& master, const Order& order,
                                             const std::string& token = "");
  ~FakeRunner();
  // What the registration came to.
  Status registered() const;
  // On the same connection, once more.
  Status registers(const Order& order, const std::string& token = "");
  // Whether a call to it is waiting for an answer.
  bool called() const;
  // The assemblies to which it was told to go on. What it answers: nothing, if it refuses.
  std::vector<uint64_t> advanced() const;
  void refuse_to_advance();

 private:
  struct Inside;
  explicit FakeRunner(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

class FakeWorker {
 public:
  // Connects and registers, and beats every 25 ms if `beats`.
  FakeWorker(const std::string& master, const std::string& name, uint64_t incarnation = 1,
             bool beats = true);
  ~FakeWorker();

  Status registered() const;
  std::string cluster_id() const;
  // The runners that it was told to start and to stop, in order; stopped ones as "job/assembly".
  std::vector<Order> started() const;
  std::vector<std::string> stopped() const;
  // As stopped(): those that were to go on.
  std::vector<std::string> advanced() const;
  // The order of that number, once it is there.
  Order order(size_t number = 0) const;
  // Its connection was ended by the master.
  bool lost() const;
  // What the last heartbeat was answered with.
  Status heart() const;
  void stop_beating();
  // From now on start() is answered with this.
  void refuse_to_start(const Status& status);
  // And stop() with nothing.
  void ignore_stops();

  Status exited(const Order& order, const std::string& how);
  Status log(const std::string& job, const std::vector<std::string>& lines);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace leat::testing

// Peers without manners, for soak measures: what tests/transport/rpc_attack_test.cc does to one
// server, and noise, against every port that a daemon listens on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace leat {

// "127.0.0.1:4711" of each TCP port that the process listens on, as the kernel says.
std::vector<std::string> ports_of(pid_t process);

// A socket that does not wait longer than a second for anything, and fails no test.
class RudeSocket {
 public:
  explicit RudeSocket(const std::string& address);
  ~RudeSocket();
  RudeSocket(RudeSocket&& other) noexcept;
  RudeSocket& operator=(RudeSocket&& other) noexcept;

  bool connected() const { return fd_ >= 0; }
  // False: the other end does not take it.
  bool write(const std::string& bytes);
  std::string read(size_t size);
  // A hello of this cluster, as a client without a secret.
  bool greet(const std::string& cluster);

 private:
  int fd_ = -1;
};

// Attacks one port after the other, again and again, at most so many times a second, and holds what
// it opened as long as it can. What it costs itself is not to count: its thread runs on the core
// `aside` alone, or if there is none gives way to all others (nice 19). Threads: one of its own.
class Attacker {
 public:
  struct Target {
    std::vector<std::string> ports;  // all get noise and half-open connections
    std::string rpc;                 // one that answers hellos, which gets the rest
    std::string cluster;
  };
  // It rests until it is told to go on. `aside`: a core, or -1 for any.
  Attacker(Target target, uint64_t seed, int per_second, int aside);
  ~Attacker();

  void go_on();
  // Returns when all that it had opened is closed.
  void rest();

  uint64_t attacks() const { return attacks_; }
  // Those whose connection was refused, or which the other end ended.
  uint64_t fended_off() const { return fended_off_; }

 private:
  void live();
  void attack_until_told();
  bool attack_once();
  bool attack_rpc(uint64_t kind);
  std::string noise(size_t bytes);

  const Target target_;
  const int per_second_;
  // Made once: it is the daemons that are to have work.
  const std::string watches_, uploads_, chain_;
  std::mt19937_64 random_;
  std::vector<RudeSocket> held_;  // the thread's
  std::atomic<uint64_t> attacks_{0}, fended_off_{0};
  enum class Told : uint8_t { rest, go_on, end };
  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_ = Told::rest;
  bool rests_ = true;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace leat

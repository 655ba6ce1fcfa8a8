// Hostile peers for soak measurements. They do to every port of a daemon what
// tests/transport/rpc_attack_test.cc does to one server, and send noise.
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

// Returns "127.0.0.1:4711" for each TCP port that the process listens on, from the kernel's tables.
std::vector<std::string> ports_of(pid_t process);

// A socket that waits at most a second for anything. Its errors fail no test.
class RudeSocket {
 public:
  explicit RudeSocket(const std::string& address);
  ~RudeSocket();
  RudeSocket(RudeSocket&& other) noexcept;
  RudeSocket& operator=(RudeSocket&& other) noexcept;

  bool connected() const { return fd_ >= 0; }
  // False if the other end does not take the bytes.
  bool write(const std::string& bytes);
  std::string read(size_t size);
  // Says the hello of this cluster, as a client without a secret.
  bool greet(const std::string& cluster);

 private:
  int fd_ = -1;
};

// Attacks the ports one after the other, at most `per_second` times a second, and holds its
// connections open for as long as it can. Its own cost must not count, so its thread runs alone on
// the core `aside`, or with the lowest priority (nice 19) if there is none. Threads: one of its
// own.
class Attacker {
 public:
  struct Target {
    std::vector<std::string> ports;  // all get noise and half-open connections
    std::string rpc;                 // a port that answers hellos; gets the other attacks
    std::string cluster;
  };
  // Does nothing until it is told to begin. `aside`: a core, or -1 for any.
  Attacker(Target target, uint64_t seed, int per_second, int aside);
  ~Attacker();

  void go_on();
  // Stops attacking. Returns when all its connections are closed.
  void rest();

  uint64_t attacks() const { return attacks_; }
  // The number of attacks whose connection was refused, or ended by the other end.
  uint64_t fended_off() const { return fended_off_; }

 private:
  void live();
  void attack_until_told();
  bool attack_once();
  bool attack_rpc(uint64_t kind);
  std::string noise(size_t bytes);

  const Target target_;
  const int per_second_;
  // Prepared once, so that the load is on the daemons.
  const std::string watches_, uploads_, chain_;
  std::mt19937_64 random_;
  std::vector<RudeSocket> held_;  // used by the thread
  std::atomic<uint64_t> attacks_{0}, fended_off_{0};
  enum class Told : uint8_t { rest, go_on, end };
  std::mutex mutex_;
  std::condition_variable changed_;
  Told told_ = Told::rest;
  bool rests_ = true;
  std::thread thread_;  // last, because it uses the members above
};

}  // namespace leat

// Two processes that send each other values by wires between their GPUs, as a test's halves. A
// socket takes the place of the link: it carries the offers, what is announced, and what was taken.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "devices/core/device.h"
#include "devices/core/device_wire.h"

namespace leat::testing {

// Lines over a socket. Threads: one hears, and any say.
class Talk {
 public:
  // Takes the descriptor.
  explicit Talk(int fd) : fd_(fd) {}
  ~Talk();
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;
  // Nothing happens if the other process is gone.
  void say(const std::string& line);
  // The next line. unavailable if the other process is gone or says nothing for a minute.
  Result<std::string> hear();

 private:
  const int fd_;
  std::mutex mutex_;
  std::string heard_;
};

// The ends of two wires, one in each direction, and the memory that the other process fills.
struct WirePair {
  std::unique_ptr<Buffer> memory;
  std::unique_ptr<WireReceiver> in;
  std::unique_ptr<WireSender> out;
};
// The largest value; the memory has room for two of them.
inline constexpr size_t kLargestValue = size_t{4} << 20;

// Makes and connects them. `first`: the wire by which this process sends is connected first, which
// holds for one of the two processes.
Result<WirePair> make_wires(Device& device, WireKind kind, Talk& talk, bool first);

// The value number `index` of those that `seed` stands for: 1 byte to 4 MiB, and where it belongs.
struct DrawnValue {
  size_t offset, bytes;
};
DrawnValue draw_value(uint64_t seed, uint64_t index);
std::string draw_bytes(uint64_t seed, uint64_t index, size_t bytes);

struct Traffic {
  WireKind kind;
  uint64_t seed_out, seed_in;  // what this process sends, and what it expects
  uint64_t count;              // of values in each direction
};
// Sends and takes so many values at the same time, two at most on their way in each direction.
// Each must be there, in order and bit for bit.
Status exchange_values(Device& device, WirePair& wires, Talk& talk, const Traffic& traffic);

}  // namespace leat::testing

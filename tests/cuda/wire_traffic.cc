#include "tests/cuda/wire_traffic.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "devices/base/text.h"

namespace leat::testing {
namespace {

constexpr auto kTalkPatience = std::chrono::seconds(60);
constexpr uint64_t kSlots = 2;
// Room for offsets that are no multiple of anything.
constexpr size_t kSlotBytes = kLargestValue + 256;

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + kTalkPatience;
}

// A number for each place of a sequence (splitmix64).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::string in_hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}
std::string of_hex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return bytes;
}

// The two directions of an exchange, each on a thread.
class Exchange {
 public:
  Exchange(Device& device, WirePair& wires, Talk& talk, const Traffic& traffic)
      : device_(device), wires_(wires), talk_(talk), traffic_(traffic) {}

  Status run() {
    LEAT_ASSIGN_OR_RETURN(out_, device_.allocate(kSlots * kSlotBytes));
    std::thread sender([this] { note(send_all()); });
    note(hear_all());
    {
      const std::lock_guard lock(mutex_);
      heard_all_ = true;
    }
    changed_.notify_all();
    sender.join();
    return status_;
  }

 private:
  void note(const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  bool failed() {
    const std::lock_guard lock(mutex_);
    return !status_.ok();
  }

  Status send_all() {
    for (uint64_t i = 0; i < traffic_.count; ++i) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kTalkPatience,
                          [&] { return taken_ + kSlots > i || heard_all_ || !status_.ok(); });
        if (!status_.ok()) return {};
        if (taken_ + kSlots <= i)
          return deadline_exceeded(cat("value ", i, ": the slot before it is not free"));
      }
      LEAT_RETURN_IF_ERROR(send_one(i));
    }
    return {};
  }
  Status send_one(uint64_t index) {
    const DrawnValue value = draw_value(traffic_.seed_out, index);
    const std::string bytes = draw_bytes(traffic_.seed_out, index, value.bytes);
    // The value before it in the slot was read.
    if (index >= kSlots) LEAT_RETURN_IF_ERROR(wires_.out->done().wait(index + 1 - kSlots, soon()));
    auto* from = static_cast<std::byte*>(out_->data()) + index % kSlots * kSlotBytes;
    device_.copy_to_device(from, bytes.data(), bytes.size());
    LEAT_RETURN_IF_ERROR(device_.queue(QueueFor::copies_in).settle(soon()));
    const std::string announced = cat("value ", value.offset, " ", value.bytes);
    if (announces_first(traffic_.kind)) talk_.say(announced);
    wires_.out->send(from, value.offset, value.bytes);
    if (announces_first(traffic_.kind)) return {};
    LEAT_RETURN_IF_ERROR(wires_.out->done().wait(index + 1, soon()));
    talk_.say(announced);
    return {};
  }

  // Until all values are here and the other process has taken all of this one.
  Status hear_all() {
    uint64_t here = 0, taken = 0;
    while (here < traffic_.count || taken < traffic_.count) {
      if (failed()) return {};
      LEAT_ASSIGN_OR_RETURN(const std::string line, talk_.hear());
      if (line == "taken") {
        const std::lock_guard lock(mutex_);
        taken = ++taken_;
        changed_.notify_all();
        continue;
      }
      LEAT_RETURN_IF_ERROR(take_one(here++, line));
      talk_.say("taken");
    }
    return wires_.out->done().wait(traffic_.count, soon());
  }
  Status take_one(uint64_t index, const std::string& line) {
    const DrawnValue value = draw_value(traffic_.seed_in, index);
    if (line != cat("value ", value.offset, " ", value.bytes))
      return internal_error(cat("value ", index, ": received '", line, "'"));
    wires_.in->receive(value.offset, value.bytes);
    LEAT_RETURN_IF_ERROR(wires_.in->done().wait(index + 1, soon()));
    std::string bytes(value.bytes, 0);
    device_.copy_to_host(
        bytes.data(), static_cast<std::byte*>(wires_.memory->data()) + value.offset, bytes.size());
    LEAT_RETURN_IF_ERROR(device_.queue(QueueFor::copies_out).settle(soon()));
    if (bytes != draw_bytes(traffic_.seed_in, index, value.bytes))
      return internal_error(cat("value ", index, " of ", value.bytes, " bytes differs"));
    return {};
  }

  Device& device_;
  WirePair& wires_;
  Talk& talk_;
  const Traffic traffic_;
  std::unique_ptr<Buffer> out_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t taken_ = 0;
  bool heard_all_ = false;
  Status status_;  // the first failure
};

}  // namespace

Talk::~Talk() { ::close(fd_); }

void Talk::say(const std::string& line) {
  const std::string text = line + "\n";
  const std::lock_guard lock(mutex_);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

Result<std::string> Talk::hear() {
  const auto until = soon();
  while (true) {
    if (const size_t end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd wait{fd_, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) <= 0)
      return unavailable("the other process says nothing");
    char bytes[4096];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return unavailable("the other process is gone");
    heard_.append(bytes, static_cast<size_t>(n));
  }
}

Result<WirePair> make_wires(Device& device, WireKind kind, Talk& talk, bool first) {
  WirePair wires;
  LEAT_ASSIGN_OR_RETURN(wires.memory, device.allocate(kSlots * kSlotBytes));
  LEAT_ASSIGN_OR_RETURN(wires.in, device.make_wire_receiver(kind, *wires.memory));
  talk.say(in_hex(wires.in->offer()));
  LEAT_ASSIGN_OR_RETURN(const std::string offer, talk.hear());
  LEAT_ASSIGN_OR_RETURN(wires.out, device.make_wire_sender(kind, of_hex(offer)));
  DeviceWire& out = *wires.out;
  DeviceWire& in = *wires.in;
  LEAT_RETURN_IF_ERROR((first ? out : in).connect(soon()));
  LEAT_RETURN_IF_ERROR((first ? in : out).connect(soon()));
  return wires;
}

DrawnValue draw_value(uint64_t seed, uint64_t index) {
  const uint64_t drawn = mix(mix(seed) + index);
  // The extremes, and else as many between 1 and 2 bytes as between 2 and 4 MiB.
  const double exponent = 22.0 * static_cast<double>(drawn >> 40) / (1 << 24);
  const size_t bytes = index % 100 == 0   ? kLargestValue
                       : index % 100 == 1 ? 1
                                          : static_cast<size_t>(std::exp2(exponent));
  return {index % kSlots * kSlotBytes + drawn % 256, bytes};
}

std::string draw_bytes(uint64_t seed, uint64_t index, size_t bytes) {
  std::vector<uint64_t> words((bytes + 7) / 8);
  const uint64_t start = mix(mix(seed + 1) + index);
  for (size_t i = 0; i < words.size(); ++i) words[i] = (start + i) * 0x9e3779b97f4a7c15;
  return {reinterpret_cast<const char*>(words.data()), bytes};
}

Status exchange_values(Device& device, WirePair& wires, Talk& talk, const Traffic& traffic) {
  return Exchange(device, wires, talk, traffic).run();
}

}  // namespace leat::testing

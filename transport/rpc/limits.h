// The most memory, descriptors and time that a peer may cost this process: no remote party can push
// them past these numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace leat {

// The limits of one connection whose hello was accepted. A peer that passes one is dropped and told
// why. Nothing ever waits for room: the message that would make room may stand behind it in the
// stream, which is how Cap'n Proto's own flow limit deadlocks.
//
// Both ends use these numbers, so that each end accepts what the other one sends.
struct RpcLimits {
  // One message, its segment table included: the words of a blob of that size can be visited. A
  // peer that is not authenticated has the smaller cap; any process that may open a loopback socket
  // is such a peer if no secret is configured.
  size_t message_bytes = (8u << 20) - (64u << 10);
  size_t unauthenticated_message_bytes = 1u << 20;
  // From a message's first byte to its last, and for the peer to take a batch of ours.
  std::chrono::milliseconds message_deadline{30'000};
  // For sending what is left, the reason among it, when the connection ends.
  std::chrono::milliseconds linger{1'000};

  // Unfinished calls of the peer. A call counts, with the bytes of its parameters and results,
  // until its results are sent and the peer has released them. Our own end stays 24 below the
  // limit: one more call fails here, as resource_exhausted, and is not sent.
  size_t calls = 1'024;
  size_t own_calls = 1'000;
  size_t call_bytes = 32u << 20;
  // Capabilities that the peer holds of us, and that we hold of it.
  size_t exports = 10'000;
  size_t imports = 10'000;
  // Bytes that wait for the peer to read.
  size_t unsent_bytes = 32u << 20;

  // For one message: the words that may be visited in reading it, and its depth.
  uint64_t traversal_words = 1u << 20;
  int nesting = 32;

  // The limit of a message from this peer.
  size_t max_message(bool authenticated) const {
    return authenticated ? message_bytes : unauthenticated_message_bytes;
  }
};

// The bytes that all connections of one server may hold together. Each connection has its first
// bytes for free, so that a peer that holds all the rest cannot keep others from small calls: 1,024
// connections come to 160 + 64 MiB.
// Threads: the loop's.
class ByteBudget {
 public:
  // Of each connection.
  static constexpr size_t kFreeBytes = 64u << 10;

  explicit ByteBudget(size_t limit = 160u << 20) : limit_(limit) {}
  size_t used() const { return used_; }

 private:
  friend class ByteCharge;
  size_t limit_;
  size_t used_ = 0;
};

// The part of a budget that one connection holds. Its destructor gives it back.
class ByteCharge {
 public:
  explicit ByteCharge(ByteBudget& budget) : budget_(budget) {}
  ~ByteCharge() { budget_.used_ -= charged(held_); }
  ByteCharge(const ByteCharge&) = delete;
  ByteCharge& operator=(const ByteCharge&) = delete;

  // The connection now holds `bytes`. Returns false and changes nothing if they do not fit.
  [[nodiscard]] bool set(size_t bytes) {
    const size_t others = budget_.used_ - charged(held_);
    if (bytes > held_ && charged(bytes) > 0 && others + charged(bytes) > budget_.limit_) {
      return false;
    }
    budget_.used_ = others + charged(bytes);
    held_ = bytes;
    return true;
  }
  size_t held() const { return held_; }

 private:
  // The part of `bytes` that counts against the budget.
  static size_t charged(size_t bytes) {
    return bytes > ByteBudget::kFreeBytes ? bytes - ByteBudget::kFreeBytes : 0;
  }

  ByteBudget& budget_;
  size_t held_ = 0;
};

}  // namespace leat

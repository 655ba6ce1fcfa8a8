// What a peer may make this process hold: the numbers behind "no remote party can push memory,
// descriptors or CPU past its limits".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace leat {

// Of one connection whose hello was accepted. A peer that passes a limit is dropped, and told why;
// nothing is ever left waiting for room, since what would make room may stand behind it in the
// stream: that is how Cap'n Proto's own flow limit deadlocks.
//
// Both ends take the limits from here, so that what one end sends the other end accepts.
struct RpcLimits {
  // One message, its segment table included. Messages of an unauthenticated peer are held to the
  // smaller cap: anyone who may open a loopback socket is such a peer where no secret is
  // configured.
  size_t message_bytes = (8u << 20) - (64u << 10);  // a blob of that size is read within the words
  size_t unauthenticated_message_bytes = 1u << 20;
  // From a message's first byte to its last, and for a batch of ours to be taken by the peer.
  std::chrono::milliseconds message_deadline{30'000};
  // What is left to send when the connection ends, the reason among it, has so long.
  std::chrono::milliseconds linger{1'000};

  // Calls of the peer that are not finished: a call counts, with the bytes of its parameters and of
  // its results, until its results are sent and the peer has let go of them. Our own end stays 24
  // below: calls past that fail here, as resource_exhausted, and are not sent.
  size_t calls = 1'024;
  size_t own_calls = 1'000;
  size_t call_bytes = 32u << 20;
  // Capabilities that the peer holds of us, and we of it.
  size_t exports = 10'000;
  size_t imports = 10'000;
  // Bytes that wait for the peer to read.
  size_t unsent_bytes = 32u << 20;

  // Of one message: how many words may be visited in reading it, and how deep.
  uint64_t traversal_words = 1u << 20;
  int nesting = 32;

  size_t max_message(bool authenticated) const {
    return authenticated ? message_bytes : unauthenticated_message_bytes;
  }
};

// Bytes that all connections of one server may hold together. The first bytes of each connection
// are not asked for, so that somebody who holds all the rest cannot keep others from small calls:
// 1,024 connections come to 160 + 64 MiB.
// Threads: the loop's.
class ByteBudget {
 public:
  static constexpr size_t kFreeBytes = 64u << 10;  // of each connection

  explicit ByteBudget(size_t limit = 160u << 20) : limit_(limit) {}
  size_t used() const { return used_; }

 private:
  friend class ByteCharge;
  size_t limit_;
  size_t used_ = 0;
};

// What one connection has of a budget, and gives back when it goes.
class ByteCharge {
 public:
  explicit ByteCharge(ByteBudget& budget) : budget_(budget) {}
  ~ByteCharge() { budget_.used_ -= charged(held_); }
  ByteCharge(const ByteCharge&) = delete;
  ByteCharge& operator=(const ByteCharge&) = delete;

  // The connection now holds `bytes`. False, and nothing changes, if they do not fit.
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
  static size_t charged(size_t bytes) {
    return bytes > ByteBudget::kFreeBytes ? bytes - ByteBudget::kFreeBytes : 0;
  }

  ByteBudget& budget_;
  size_t held_ = 0;
};

}  // namespace leat

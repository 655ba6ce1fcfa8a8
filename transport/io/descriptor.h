// File descriptors, and the blocking calls that set a connection up. Each call has a deadline.
// Nothing here is on the path of a step.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// The moment at which a waiting call gives up.
using Deadline = std::chrono::steady_clock::time_point;

// Owns an open file descriptor, or none (-1). Its destructor closes it.
// Threads: a value.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  // Gives the descriptor to an owner that closes it itself.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "subject: the system's words", as unavailable, or as resource_exhausted if the system has no
// room.
Status system_error(std::string_view subject, int error);

// Send or receive all of `bytes` over a non-blocking socket. `subject` begins the messages.
// unavailable if the peer closes, deadline_exceeded if it takes too long.
Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline,
                std::string_view subject);
Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline, std::string_view subject);
// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT) or in an error that the next
// call on it reports.
Status wait_ready(int fd, short events, Deadline deadline, std::string_view subject);

// Sends a message over a unix socket together with open descriptors. The receiver gets descriptors
// of its own for the same files. REQUIRES: a message of at least one byte, and at most 8
// descriptors.
Status send_descriptors(int fd, std::span<const std::byte> message,
                        std::span<const int> descriptors, Deadline deadline,
                        std::string_view subject);
// Receives exactly message.size() bytes and `count` descriptors. Any other number of descriptors is
// invalid_argument, and those that came are closed.
Result<std::vector<Descriptor>> receive_descriptors(int fd, std::span<std::byte> message,
                                                    size_t count, Deadline deadline,
                                                    std::string_view subject);

// The two ends of a unix stream, both non-blocking.
Result<std::pair<Descriptor, Descriptor>> socket_pair();

}  // namespace leat

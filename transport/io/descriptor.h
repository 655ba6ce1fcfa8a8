// File descriptors and the blocking calls, each with a deadline, that set a connection up. Nothing
// here is on the path of a step.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"

namespace leat {

using Deadline = std::chrono::steady_clock::time_point;

// Owns an open file descriptor, or none (-1).
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
  // For an owner that closes it itself.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// "subject: the system's words" as unavailable, or resource_exhausted where there is no room.
Status system_error(std::string_view subject, int error);

// Of a non-blocking socket; `subject` begins the messages. unavailable if the peer closes,
// deadline_exceeded if it takes too long.
Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline,
                std::string_view subject);
Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline, std::string_view subject);
// Waits until the descriptor is ready for `events` (POLLIN, POLLOUT).
Status wait_ready(int fd, short events, Deadline deadline, std::string_view subject);

// Over a unix socket: a message, and descriptors that the receiver gets as its own.
Status send_descriptors(int fd, std::span<const std::byte> message,
                        std::span<const int> descriptors, Deadline deadline,
                        std::string_view subject);
// Exactly message.size() bytes and `count` descriptors (at most 8), or an error.
Result<std::vector<Descriptor>> receive_descriptors(int fd, std::span<std::byte> message,
                                                    size_t count, Deadline deadline,
                                                    std::string_view subject);

// Two ends of a unix stream, non-blocking.
Result<std::pair<Descriptor, Descriptor>> socket_pair();

}  // namespace leat

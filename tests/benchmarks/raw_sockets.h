// The kernel's own loopback, for comparison: blocking sockets, two threads, pieces of 256 KiB.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "transport/io/handshake.h"

namespace leat {

// Two ends of a TCP connection over loopback, `a` blocking.
struct RawSockets {
  RawSockets() {
    const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    auto listening = *listen_socket("127.0.0.1:0");
    a = *connect_socket(listening.address, deadline);
    if (!wait_ready(listening.socket.get(), POLLIN, deadline, "raw").ok()) std::exit(1);
    b = Descriptor(::accept(listening.socket.get(), nullptr, nullptr));
    static_cast<void>(apply(SocketOptions(), b.get()).ok());
    ::fcntl(a.get(), F_SETFL, 0);
  }
  Descriptor a, b;
};

// Sends 8 bytes there and back, again and again.
class RawHop {
 public:
  RawHop()
      : echo_([this] {
          uint64_t word;
          while (::recv(sockets_.b.get(), &word, 8, MSG_WAITALL) == 8)
            ::send(sockets_.b.get(), &word, 8, 0);
        }) {}
  ~RawHop() {
    ::shutdown(sockets_.a.get(), SHUT_RDWR);
    echo_.join();
  }
  void round_trip() {
    uint64_t word = 0;
    ::send(sockets_.a.get(), &word, 8, 0);
    ::recv(sockets_.a.get(), &word, 8, MSG_WAITALL);
  }

 private:
  RawSockets sockets_;
  std::thread echo_;
};

// Sends values of one size in one direction. The reader has a buffer for one value.
class RawStream {
 public:
  explicit RawStream(size_t bytes) : value_(bytes), reader_([this, bytes] { read(bytes); }) {}
  ~RawStream() {
    ::shutdown(sockets_.a.get(), SHUT_WR);
    reader_.join();
  }
  bool send_one() {
    for (size_t at = 0; at < value_.size();) {
      const ssize_t n = ::send(sockets_.a.get(), value_.data() + at,
                               std::min<size_t>(value_.size() - at, 256 << 10), 0);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  void read(size_t bytes) {
    std::vector<std::byte> slot(bytes);
    for (size_t at = 0;;) {
      const ssize_t n =
          ::recv(sockets_.b.get(), slot.data() + at, std::min<size_t>(bytes - at, 256 << 10), 0);
      if (n <= 0) return;
      at = (at + static_cast<size_t>(n)) % bytes;
    }
  }

  RawSockets sockets_;
  const std::vector<std::byte> value_;
  std::thread reader_;
};

}  // namespace leat

#include "tests/benchmarks/raw_measures.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/must.h"
#include "transport/io/handshake.h"

namespace leat::raw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 256 << 10;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Calls `once` twice as a warm-up, then for `seconds`, and at least three times. Returns the times.
template <typename F>
std::vector<double> repeat(double seconds, F once) {
  for (int i = 0; i < 2; ++i) once();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < 3 || seconds_since(start) < seconds;) {
    const auto before = Clock::now();
    once();
    times.push_back(seconds_since(before));
  }
  return times;
}

// A connected pair of sockets with the options of our links.
struct Pair {
  Pair() {
    const Deadline deadline = Clock::now() + std::chrono::seconds(10);
    ListeningSocket listening = must(listen_socket("127.0.0.1:0"));
    a = must(connect_socket(listening.address, deadline));
    must(wait_ready(listening.socket.get(), POLLIN, deadline, "a connection"));
    b = Descriptor(::accept(listening.socket.get(), nullptr, nullptr));
    must(apply(SocketOptions(), b.get()));
    for (const Descriptor* end : {&a, &b}) ::fcntl(end->get(), F_SETFL, 0);
  }
  Descriptor a, b;
};

// False once the other end is closed.
bool receive(int socket, void* to, size_t bytes, Waiting waiting) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const int flags = waiting == Waiting::spinning ? MSG_DONTWAIT : 0;
    const ssize_t n = ::recv(socket, at, std::min(bytes, kPiece), flags);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n < 0) {
      ::sched_yield();
      continue;
    }
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

void send(int socket, const void* from, size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const ssize_t n = ::send(socket, at, std::min(bytes, kPiece), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
}

cpu_set_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

// Moves this thread to the i-th core that it may use.
void settle_on(int i) {
  const cpu_set_t usable = usable_cores();
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &usable) || i-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Measures round trips of `there` bytes one way and `back` bytes the other way.
std::vector<double> exchanges(size_t there, size_t back, Waiting waiting, Cores cores,
                              double seconds) {
  Pair pair;
  const cpu_set_t usable = usable_cores();
  const std::vector<std::byte> value(there, std::byte{1});
  std::thread other([&] {
    if (cores == Cores::two) settle_on(1);
    std::vector<std::byte> slot(there), answer(back);
    while (receive(pair.b.get(), slot.data(), there, waiting))
      send(pair.b.get(), answer.data(), back);
  });
  if (cores == Cores::two) settle_on(0);
  std::vector<std::byte> answer(back);
  auto times = repeat(seconds, [&] {
    send(pair.a.get(), value.data(), there);
    receive(pair.a.get(), answer.data(), back, waiting);
  });
  ::shutdown(pair.a.get(), SHUT_RDWR);
  other.join();
  ::sched_setaffinity(0, sizeof usable, &usable);
  return times;
}

}  // namespace

std::vector<double> round_trips(Waiting waiting, Cores cores, double seconds) {
  return exchanges(8, 8, waiting, cores, seconds);
}

std::vector<double> tcp_transfers(size_t bytes, double seconds) {
  return exchanges(bytes, 1, Waiting::blocking, Cores::any, seconds);
}

std::vector<double> copies(size_t bytes, double seconds) {
  const std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes, std::byte{2});
  return repeat(seconds, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
}

}  // namespace leat::raw

#include "tests/cuda_emulation/abstract_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <random>

namespace fake_cuda {
namespace {

using CallOnAddress = int (*)(int, const sockaddr*, socklen_t);

// A new socket, of which the call with the address of that name has succeeded.
int socket_with(CallOnAddress call, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // An abstract name begins with a zero.
  const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.data(), length, address.sun_path + 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (call(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

uint64_t unique_number() {
  std::random_device random;
  return (uint64_t{random()} << 32 | random()) | 1;
}

int listen_at(const std::string& name) {
  const int fd = socket_with(::bind, name);
  if (fd < 0) return -1;
  if (::listen(fd, SOMAXCONN) == 0) return fd;
  ::close(fd);
  return -1;
}

int connect_to(const std::string& name) { return socket_with(::connect, name); }

}  // namespace fake_cuda

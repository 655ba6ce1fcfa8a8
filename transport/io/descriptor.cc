#include "transport/io/descriptor.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "devices/base/text.h"

namespace leat {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

// A lack of descriptors, memory or buffers can pass. Everything else means that the other end or
// the path to it is gone.
Status system_error(std::string_view subject, int error) {
  std::string message = cat(subject, ": ", std::generic_category().message(error));
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
      return resource_exhausted(std::move(message));
    default:
      return unavailable(std::move(message));
  }
}

Status wait_ready(int fd, short events, Deadline deadline, std::string_view subject) {
  while (true) {
    // Rounded up, so that a poll of 0 ms never makes the loop spin.
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return deadline_exceeded(cat(subject, ": the other end did not answer in time"));
    pollfd waited{fd, events, 0};
    const int ready =
        ::poll(&waited, 1, static_cast<int>(std::min<int64_t>(left.count(), 1 << 30)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return system_error(subject, errno);
  }
}

Status send_all(int fd, std::span<const std::byte> bytes, Deadline deadline,
                std::string_view subject) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      LEAT_RETURN_IF_ERROR(wait_ready(fd, POLLOUT, deadline, subject));
    } else if (errno != EINTR) {
      return system_error(subject, errno);
    }
  }
  return {};
}

Status receive_all(int fd, std::span<std::byte> bytes, Deadline deadline,
                   std::string_view subject) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (n == 0) {
      return unavailable(cat(subject, ": the other end closed the connection"));
    } else if (errno == EAGAIN) {
      LEAT_RETURN_IF_ERROR(wait_ready(fd, POLLIN, deadline, subject));
    } else if (errno != EINTR) {
      return system_error(subject, errno);
    }
  }
  return {};
}

namespace {

// The room for descriptors beside a message, aligned as the system wants it.
constexpr size_t kMostDescriptors = 8;
union Control {
  cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
};

// The descriptors that came with a message. This process owns them whatever becomes of the message,
// so all are collected before any judgement.
std::vector<Descriptor> descriptors_of(msghdr& message) {
  std::vector<Descriptor> received;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      received.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace

Status send_descriptors(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors,
                        Deadline deadline, std::string_view subject) {
  Control control{};
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  // The receiver gets numbers of its own for the same open files.
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
  while (true) {
    const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    // The descriptors go with the first byte. The rest of a message that was cut follows without
    // them.
    if (n >= 0) return send_all(fd, bytes.subspan(static_cast<size_t>(n)), deadline, subject);
    if (errno == EAGAIN) {
      LEAT_RETURN_IF_ERROR(wait_ready(fd, POLLOUT, deadline, subject));
    } else if (errno != EINTR) {
      return system_error(subject, errno);
    }
  }
}

// MSG_CMSG_CLOEXEC, so that a process that is forked meanwhile does not inherit them.
Result<std::vector<Descriptor>> receive_descriptors(int fd, std::span<std::byte> bytes,
                                                    size_t count, Deadline deadline,
                                                    std::string_view subject) {
  Control control{};
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  // The descriptors come with the first byte. Whatever the read leaves of the message is read
  // below.
  ssize_t n = -1;
  while ((n = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EAGAIN) {
      LEAT_RETURN_IF_ERROR(wait_ready(fd, POLLIN, deadline, subject));
    } else if (errno != EINTR) {
      return system_error(subject, errno);
    }
  }
  if (n == 0) return unavailable(cat(subject, ": the other end closed the connection"));
  std::vector<Descriptor> received = descriptors_of(message);
  // MSG_CTRUNC: more descriptors came than there was room for.
  if (received.size() != count || (message.msg_flags & MSG_CTRUNC)) {
    return invalid_argument(
        cat(subject, ": expected ", count, " descriptors, received ", received.size()));
  }
  LEAT_RETURN_IF_ERROR(receive_all(fd, bytes.subspan(static_cast<size_t>(n)), deadline, subject));
  return received;
}

Result<std::pair<Descriptor, Descriptor>> socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
    return system_error("socketpair", errno);
  return std::pair(Descriptor(fds[0]), Descriptor(fds[1]));
}

}  // namespace leat

#include "transport/io/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "devices/base/text.h"

namespace leat {
namespace {

// Encrypted in one go: it stays in a cache, and a slow peer is seen to take it.
constexpr size_t kSealedAtOnce = 64u << 10;

ssize_t fail(int error) {
  errno = error;
  return -1;
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

Status Wire::seal(TlsSession::Side side, const TlsKey& key, Deadline deadline,
                  std::string_view peer) {
  auto tls = std::make_unique<Tls>();
  LEAT_ASSIGN_OR_RETURN(tls->session, TlsSession::create(side, key));
  tls_ = std::move(tls);
  Status shaken = shake_hands(deadline, peer);
  if (!shaken.ok()) tls_.reset();
  return shaken;
}

Status Wire::shake_hands(Deadline deadline, std::string_view peer) {
  TlsSession& session = *tls_->session;
  const std::string subject = cat("TLS with ", peer);
  while (true) {
    const Status shaken = session.shake_hands();
    // The output is sent also after a failure: it is the reason.
    const auto output = session.output();
    const Status sent = send_all(get(), output, deadline, subject);
    session.sent(output.size());
    if (!shaken.ok()) return shaken.while_doing(subject);
    LEAT_RETURN_IF_ERROR(sent);
    if (session.established()) return {};
    LEAT_RETURN_IF_ERROR(wait_ready(get(), POLLIN, deadline, subject));
    const auto space = session.space();
    const ssize_t n = ::recv(get(), space.data(), space.size(), MSG_DONTWAIT);
    if (n > 0) {
      session.received(static_cast<size_t>(n));
    } else if (n == 0) {
      return unavailable(subject + ": it hung up");
    } else if (errno != EAGAIN && errno != EINTR) {
      return system_error(subject, errno);
    }
  }
}

ssize_t Wire::send(std::span<const iovec> parts) {
  if (tls_) return send_sealed(parts);
  const msghdr message = message_of(parts);
  return ::sendmsg(get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t Wire::receive(std::span<const iovec> parts) {
  if (tls_) return receive_sealed(parts);
  msghdr message = message_of(parts);
  return ::recvmsg(get(), &message, MSG_DONTWAIT);
}

bool Wire::flush() {
  TlsSession& session = *tls_->session;
  while (true) {
    const auto output = session.output();
    if (output.empty()) return true;
    const ssize_t n = ::send(get(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      session.sent(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      return false;
    }
  }
}

ssize_t Wire::send_sealed(std::span<const iovec> parts) {
  const std::lock_guard lock(tls_->mutex);
  if (tls_->owed == 0) {
    for (const iovec& part : parts) {
      const size_t take = std::min(part.iov_len, kSealedAtOnce - tls_->owed);
      const std::span bytes(static_cast<const std::byte*>(part.iov_base), take);
      if (!tls_->session->write(bytes).ok()) return fail(EBADMSG);
      tls_->owed += take;
    }
  }
  if (!flush()) return -1;
  return static_cast<ssize_t>(std::exchange(tls_->owed, 0));
}

ssize_t Wire::receive_sealed(std::span<const iovec> parts) {
  TlsSession& session = *tls_->session;
  ssize_t got = 0;
  for (const iovec& part : parts) {
    std::span rest(static_cast<std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty()) {
      Result<size_t> read = size_t{0};
      {
        const std::lock_guard lock(tls_->mutex);
        read = session.read(rest);
      }
      // The bytes before it do not count any more: the link ends.
      if (!read.ok()) return fail(EBADMSG);
      if (*read > 0) {
        rest = rest.subspan(*read);
        got += static_cast<ssize_t>(*read);
        continue;
      }
      if (session.at_end()) return got;
      const auto space = session.space();
      const ssize_t n = ::recv(get(), space.data(), space.size(), MSG_DONTWAIT);
      if (n > 0) {
        session.received(static_cast<size_t>(n));
      } else if (got > 0) {
        return got;  // the next call finds the end or the error
      } else {
        return n;  // 0: the end, whether the peer has said it or not
      }
    }
  }
  return got;
}

bool Wire::has_input() const {
  if (!tls_) return false;
  const std::lock_guard lock(tls_->mutex);
  return tls_->session->has_input();
}

void Wire::shut() {
  if (tls_) {
    const std::lock_guard lock(tls_->mutex);
    // In the middle of a record its end cannot be said, and the peer sees that it was cut.
    if (tls_->session->output().empty()) {
      tls_->session->say_end();
      static_cast<void>(flush());
    }
  }
  ::shutdown(get(), SHUT_RDWR);
}

}  // namespace leat

// The socket of a link, with or without TLS. The code above sends and receives as on a plain
// socket.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <mutex>
#include <span>

#include "transport/io/descriptor.h"
#include "transport/seal/tls_session.h"

namespace leat {

// Owns the socket, and the session of TLS if there is one.
// Threads: one sends at a time, and one receives at a time; these two may be different threads.
class Wire {
 public:
  // None: get() is -1.
  Wire() = default;
  // A plain socket. Implicit, because a descriptor is a wire without TLS.
  Wire(Descriptor socket) : socket_(std::move(socket)) {}  // NOLINT
  Wire(Wire&&) noexcept = default;
  Wire& operator=(Wire&&) noexcept = default;

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }
  bool is_sealed() const { return tls_ != nullptr; }

  // Shakes hands with the other end, which calls it for the other side, and from then on encrypts.
  // Blocks: deadline_exceeded if the other end takes too long, unavailable if it closes,
  // failed_precondition if it does not know the key. `peer` begins the messages.
  Status seal(TlsSession::Side side, const TlsKey& key, Deadline deadline, std::string_view peer);

  // As sendmsg() and recvmsg() with MSG_DONTWAIT: the number of bytes, or -1 and errno. With TLS,
  // send() takes up to 64 KiB and returns when all of it has left; after EAGAIN, the next call has
  // to begin with the same bytes. receive() fills the parts, or takes all that has come; 0 is the
  // end of the stream, as that of a process that was killed. EBADMSG: the bytes are not those that
  // the peer sent.
  ssize_t send(std::span<const iovec> parts);
  ssize_t receive(std::span<const iovec> parts);
  // Bytes have come which the kernel no longer has, so that no event tells of them.
  bool has_input() const;

  // Tells the peer that nothing more comes, and ends both directions of the socket.
  void shut();

 private:
  // On the heap, so that a wire can be moved.
  struct Tls {
    std::unique_ptr<TlsSession> session;
    // Of all calls of the session, except for those of its input.
    std::mutex mutex;
    // Bytes that send() has encrypted and not yet reported as sent.
    size_t owed = 0;
  };

  ssize_t send_sealed(std::span<const iovec> parts);
  ssize_t receive_sealed(std::span<const iovec> parts);
  // Sends the session's output. False if the socket is full or in error (errno).
  bool flush();
  Status shake_hands(Deadline deadline, std::string_view peer);

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace leat

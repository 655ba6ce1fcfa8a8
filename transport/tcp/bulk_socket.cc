#include "transport/tcp/bulk_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "devices/base/crc32c.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"

namespace leat::tcp {
namespace {

constexpr int kPiecesPerCall = 16;  // after these the thread's other sockets have their turn

}  // namespace

BulkSocket::BulkSocket(Reactor& reactor, Wire wire, LinkState& state, OnFailure on_failure)
    : reactor_(reactor),
      wire_(std::move(wire)),
      state_(state),
      on_failure_(std::move(on_failure)),
      subject_(cat("link ", state.setup().self, " to ", state.setup().peer)) {
  queue_.reserve(kSlotDepth * (state.setup().outgoing.size() + 1));
}

Status BulkSocket::open() {
  LEAT_ASSIGN_OR_RETURN(watch_, reactor_.watch(wire_.get(), *this));
  // The first bytes may have come together with the end of the handshake of TLS.
  if (wire_.has_input()) watch_->read_again();
  return {};
}

void BulkSocket::shut() { wire_.shut(); }

void BulkSocket::stop_sending() {
  std::lock_guard lock(mutex_);
  queue_.clear();
}

// --- Out.

Status BulkSocket::push(uint32_t edge, uint64_t turn, std::span<const std::byte> value, bool wait) {
  Timeline& sent = state_.sent(edge);
  {
    std::lock_guard lock(mutex_);
    if (state_.failed()) return state_.status();
    queue_.push_back({edge, turn, value});
  }
  // A push that waits sends on its own thread. Otherwise the reactor sends what the socket does not
  // take now.
  if (wait) return wait_for(sent, turn, edge);
  LEAT_ASSIGN_OR_RETURN(const bool done, pump());
  if (!done) watch_->want_write();
  return {};
}

// Sends until the value has left. Several threads may do so at once.
Status BulkSocket::wait_for(Timeline& sent, uint64_t turn, uint32_t edge) {
  uint64_t progress = progress_.load();
  Deadline deadline = std::chrono::steady_clock::now() + state_.setup().stall;
  while (true) {
    LEAT_RETURN_IF_ERROR(pump().status());
    if (sent.reached(turn + 1)) return {};
    if (state_.failed()) return state_.status();
    // Any byte that leaves counts, also one of another value: the peer is slow then, and not gone.
    if (const uint64_t now = progress_.load(); now != progress) {
      progress = now;
      deadline = std::chrono::steady_clock::now() + state_.setup().stall;
    }
    const Status ready = wait_ready(wire_.get(), POLLOUT, deadline, subject_);
    if (ready.ok()) continue;
    const Status stalled = state_.peer_gone(
        LinkFault::lost, cat(state_.setup().peer, " took no byte of edge ", edge, " turn ", turn,
                             " for ", state_.setup().stall.count(), " ms"));
    on_failure_(stalled, false);
    return state_.status();
  }
}

Result<bool> BulkSocket::pump() {
  while (true) {
    Outgoing done;
    {
      std::lock_guard lock(mutex_);
      if (queue_.empty()) return true;
      Outgoing& out = queue_.front();
      while (out.piece < pieces_of(out.value.size())) {
        if (state_.failed()) return state_.status();
        LEAT_ASSIGN_OR_RETURN(const bool sent, send_piece(out));
        if (!sent) return false;
      }
      // The timeline is signalled without the lock, because its callbacks may push.
      done = out;
      queue_.erase(queue_.begin());
    }
    state_.sent(done.edge).signal(done.turn + 1);
  }
}

// Sends the rest of a piece. False if the socket is full.
Result<bool> BulkSocket::send_piece(Outgoing& out) {
  const auto bytes =
      out.value.subspan(out.piece * kPieceBytes, piece_bytes(out.value.size(), out.piece));
  if (!out.framed) LEAT_RETURN_IF_ERROR(frame_piece(out, bytes));
  // The first piece of a value has no checksum of an earlier piece before its header.
  const auto head =
      std::span<const std::byte>(between_out_).subspan(out.piece == 0 ? kChecksumBytes : 0);
  const auto tail =
      std::span<const std::byte>(last_checksum_out_).first(out.last() ? kChecksumBytes : 0);
  const size_t whole = head.size() + bytes.size() + tail.size();
  // How many of `sent` bytes belong to the piece itself.
  const auto of_bytes = [&](size_t sent) {
    return std::clamp(sent, head.size(), head.size() + bytes.size()) - head.size();
  };
  while (out.sent < whole) {
    iovec parts[3];
    size_t skipped = out.sent, count = 0;
    for (const auto& part : {head, bytes, tail}) {
      const auto rest = part.subspan(std::min(skipped, part.size()));
      skipped -= part.size() - rest.size();
      parts[count++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    const ssize_t n = wire_.send({parts, count});
    if (n > 0) {
      const size_t from = of_bytes(out.sent), to = of_bytes(out.sent + static_cast<size_t>(n));
      // The checksum goes on over the bytes that have just left.
      if (!out.last()) checksum_out_ = crc32c(bytes.subspan(from, to - from), checksum_out_);
      out.sent += static_cast<size_t>(n);
      progress_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return state_.peer_gone(errno, "sending");
    }
  }
  // The checksum stands before the next piece's header, which frame_piece() writes behind it.
  std::memcpy(between_out_.data(), &checksum_out_, kChecksumBytes);
  ++out.piece;
  out.sent = 0;
  out.framed = false;
  return true;
}

// The checksum covers the bytes as the kernel read them. Only the checksum of a value's last piece
// is computed before they are sent.
Status BulkSocket::frame_piece(Outgoing& out, std::span<const std::byte> bytes) {
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/send_piece"));
  out.framed = true;
  FrameHeader header;
  header.kind = FrameKind::value;
  header.edge = out.edge;
  header.turn = out.turn;
  header.piece = static_cast<uint32_t>(out.piece);
  header.bytes = static_cast<uint32_t>(bytes.size());
  header.sequence = frames_out_++;
  const auto head = std::span(between_out_).last<kFrameHeaderBytes>();
  encode_frame(header, {}, head.data());
  checksum_out_ = checksum_of(head);
  // The fault looks to the receiver as if the bytes had changed on the wire.
  if (!LEAT_FAILPOINT("transport/corrupt").ok()) checksum_out_ ^= 1;
  if (out.last()) {
    const uint32_t checksum = crc32c(bytes, checksum_out_);
    std::memcpy(last_checksum_out_.data(), &checksum, kChecksumBytes);
  }
  state_.count_sent(1, kFrameHeaderBytes + bytes.size() + kChecksumBytes);
  return {};
}

void BulkSocket::writable() {
  const auto done = pump();
  if (!done.ok()) return;  // readable() will see the failure
  if (!*done) watch_->want_write();
}

// --- In.

bool BulkSocket::readable() {
  const uint32_t until = frames_in_ + kPiecesPerCall;
  for (bool more = true; more;) {
    const Status status = receive_once(more);
    if (!status.ok()) {
      on_failure_(status, closed_);
      return false;
    }
    if (frames_in_ == until) {
      // No event tells of bytes that the kernel no longer has.
      if (wire_.has_input()) watch_->read_again();
      return true;
    }
  }
  return true;
}

// Receives with one recvmsg() the rest of the piece, its checksum and the next header.
Status BulkSocket::receive_once(bool& more) {
  // The bytes of the piece go straight to their slot, and what follows them goes to between_in_.
  const size_t of_piece = incoming_.bytes - target_have_;
  iovec parts[2] = {{target_ + target_have_, of_piece},
                    {between_in_.data() + between_have_, between_in_.size() - between_have_}};
  const std::span wanted(parts);
  const ssize_t n = wire_.receive(of_piece > 0 ? wanted : wanted.last(1));
  if (n < 0 && errno == EINTR) return {};
  if (n < 0 && errno == EAGAIN) {
    more = false;
    return {};
  }
  if (n < 0 && errno == EBADMSG) {
    closed_ = true;
    return state_.damaged(
        cat("a record of TLS from ", state_.setup().peer, " is not what it sent"));
  }
  if (n <= 0) {
    closed_ = n == 0 || errno != ETIMEDOUT;  // a peer that is cut off sends nothing more
    if (n < 0) return state_.peer_gone(errno, "receiving");
    return state_.peer_gone(LinkFault::closed, cat(state_.setup().peer, " closed the connection"));
  }
  const auto got = static_cast<size_t>(n);
  more = got == of_piece + parts[1].iov_len;  // a short read has emptied the socket
  target_have_ += std::min(got, of_piece);
  const size_t had = between_have_;
  between_have_ += got - std::min(got, of_piece);
  // The piece ends as soon as its checksum is here. The next header may be late, or never come.
  if (had < kChecksumBytes && between_have_ >= kChecksumBytes) LEAT_RETURN_IF_ERROR(end_piece());
  return between_have_ == between_in_.size() ? begin_piece() : Status();
}

Status BulkSocket::begin_piece() {
  const auto head = std::span<const std::byte>(between_in_).last<kFrameHeaderBytes>();
  const auto header = decode_frame(head);
  if (!header.ok()) return state_.unreadable(head, frames_in_, header.status().message());
  if (header->kind != FrameKind::value) {
    return state_.unreadable(head, frames_in_,
                             "frame: kind: expected only values on the bulk socket");
  }
  // The checksum of the header is compared before any field decides where bytes are written.
  if (!checksum_holds(head, {})) {
    return state_.damaged(
        cat("the header of frame ", frames_in_, " from ", state_.setup().peer, " arrived damaged"));
  }
  incoming_ = *header;
  if (incoming_.sequence != frames_in_) {
    return state_.protocol_error(
        cat("frame: sequence: expected ", frames_in_, ", received ", incoming_.sequence));
  }
  LEAT_ASSIGN_OR_RETURN(target_, state_.admit_piece(incoming_.edge, incoming_.turn, incoming_.piece,
                                                    incoming_.bytes));
  // The bytes of a closed turn are read and dropped, because the next frame stands behind them.
  if (!target_) {
    dropped_.resize(kPieceBytes);
    target_ = dropped_.data();
  }
  target_have_ = 0;
  between_have_ = 0;
  checksum_in_ = checksum_of(head);
  return {};
}

Status BulkSocket::end_piece() {
  uint32_t sent;
  std::memcpy(&sent, between_in_.data(), kChecksumBytes);
  // The slot has the damaged bytes now, but the value never arrives: the link fails.
  if (crc32c({target_, incoming_.bytes}, checksum_in_) != sent) {
    return state_.damaged(cat("edge ", incoming_.edge, " turn ", incoming_.turn, " piece ",
                              incoming_.piece, " from ", state_.setup().peer, " arrived damaged"));
  }
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/take_piece"));
  ++frames_in_;
  state_.count_received(1, kFrameHeaderBytes + incoming_.bytes + kChecksumBytes);
  state_.landed_piece(incoming_.edge, raised_);
  raised_.signal();
  return {};
}

}  // namespace leat::tcp

#include "transport/links/express.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kControlRoom = 64 << 10;  // room for control frames beside the values
// The inbox holds more than the largest frame, so that a whole frame always fits.
constexpr size_t kInboxBytes = 4 * (kFrameHeaderBytes + kBundleBytes);

// Pings and pongs are signs of life, which the counters leave out.
bool is_beat(FrameKind kind) { return kind == FrameKind::ping || kind == FrameKind::pong; }

// True for values that travel in bundles.
bool is_small(const LinkEdge& edge) { return edge.bytes <= kSmallBytes; }

// The most that may be under way: every window is full, and every incoming edge has a credit.
size_t outbox_bytes(const LinkSetup& setup) {
  size_t bytes = kControlRoom + setup.incoming.size() * kRecordBytes;
  for (const LinkEdge& edge : setup.outgoing)
    if (is_small(edge)) bytes += kSlotDepth * record_bytes(edge.bytes);
  return bytes + (bytes / (kBundleBytes / 2) + 1) * kFrameHeaderBytes;
}

}  // namespace

Express::Express(Reactor& reactor, Wire wire, LinkState& state, bool values, OnFailure on_failure)
    : reactor_(reactor),
      wire_(std::move(wire)),
      state_(state),
      on_failure_(std::move(on_failure)),
      lazy_credit_(
          std::any_of(state.setup().outgoing.begin(), state.setup().outgoing.end(), is_small)),
      subject_(cat("link ", state.setup().self, " to ", state.setup().peer)),
      room_(values ? outbox_bytes(state.setup()) : kControlRoom),
      owed_(values ? state.setup().incoming.size() : 0),
      inbox_(kInboxBytes),
      raised_(values ? kBundleBytes / kRecordBytes : 0) {
  // The buffers get their room at once, so that no step allocates.
  filling_.reserve(room_);
  sending_.reserve(room_);
  owing_.reserve(owed_.size());
}

Status Express::open() {
  LEAT_ASSIGN_OR_RETURN(watch_, reactor_.watch(wire_.get(), *this));
  // The first frames may have come together with the end of the handshake of TLS.
  if (wire_.has_input()) watch_->read_again();
  return {};
}

void Express::shut() { wire_.shut(); }

// --- Out.

// Returns room for a record in the open bundle. Opens a new one if there is none or it is full.
std::byte* Express::append_record(size_t payload) {
  const size_t bytes = record_bytes(payload);
  if (bundle_open_ && filling_.size() + bytes > bundle_ + kFrameHeaderBytes + kBundleBytes)
    close_bundle();
  if (!bundle_open_) {
    bundle_ = filling_.size();
    bundle_open_ = true;
    filling_.resize(bundle_ + kFrameHeaderBytes);
  }
  filling_.resize(filling_.size() + bytes);
  return filling_.data() + filling_.size() - bytes;
}

// Closes the open bundle: writes its header and checksum, and counts its credits as told.
void Express::close_bundle() {
  if (!bundle_open_) return;
  FrameHeader header;
  header.kind = FrameKind::bundle;
  const auto payload = std::span<const std::byte>(filling_).subspan(bundle_ + kFrameHeaderBytes);
  header.bytes = static_cast<uint32_t>(payload.size());
  header.sequence = frames_out_++;
  encode_frame(header, payload, filling_.data() + bundle_);
  bundle_open_ = false;
  state_.count_sent(1, kFrameHeaderBytes + payload.size());
  for (uint32_t i : owing_) {
    owed_[i].flushed = owed_[i].count;
    owed_[i].record = 0;
  }
  owing_.clear();
}

// The open bundle is closed first, because frames go out in the order of their numbers.
void Express::append_frame(FrameHeader header, std::span<const std::byte> payload) {
  close_bundle();
  header.bytes = static_cast<uint32_t>(payload.size());
  header.sequence = frames_out_++;
  const size_t at = filling_.size();
  filling_.resize(at + kFrameHeaderBytes + payload.size());
  if (!payload.empty())
    std::memcpy(filling_.data() + at + kFrameHeaderBytes, payload.data(), payload.size());
  encode_frame(header, payload, filling_.data() + at);
  if (!is_beat(header.kind)) state_.count_sent(1, kFrameHeaderBytes + payload.size());
}

Status Express::write() {
  while (!blocked_) {
    // The last batch has left. The frames that have collected meanwhile become the next one.
    if (sent_ == sending_.size()) {
      if (filling_.empty()) return {};
      if (due_) LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/send_bundle"));
      close_bundle();
      sending_.clear();
      sending_.swap(filling_);
      // The fault flips one bit on the wire.
      if (!LEAT_FAILPOINT("transport/corrupt").ok()) sending_.back() ^= std::byte{1};
      sent_ = 0;
      due_ = false;
    }
    const iovec rest{sending_.data() + sent_, sending_.size() - sent_};
    const ssize_t n = wire_.send({&rest, 1});
    if (n >= 0) {
      sent_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      // The reactor calls writable() when the socket has room again.
      blocked_ = true;
      if (watch_) watch_->want_write();
    } else if (errno != EINTR) {
      return state_.peer_gone(errno, "sending");
    }
  }
  return {};
}

// Waits for room in the outbox. Only a peer that breaks its window makes this necessary.
Status Express::await_room(std::unique_lock<std::mutex>& lock, size_t bytes) {
  const Deadline deadline = std::chrono::steady_clock::now() + state_.setup().stall;
  while (!has_room(bytes)) {
    blocked_ = false;
    LEAT_RETURN_IF_ERROR(write());
    if (has_room(bytes)) break;
    lock.unlock();
    const Status ready = wait_ready(wire_.get(), POLLOUT, deadline, subject_);
    lock.lock();
    if (!ready.ok())
      return state_.peer_gone(LinkFault::lost,
                              cat(state_.setup().peer, " does not read: ", ready.message()));
  }
  return {};
}

Status Express::push(uint32_t edge, uint64_t turn, std::span<const std::byte> value) {
  Status status;
  {
    std::unique_lock lock(mutex_);
    // The record may need a new bundle, and the open one may have to be closed first.
    status = await_room(lock, record_bytes(value.size()) + 2 * kFrameHeaderBytes);
    if (status.ok()) {
      encode_record({Record::What::value, edge, turn, value}, append_record(value.size()));
      due_ = true;
      if (holds_ == 0) status = write();
    }
  }
  return status.ok() ? status : reason(status);
}

void Express::hold() {
  std::lock_guard lock(mutex_);
  ++holds_;
}

Status Express::flush() {
  Status status;
  {
    std::lock_guard lock(mutex_);
    if (--holds_ == 0 && due_) status = write();
  }
  return status.ok() ? status : reason(status);
}

Status Express::answer_ping(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (blocked_ || !has_room(2 * kFrameHeaderBytes)) return {};
  FrameHeader header;
  header.kind = FrameKind::pong;
  header.turn = number;
  append_frame(header, {});
  return write();
}

void Express::credit(size_t i, uint64_t count) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    Owed& owed = owed_[i];
    if (owed.record == 0) {
      std::byte* record = append_record(0);
      owed.record = static_cast<size_t>(record - filling_.data());
      owing_.push_back(static_cast<uint32_t>(i));
    }
    // A later credit replaces an earlier one that has not gone yet.
    encode_record({Record::What::credit, state_.setup().incoming[i].edge, count, {}},
                  filling_.data() + owed.record);
    owed.count = count;
    // The peer may be waiting for this credit. If nothing small is ever sent, no bundle would take
    // it along.
    const bool window_closed = count - owed.flushed >= kSlotDepth;
    due_ = due_ || window_closed || !lazy_credit_;
    if (holds_ == 0 && due_) status = write();
  }
  if (!status.ok()) static_cast<void>(reason(status).ok());
}

void Express::send_abort(const Status& cause) {
  FrameHeader header;
  header.kind = FrameKind::abort;
  header.edge = static_cast<uint32_t>(cause.code());
  const auto text = std::as_bytes(std::span(cause.message()));
  std::lock_guard lock(mutex_);
  if (!has_room(kAbortBytes + 2 * kFrameHeaderBytes)) return;  // the peer will see the close
  append_frame(header, text.first(std::min(text.size(), kAbortBytes)));
  static_cast<void>(write().ok());
}

void Express::beat() {
  std::lock_guard lock(mutex_);
  const bool quiet = std::exchange(frames_at_beat_, frames_out_) == frames_out_;
  // A blocked socket has bytes under way, and held values go out soon: both replace a ping.
  if (!quiet || blocked_ || holds_ > 0 || !has_room(2 * kFrameHeaderBytes)) return;
  FrameHeader header;
  header.kind = FrameKind::ping;
  header.turn = ++pings_;
  append_frame(header, {});
  frames_at_beat_ = frames_out_;
  static_cast<void>(write().ok());  // the reader finds out, and why
}

Status Express::reason(const Status& error) {
  if (reactor_.is_this_thread()) return error;  // the reactor goes on to read, and finds the reason
  reactor_.sync([this] { readable(); });
  if (!state_.failed()) on_failure_(error, true);
  return state_.failed() ? state_.status() : error;
}

void Express::writable() {
  Status status;
  {
    std::lock_guard lock(mutex_);
    blocked_ = false;
    if ((holds_ == 0 && due_) || sent_ < sending_.size()) status = write();
  }
  if (!status.ok()) on_failure_(status, true);
}

// --- In.

bool Express::readable() {
  while (true) {
    const size_t space = inbox_.size() - received_;
    // `space` is never 0: each round takes all whole frames out of the inbox, which has room for
    // several.
    const iovec room{inbox_.data() + received_, space};
    const ssize_t n = wire_.receive({&room, 1});
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) {
      if (n < 0 && errno == EBADMSG) {
        on_failure_(state_.damaged(
                        cat("a record of TLS from ", state_.setup().peer, " is not what it sent")),
                    true);
        return false;
      }
      // A connection that timed out is cut, and nothing more comes over it.
      const bool closed = n == 0 || errno != ETIMEDOUT;
      on_failure_(n == 0 ? state_.peer_gone(LinkFault::closed,
                                            cat(state_.setup().peer, " closed the connection"))
                         : state_.peer_gone(errno, "receiving"),
                  closed);
      return false;
    }
    if (state_.failed()) continue;  // reads on, so that the socket closes in an orderly way
    received_ += static_cast<size_t>(n);
    size_t taken = 0;
    const Status status = take({inbox_.data(), received_}, taken);
    if (!status.ok()) {
      // The peer learns what is wrong with the bytes that it sent, unless it is the one that has
      // failed.
      if (!peer_failed_) send_abort(status);
      on_failure_(status, false);
      return false;
    }
    received_ -= taken;
    std::memmove(inbox_.data(), inbox_.data() + taken, received_);
    if (static_cast<size_t>(n) < space) return true;
  }
}

// Takes the whole frames at the start of `bytes`. `taken` is the number of their bytes.
Status Express::take(std::span<const std::byte> bytes, size_t& taken) {
  while (bytes.size() >= taken + kFrameHeaderBytes) {
    const auto head = bytes.subspan(taken).first<kFrameHeaderBytes>();
    auto header = decode_frame(head);
    if (!header.ok()) return state_.unreadable(head, frames_in_, header.status().message());
    if (header->kind == FrameKind::value) {
      return state_.unreadable(head, frames_in_,
                               "frame: kind: expected no large value on the express socket");
    }
    // The rest of the frame is still to come.
    if (bytes.size() < taken + kFrameHeaderBytes + header->bytes) return {};
    const auto payload = bytes.subspan(taken + kFrameHeaderBytes, header->bytes);
    if (!checksum_holds(head, payload)) {
      return state_.damaged(cat("frame ", frames_in_, " from ", state_.setup().peer, " (kind ",
                                static_cast<int>(header->kind), ", edge ", header->edge, ", turn ",
                                header->turn, ") arrived damaged"));
    }
    // The checksum was compared first, so that a damaged frame does not look like a peer that
    // breaks the protocol.
    if (header->sequence != frames_in_) {
      return state_.protocol_error(
          cat("frame: sequence: expected ", frames_in_, ", received ", header->sequence));
    }
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("transport/take_frame"));
    ++frames_in_;
    if (!is_beat(header->kind)) state_.count_received(1, kFrameHeaderBytes + header->bytes);
    LEAT_RETURN_IF_ERROR(dispatch(*header, payload));
    taken += kFrameHeaderBytes + header->bytes;
  }
  return {};
}

Status Express::dispatch(const FrameHeader& header, std::span<const std::byte> payload) {
  switch (header.kind) {
    case FrameKind::bundle:
      return take_bundle(payload);
    case FrameKind::abort:
      return take_abort(header, payload);
    case FrameKind::ping:
      return answer_ping(header.turn);
    case FrameKind::pong:
      if (header.turn > pings_.load())
        return state_.protocol_error("pong: no ping has this number");
      return {};
    case FrameKind::value:
      break;
  }
  return state_.protocol_error("frame: kind: it is not for this socket");
}

Status Express::take_bundle(std::span<const std::byte> bundle) {
  for (RecordReader reader(bundle); !reader.at_end();) {
    auto record = reader.next();
    if (!record.ok()) return state_.protocol_error(record.status().message());
    if (record->what == Record::What::credit) {
      LEAT_RETURN_IF_ERROR(state_.credited(record->edge, record->turn, raised_));
      continue;
    }
    const auto& value = record->payload;
    LEAT_ASSIGN_OR_RETURN(std::byte* const slot,
                          state_.admit(record->edge, record->turn, value.size()));
    if (slot) std::memcpy(slot, value.data(), value.size());
    state_.landed(record->edge, raised_);
  }
  raised_.signal();
  return {};
}

// Returns the peer's own cause, with the peer's name. People will see its text, so control
// characters are replaced.
Status Express::take_abort(const FrameHeader& header, std::span<const std::byte> message) {
  if (header.edge == 0 || header.edge > static_cast<uint32_t>(Code::internal))
    return state_.protocol_error(cat("abort: code: expected 1 to 8, received ", header.edge));
  std::string text;
  for (std::byte b : message) {
    const auto c = static_cast<unsigned char>(b);
    text += c < 32 || c == 127 ? '?' : static_cast<char>(c);
  }
  peer_failed_ = true;
  return Status(static_cast<Code>(header.edge), cat(state_.setup().peer, " failed: ", text));
}

}  // namespace leat

// The bulk socket of a link over TCP: large values, one after the other, as value frames.
//
// A piece of 256 KiB goes with one sendmsg(), header and bytes from where they are. Its checksum is
// taken when the kernel has just read it, from the cache, and goes with the next piece; but that of
// a value's last goes with it. It is received straight into the slot of its edge: no byte is copied
// between the socket and the consumer's input.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/links/frame.h"
#include "transport/links/link_state.h"

namespace leat::tcp {

// Threads: readable() and writable() on the reactor's; the rest from any.
class BulkSocket final : private Reactor::Watched {
 public:
  // `closed`: the socket has come to its end; else what came is wrong, or nothing goes.
  using OnFailure = std::function<void(const Status&, bool closed)>;

  // `state` and `reactor` outlive it. `on_failure` is called with what goes wrong in receiving, on
  // the reactor's thread, and with a stall, on the pusher's.
  BulkSocket(Reactor& reactor, Descriptor socket, LinkState& state, OnFailure on_failure);

  // Starts and stops reading. REQUIRES: both on the reactor's thread; closed before destroyed.
  Status open();
  void close() { watch_.reset(); }
  void shut();
  // Forgets what has not left, which is read no more when this returns. REQUIRES: the link failed.
  void stop_sending();
  // Takes all that has come. What is wrong with it goes unsaid: the link is at its end. Threads:
  // the reactor's.
  void drain();
  // Sends a value; LinkState::sent() of its edge says when its bytes have left. REQUIRES:
  // LinkState::check_push() was ok. With `wait`, returns when they have; else at once.
  Status push(uint32_t edge, uint64_t turn, std::span<const std::byte> value, bool wait);

 private:
  struct Outgoing {
    uint32_t edge = 0;
    uint64_t turn = 0;
    std::span<const std::byte> value;
    uint64_t piece = 0;
    bool framed = false;  // between_out_ has this piece's header
    size_t sent = 0;      // of the piece, with all that goes before and behind it

    bool last() const { return piece + 1 == pieces_of(value.size()); }
  };
  // The checksum of a piece and the header of the next, as they follow each other on the wire.
  using Between = std::array<std::byte, kChecksumBytes + kFrameHeaderBytes>;

  bool readable() override;
  void writable() override;
  // Sends until the socket is full (false) or all is gone (true).
  Result<bool> pump();
  Result<bool> send_piece(Outgoing& out);
  Status frame_piece(Outgoing& out, std::span<const std::byte> bytes);
  Status wait_for(Timeline& sent, uint64_t turn, uint32_t edge);

  Status receive_once(bool& more);
  Status begin_piece();
  Status end_piece();

  Reactor& reactor_;
  const Descriptor socket_;
  LinkState& state_;
  const OnFailure on_failure_;
  const std::string subject_;

  std::mutex mutex_;  // of what goes out
  std::vector<Outgoing> queue_;
  Between between_out_;
  std::array<std::byte, kChecksumBytes> last_checksum_out_;
  uint32_t checksum_out_ = 0;  // of what has left of the piece
  uint32_t frames_out_ = 0;
  std::atomic<uint64_t> progress_{0};  // bytes sent

  // What comes in: the reactor's.
  Between between_in_;
  size_t between_have_ = kChecksumBytes;  // no piece comes before the first
  FrameHeader incoming_;
  uint32_t checksum_in_ = 0;     // of its header
  std::byte* target_ = nullptr;  // of the piece's bytes
  size_t target_have_ = 0;
  std::vector<std::byte> dropped_;  // where bytes of closed turns go
  uint32_t frames_in_ = 0;
  bool closed_ = false;
  Raised raised_{1};
  std::unique_ptr<Reactor::Watch> watch_;
};

}  // namespace leat::tcp

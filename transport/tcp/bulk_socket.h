// The bulk socket of a link over TCP: large values, one after the other, as value frames
// (transport/links/frame.h).
//
// A piece of 256 KiB goes with one sendmsg(), header and bytes from where they are. Its checksum is
// computed after the kernel has read the bytes, when they are in the cache, and goes with the next
// piece:
//
//   | header 0 | piece 0 | checksum 0, header 1 | piece 1 | ... | piece n | checksum n |
//
// The checksum of a value's last piece is computed before, and goes with it. The receiver reads
// each piece straight into the slot of its edge, so that no byte is copied between the socket and
// the consumer's input.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/io/reactor.h"
#include "transport/io/wire.h"
#include "transport/links/frame.h"
#include "transport/links/link_state.h"

namespace leat::tcp {

// Owns the socket. The link owns it, and declares it behind the state that it uses.
// Threads: readable() and writable() on the reactor's; the rest from any.
class BulkSocket final : private Reactor::Watched {
 public:
  // Told of a failure. `closed`: the socket has come to its end. Otherwise the peer sent something
  // wrong, or nothing goes through.
  using OnFailure = std::function<void(const Status&, bool closed)>;

  // `state` and `reactor` outlive it. `on_failure` is called for a failure to receive, on the
  // reactor's thread, and for a stall, on the pusher's.
  BulkSocket(Reactor& reactor, Wire wire, LinkState& state, OnFailure on_failure);

  // Start and stop reading. REQUIRES: both on the reactor's thread; closed before it is destroyed.
  Status open();
  void close() { watch_.reset(); }
  // Ends both directions of the socket.
  void shut();
  // Forgets the values that have not left. After the return no byte of them is read. REQUIRES: the
  // link has failed.
  void stop_sending();
  // Sends a value. LinkState::sent() of its edge rises when its bytes have left. With `wait`,
  // push() returns after that; otherwise at once. REQUIRES: LinkState::check_push() was ok.
  Status push(uint32_t edge, uint64_t turn, std::span<const std::byte> value, bool wait);

 private:
  // A value that is being sent, and how far.
  struct Outgoing {
    uint32_t edge = 0;
    uint64_t turn = 0;
    std::span<const std::byte> value;
    uint64_t piece = 0;
    // True if between_out_ has this piece's header.
    bool framed = false;
    // Bytes of the piece that have left, counting what goes before and behind it.
    size_t sent = 0;

    // Whether `piece` is the value's last one.
    bool last() const { return piece + 1 == pieces_of(value.size()); }
  };
  // The checksum of a piece and the header of the next one, in the order of the wire.
  using Between = std::array<std::byte, kChecksumBytes + kFrameHeaderBytes>;

  bool readable() override;
  void writable() override;
  // Sends until everything has left (true) or the socket is full (false).
  Result<bool> pump();
  // Sends the rest of a piece. False if the socket is full.
  Result<bool> send_piece(Outgoing& out);
  // Writes the header of a piece into between_out_, and for a value's last piece its checksum.
  Status frame_piece(Outgoing& out, std::span<const std::byte> bytes);
  // Sends, together with any other thread that does, until the value has left. Fails the link if
  // the peer takes not one byte for the link's stall.
  Status wait_for(Timeline& sent, uint64_t turn, uint32_t edge);

  // One recvmsg() and what follows from it. Sets `more` if the socket may have more.
  Status receive_once(bool& more);
  // The header is whole: finds the place of the piece's bytes.
  Status begin_piece();
  // The bytes and their checksum are here: lands the piece.
  Status end_piece();

  Reactor& reactor_;
  Wire wire_;
  LinkState& state_;
  const OnFailure on_failure_;
  const std::string subject_;

  // Of everything that goes out, down to frames_out_.
  std::mutex mutex_;
  std::vector<Outgoing> queue_;
  Between between_out_;
  std::array<std::byte, kChecksumBytes> last_checksum_out_;
  // The checksum of the part of the piece that has left.
  uint32_t checksum_out_ = 0;
  uint32_t frames_out_ = 0;
  // Bytes sent. A stalled push compares it.
  std::atomic<uint64_t> progress_{0};

  // Only the reactor's thread uses the members from here on, which are about what comes in.
  Between between_in_;
  // The bytes of between_in_ that are here. No checksum comes before the first header.
  size_t between_have_ = kChecksumBytes;
  FrameHeader incoming_;
  // The checksum in the piece's header.
  uint32_t checksum_in_ = 0;
  // The place of the piece's bytes.
  std::byte* target_ = nullptr;
  size_t target_have_ = 0;
  // The place for bytes of closed turns.
  std::vector<std::byte> dropped_;
  uint32_t frames_in_ = 0;
  bool closed_ = false;
  Raised raised_{1};
  std::unique_ptr<Reactor::Watch> watch_;
};

}  // namespace leat::tcp

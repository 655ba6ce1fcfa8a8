// The bulk socket of a link over TCP: large values, one after the other, as value frames.
//
// A piece of 256 KiB goes with one sendmsg(), header and bytes from where they are, its checksum
// taken just before, so that it is read from memory once. It is received straight into the slot of
// its edge: no byte is copied between the socket and the consumer's input.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/frame.h"
#include "transport/io/descriptor.h"
#include "transport/io/reactor.h"
#include "transport/link_state.h"

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
    bool framed = false;  // header_out_ is this piece's
    size_t sent = 0;      // of the piece, header included
  };

  bool readable() override;
  void writable() override;
  // Sends until the socket is full (false) or all is gone (true).
  Result<bool> pump();
  Result<bool> send_piece(Outgoing& out);
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
  std::array<std::byte, kFrameHeaderBytes> header_out_;
  uint32_t frames_out_ = 0;
  std::atomic<uint64_t> progress_{0};  // bytes sent

  // What comes in: the reactor's.
  std::array<std::byte, kFrameHeaderBytes> header_in_, next_header_;
  size_t header_have_ = 0;
  FrameHeader incoming_;
  std::byte* target_ = nullptr;  // of the piece's bytes
  size_t target_have_ = 0;
  std::vector<std::byte> dropped_;  // where bytes of closed turns go
  uint32_t frames_in_ = 0;
  bool closed_ = false;
  Raised raised_{1};
  std::unique_ptr<Reactor::Watch> watch_;
};

}  // namespace leat::tcp

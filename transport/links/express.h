// The express socket of a link: a stream that carries bundles of small values, credits and control
// in both directions, whatever carries the large values.
//
// Pushed values collect in a buffer that goes out with one send() at the next chance: at once,
// unless a thread holds it (Channel::hold) or the socket is full. A credit for the peer waits for
// the next bundle if the link has values to send. It goes by itself only when the peer's window of
// that edge has closed, or when the link sends no values.
//
// The buffer has room for what the windows allow. A peer that grants more and does not read stalls
// its sender, and then the link fails.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/io/reactor.h"
#include "transport/io/wire.h"
#include "transport/links/frame.h"
#include "transport/links/link_state.h"

namespace leat {

// Owns the socket. The link owns it, and declares it behind the state that it uses.
// Threads: readable() and writable() on the reactor's; the rest from any.
class Express final : private Reactor::Watched {
 public:
  // Told of a failure. `closed`: the socket has come to its end. Otherwise the peer sent something
  // wrong, or nothing goes through.
  using OnFailure = std::function<void(const Status&, bool closed)>;

  // `state` and `reactor` outlive it. `on_failure` may be called more than once; the link then
  // calls shut(). `values`: the socket carries small values and credits, too; otherwise control
  // alone.
  Express(Reactor& reactor, Wire wire, LinkState& state, bool values, OnFailure on_failure);

  // Start and stop reading. REQUIRES: both on the reactor's thread; closed before it is destroyed.
  Status open();
  void close() { watch_.reset(); }
  // Ends both directions of the socket. The peer still reads what was sent before.
  void shut();

  // Copies a small value into the buffer, and sends unless a thread holds. REQUIRES:
  // LinkState::check_push() was ok.
  Status push(uint32_t edge, uint64_t turn, std::span<const std::byte> value);
  // As Channel::hold() and flush().
  void hold();
  Status flush();
  // Tells the peer, now or with the next bundle, that the i-th incoming edge has retired `count`
  // values.
  void credit(size_t i, uint64_t count);
  // Tells the peer that the run has failed here, if there is room for it.
  void send_abort(const Status& cause);
  // Returns why a send failed, on this socket or another one to the same peer, and fails the link.
  // The peer may have told its reason before it went, so that is read first.
  Status reason(const Status& error);
  // Sends a ping if nothing was sent since the last call. The link calls it regularly, so that the
  // peer's system always has something to acknowledge: a peer that is cut off then shows.
  void beat();

 private:
  // The credit of one incoming edge. `record` is the place of its record in filling_, which a later
  // credit overwrites; 0 if it has none.
  struct Owed {
    uint64_t count = 0, flushed = 0;
    size_t record = 0;
  };

  bool readable() override;
  void writable() override;

  // The functions down to write() run under mutex_. append_record() makes room for a record in an
  // open bundle, append_frame() adds a frame of control, close_bundle() ends the open one, and write()
  // sends until the socket is full or everything is gone.
  std::byte* append_record(size_t payload);
  void append_frame(FrameHeader header, std::span<const std::byte> payload);
  void close_bundle();
  Status write();
  bool has_room(size_t bytes) const { return filling_.size() + bytes <= room_; }

  // Sends a pong. On a blocked socket bytes are under way, which replace it: the reactor, which
  // serves all links, must not wait for a peer that pings and does not read.
  Status answer_ping(uint64_t number);
  // Waits until `bytes` fit into the buffer, at most for the stall of the link.
  Status await_room(std::unique_lock<std::mutex>& lock, size_t bytes);
  // Takes the whole frames at the beginning of `frames`, and counts their bytes in `taken`.
  Status take(std::span<const std::byte> frames, size_t& taken);
  Status dispatch(const FrameHeader& header, std::span<const std::byte> payload);
  Status take_bundle(std::span<const std::byte> bundle);
  Status take_abort(const FrameHeader& header, std::span<const std::byte> message);

  Reactor& reactor_;
  Wire wire_;
  LinkState& state_;
  const OnFailure on_failure_;
  // Whether a credit may wait for the next bundle.
  const bool lazy_credit_;
  const std::string subject_;

  // Of everything that goes out, down to owing_.
  std::mutex mutex_;
  // Frames: those being collected, which may end in an open bundle, and those being sent.
  std::vector<std::byte> filling_, sending_;
  // The most bytes that filling_ may have.
  size_t room_ = 0;
  // The beginning of the open bundle in filling_.
  size_t bundle_ = 0;
  bool bundle_open_ = false;
  // Bytes of sending_ that the socket has taken.
  size_t sent_ = 0;
  bool blocked_ = false;
  // filling_ has a frame that must leave now, and not only credits that can wait.
  bool due_ = false;
  int holds_ = 0;
  uint32_t frames_out_ = 0;
  // frames_out_ at the last beat().
  uint32_t frames_at_beat_ = 0;
  std::vector<Owed> owed_;
  // The edges whose credit has a record in filling_.
  std::vector<uint32_t> owing_;

  // Used by the reactor's thread alone, down to peer_failed_: the bytes that have come and are not
  // taken yet.
  std::vector<std::byte> inbox_;
  size_t received_ = 0;
  uint32_t frames_in_ = 0;
  Raised raised_;
  // The peer told us of its failure, and is not told ours.
  bool peer_failed_ = false;
  // Pings sent so far, which is also the number of the last one.
  std::atomic<uint64_t> pings_{0};
  std::unique_ptr<Reactor::Watch> watch_;
};

}  // namespace leat
